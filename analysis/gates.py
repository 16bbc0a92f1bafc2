"""What a propagator layer has learned of path search: which gates are open, and where its walks start.

Gates are those after the row cap, G; sources those of the row of the current vertex, S[c,v].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphalgo.batch import PairBatch, ToPairBatch
from graphalgo.blocks import rms_norm
from graphalgo.errors import InputError
from graphalgo.mixers import Propagator
from graphalgo.mixers.propagator import cap_rows
from graphalgo.model import PairModel

REVERSED, FORWARD, NO_ROAD = "reversed road", "forward road", "no road"
PAIRS = (REVERSED, FORWARD, NO_ROAD)
"""Kinds of pairs (u, v): there is a road v -> u; there is a road u -> v; neither, and u is not v."""


def propagator_of(model: PairModel) -> Propagator:
    """The propagator of a model's first block.

    Raises:
        InputError: if there is none.
    """
    block = (
        model.loop.block
        if hasattr(model.loop, "block")
        else next(iter(getattr(model.loop, "blocks", [])), None)
    )
    found = [mixer for mixer in getattr(block, "mixers", []) if isinstance(mixer, Propagator)]
    if not found:
        raise InputError("the first block of this model has no propagator, whose gates could be shown")
    return found[0]


def has_propagator(model: PairModel) -> bool:
    """Whether :func:`propagator_of` finds one."""
    try:
        propagator_of(model)
    except InputError:
        return False
    return True


@torch.no_grad()
def open_gates(model: PairModel, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """Capped gates (b, n, n, c) and sources of the current row (b, n, c) of the first layer's propagator."""
    gate, source = propagator_of(model).gates(rms_norm(model.start(batch)))
    real = batch.mask[:, :, None] & batch.mask[:, None, :]
    capped = cap_rows(gate.masked_fill(~real.unsqueeze(-1), 0).double().permute(0, 3, 1, 2))
    return capped.permute(0, 2, 3, 1), source[torch.arange(len(source)), batch.row]


def gate_values(model: PairModel, to_pairs: ToPairBatch, graphs: Sequence[Data]) -> pd.DataFrame:
    """Every capped gate of the first layer's propagator on some questions.

    Args:
        model: one whose first block has a propagator.
        to_pairs: its transform.
        graphs: questions of :mod:`search_bench`.

    Returns:
        Columns ``channel``, ``pair`` (one of :data:`PAIRS`) and ``gate``.

    Cost: that of the first layer's gates; a row a pair of vertices, channel and question.
    """
    parts = []
    for graph in graphs:
        gates = open_gates(model, to_pairs(graph))[0][0].numpy()
        n = graph.num_nodes
        kind = np.full((n, n), NO_ROAD, dtype=object)
        u, v = graph.edge_index.numpy()
        kind[u, v] = FORWARD
        kind[v, u] = REVERSED
        other = ~np.eye(n, dtype=bool)
        for channel in range(gates.shape[-1]):
            parts.append(
                pd.DataFrame({"channel": channel, "pair": kind[other], "gate": gates[other][:, channel]})
            )
    return pd.concat(parts, ignore_index=True)


def summarise_gates(model: PairModel, to_pairs: ToPairBatch, graphs: Sequence[Data]) -> pd.DataFrame:
    """Each channel's gates by kind of pair, and its source.

    Returns:
        A row a channel, the answer channel (the one that keeps most of a walk's weight on reversed roads from
        a source at the goal) first: ``channel``; for each kind of pair the median gate, such as ``reversed
        road``; ``largest on no road``; ``source at the goal``, the median of S[current, goal]; and ``largest
        source elsewhere``, the median over questions of the largest S[current, v] with v not the goal.
    """
    values = gate_values(model, to_pairs, graphs)
    table = values.groupby(["channel", "pair"])["gate"].median().unstack()[list(PAIRS)]
    none = values[values["pair"] == NO_ROAD].groupby("channel")["gate"]
    table["largest on no road"] = none.max()
    at_goal, elsewhere = [], []
    for graph in graphs:
        source = open_gates(model, to_pairs(graph))[1][0]
        goal = graph.goal != 0
        at_goal.append(source[goal][0].numpy())
        elsewhere.append(source[~goal].amax(dim=0).numpy())
    table["source at the goal"] = np.median(at_goal, axis=0)
    table["largest source elsewhere"] = np.median(elsewhere, axis=0)
    answer = table[REVERSED] * table["source at the goal"]
    return table.loc[answer.sort_values(ascending=False).index].reset_index().rename_axis(columns=None)
