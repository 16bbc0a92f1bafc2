"""Accuracy of path search by lookahead: how many layers one must look ahead to tell the right next vertex.

:func:`search_bench.lookahead` says what a lookahead is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from analysis.answers import lookup, lookup_vertex
from analysis.rates import wilson
from graphalgo.batch import Output

COUNTS = ["questions", "right", "accepted"]


def accuracy_by_lookahead(rows: pd.DataFrame, output: Output, graphs: Sequence[Data]) -> pd.DataFrame:
    """Accuracy at every lookahead, after every loop that the rows hold.

    Args:
        rows: predictions of one output with one answer a graph.
        output: that output. ``<name>_ok`` of a graph, where there is one, marks the vertices that are
            accepted beside the one that is right.
        graphs: the graphs of the set, with ``lookahead``.

    Returns:
        One row a loop and lookahead that occurs: ``loop``, ``lookahead``; counts ``questions``, ``right``,
        ``accepted``; shares ``accuracy`` = right / questions, its Wilson interval ``low`` and ``high``, and
        ``valid`` = accepted / questions.
    """
    right = (rows["prediction"] == rows["target"]).to_numpy()
    accepted = right | (lookup_vertex([_accepted(graph, output) for graph in graphs], rows, "prediction") > 0)
    ahead = lookup([graph.lookahead.numpy() for graph in graphs], rows)
    table = pd.DataFrame({"loop": rows["loop"].to_numpy(), "lookahead": ahead, "questions": 1})
    table = table.assign(right=right.astype(np.int64), accepted=accepted.astype(np.int64))
    return with_shares(table.groupby(["loop", "lookahead"])[COUNTS].sum().reset_index())


def bin_lookaheads(table: pd.DataFrame, keys: Sequence[str] = ()) -> pd.DataFrame:
    """Sums counts in bins of lookahead 0, 1, 2, 3-4, 5-8, 9-16, ..., each named by what occurs in it.

    Bins end at powers of two: pairs that are joined L times over reach 2^L steps.

    Args:
        table: of :func:`accuracy_by_lookahead`, or several with a column that tells them apart.
        keys: columns that are kept apart, beside those that are summed.

    Returns:
        ``keys``, ``lookahead`` (text, such as ``"5-8"``), ``at`` (geometric mean of the lookaheads of the
        questions), counts and shares; one row a group and bin that occurs, keys in the order of the table.
    """
    ahead = table["lookahead"].to_numpy(np.int64)
    last = np.where(ahead > 1, 1 << np.ceil(np.log2(np.maximum(ahead, 1))).astype(np.int64), ahead)
    weighted = np.log2(np.maximum(ahead, 1)) * table["questions"]
    sums = table.assign(bin=last, at=weighted).groupby([*keys, "bin"], sort=False)[[*COUNTS, "at"]].sum()
    sums = sums.reset_index()
    sums["at"] = np.where(sums["bin"] > 0, np.exp2(sums["at"] / sums["questions"]), 0.0)
    ends = {end: (ahead[last == end].min(), ahead[last == end].max()) for end in set(last.tolist())}
    names = {end: str(low) if low == high else f"{low}-{high}" for end, (low, high) in ends.items()}
    named = sums.assign(lookahead=[names[end] for end in sums["bin"].tolist()])
    return with_shares(named[[*keys, "lookahead", "at", *COUNTS]])


def with_shares(counts: pd.DataFrame) -> pd.DataFrame:
    """Adds ``accuracy``, its Wilson interval ``low`` and ``high``, and ``valid`` to a table of counts."""
    questions = counts["questions"].to_numpy()
    low, high = wilson(counts["right"].to_numpy(), questions)
    accuracy, valid = counts["right"] / questions, counts["accepted"] / questions
    return counts.assign(accuracy=accuracy, low=low, high=high, valid=valid)


def _accepted(graph: Data, output: Output) -> np.ndarray:
    """(n,) 1 at accepted vertices; nothing where they are not marked."""
    marks = graph.get(f"{output.name}_ok")
    return np.zeros(graph.num_nodes, dtype=np.int64) if marks is None else marks.numpy()
