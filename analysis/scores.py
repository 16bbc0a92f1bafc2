"""The official score after each loop iteration, and graph by graph.

Axes: g graph, t loop step; the last axis of counts as in ``graphalgo.metrics.graph_counts``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from graphalgo.batch import Output
from graphalgo.metrics import bootstrap_interval, score_of_counts

MEAN = "mean"
"""In column ``output``: the task's score, the mean over its outputs."""


def entry_counts(output: Output, rows: pd.DataFrame, num_graphs: int, num_loops: int) -> np.ndarray:
    """(t, g, 4) counts of :func:`graphalgo.metrics.graph_counts` after each loop, from rows of one output."""
    target, prediction = rows["target"].to_numpy(), rows["prediction"].to_numpy()
    if output.type == "mask":
        yes, truth = prediction == 1, target == 1
        kind = np.select([yes & truth, yes, truth], [0, 1, 2], default=3)
    else:
        kind = (prediction != target).astype(np.int64)
    step, graph = rows["loop"].to_numpy(np.int64) - 1, rows["graph"].to_numpy(np.int64)
    counts = np.bincount((step * num_graphs + graph) * 4 + kind, minlength=num_loops * num_graphs * 4)
    return counts.reshape(num_loops, num_graphs, 4)


def score_by_loop(rows: pd.DataFrame, outputs: Sequence[Output], num_graphs: int) -> pd.DataFrame:
    """The official score if the model had been stopped after each loop.

    Args:
        rows: predictions of one set, every output and loop.
        outputs: what the task asks for; one without rows is left out.
        num_graphs: graphs in the set.

    Returns:
        One row an output and loop: ``output``, ``loop``, ``score`` (accuracy of a pointer or mask_one, pooled
        F1 of a mask), ``low`` and ``high`` (95% bootstrap over graphs), ``exact`` (share of graphs with every
        scored entry right), ``entries``. With several outputs, further rows of output ``"mean"``: the mean of
        the scores, and graphs right in all outputs.
    """
    num_loops = int(rows["loop"].max())
    counts = {}
    for output in outputs:
        own = rows[(rows["output"] == output.name).to_numpy()]
        if len(own):
            counts[output] = entry_counts(output, own, num_graphs, num_loops)
    scored = {output.name: {output: c} for output, c in counts.items()}
    if len(counts) > 1:
        scored[MEAN] = counts
    table = []
    for name, group in scored.items():
        steps = [{output: c[t] for output, c in group.items()} for t in range(num_loops)]
        table += [_score_row(name, step, t) for t, step in enumerate(steps)]
    return pd.DataFrame([row for row in table if row])


def official(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of :func:`score_by_loop` with the task's score: of the mean, or of its only output."""
    return table[table["output"] == table["output"].iloc[-1]]


def _score_row(name: str, counts: dict[Output, np.ndarray], step: int) -> dict[str, object]:
    """One row of :func:`score_by_loop` from (g, 4) counts; empty if nothing is scored there."""
    scored = np.logical_and.reduce([c.sum(axis=1) > 0 for c in counts.values()])
    if not scored.any():
        return {}
    low, high = bootstrap_interval({output: c[scored] for output, c in counts.items()})
    right = np.logical_and.reduce([c[:, 1] + c[:, 2] == 0 for c in counts.values()])
    return {
        "output": name,
        "loop": step + 1,
        "score": float(np.mean([score_of_counts(output, c.sum(axis=0)) for output, c in counts.items()])),
        "low": low,
        "high": high,
        "exact": float(right.mean()),
        "entries": int(sum(c.sum() for c in counts.values())),
    }


def score_by_graph(rows: pd.DataFrame, outputs: Sequence[Output], graphs: Sequence[Data]) -> pd.DataFrame:
    """The final answers graph by graph, those with most wrong entries first.

    Args:
        rows: predictions of one set.
        outputs: what the task asks for.
        graphs: the graphs of the set.

    Returns:
        One row a graph: ``graph`` (its index), ``num_nodes``, ``num_edges`` (of ``edge_index``), ``entries``,
        ``wrong``, ``accuracy`` (right / entries over all outputs; NaN without a scored entry).
    """
    last = int(rows["loop"].max())
    own = {output: rows[(rows["output"] == output.name).to_numpy()] for output in outputs}
    counts = sum(entry_counts(output, part, len(graphs), last)[-1] for output, part in own.items())
    entries, wrong = counts.sum(axis=1), counts[:, 1] + counts[:, 2]
    table = pd.DataFrame(
        {
            "graph": np.arange(len(graphs)),
            "num_nodes": [graph.num_nodes for graph in graphs],
            "num_edges": [graph.num_edges for graph in graphs],
            "entries": entries,
            "wrong": wrong,
            "accuracy": (entries - wrong) / np.where(entries > 0, entries, np.nan),
        }
    )
    return table.sort_values(["wrong", "graph"], ascending=[False, True], ignore_index=True)
