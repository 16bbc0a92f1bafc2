"""Right next vertices and lookahead: drawn graphs, the slow twin, every sample, bad input."""

import numpy as np
import pytest

from graphalgo.errors import InputError
from search_bench import lookahead, max_lookahead, right_next, shortest_next, valid_next
from search_bench.lookahead import distances
from tests import reference_search as reference
from tests.search_bench.samples import FILES, edge_list, sample

FORK = [(0, 1), (1, 3), (3, 5), (0, 2), (2, 4)]
"""From 0 by 1 and 3 to 5, or by 2 to a dead end at 4."""


def index(edges):
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T


def random_edges(rng, n, acyclic):
    pairs = [(u, v) for u in range(n) for v in range(n) if u < v or (not acyclic and u != v)]
    return [pair for pair in pairs if rng.random() < (4 if acyclic else 2) / n]


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([(0, 1), (1, 5)], 0),  # nothing to choose
        ([(0, 5), (0, 2)], 1),  # the goal is a child beside another
        ([(0, 5)], 0),
        (FORK, 2),  # the other branch ends at 4
        ([*FORK, (4, 6)], 3),  # the goal is met beside 6
        ([*FORK, (4, 6), (6, 7)], 3),  # and what comes after does not matter
        ([*FORK, (2, 3)], 2),  # 3 is the right branch's, although 2 meets it too; 4 is not
        ([(0, 1), (1, 3), (3, 5), (0, 2), (2, 3)], 1),  # both branches merge
        ([(0, 1), (1, 6), (6, 3), (3, 5), (0, 2), (2, 3), (2, 4)], 3),  # 3 is met first by the other branch
        ([(0, 1), (0, 2), (1, 2), (1, 5)], 1),  # 2 is in layer 0 already, of a branch of its own
    ],
)
def test_lookahead_of_drawn_graphs(edges, expected):
    right = 5 if (0, 5) in edges else 1
    assert lookahead(index(edges), 8, 0, right, 5) == expected
    assert reference.lookahead(edges, 0, right, 5) == expected


def test_right_next_vertices_of_a_drawn_graph():
    edges = index([*FORK, (0, 6), (6, 7), (7, 3), (0, 8), (8, 3)])
    assert np.flatnonzero(valid_next(edges, 9, 0, 5)).tolist() == [1, 6, 8]
    assert np.flatnonzero(shortest_next(edges, 9, 0, 5)).tolist() == [1, 8]
    assert distances(edges, 9, 5).tolist() == [3, 2, -1, 1, -1, 0, 3, 2, 2]
    assert right_next(index(FORK), 6, 0, 5) == 1
    assert not valid_next(edges, 9, 5, 5).any()
    assert not shortest_next(edges, 9, 4, 5).any()


@pytest.mark.parametrize("acyclic", [True, False])
def test_lookahead_matches_reference(acyclic):
    rng = np.random.default_rng(0)
    compared = set()
    for n in [2, 3, 5, 8, 12, 20] * 25:
        edges = random_edges(rng, n, acyclic)
        current, goal = rng.permutation(n)[:2].tolist()
        right = reference.valid_next(edges, current, goal)
        assert set(np.flatnonzero(valid_next(index(edges), n, current, goal)).tolist()) == right
        assert distances(index(edges), n, goal).tolist() == [
            reference.distance(edges, v, goal) for v in range(n)
        ]
        for child in right:
            expected = reference.lookahead(edges, current, child, goal)
            assert lookahead(index(edges), n, current, child, goal) == expected
            compared.add(expected)
    assert compared >= {0, 1, 2, 3}


def test_lookahead_ignores_names_and_the_order_of_edges():
    rng = np.random.default_rng(0)
    edges = index([*FORK, (4, 6), (6, 7), (2, 3)])
    for _ in range(20):
        name = rng.permutation(30)
        renamed = name[edges][:, rng.permutation(edges.shape[1])]
        current, right, goal = name[[0, 1, 5]].tolist()
        assert lookahead(renamed, 30, current, right, goal) == 3


@pytest.mark.parametrize("name", FILES)
def test_answers_of_every_sample_are_worked_out(name):
    """Right next vertices, the one of test questions, and lookaheads, as the authors stored them."""
    questions = sample(name)
    n = questions.size + 1
    for at in range(len(questions)):
        question = questions[at]
        asked = (question.edges, n, question.current, question.goal)
        label = int(questions.label[at])
        assert np.array_equal(valid_next(*asked), questions.next_ok[at])
        assert questions.next_ok[at, label]
        if name.startswith("test"):
            assert right_next(*asked) == label
            assert (
                lookahead(question.edges, n, question.current, label, question.goal)
                == (questions.lookahead[at])
            )
        if at % 20 == 0:
            edges = edge_list(question)
            nearest = int(np.flatnonzero(shortest_next(*asked))[0])
            expected = reference.lookahead(edges, question.current, nearest, question.goal)
            assert lookahead(question.edges, n, question.current, nearest, question.goal) == expected
            right = reference.valid_next(edges, question.current, question.goal)
            assert set(np.flatnonzero(questions.next_ok[at]).tolist()) == right


def test_largest_lookahead_is_of_two_paths():
    assert [max_lookahead(size) for size in (3, 49, 50, 125, 250)] == [1, 24, 24, 62, 124]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lookahead(index(FORK), 6, 0, 3, 5), "no edge 0 -> 3"),
        (lambda: lookahead(index(FORK), 6, 0, 2, 5), "cannot be reached from 2"),
        (lambda: lookahead(index(FORK), 6, 0, 1, 6), "goal must lie in 0..5, got 6"),
        (lambda: lookahead(index(FORK), 5, 0, 1, 4), r"edge_index must lie in 0..4, got 0..5"),
        (lambda: valid_next(index(FORK), 6, -1, 5), "current must lie in 0..5"),
        (lambda: distances(index(FORK) - 1, 6, 5), r"edge_index must lie in 0..5, got -1..4"),
        (lambda: right_next(index(FORK), 6, 4, 5), "none does"),
        (lambda: right_next(index([*FORK, (2, 5)]), 6, 0, 5), r"\[1, 2\] do"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_graph_without_edges_has_no_answers():
    assert not valid_next(index([]), 3, 0, 1).any()
