"""What a model sees of a question: nine features of each pair of vertices."""

from __future__ import annotations

from graphalgo.batch import Output, ToPairBatch

NEXT = Output("next", "graph", "pointer")
"""The next vertex, read from the row of the current one. Where several are right, ``next_ok`` marks them all:
training accepts any of them, a test has only one."""


def to_pair_batch() -> ToPairBatch:
    """The transform (and collate function) from questions to a ``PairBatch``.

    Features of the pair (u, v): u = v; u -> v is an edge; v -> u is an edge; u is the start, the goal, the
    current vertex; v is the start, the goal, the current vertex. All of them are in the question itself. Ids,
    the order of edges, the path before the current vertex, the answers and the lookahead do not enter.
    """
    return ToPairBatch(node_attrs=("start", "goal", "current"), outputs=(NEXT,), row_attr="current")
