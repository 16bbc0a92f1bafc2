"""Where wrong pointers point: inside the right component (SCC), along the true tree (Prim).

Axes: g graph, i vertex, t loop step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from analysis.answers import lookup, lookup_vertex
from analysis.rates import rates_by

SMALLEST, FIRST_PASS = "smallest index", "fixed by the first DFS pass"
"""How a component's representative comes about: see :func:`scc_representatives`."""

KINDS = ("own child", "deeper descendant", "itself", "elsewhere")
"""Where a wrong pointer of Prim points: see :func:`pointer_kinds`."""


def has_smallest_representative(component: np.ndarray) -> np.ndarray:
    """(n,) whether the representative of v's component is its smallest index.

    CLRS names the member that the first depth-first pass finds first. Where that is the smallest index, the
    minimum over the component gives it, without any search; elsewhere the order of the search fixes it.
    Components of one vertex belong to the former.

    Args:
        component: (n,) true pointers ``scc_id``, all vertices of a component to the same member; -1 unknown.
    """
    smallest = np.full(len(component), len(component))
    known = np.flatnonzero(component >= 0)
    np.minimum.at(smallest, component[known], known)
    return smallest[component] == component


def scc_errors(rows: pd.DataFrame, graphs: Sequence[Data]) -> pd.DataFrame:
    """Accuracy of ``scc_id`` by the kind of representative, and whether wrong pointers leave the component.

    Args:
        rows: predictions of ``scc_id``, any loops.
        graphs: the graphs of the set.

    Returns:
        One row a loop and kind that occurs: ``loop``, ``representative`` (:data:`SMALLEST`,
        :data:`FIRST_PASS`, then ``"all"``), ``entries``, ``right``, ``accuracy``, ``low``, ``high`` (Wilson),
        ``wrong``, ``wrong_inside`` (wrong pointers to a member of the right component) and
        ``share_inside`` = wrong_inside / wrong (NaN if none is wrong).
    """
    components = [graph.scc_id.numpy() for graph in graphs]
    target, loop = rows["target"].to_numpy(), rows["loop"].to_numpy()
    right = rows["prediction"].to_numpy() == target
    inside = ~right & (lookup_vertex(components, rows, "prediction") == target)
    smallest = lookup([has_smallest_representative(c) for c in components], rows)
    kind = np.where(smallest, 0, 1)
    both = [np.concatenate([column, column]) for column in (right, inside, loop)]
    right, inside, loop = both
    kind = np.concatenate([kind, np.full(len(kind), 2)])
    table = rates_by(right, loop=loop, representative=kind)
    table["wrong"] = table["entries"] - table["right"]
    table["wrong_inside"] = rates_by(inside, loop=loop, representative=kind)["right"]
    table["share_inside"] = table["wrong_inside"] / table["wrong"].where(table["wrong"] > 0)
    names = np.array([SMALLEST, FIRST_PASS, "all"])
    return table.assign(representative=names[table["representative"].to_numpy()])


def ancestors(pointer: np.ndarray) -> np.ndarray:
    """(n, n) whether j lies on the way from i along pointers, i itself not counted unless on a cycle.

    A vertex that points at itself ends the way and is its own ancestor.

    Args:
        pointer: (n,) parents; roots point at themselves.

    Cost: O(n * depth).
    """
    n = len(pointer)
    above, at = np.zeros((n, n), dtype=bool), pointer
    while not above[np.arange(n), at].all():
        above[np.arange(n), at] = True
        at = pointer[at]
    return above


def pointer_kinds(pointer: np.ndarray) -> np.ndarray:
    """(n*n,) for every vertex i and answer j, the index in :data:`KINDS` of a wrong pointer from i to j.

    - own child: j's true parent is i, so i -> j is a tree edge in the wrong direction;
    - deeper descendant: the way from j to the root passes i, further up than j's parent;
    - itself: j = i;
    - elsewhere: all else. (i's true parent is right, and is not asked about.)

    Args:
        pointer: (n,) true parents; the root and vertices out of reach point at themselves;
            -1 (not scored) counts as that.
    """
    n = len(pointer)
    pointer = np.where(pointer >= 0, pointer, np.arange(n))
    kinds = np.full((n, n), KINDS.index("elsewhere"))
    kinds[ancestors(pointer).T] = KINDS.index("deeper descendant")
    kinds[pointer, np.arange(n)] = KINDS.index("own child")
    np.fill_diagonal(kinds, KINDS.index("itself"))
    return kinds.reshape(-1)


def tree_errors(rows: pd.DataFrame, graphs: Sequence[Data], depths: Sequence[np.ndarray]) -> pd.DataFrame:
    """Where the wrong pointers of a tree point, at each depth.

    Args:
        rows: final answers to ``pi``.
        graphs: the graphs of the set.
        depths: for each graph the true depth of its vertices.

    Returns:
        One row a depth: ``depth``, ``entries``, ``wrong``, and the number of wrong pointers of each of
        :data:`KINDS`.
    """
    prediction, target = rows["prediction"].to_numpy(), rows["target"].to_numpy()
    wrong = prediction != target
    kinds = lookup([pointer_kinds(graph.pi.numpy()) for graph in graphs], rows.assign(j=prediction))
    counted = {name: wrong & (kinds == kind) for kind, name in enumerate(KINDS)}
    table = pd.DataFrame({"depth": lookup(depths, rows), "entries": 1, "wrong": wrong, **counted})
    return table.groupby("depth").sum().astype(np.int64).reset_index()


def sum_tree_errors(table: pd.DataFrame) -> pd.DataFrame:
    """The table of :func:`tree_errors` over all depths.

    Returns:
        One row a kind: ``points_at``, ``wrong`` (count), ``share_of_wrong`` (NaN if none is wrong).
    """
    wrong = table[list(KINDS)].sum().to_numpy(np.int64)
    share = wrong / wrong.sum() if wrong.sum() else np.full(len(KINDS), np.nan)
    return pd.DataFrame({"points_at": KINDS, "wrong": wrong, "share_of_wrong": share})
