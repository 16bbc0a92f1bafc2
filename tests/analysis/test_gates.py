"""What is said of gates, on the layer that is set by hand and on one whose weights are drawn."""

import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from analysis import figures
from analysis.gates import (
    FORWARD,
    NO_ROAD,
    PAIRS,
    REVERSED,
    gate_values,
    has_propagator,
    open_gates,
    propagator_of,
    summarise_gates,
)
from graphalgo import LoopedBlock, OrJoin, PairBlock, PairModel, Propagator, StackedBlocks
from graphalgo.blocks import rms_norm
from graphalgo.errors import InputError
from search_bench import at_lookahead, hand_set_propagator, to_pair_batch

TO_PAIRS = to_pair_batch()
GRAPHS = at_lookahead(20, 5, 3, seed=0).data_list()


def model_of(loop):
    return PairModel(loop, TO_PAIRS.num_features, TO_PAIRS.outputs)


@pytest.fixture
def drawn(generator):
    model = model_of(StackedBlocks([PairBlock(4, [OrJoin(4, 2), Propagator(4, 3)])]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def test_gates_of_the_hand_set_layer():
    table = summarise_gates(hand_set_propagator(background=1e-4), TO_PAIRS, GRAPHS)
    assert len(table) == 1 and table["channel"].tolist() == [0]
    row = table.iloc[0]
    assert 0.4 < row[REVERSED] <= 0.99
    for kind in (FORWARD, NO_ROAD, "largest on no road"):
        assert row[kind] <= 1.001e-4
    assert row["source at the goal"] == 1 and row["largest source elsewhere"] == 0


def test_values_match_reference(drawn):
    """Pair by pair, from the equations of gate and cap."""
    values = gate_values(drawn, TO_PAIRS, GRAPHS)
    at = 0
    for graph in GRAPHS:
        t = rms_norm(drawn.start(TO_PAIRS(graph)))[0].detach().double().numpy()
        mixer = drawn.loop.blocks[0].mixers[1]
        weight, bias = mixer.project.weight.detach().double().numpy(), mixer.bias.detach().double().numpy()
        n = graph.num_nodes
        roads = set(map(tuple, graph.edge_index.T.tolist()))
        for channel in range(3):
            logit = 4 * (t @ weight[channel]) + bias[channel]
            gate = 1 / (1 + np.exp(-logit))
            capped = gate * 0.99 / np.maximum(0.99, gate.sum(axis=1, keepdims=True))
            for u in range(n):
                for v in range(n):
                    if u == v:
                        continue
                    row = values.iloc[at]
                    kind = REVERSED if (v, u) in roads else FORWARD if (u, v) in roads else NO_ROAD
                    assert (row["channel"], row["pair"]) == (channel, kind)
                    assert row["gate"] == pytest.approx(capped[u, v], rel=1e-4)
                    at += 1
    assert at == len(values)


def test_summary_is_of_the_values_and_sources(drawn):
    values, table = gate_values(drawn, TO_PAIRS, GRAPHS), summarise_gates(drawn, TO_PAIRS, GRAPHS)
    assert sorted(table["channel"]) == [0, 1, 2]
    for row in table.to_dict("records"):
        own = values[values["channel"] == row["channel"]]
        for kind in PAIRS:
            assert row[kind] == pytest.approx(own.loc[own["pair"] == kind, "gate"].median())
        assert row["largest on no road"] == own.loc[own["pair"] == NO_ROAD, "gate"].max()
        sources = [open_gates(drawn, TO_PAIRS(graph))[1][0, :, row["channel"]] for graph in GRAPHS]
        at_goal = [float(s[graph.goal != 0]) for s, graph in zip(sources, GRAPHS, strict=True)]
        assert row["source at the goal"] == pytest.approx(float(np.median(at_goal)))
    carried = table[REVERSED] * table["source at the goal"]
    assert carried.is_monotonic_decreasing


def test_a_model_without_a_propagator_is_refused():
    model = model_of(LoopedBlock(PairBlock(4, [OrJoin(4, 2)])))
    assert not has_propagator(model)
    with pytest.raises(InputError, match="has no propagator"):
        propagator_of(model)
    looped = model_of(LoopedBlock(PairBlock(4, [Propagator(4, 1)])))
    assert has_propagator(looped) and propagator_of(looped) is looped.loop.block.mixers[0]


def test_figure_shows_every_kind_and_the_hand_set_layer(drawn):
    values = gate_values(drawn, TO_PAIRS, GRAPHS)
    ax = Figure().subplots()
    by_hand = gate_values(hand_set_propagator(), TO_PAIRS, GRAPHS)
    figures.draw_gates(values[values["channel"] == 0], by_hand, ax)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [*PAIRS, "reversed road, set by hand (0 elsewhere)"]
    assert ax.get_xscale() == "log"
    shares = [patch.get_data().values.sum() for patch in ax.patches]
    assert all(math.isclose(share, 1) for share in shares)
