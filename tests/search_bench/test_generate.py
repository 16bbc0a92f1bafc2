"""Generators: what they promise of every question, seeds and streams, disjoint splits, and the distribution.

Numbers that depend on chance come from fixed seeds. A set of questions is taken to look like the authors' if
each statistic's two-sample Kolmogorov-Smirnov test gives p > 0.001. (About 150 statistics are compared, many
of them correlated; the smallest p should be near 0.01.)

Two things were settled by these very samples, so that for them the comparison is a fit and no check: that
the question's start is where the branches meet, not the head of the path before it; and that a random graph
without a path from start to goal is drawn anew (drawing only start and goal anew gives larger graphs). The
samples of random graphs are few once one question a graph is taken (about 525, 111 and 25 graphs): at size
250 only gross differences would show.
"""

import hashlib

import numpy as np
import pytest
from scipy import stats

from benchmarks.search import drawn_like
from graphalgo.errors import InputError
from search_bench import at_lookahead, balanced, join, kernels, max_lookahead, random_graphs
from search_bench.statistics import compare, statistics
from search_bench.tokens import is_test_question
from tests import reference_search as reference
from tests.search_bench.samples import FILES, plain

SMALLEST_P = 0.001

DRAWN = {
    "balanced-13": lambda: balanced(13, 200, seed=0),
    "balanced-49": lambda: balanced(49, 100, seed=0),
    "balanced-125": lambda: balanced(125, 20, seed=0),
    "test-13": lambda: join([at_lookahead(13, ahead, 40, seed=0) for ahead in range(1, 7)]),
    "test-49": lambda: join([at_lookahead(49, ahead, 10, seed=0) for ahead in (1, 2, 7, 16, 23, 24)]),
    "random-13": lambda: random_graphs(13, 200, seed=0),
    "random-49": lambda: random_graphs(49, 100, seed=0),
}


def same(left, right):
    names = ("tokens", "label", "next_ok", "lookahead")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


@pytest.mark.parametrize("name", DRAWN)
def test_questions_are_what_they_promise(name):
    """Each by the slow twins, from the tokens alone."""
    questions = DRAWN[name]()
    size = questions.size
    for at in range(len(questions)):
        edges, start, goal, path = reference.read_tokens(questions.tokens[at])
        right = reference.valid_next(edges, path[-1], goal)
        assert len(edges) == len(set(edges)) <= size
        assert all(1 <= v <= size for edge in edges for v in edge)
        assert reference.is_acyclic(edges)
        assert path[0] == start and all(step in edges for step in zip(path, path[1:], strict=False))
        assert set(np.flatnonzero(questions.next_ok[at]).tolist()) == right
        assert questions.label[at] in right
        nearest = {v for v in right if 1 + reference.distance(edges, v, goal) == (
            reference.distance(edges, path[-1], goal))}  # fmt: skip
        aheads = {reference.lookahead(edges, path[-1], v, goal) for v in nearest}
        assert questions.lookahead[at] in aheads
        if name.startswith("test"):
            assert len(right) == 1 < len(reference.children(edges, path[-1]))
            shortest = reference.distance(edges, start, goal)
            assert shortest + 1 > min(questions.lookahead[at], 2)
            assert 1 <= len(reference.paths(edges, start, goal)) <= kernels.FEW_PATHS
        else:
            steps = len(path) - 1 + reference.distance(edges, path[-1], goal)
            assert steps == reference.distance(edges, start, goal)


def test_balanced_questions_are_uniform_over_lookaheads():
    for size in (13, 49):
        counts = np.bincount(balanced(size, 10_000, seed=0).lookahead)
        assert len(counts) == max_lookahead(size) + 1
        assert stats.chisquare(counts).pvalue > SMALLEST_P


def test_labels_are_uniform_over_right_next_vertices():
    questions = random_graphs(49, 6000, seed=0)
    two = questions.next_ok.sum(axis=1) == 2
    first = questions.next_ok[two].argmax(axis=1) == questions.label[two]
    assert stats.binomtest(int(first.sum()), len(first)).pvalue > SMALLEST_P


def test_test_questions_have_the_wanted_lookahead_and_come_once():
    for ahead in (1, 5, 24):
        questions = at_lookahead(49, ahead, 500, seed=0)
        assert (questions.lookahead == ahead).all()
        assert len({plain(questions[at]) for at in range(500)}) == 500


@pytest.mark.parametrize("name", FILES)
def test_distribution_is_the_authors(name):
    ours, theirs = (statistics(questions, name.startswith("random")) for questions in drawn_like(name))
    off = [row for row in compare(ours, theirs) if row["p"] <= SMALLEST_P]
    assert not off


def test_distribution_of_another_generator_is_seen():
    """The judge is not blind: random graphs and balanced questions of size 48 are told."""
    ours = statistics(balanced(49, 2000, seed=0))
    for other in (random_graphs(49, 1000, seed=0), balanced(48, 2000, seed=0)):
        assert min(row["p"] for row in compare(statistics(other), ours)) < SMALLEST_P


@pytest.mark.parametrize(
    "draw", [balanced, random_graphs, lambda *a, **k: at_lookahead(a[0], 3, *a[1:], **k)]
)
def test_question_depends_on_seed_and_index_alone(draw):
    whole = draw(20, 150, seed=5)
    for first, count in ((0, 1), (0, 32), (31, 2), (64, 86), (100, 7)):
        part = draw(20, count, seed=5, first=first)
        cut = type(whole)(*(getattr(whole, name)[first : first + count] for name in vars(whole)))
        assert same(part, cut)
    assert same(draw(20, 150, seed=5), whole)
    assert len({plain(whole[at]) for at in range(150)} & {plain(q) for q in map(draw(20, 150, 6).__getitem__, range(150))}) < 5  # fmt: skip  # noqa: E501


def test_streams_are_frozen():
    """If this fails the generators changed: raise STREAM_VERSION, so that no old cache is read as new."""
    digest = hashlib.sha256()
    for questions in (balanced(20, 40, 1), at_lookahead(20, 4, 40, 1), random_graphs(20, 40, 1)):
        for array in vars(questions).values():
            digest.update(array.tobytes())
    assert digest.hexdigest()[:16] == "05ee4107d0f1142d"


def test_random_numbers_are_those_of_splitmix64():
    """Published values of the generator, and the twin of its finaliser."""
    state = np.array([1234567], dtype=np.uint64)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [kernels.below(state, 2**32) for _ in published] == [word >> 32 for word in published]
    assert int(kernels.mix(np.uint64(12345))) == reference.mix(12345)


def test_numbers_below_a_bound_are_uniform():
    state = np.array([3], dtype=np.uint64)
    counts = np.bincount([kernels.below(state, 7) for _ in range(7000)], minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > SMALLEST_P


@pytest.mark.parametrize("size", [4, 7, 49])
def test_splits_are_disjoint(size):
    """Also where so few questions exist that each is drawn again and again."""
    drawn = {
        split: [
            questions[at]
            for questions in (
                balanced(size, 1000, 0, split=split),
                at_lookahead(size, 1, 500, 0, split=split),
                random_graphs(size, 1000, 0, split=split),
            )
            for at in range(len(questions))
        ]
        for split in ("train", "test")
    }
    assert all(
        is_test_question(question) == (split == "test") for split in drawn for question in drawn[split]
    )
    train, test = ({plain(question) for question in drawn[split]} for split in ("train", "test"))
    assert not train & test
    if size == 4:
        assert len(train) < len(drawn["train"]) / 2


def test_splits_are_disjoint_across_sizes():
    train = balanced(6, 2000, 0)
    test = at_lookahead(5, 1, 500, 1)
    both = {plain(train[at]) for at in range(2000)}, {plain(test[at]) for at in range(500)}
    assert not both[0] & both[1]
    everywhere = balanced(5, 2000, 0)
    assert both[0] & {plain(everywhere[at]) for at in range(2000)}  # the same questions do occur in two sizes


def test_splits_are_a_sixteenth_of_all_questions_and_look_alike():
    train, test = (statistics(balanced(49, 2000, 0, split=split)) for split in ("train", "test"))
    assert min(row["p"] for row in compare(train, test)) > SMALLEST_P
    keys = random_graphs(49, 4000, 0).keys() >> np.uint64(60)
    counts = np.bincount(keys.astype(int), minlength=16)
    assert counts[0] == 0 and counts[1:].min() > 200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: balanced(2, 10, 0), "size must be 3 to 65531, got 2"),
        (lambda: balanced(2**16, 10, 0), "size must be 3 to 65531"),
        (lambda: random_graphs(3, 10, 0), "size must be 4 to"),
        (lambda: balanced(49, 0, 0), "count must be 1 or more, got 0"),
        (lambda: balanced(49, 1, -1), "seed must be 0 to"),
        (lambda: balanced(49, 1, 0, first=-1), "first must be 0 or more"),
        (lambda: balanced(49, 1, 0.5), "seed must be a whole number, got 0.5"),
        (lambda: balanced(49, True, 0), "count must be a whole number"),
        (lambda: at_lookahead(49, 25, 1, 0), "lookahead at size 49 must lie in 1..24, got 25"),
        (lambda: at_lookahead(49, 0, 1, 0), "must lie in 1..24, got 0"),
        (lambda: balanced(3, 1, 0, split="test"), "too few test questions of size 3"),
    ],
)
def test_bad_input_is_refused(call, message, types_unchecked):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_split_is_refused(types_unchecked):
    with pytest.raises(InputError, match="unknown split 'val'"):
        balanced(49, 1, 0, split="val")
