r"""Relative margins on weighted tasks: how much worse the best alternative is than the true choice.

A margin of 0 is a tie, 0.01 an alternative that is 1% worse. Entries are flat, one a vertex or one an ordered
pair; a margin is

- ``NaN`` where there is nothing to choose (a source, a vertex out of reach, a pair without an edge),
- ``inf`` where there is only one candidate (the minimum over no alternative).

Axes: g graph, i row or source, j column or target, k the vertex before j on a path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra
from torch_geometric.data import Data

from analysis.answers import dense_weights, lookup
from analysis.rates import rates_by

BIN_EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)
"""Bins of :func:`accuracy_by_margin`: [0, 0.1%), [0.1%, 0.3%), ..., [100%, inf)."""

BINS_PER_DECADE = 4
"""Of :func:`margin_histogram`."""


def predecessor_margins(distance: np.ndarray, weight: np.ndarray, parent: np.ndarray) -> np.ndarray:
    r"""Margins of the choice of a predecessor on shortest paths from one source.

    ``margin[v] = min_{k != parent[v]} (d[k] + A[k, v]) / d[v] - 1``

    with d the true distances: how much longer the best walk is that ends in another edge. That walk may pass
    through v before (k may be a descendant of v, or v itself if it has a self-loop).

    Args:
        distance: (n,) true distances d, in units of the weights; inf out of reach, 0 at the source.
        weight: (n, n) weights, inf where there is no edge.
        parent: (n,) true predecessors.

    Returns:
        (n,) margins; NaN at the source and out of reach; inf with one edge into v only.

    Cost: O(n^2).
    """
    candidates = distance[:, None] + weight
    candidates[parent, np.arange(len(distance))] = np.inf
    decides = np.isfinite(distance) & (distance > 0)
    return _relative(candidates.min(axis=0), distance, decides)


def shortest_path_margins(graph: Data) -> np.ndarray:
    """(n,) margins of ``pi``: :func:`predecessor_margins` from the source. O(n^2)."""
    source = int(graph.s.argmax())
    distance = dijkstra(_sparse_weights(graph), indices=source)
    return predecessor_margins(distance, dense_weights(graph), graph.pi.numpy())


def all_pairs_margins(graph: Data) -> np.ndarray:
    """(n*n,) margins of ``Pi``: :func:`predecessor_margins` of each row i, from source i.

    The diagonal holds NaN: nothing is chosen on the empty path. O(n^3).
    """
    weight, parent = dense_weights(graph), graph.Pi.numpy().reshape(graph.num_nodes, -1)
    distance = dijkstra(_sparse_weights(graph))
    return np.concatenate([predecessor_margins(d, weight, p) for d, p in zip(distance, parent, strict=True)])


def kruskal_margins(graph: Data) -> np.ndarray:
    r"""(n*n,) margins of ``in_mst``: :func:`exchange_margins` of the true forest. O(n m) for m edges."""
    n = graph.num_nodes
    return exchange_margins(dense_weights(graph), graph.in_mst.numpy().reshape(n, n) == 1).reshape(-1)


def exchange_margins(weight: np.ndarray, tree: np.ndarray) -> np.ndarray:
    r"""How far each edge is from being exchanged with another, relative to its own weight.

    By the cut property, an edge e of the minimum spanning forest could be replaced by the lightest other edge
    f between the two sides that e joins; by the cycle property, an edge f outside could replace the heaviest
    edge e on the tree path between its ends:

    ``margin[e] = min_{f not in tree, f across the cut of e} A[f] / A[e] - 1``

    ``margin[f] = 1 - max_{e on the tree path of f} A[e] / A[f]``

    Args:
        weight: (n, n) symmetric weights, inf where there is no edge.
        tree: (n, n) symmetric, the edges of the minimum spanning forest.

    Returns:
        (n, n) margins, the same in both directions; NaN on pairs without an edge and on the diagonal; inf on
        bridges.

    Cost: O(n m) for m edges.
    """
    n = len(weight)
    heaviest, below, parent = _tree_paths(weight, tree)
    margins = np.full((n, n), np.nan)
    outside = np.isfinite(weight) & ~tree & ~np.eye(n, dtype=bool)
    margins[outside] = np.maximum(1 - heaviest[outside] / weight[outside], 0)
    i, j = np.nonzero(np.triu(outside))
    child = np.flatnonzero(parent >= 0)
    crosses = below[child][:, i] != below[child][:, j]
    best = np.where(crosses, weight[i, j], np.inf).min(axis=1, initial=np.inf)
    margin = np.maximum(best / weight[parent[child], child] - 1, 0)
    margins[parent[child], child] = margins[child, parent[child]] = margin
    return margins


def _tree_paths(weight: np.ndarray, tree: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Roots a forest and walks it.

    Returns:
        (n, n) weight of the heaviest edge on the tree path from i to j (0 on the diagonal, inf between two
        trees); (n, n) whether j lies in the subtree below i (i included); (n,) parents, -1 at roots.
    """
    n = len(weight)
    heaviest, below = np.full((n, n), np.inf), np.eye(n, dtype=bool)
    parent, seen = np.full(n, -1), np.zeros(n, dtype=bool)
    edges = csr_array(tree)
    for root in range(n):
        if seen[root]:
            continue
        order, before = breadth_first_order(edges, root)
        heaviest[root, root] = 0
        for position, v in enumerate(order[1:], start=1):
            known, p = order[:position], before[v]
            heaviest[v, known] = heaviest[known, v] = np.maximum(heaviest[p, known], weight[p, v])
            heaviest[v, v], parent[v] = 0, p
        for v in order[:0:-1]:
            below[before[v]] |= below[v]
        seen[order] = True
    return heaviest, below, parent


def prim_cut_margins(graph: Data) -> np.ndarray:
    r"""(n,) margins of the tree edges of Prim's ``pi``, whatever their direction.

    ``margin[v]`` is :func:`exchange_margins` of the edge {pi[v], v} in the true tree: the lightest other edge
    between v's subtree and the rest of the graph, against the true edge. NaN at the source and out of its
    reach; inf on bridges. O(n m) for m edges.
    """
    parent, vertex = graph.pi.numpy(), np.arange(graph.num_nodes)
    tree = np.zeros((graph.num_nodes,) * 2, dtype=bool)
    tree[parent, vertex] = tree[vertex, parent] = parent != vertex
    return exchange_margins(dense_weights(graph), tree)[parent, vertex]


def prim_key_margins(graph: Data) -> np.ndarray:
    r"""(n,) margins of Prim's ``pi`` among the vertices that are in the tree when v is added.

    ``margin[v] = min_{k in T_v, k != pi[v]} A[k, v] / A[pi[v], v] - 1``

    where T_v is the set of vertices that Prim's algorithm adds before v, starting from the source. This is
    the choice that the algorithm makes: v's key when it is taken out of the queue, against the next best
    edge from v into the tree of that time. NaN at the source and out of its reach; inf if pi[v] is v's only
    neighbour in T_v. O(n^2).
    """
    weight, parent, vertex = dense_weights(graph), graph.pi.numpy(), np.arange(graph.num_nodes)
    added = _prim_order(weight, int(graph.s.argmax()))
    candidates = np.where(added[:, None] < added[None, :], weight, np.inf)
    candidates[parent, vertex] = np.inf
    decides = (added > 0) & (added < len(parent))
    return _relative(candidates.min(axis=0), weight[parent, vertex], decides)


def _prim_order(weight: np.ndarray, source: int) -> np.ndarray:
    """(n,) when Prim's algorithm adds each vertex: 0 the source, n for one that is never added."""
    n = len(weight)
    added, key = np.full(n, n), np.full(n, np.inf)
    key[source] = 0
    for step in range(n):
        waiting = np.where(added == n, key, np.inf)
        v = int(waiting.argmin())
        if not np.isfinite(waiting[v]):
            break
        added[v] = step
        key = np.minimum(key, weight[v])
    return added


def _relative(best: np.ndarray, true: np.ndarray, decides: np.ndarray) -> np.ndarray:
    """``best / true - 1`` where a decision is made, NaN elsewhere; rounding does not make it negative."""
    margins, decides = np.full(len(true), np.nan), decides & np.isfinite(true)
    margins[decides] = np.maximum(best[decides] / true[decides] - 1, 0)
    return margins


def _sparse_weights(graph: Data) -> csr_array:
    i, j = graph.edge_index.numpy()
    return coo_array((graph.edge_weight.numpy(), (i, j)), shape=(graph.num_nodes,) * 2).tocsr()


@dataclass(frozen=True)
class Definition:
    """One notion of relative margin.

    Attributes:
        name: in file names.
        of: the flat margins of one graph.
        meaning: what is compared, for a reader of the report.
        note: added to titles where a task has several.
    """

    name: str
    of: Callable[[Data], np.ndarray]
    meaning: str
    note: str = ""


_PATH = "the shortest path whose last edge is another, against the shortest path"
_TREE = "the lightest edge that could replace it in the tree, against the true edge"
_CUT = "the edge it would be exchanged with (cut and cycle property), relative to its own weight"
_KEY = "the next best edge into the tree when Prim's algorithm adds the vertex, against the true edge"

MARGINS = {
    "bellman_ford": (Definition("margin", shortest_path_margins, _PATH),),
    "dijkstra": (Definition("margin", shortest_path_margins, _PATH),),
    "dag_shortest_paths": (Definition("margin", shortest_path_margins, _PATH),),
    "floyd_warshall": (Definition("margin", all_pairs_margins, _PATH),),
    "mst_kruskal": (Definition("margin", kruskal_margins, _CUT),),
    "mst_prim": (
        Definition("margin", prim_cut_margins, _TREE),
        Definition("key_margin", prim_key_margins, _KEY, " when the vertex is added"),
    ),
}
"""The margins of each weighted task. On the official test graphs the medians over all decisions are those of
the error analysis of pair-state models that this package follows: 20.5% (Bellman-Ford, Dijkstra), 42%
(Kruskal), 51% (Prim, the first of its two)."""


def summarise_margins(rows: pd.DataFrame, margins: Sequence[np.ndarray]) -> pd.DataFrame:
    """Quartiles of the margins of all, right and wrong decisions, and what was left out.

    Args:
        rows: final answers to one output.
        margins: for each graph the margins of its entries.

    Returns:
        Rows ``all``, ``right``, ``wrong`` (decisions with an alternative), then ``one candidate`` and
        ``no decision`` (left out). Columns: ``answers``, ``entries``, ``wrong`` (counts), ``q25``,
        ``median``, ``q75`` of the margin as a fraction (NaN if there are no entries).
    """
    margin, right = lookup(margins, rows), _is_right(rows)
    decides = np.isfinite(margin)
    groups = {"all": decides, "right": decides & right, "wrong": decides & ~right}
    left_out = {"one candidate": np.isinf(margin), "no decision": np.isnan(margin)}
    table = []
    for name, chosen in {**groups, **left_out}.items():
        known = margin[chosen] if name in groups and chosen.any() else [np.nan]
        q25, median, q75 = np.percentile(known, [25, 50, 75])
        counts = {"answers": name, "entries": int(chosen.sum()), "wrong": int((chosen & ~right).sum())}
        table.append({**counts, "q25": q25, "median": median, "q75": q75})
    return pd.DataFrame(table)


def accuracy_by_margin(rows: pd.DataFrame, margins: Sequence[np.ndarray]) -> pd.DataFrame:
    """Accuracy of the decisions with an alternative, in bins of the margin.

    Args:
        rows: final answers to one output.
        margins: for each graph the margins of its entries.

    Returns:
        One row a bin of :data:`BIN_EDGES` that occurs: ``from`` (included) and ``to`` as fractions,
        ``entries``, ``right``, ``accuracy``, ``low``, ``high`` (Wilson).
    """
    margin, right = lookup(margins, rows), _is_right(rows)
    decides = np.isfinite(margin)
    edges = np.array(BIN_EDGES)
    at = np.searchsorted(edges, margin[decides], side="right") - 1
    table = rates_by(right[decides], bin=at)
    at = table.pop("bin").to_numpy(np.int64)
    table.insert(0, "from", edges[at])
    table.insert(1, "to", edges[at + 1])
    return table


def margin_histogram(rows: pd.DataFrame, margins: Sequence[np.ndarray]) -> pd.DataFrame:
    """Counts of decisions with an alternative in logarithmic bins of the margin.

    Bins run from 10^-5 to 10^2, :data:`BINS_PER_DECADE` a decade; what lies outside counts in the first or
    last of them. Empty bins at both ends are dropped.

    Args:
        rows: final answers to one output.
        margins: for each graph the margins of its entries.

    Returns:
        One row a bin: ``from``, ``to`` (fractions), ``all`` and ``wrong`` (counts).
    """
    margin, right = lookup(margins, rows), _is_right(rows)
    decides = np.isfinite(margin)
    edges = np.logspace(-5, 2, 7 * BINS_PER_DECADE + 1)
    inside = np.clip(margin, edges[0], edges[-1] * (1 - 1e-9))
    everything, _ = np.histogram(inside[decides], edges)
    wrong, _ = np.histogram(inside[decides & ~right], edges)
    table = pd.DataFrame({"from": edges[:-1], "to": edges[1:], "all": everything, "wrong": wrong})
    used = np.flatnonzero(everything)
    return table.iloc[used[0] : used[-1] + 1].reset_index(drop=True) if len(used) else table.iloc[:0]


def _is_right(rows: pd.DataFrame) -> np.ndarray:
    return rows["prediction"].to_numpy() == rows["target"].to_numpy()
