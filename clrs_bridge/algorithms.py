"""Labels of the twelve tasks, equal to dm-clrs's on every entry, without tracing hints.

Each public function takes a :class:`Graph` and returns its outputs by name, in dm-clrs's order, shapes and
dtypes. Hot loops are compiled with numba; the rest is plain numpy. Axes: i row or source, j column or
target, k middle; n vertices. An edge i -> j is ``edge[i, j]``.

Ties: where several answers are right, dm-clrs's choice is made. Vertices are tried in index order, so of
equal candidates the one met first wins. dm-clrs sorts edges of equal weight in an order that depends on the
machine; here :func:`mst_kruskal` takes them in row-major order.

Source: dm-clrs 2.0.3, ``clrs/_src/algorithms/graphs.py``; Cormen, Leiserson, Rivest, Stein, Introduction to
Algorithms, 3rd edition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int
from numba import njit

Outputs = dict[str, np.ndarray]
"""Outputs of one graph by name."""


@dataclass(frozen=True)
class Graph:
    """A graph as the algorithms read it.

    Attributes:
        edge: ``edge[i, j]`` is True where there is an edge i -> j; self-loops on the diagonal.
        weight: weight of each edge, not negative; 0 where there is none (an edge may weigh 0).
        source: vertex to start from, for the tasks that have one.
    """

    edge: Bool[np.ndarray, "n n"]
    weight: Float[np.ndarray, "n n"] | None = None
    source: int | None = None

    @property
    def num_nodes(self) -> int:
        """Number of vertices."""
        return self.edge.shape[0]


def bfs(graph: Graph) -> Outputs:
    """Breadth-first tree: the lowest-index neighbour one step nearer to the source.

    The source and what it does not reach point to themselves. Cost: O(n^2).
    """
    return {"pi": _breadth_first(graph.edge, graph.source)}


def dfs(graph: Graph) -> Outputs:
    """Depth-first forest: parents, neighbours and new roots taken in index order; roots point to themselves.

    Cost: O(n^2).
    """
    parent, _, _ = _depth_first(graph.edge, np.arange(graph.num_nodes))
    return {"pi": parent}


def topological_sort(graph: Graph) -> Outputs:
    """Reverse finishing order of the depth-first search of a DAG.

    ``topo[i]`` is the vertex right after i in the order (the last one points to itself), ``topo_head`` marks
    the first. Cost: O(n^2).
    """
    n = graph.num_nodes
    _, _, finished = _depth_first(graph.edge, np.arange(n))
    topo = np.arange(n)
    topo[finished[1:]] = finished[:-1]
    return {"topo": topo, "topo_head": one_hot(int(finished[-1]), n)}


def articulation_points(graph: Graph) -> Outputs:
    """Cut vertices of an undirected graph: 1 where removing the vertex leaves more components.

    Cost: O(n^2).
    """
    parent, found, low = _low_points(graph.edge)
    n = graph.num_nodes
    child = np.flatnonzero(parent != np.arange(n))
    above = parent[child]
    above_is_root = parent[above] == above
    is_cut = np.zeros(n)
    is_cut[above[~above_is_root & (low[child] >= found[above])]] = 1
    is_cut[np.bincount(above[above_is_root], minlength=n) > 1] = 1
    return {"is_cut": is_cut}


def bridges(graph: Graph) -> Outputs:
    """Bridges of an undirected graph: 1 bridge, 0 other edge, -1 no edge (not scored); both directions.

    The diagonal is 0 throughout, as in dm-clrs. Cost: O(n^2).
    """
    parent, found, low = _low_points(graph.edge)
    is_bridge = np.where(graph.edge, 0.0, -1.0)
    np.fill_diagonal(is_bridge, 0.0)
    child = np.flatnonzero(low > found[parent])
    is_bridge[child, parent[child]] = 1
    is_bridge[parent[child], child] = 1
    return {"is_bridge": is_bridge}


def strongly_connected_components(graph: Graph) -> Outputs:
    """Strongly connected components by Kosaraju's two searches: each vertex points to its representative.

    The representative is the member that finishes last in a depth-first search in index order. It points to
    itself and is in general not the member of the lowest index. Cost: O(n^2).
    """
    _, _, finished = _depth_first(graph.edge, np.arange(graph.num_nodes))
    _, root, _ = _depth_first(np.ascontiguousarray(graph.edge.T), finished[::-1].copy())
    return {"scc_id": root}


def mst_kruskal(graph: Graph) -> Outputs:
    """Minimum spanning forest of an undirected graph: 1 on its edges (both directions), 0 elsewhere.

    Ties: row-major order of (i, j), i < j. Cost: O(E log E + n^2) for E edges.
    """
    i, j = np.nonzero(np.triu(graph.edge, k=1))
    order = np.argsort(graph.weight[i, j], kind="stable")
    i, j = i[order], j[order]
    kept = _forest_edges(i, j, graph.num_nodes)
    in_mst = np.zeros((graph.num_nodes, graph.num_nodes))
    in_mst[i[kept], j[kept]] = 1
    in_mst[j[kept], i[kept]] = 1
    return {"in_mst": in_mst}


def mst_prim(graph: Graph) -> Outputs:
    """Prim's tree, grown from the source: each vertex points to the one it was joined to.

    The source and what it does not reach point to themselves. Cost: O(n^2).
    """
    return {"pi": _grow_tree(graph.edge, graph.weight, graph.source, False)}


def bellman_ford(graph: Graph) -> Outputs:
    """Shortest paths from the source by rounds of relaxation: the vertex before j on the path.

    The source and what it does not reach point to themselves. Cost: O(n^2) a round, at most n rounds.
    """
    return {"pi": _bellman_ford(graph.edge, graph.weight, graph.source)}


def dijkstra(graph: Graph) -> Outputs:
    """Shortest paths from the source by growing a tree: the vertex before j on the path.

    The source and what it does not reach point to themselves. Cost: O(n^2).
    """
    return {"pi": _grow_tree(graph.edge, graph.weight, graph.source, True)}


def dag_shortest_paths(graph: Graph) -> Outputs:
    """Shortest paths from the source of a DAG, relaxed in topological order: the vertex before j on the path.

    The source and what it does not reach point to themselves. Cost: O(n^2).
    """
    _, _, finished = _depth_first(graph.edge, np.array([graph.source]))
    return {"pi": _relax_in_order(graph.edge, graph.weight, finished[::-1].copy())}


def floyd_warshall(graph: Graph) -> Outputs:
    """All-pairs shortest paths: ``Pi[i, j]`` is the vertex before j on the shortest path i -> j.

    Unreachable pairs hold i. The diagonal holds i too, except where the vertex has a self-loop longer than
    the way to its nearest neighbour k and back: dm-clrs starts from the self-loop's weight, so that
    Pi[i, i] = k. As in dm-clrs the result is a float array of whole numbers. Cost: O(n^3).
    """
    return {"Pi": _floyd_warshall(graph.edge, graph.weight)}


def one_hot(vertex: int, num_nodes: int) -> Float[np.ndarray, " n"]:
    """1.0 at one vertex, 0.0 elsewhere."""
    marks = np.zeros(num_nodes)
    marks[vertex] = 1
    return marks


def find_cycle_vertices(edge: Bool[np.ndarray, "n n"]) -> Int[np.ndarray, " m"]:
    """Vertices on a cycle (self-loops count) or behind one; empty if the graph is a DAG.

    Cost: O(n^2) for each layer of vertices without a predecessor.
    """
    left = np.arange(edge.shape[0])
    while left.size:
        has_predecessor = edge[np.ix_(left, left)].any(axis=0)
        if has_predecessor.all():
            break
        left = left[has_predecessor]
    return left


def _compiled(function):
    """Compiles with numba; on disk where a cache can be written, else again in each process."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache, as in a read-only installation
        return njit(function)


# no_type_check: run-time checkers of annotations would wrap the functions before numba sees them.


@_compiled
@no_type_check
def _breadth_first(edge, source):
    n = edge.shape[0]
    parent = np.arange(n)
    seen = np.zeros(n, dtype=np.bool_)
    seen[source] = True
    reached = seen.copy()
    while reached.any():
        front = reached
        reached = np.zeros(n, dtype=np.bool_)
        for i in range(n):
            if front[i]:
                for j in range(n):
                    if edge[i, j] and not seen[j]:
                        parent[j] = i
                        seen[j] = True
                        reached[j] = True
    return parent


@_compiled
@no_type_check
def _depth_first(edge, roots):
    """Depth-first forest from ``roots`` in turn: parent, root of each vertex, and vertices as they finish."""
    n = edge.shape[0]
    parent = np.arange(n)
    root = np.arange(n)
    finished = np.empty(n, dtype=np.int64)
    count = 0
    seen = np.zeros(n, dtype=np.bool_)
    candidate = np.zeros(n, dtype=np.int64)
    for start in roots:
        if seen[start]:
            continue
        seen[start] = True
        i = start
        while True:
            j = candidate[i]
            while j < n and (seen[j] or not edge[i, j]):
                j += 1
            candidate[i] = j
            if j < n:
                seen[j] = True
                parent[j] = i
                root[j] = start
                i = j
            else:
                finished[count] = i
                count += 1
                if i == start:
                    break
                i = parent[i]
    return parent, root, finished[:count]


@_compiled
@no_type_check
def _low_points(edge):
    """Depth-first forest of an undirected graph: parent, time found, earliest time its subtree reaches."""
    n = edge.shape[0]
    parent = np.arange(n)
    found = np.full(n, -1, dtype=np.int64)
    low = np.zeros(n, dtype=np.int64)
    candidate = np.zeros(n, dtype=np.int64)
    time = 0
    for start in range(n):
        if found[start] >= 0:
            continue
        i = start
        while True:
            if found[i] < 0:
                found[i] = time
                low[i] = time
                time += 1
            j = candidate[i]
            while j < n and not (edge[i, j] and found[j] < 0):
                if edge[i, j] and j != parent[i]:
                    low[i] = min(low[i], found[j])
                j += 1
            candidate[i] = j
            if j < n:
                parent[j] = i
                i = j
            elif i == start:
                break
            else:
                low[parent[i]] = min(low[parent[i]], low[i])
                i = parent[i]
    return parent, found, low


@_compiled
@no_type_check
def _forest_edges(i, j, n):
    """Which of the edges (i, j), taken in order, join two trees."""
    above = np.arange(n)
    kept = np.zeros(len(i), dtype=np.bool_)
    for e in range(len(i)):
        u, v = i[e], j[e]
        while above[u] != u:
            above[u] = above[above[u]]
            u = above[u]
        while above[v] != v:
            above[v] = above[above[v]]
            v = above[v]
        if u != v:
            above[u] = v
            kept[e] = True
    return kept


@_compiled
@no_type_check
def _grow_tree(edge, weight, source, from_source):
    """Tree grown by its nearest vertex; near to the source if ``from_source``, else near to the tree."""
    n = edge.shape[0]
    parent = np.arange(n)
    key = np.full(n, np.inf)
    waiting = np.zeros(n, dtype=np.bool_)
    done = np.zeros(n, dtype=np.bool_)
    key[source] = 0.0
    waiting[source] = True
    for _ in range(n):
        i = -1
        for j in range(n):
            if waiting[j] and (i < 0 or key[j] < key[i]):
                i = j
        if i < 0:
            break
        waiting[i] = False
        done[i] = True
        base = key[i] if from_source else 0.0
        for j in range(n):
            if edge[i, j] and not done[j] and (not waiting[j] or base + weight[i, j] < key[j]):
                parent[j] = i
                key[j] = base + weight[i, j]
                waiting[j] = True
    return parent


@_compiled
@no_type_check
def _bellman_ford(edge, weight, source):
    n = edge.shape[0]
    parent = np.arange(n)
    distance = np.full(n, np.inf)
    distance[source] = 0.0
    changed = True
    while changed:
        changed = False
        before = distance.copy()
        for i in range(n):
            if before[i] < np.inf:
                for j in range(n):
                    if edge[i, j] and before[i] + weight[i, j] < distance[j]:
                        distance[j] = before[i] + weight[i, j]
                        parent[j] = i
                        changed = True
    return parent


@_compiled
@no_type_check
def _relax_in_order(edge, weight, order):
    n = edge.shape[0]
    parent = np.arange(n)
    distance = np.full(n, np.inf)
    distance[order[0]] = 0.0
    for i in order:
        for j in range(n):
            if edge[i, j] and distance[i] + weight[i, j] < distance[j]:
                distance[j] = distance[i] + weight[i, j]
                parent[j] = i
    return parent


@_compiled
@no_type_check
def _floyd_warshall(edge, weight):
    n = edge.shape[0]
    before = np.empty((n, n))
    distance = np.full((n, n), np.inf)
    for i in range(n):
        for j in range(n):
            before[i, j] = i
            if edge[i, j]:
                distance[i, j] = weight[i, j]
        if not edge[i, i]:
            distance[i, i] = 0.0
    # Row k and column k do not change in step k (no weight is negative), so that one array is enough.
    for k in range(n):
        for i in range(n):
            to_k = distance[i, k]
            if to_k < np.inf:
                for j in range(n):
                    if to_k + distance[k, j] < distance[i, j]:
                        distance[i, j] = to_k + distance[k, j]
                        before[i, j] = before[k, j]
    return before
