"""Accuracy by depth: how far an entry lies from the root of the true tree, or along the true path.

Axes: g graph, i row or source, j column or target, t loop step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from analysis.answers import lookup
from analysis.rates import rates_by

UNREACHED, DIAGONAL = -1, -2
"""Depth of an entry that no path leads to, and of an entry (i, i) of an edge output."""

MEANING = {
    "bfs": "distance from the source",
    "dfs": "depth in the DFS forest",
    "mst_prim": "depth in the spanning tree",
    "bellman_ford": "edges on the shortest path",
    "dijkstra": "edges on the shortest path",
    "dag_shortest_paths": "edges on the shortest path",
    "floyd_warshall": "edges on the shortest path",
}
"""What depth is, for the tasks that have one."""


def pointer_depths(pointer: np.ndarray, is_root: np.ndarray) -> np.ndarray:
    """Steps along pointers to a root: ``depth[v] = 0`` at a root, ``depth[pointer[v]] + 1`` elsewhere.

    Args:
        pointer: (..., n) the vertex each vertex points at; -1 points nowhere.
        is_root: (..., n) where the walk ends.

    Returns:
        (..., n) depths; :data:`UNREACHED` where the walk comes to no root (a vertex that points at itself and
        is no root, a cycle).

    Cost: O(n * depth) for each pointer array.
    """
    depth = np.where(is_root, 0, UNREACHED)
    at = np.maximum(pointer, 0)
    while True:
        parent = np.where(pointer >= 0, np.take_along_axis(depth, at, axis=-1), UNREACHED)
        new = (depth == UNREACHED) & (parent != UNREACHED)
        if not new.any():
            return depth
        depth = np.where(new, parent + 1, depth)


def entry_depths(task: str, graph: Data) -> np.ndarray:
    """The depth of every entry of one graph, along the true pointers.

    - dfs: steps to the root of the vertex's DFS tree. Roots point at themselves and have depth 0.
    - bfs, mst_prim, bellman_ford, dijkstra, dag_shortest_paths: steps to the source, which has depth 0. A
      vertex out of the source's reach points at itself and is :data:`UNREACHED`.
    - floyd_warshall: edges on the shortest path from i to j. (i, i) is :data:`DIAGONAL` (what is asked there
      is whether a self-loop is longer than a walk to the nearest neighbour and back). (i, j) without a path,
      where the target is i although there is no edge from i to j, is :data:`UNREACHED`.

    Args:
        task: one of :data:`MEANING`.
        graph: with its targets and, except for dfs and floyd_warshall, the source ``s``.

    Returns:
        (n,) or, for floyd_warshall, (n*n,).
    """
    n = graph.num_nodes
    if task == "floyd_warshall":
        return _path_depths(graph).reshape(-1)
    pointer = graph.pi.numpy()
    is_root = pointer == np.arange(n) if task == "dfs" else graph.s.numpy() > 0
    return pointer_depths(pointer, is_root)


def _path_depths(graph: Data) -> np.ndarray:
    n = graph.num_nodes
    edge = np.zeros((n, n), dtype=bool)
    edge[tuple(graph.edge_index.numpy())] = True
    row = np.arange(n)[:, None]
    pointer = graph.Pi.numpy().reshape(n, n)
    no_path = (pointer == row) & ~edge
    depth = pointer_depths(np.where(no_path, -1, pointer), np.eye(n, dtype=bool))
    np.fill_diagonal(depth, DIAGONAL)
    return depth


def accuracy_by_depth(rows: pd.DataFrame, depths: Sequence[np.ndarray]) -> pd.DataFrame:
    """Accuracy at every depth, after every loop that the rows hold.

    Args:
        rows: predictions of one output.
        depths: for each graph the depth of its entries (:func:`entry_depths`).

    Returns:
        One row a loop and depth that occurs: ``loop``, ``depth``, ``entries``, ``right``, ``accuracy``,
        ``low``, ``high`` (Wilson). ``depth`` is a number, :data:`UNREACHED` or :data:`DIAGONAL`.
    """
    right = rows["prediction"].to_numpy() == rows["target"].to_numpy()
    return rates_by(right, loop=rows["loop"].to_numpy(), depth=lookup(depths, rows))


def bin_depths(counts: pd.DataFrame, keys: Sequence[str] = ()) -> pd.DataFrame:
    """Sums counts in bins of depth 0, 1, ..., 7, 8-15, 16-31, 32-63, ..., with names.

    Args:
        counts: column ``depth``, the columns named by ``keys``, and counts.
        keys: what is kept apart.

    Returns:
        The same columns, one row a group and bin that occurs. ``depth`` is text: ``"0"``, ``"8-15"``, and at
        the end ``"diagonal"`` and ``"self"`` (vertices out of reach, which point at themselves; ``"no path"``
        if there is a diagonal).
    """
    depth = counts["depth"].to_numpy(np.int64)
    first = np.where(depth < 8, depth, 1 << np.floor(np.log2(np.maximum(depth, 1))).astype(np.int64))
    last = np.iinfo(np.int64).max
    first = np.where(depth < 0, last + depth, first)
    sums = counts.assign(depth=first).groupby([*keys, "depth"]).sum().reset_index()
    unreached = "no path" if (depth == DIAGONAL).any() else "self"
    names = {last + UNREACHED: unreached, last + DIAGONAL: "diagonal"} | {d: str(d) for d in range(8)}
    return sums.assign(depth=[names.get(d, f"{d}-{2 * d - 1}") for d in sums["depth"].tolist()])
