"""The propagator set by hand answers everything, and its weights are those of walks."""

import math

import numpy as np
import pytest
import torch

from graphalgo.blocks import rms_norm
from graphalgo.mixers.propagator import SMALLEST
from search_bench import (
    Question,
    at_lookahead,
    balanced,
    hand_set_propagator,
    max_lookahead,
    random_graphs,
    to_data,
    to_pair_batch,
)
from search_bench.lookahead import distances

TO_PAIRS = to_pair_batch()


@torch.no_grad()
def answers(model, questions):
    batch = TO_PAIRS(questions.data_list())
    return model(batch, None)["next"].argmax(dim=-1), batch


@torch.no_grad()
def walk_weights(model, batch):
    """log X of the row of the current vertex."""
    t = rms_norm(model.start(batch))
    return model.loop.blocks[0].mixers[0](t, batch.mask, batch.row[:, None])[:, 0, :, 0]


@pytest.mark.parametrize("size", [49, 250])
def test_hand_set_layer_answers_at_every_lookahead(size):
    model = hand_set_propagator()
    for lookahead in range(1, max_lookahead(size) + 1, max(1, size // 60)):
        chosen, batch = answers(model, at_lookahead(size, lookahead, 3, seed=1))
        assert torch.equal(chosen, batch.targets["next"])


def test_hand_set_layer_answers_a_thousand_vertices():
    for lookahead in (1, 499):
        chosen, batch = answers(hand_set_propagator(), at_lookahead(1000, lookahead, 1, seed=1))
        assert torch.equal(chosen, batch.targets["next"])


@pytest.mark.parametrize("draw", [balanced, random_graphs])
def test_hand_set_layer_takes_a_right_child(draw):
    chosen, batch = answers(hand_set_propagator(), draw(60, 64, seed=1))
    assert batch.accepted["next"].gather(1, chosen[:, None]).all()


@pytest.mark.parametrize("draw", [balanced, random_graphs])
def test_weight_is_there_exactly_where_the_goal_is_reached(draw):
    questions = draw(60, 32, seed=2)
    batch = TO_PAIRS(questions.data_list())
    log_x = walk_weights(hand_set_propagator(), batch)
    for at in range(len(questions)):
        data = questions.data(at)
        n = data.num_nodes
        reaches = distances(data.edge_index.numpy(), n, int(data.goal.argmax())) >= 0
        assert np.array_equal(log_x[at, :n].numpy() > math.log(SMALLEST) + 1, reaches)


def test_weight_of_a_path_falls_by_the_ceiling_with_each_road():
    """10 -> 9 -> ... -> 1: with the goal 1, l roads away there is 0.99^l."""
    path = np.arange(10, 0, -1)
    question = Question(10, np.stack([path[:-1], path[1:]]), start=10, goal=1, path=path[:1])
    log_x = walk_weights(hand_set_propagator(), TO_PAIRS(to_data(question)))[0]
    torch.testing.assert_close(log_x, torch.arange(10) * math.log(0.99), rtol=1e-5, atol=1e-5)


def test_cycles_do_no_harm():
    """A ring with a way out: 1 -> 2 -> 3 -> 1, 2 -> 4; and 1 -> 5, which leads nowhere."""
    edges = np.array([[1, 2, 3, 2, 1], [2, 3, 1, 4, 5]])
    question = Question(5, edges, start=1, goal=4, path=np.array([1]))
    chosen = hand_set_propagator()(TO_PAIRS(to_data(question)), None)["next"].argmax()
    assert int(chosen) == 1


def test_a_background_above_what_the_walk_keeps_hides_it():
    """At 250 vertices a background of 0.01 hides it; at 49 and lookahead 1 it does not."""
    open_everywhere = hand_set_propagator(background=0.01)
    near, batch = answers(open_everywhere, at_lookahead(49, 1, 8, seed=1))
    assert torch.equal(near, batch.targets["next"])
    far, batch = answers(open_everywhere, at_lookahead(250, 124, 8, seed=1))
    assert not torch.equal(far, batch.targets["next"])


def test_a_background_that_is_no_gate_is_refused():
    with pytest.raises(ValueError, match="a gate lies in"):
        hand_set_propagator(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "lookaheads", "count"), [(250, range(1, 125), 20), (1000, [*range(1, 500, 25), 499], 4)]
)
def test_hand_set_layer_answers_everything(size, lookaheads, count):
    model = hand_set_propagator()
    for lookahead in lookaheads:
        questions = at_lookahead(size, lookahead, count, seed=0)
        for first in range(0, count, 4):
            batch = TO_PAIRS([questions.data(at) for at in range(first, min(first + 4, count))])
            with torch.no_grad():
                chosen = model(batch, None)["next"].argmax(dim=-1)
            assert torch.equal(chosen, batch.targets["next"]), lookahead
