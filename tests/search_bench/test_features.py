"""What a model sees of a question: nine features, whatever the names, and never the answer."""

import dataclasses

import numpy as np
import pytest
import torch

from search_bench import at_lookahead, balanced, random_graphs, to_data, to_pair_batch
from tests import reference_search as reference
from tests.search_bench.samples import edge_list

QUESTIONS = {
    "balanced": lambda: balanced(20, 12, seed=0),
    "test": lambda: at_lookahead(20, 5, 12, seed=0),
    "random": lambda: random_graphs(20, 12, seed=0),
}


def renamed(questions, at, rng):
    """The question under other ids, its edges in another order, and the new id of each old one."""
    question = questions[at]
    name = np.concatenate([[0], 1 + rng.permutation(question.size)])
    edges = name[question.edges][:, rng.permutation(question.edges.shape[1])]
    other = dataclasses.replace(
        question,
        edges=edges,
        start=int(name[question.start]),
        goal=int(name[question.goal]),
        path=name[question.path],
    )
    next_ok = np.zeros_like(questions.next_ok[at])
    next_ok[name] = questions.next_ok[at]
    return to_data(other, int(name[questions.label[at]]), next_ok, int(questions.lookahead[at])), name


@pytest.mark.parametrize("kind", QUESTIONS)
def test_features_match_reference(kind):
    questions = QUESTIONS[kind]()
    for at in range(len(questions)):
        question, data = questions[at], questions.data(at)
        batch = to_pair_batch()(data)
        expected = reference.features(
            edge_list(question), data.id.tolist(), question.start, question.goal, question.current
        )
        assert torch.equal(batch.x[0], torch.tensor(expected, dtype=torch.float32))
        assert data.id[batch.targets["next"]].item() == questions.label[at]


@pytest.mark.parametrize("kind", QUESTIONS)
def test_features_are_permuted_as_the_names_are(kind):
    rng = np.random.default_rng(0)
    questions = QUESTIONS[kind]()
    for at in range(len(questions)):
        plain = questions.data(at)
        other, name = renamed(questions, at, rng)
        x, y = (to_pair_batch()(data) for data in (plain, other))
        # place[v] is where vertex v of the question stands among the new names
        place = torch.searchsorted(other.id, torch.from_numpy(name)[plain.id])
        assert torch.equal(other.id[place], torch.from_numpy(name)[plain.id])
        assert torch.equal(y.x[0][place][:, place], x.x[0])
        assert torch.equal(place[x.targets["next"]], y.targets["next"])
        assert torch.equal(other.next_ok[place], plain.next_ok)


def test_names_that_keep_their_order_change_nothing():
    """How many ids a size allows, and which of them occur, does not show."""
    questions = balanced(20, 12, seed=0)
    for at in range(len(questions)):
        question = questions[at]
        name = np.arange(21) * 7 + 3
        other = dataclasses.replace(
            question,
            size=200,
            edges=name[question.edges],
            start=int(name[question.start]),
            goal=int(name[question.goal]),
            path=name[question.path],
        )
        assert torch.equal(to_pair_batch()(to_data(other)).x, to_pair_batch()(to_data(question)).x)


def test_answers_do_not_show():
    """Other answers, lookahead, path to the current vertex, or no answer at all: the same features."""
    questions = random_graphs(49, 60, seed=0)
    changed = 0
    for at in range(len(questions)):
        data = questions.data(at)
        x = to_pair_batch()(data).x
        other = data.clone()
        other.next = (data.next + 1) % data.num_nodes
        other.next_ok = torch.zeros_like(data.next_ok)
        other.next_ok[other.next] = 1
        other.lookahead = data.lookahead + 1
        other.path = data.path[:1]
        other.id = data.id.flip(0)
        assert torch.equal(to_pair_batch()(other).x, x)
        assert torch.equal(to_pair_batch()(to_data(questions[at])).x, x)
        changed += not torch.equal(other.next_ok, data.next_ok)
    assert changed == len(questions)


def test_features_are_the_nine():
    names = to_pair_batch().feature_names
    assert names == ["identity", "edge", "reversed edge"] + [
        f"{mark} of {vertex}" for vertex in "uv" for mark in ("start", "goal", "current")
    ]
