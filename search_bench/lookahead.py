"""What a question asks: the right next vertices, and how far one must look ahead to tell them.

Axes: e edge, n vertices. An edge runs from ``edge_index[0, e]`` to ``edge_index[1, e]``. Vertices that no
edge touches may be there; cycles do no harm.

Source: Saparov et al., Transformers Struggle to Learn to Search, ICLR 2025 (arXiv 2412.04703).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from graphalgo.errors import InputError
from search_bench import kernels

NO_WAY = -1
"""Distance from a vertex that does not reach the goal."""


def distances(edge_index: Int[np.ndarray, "2 e"], num_nodes: int, goal: int) -> Int[np.ndarray, " n"]:
    """Edges of a shortest path from each vertex to the goal; -1 where there is none.

    Args:
        edge_index: the edges.
        num_nodes: vertices are 0..num_nodes - 1.
        goal: a vertex.

    Raises:
        InputError: if a vertex is out of range.

    Cost: O(n + e).
    """
    return _distances(_checked(edge_index, num_nodes, goal=goal), goal)


def valid_next(
    edge_index: Int[np.ndarray, "2 e"], num_nodes: int, current: int, goal: int
) -> Bool[np.ndarray, " n"]:
    """The right next vertices: children of the current vertex from which the goal can be reached.

    A child that is the goal counts. None are right where the goal is out of reach.

    Args:
        edge_index: see :func:`distances`.
        num_nodes: see :func:`distances`.
        current: a vertex.
        goal: a vertex.

    Raises:
        InputError: if a vertex is out of range.

    Cost: O(n + e).
    """
    reaches = distances(edge_index, num_nodes, goal) != NO_WAY
    return _children(_checked(edge_index, num_nodes, current=current), current) & reaches


def shortest_next(
    edge_index: Int[np.ndarray, "2 e"], num_nodes: int, current: int, goal: int
) -> Bool[np.ndarray, " n"]:
    """Those of the right next vertices that are nearest to the goal; all of them where several tie.

    Args:
        edge_index: see :func:`distances`.
        num_nodes: see :func:`distances`.
        current: a vertex.
        goal: a vertex.

    Raises:
        InputError: if a vertex is out of range.

    Cost: O(n + e).
    """
    right = valid_next(edge_index, num_nodes, current, goal)
    distance = distances(edge_index, num_nodes, goal)
    return right & (distance == distance[right].min(initial=num_nodes))


def right_next(edge_index: Int[np.ndarray, "2 e"], num_nodes: int, current: int, goal: int) -> int:
    """The one right next vertex of a test question.

    Args:
        edge_index: see :func:`distances`.
        num_nodes: see :func:`distances`.
        current: a vertex.
        goal: a vertex.

    Raises:
        InputError: if a vertex is out of range, or none or several children of the current vertex reach the
            goal; :func:`valid_next` gives them all.

    Cost: O(n + e).
    """
    right = np.flatnonzero(valid_next(edge_index, num_nodes, current, goal))
    if len(right) != 1:
        which = f"{right.tolist()} do" if len(right) else "none does"
        raise InputError(f"expected one child of {current} that reaches {goal}, but {which}")
    return int(right[0])


def lookahead(edge_index: Int[np.ndarray, "2 e"], num_nodes: int, current: int, right: int, goal: int) -> int:
    """How many layers one must look ahead to see that ``current -> right`` is the way to the goal.

    All children of the current vertex are explored at once, breadth first. Layer 0 is the children, layer
    d + 1 what is met first from layer d. A vertex is of the right branch where it is ``right``, or was met
    first from a vertex of the right branch (if also from another one of the same layer, the right branch
    has it). The lookahead is the smallest d such that layer d has no vertex of another branch, or d + 1 for
    the smallest d such that layer d has the goal, whichever comes first; in one layer the former does.

    So it is 0 where there is nothing to choose, and 1 where the goal is a child beside others.

    Args:
        edge_index: see :func:`distances`.
        num_nodes: see :func:`distances`.
        current: a vertex.
        right: the child of the current vertex that is stepped to.
        goal: a vertex that can be reached from ``right``.

    Raises:
        InputError: if a vertex is out of range, ``right`` is no child of the current vertex, or the goal
            cannot be reached from it.

    Cost: O(n + e).
    """
    roads = _checked(edge_index, num_nodes, current=current, right=right, goal=goal)
    if not _children(roads, current)[right]:
        raise InputError(f"there is no edge {current} -> {right}; the right next vertex must be a child")
    if _distances(roads, goal)[right] == NO_WAY:
        raise InputError(f"the goal {goal} cannot be reached from {right}")
    layer, right_queue, wrong_queue = np.empty((3, num_nodes), dtype=np.int64)
    return int(kernels.lookahead_of(roads, current, right, goal, layer, right_queue, wrong_queue))


def max_lookahead(size: int) -> int:
    """The largest lookahead of questions of a size, ``floor((size - 1) / 2)``: two paths from one vertex."""
    return (size - 1) // 2


def _checked(edge_index: Int[np.ndarray, "2 e"], num_nodes: int, **vertices: int) -> kernels.Roads:
    """The graph, once every vertex is known to be one; memory beyond the arrays would be written else."""
    named = {**vertices, "edge_index": edge_index}
    for name, vertex in named.items():
        if np.size(vertex) and not (0 <= np.min(vertex) and np.max(vertex) < num_nodes):
            raise InputError(f"{name} must lie in 0..{num_nodes - 1}, got {np.min(vertex)}..{np.max(vertex)}")
    return kernels.roads_of(edge_index[0], edge_index[1], num_nodes)


def _distances(roads: kernels.Roads, goal: int) -> Int[np.ndarray, " n"]:
    distance, queue = np.empty((2, roads.size[0]), dtype=np.int64)
    kernels.distances_to(roads, goal, distance, queue)
    return distance


def _children(roads: kernels.Roads, current: int) -> Bool[np.ndarray, " n"]:
    children = np.zeros(roads.size[0], dtype=bool)
    children[roads.target[roads.source == current]] = True
    return children
