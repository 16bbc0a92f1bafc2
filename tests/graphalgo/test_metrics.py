"""The official CLRS score by dm-clrs's formulas written out by hand, its special cases, and its interval."""

import numpy as np
import pytest
import torch

from graphalgo.batch import Output
from graphalgo.metrics import OfficialScore, bootstrap_interval, decide, graph_counts, score_of_counts
from tests import reference

POINTER = Output("pi", "node", "pointer")
EDGE_POINTER = Output("Pi", "edge", "pointer")
MASK = Output("is_cut", "node", "mask")
EDGE_MASK = Output("is_bridge", "edge", "mask")
MASK_ONE = Output("head", "node", "mask_one")


def score_of(output, prediction, target):
    counts = graph_counts(output, torch.as_tensor(prediction), torch.as_tensor(target))
    return float(score_of_counts(output, counts.sum(dim=0).numpy()))


def test_decide_takes_the_largest_logit_and_the_first_of_equal_ones():
    logits = torch.tensor([[[0.1, 0.3, 0.2], [2.0, 2.0, -1.0]]])
    for output in (POINTER, MASK_ONE):
        assert decide(output, logits).tolist() == [[1, 0]]


def test_decide_says_yes_above_zero():
    """A logit of 0 is a chance of one half, which dm-clrs counts neither way: here it is no."""
    assert decide(MASK, torch.tensor([[-1.0, 0.0, 1e-6, 5.0]])).tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize("output", [POINTER, EDGE_POINTER, MASK_ONE], ids=lambda output: output.type)
def test_pointer_score_matches_reference(output, generator):
    shape = {"Pi": (3, 5, 5), "pi": (3, 5), "head": (3,)}[output.name]
    prediction = torch.randint(0, 3, shape, generator=generator)
    target = torch.randint(-1, 3, shape, generator=generator)
    target[0] = prediction[0]
    expected = reference.share_equal(prediction.numpy(), target.numpy())
    assert score_of(output, prediction, target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("output", [MASK, EDGE_MASK], ids=lambda output: output.location)
def test_mask_score_matches_reference(output, generator):
    shape = (4, 6) if output is MASK else (4, 6, 6)
    for _ in range(20):
        prediction = torch.randint(0, 2, shape, generator=generator)
        target = torch.randint(-1, 2, shape, generator=generator)
        expected = reference.pooled_f1(prediction.numpy(), target.numpy())
        assert score_of(output, prediction, target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("prediction", "target", "score"),
    [
        ([1, 1, 0, 0], [1, 0, 1, 0], 0.5),  # precision 1/2, recall 1/2
        ([1, 1, 1, 0], [1, 0, 0, 0], 0.5),  # precision 1/3, recall 1
        ([1, 1, 0, 0], [1, 1, 0, 0], 1.0),
        ([0, 0, 0, 0], [0, 0, 0, 0], 1.0),  # nothing true, nothing predicted
        ([0, 0, 0, 0], [1, 1, 0, 0], 0.0),  # nothing predicted: precision 1, recall 0
        ([1, 1, 0, 0], [0, 0, 0, 0], 0.0),  # nothing true: precision 0, recall 1
        ([1, 0, 0, 0], [0, 1, 0, 0], 0.0),  # precision 0, recall 0
        ([1, 1, 1, 1], [1, -1, -1, -1], 1.0),  # a yes where nothing is scored costs nothing
        ([0, 0, 0, 0], [-1, -1, -1, -1], 1.0),  # nothing scored
        ([1, 1, 1, 1], [-1, -1, -1, -1], 1.0),
    ],
)
def test_mask_score_of_special_cases(prediction, target, score):
    assert score_of(MASK, [prediction], [target]) == pytest.approx(score)
    assert reference.pooled_f1(np.array([prediction]), np.array([target])) == pytest.approx(score)


def test_mask_score_pools_graphs():
    """One graph with F1 1 of one yes, one with F1 0 of three: pooled 2 * 1 / (2 + 3) = 0.4, not 0.5."""
    prediction, target = [[1, 0, 0], [0, 0, 0]], [[1, 0, 0], [1, 1, 1]]
    assert score_of(MASK, prediction, target) == pytest.approx(0.4)


def test_pointer_score_counts_roots_and_self_pointers():
    """No entry is left out but those marked -1: dm-clrs's plain mean of equality."""
    assert score_of(POINTER, [[0, 1, 2, 0]], [[0, 1, 2, 3]]) == 0.75


def test_pointer_score_of_nothing_scored_is_refused():
    with pytest.raises(ValueError, match="'pi'"):
        score_of(POINTER, [[0, 1]], [[-1, -1]])


def test_score_of_counts_takes_many_samples_at_once(generator):
    counts = torch.randint(0, 3, (50, 4), generator=generator).numpy()
    counts[:, 0] += 1
    for output in (POINTER, MASK):
        together = score_of_counts(output, counts)
        assert together.tolist() == [float(score_of_counts(output, row)) for row in counts]


def test_graph_counts_are_whole_numbers_a_graph():
    prediction = torch.tensor([[1, 1, 0, 0, 1], [1, 1, 1, 1, 1]])
    target = torch.tensor([[1, 0, 1, 0, -1], [1, 1, 1, -1, -1]])
    counts = graph_counts(MASK, prediction, target)
    assert counts.dtype == torch.int64
    assert counts.tolist() == [[1, 1, 1, 1], [3, 0, 0, 0]]
    assert graph_counts(MASK_ONE, torch.tensor([2, 0, 1]), torch.tensor([2, 1, -1]))[:, :2].tolist() == [
        [1, 0],
        [0, 1],
        [0, 0],
    ]


# OfficialScore


def random_answers(generator, num_graphs=12, num_nodes=6):
    """Answers to a pointer, a mask and a mask_one, most of them right, sizes mixed."""
    targets = {
        "pi": torch.full((num_graphs, num_nodes), -1),
        "is_cut": torch.full((num_graphs, num_nodes), -1),
    }
    for g in range(num_graphs):
        size = int(torch.randint(1, num_nodes + 1, (), generator=generator))
        targets["pi"][g, :size] = torch.randint(0, size, (size,), generator=generator)
        targets["is_cut"][g, :size] = torch.randint(0, 2, (size,), generator=generator)
    targets["head"] = torch.randint(0, num_nodes, (num_graphs,), generator=generator)
    predictions = {}
    for name, target in targets.items():
        wrong = torch.rand(target.shape, generator=generator) < 0.1
        predictions[name] = torch.where(wrong, (target + 1) % 2, target.clamp(min=0))
    return predictions, targets


OUTPUTS = (POINTER, MASK, MASK_ONE)


def scored(outputs, predictions, targets, batch_size):
    score = OfficialScore(outputs)
    for start in range(0, len(targets[outputs[0].name]), batch_size):
        part = slice(start, start + batch_size)
        score.update(
            {name: y[part] for name, y in predictions.items()}, {name: y[part] for name, y in targets.items()}
        )
    return score


def test_official_score_matches_reference(generator):
    predictions, targets = random_answers(generator)
    result = scored(OUTPUTS, predictions, targets, batch_size=5).compute()
    as_numpy = (
        {name: y.numpy() for name, y in predictions.items()},
        {n: y.numpy() for n, y in targets.items()},
    )
    pi, is_cut, head = (
        function(as_numpy[0][name], as_numpy[1][name])
        for function, name in [
            (reference.share_equal, "pi"),
            (reference.pooled_f1, "is_cut"),
            (reference.share_equal, "head"),
        ]
    )
    assert result["score"] == pytest.approx((pi + is_cut + head) / 3, abs=1e-12)
    assert result["exact"] == pytest.approx(np.mean(reference.exact_graphs(*as_numpy)), abs=1e-12)
    assert result["num_graphs"] == 12
    assert 0 < result["exact"] < 1 and result["score_low"] < result["score"] < result["score_high"]


@pytest.mark.parametrize("batch_size", [1, 5, 12])
def test_official_score_does_not_depend_on_the_batches(batch_size, generator):
    answers = random_answers(generator)
    assert (
        scored(OUTPUTS, *answers, batch_size).compute() == scored(OUTPUTS, *answers, batch_size=7).compute()
    )


def test_official_score_starts_anew_after_reset(generator):
    answers = random_answers(generator)
    score = scored(OUTPUTS, *answers, batch_size=4)
    first = score.compute()
    score.reset()
    score.update(*answers)
    assert score.compute() == first


def test_official_score_of_right_head_and_wrong_order_is_one_half():
    """topological_sort's score is the plain mean of its two outputs."""
    score = OfficialScore([POINTER, MASK_ONE])
    score.update(
        {"pi": torch.tensor([[1, 1]]), "head": torch.tensor([0])},
        {"pi": torch.tensor([[0, 0]]), "head": torch.tensor([0])},
    )
    assert score.compute()["score"] == 0.5
    assert score.compute()["exact"] == 0.0


def test_exact_graph_needs_every_scored_entry_of_every_output():
    score = OfficialScore([POINTER, MASK])
    pi = torch.tensor([[0, 1], [0, 1], [0, 1], [0, 1]])
    is_cut = torch.tensor([[0, 1], [0, 1], [0, 1], [0, -1]])
    score.update(
        {
            "pi": torch.tensor([[0, 1], [0, 0], [0, 1], [0, 1]]),
            "is_cut": torch.tensor([[0, 1], [0, 1], [1, 1], [0, 1]]),
        },
        {"pi": pi, "is_cut": is_cut},
    )
    assert score.compute()["exact"] == 0.5


def test_perfect_score_has_an_interval_of_no_width():
    predictions, targets = random_answers(torch.Generator().manual_seed(3))
    right = {name: target.clamp(min=0) for name, target in targets.items()}
    result = scored(OUTPUTS, right, targets, batch_size=4).compute()
    assert (result["score_low"], result["score"], result["score_high"], result["exact"]) == (1, 1, 1, 1)


def test_official_score_before_any_graph_is_refused():
    with pytest.raises((ValueError, RuntimeError)), pytest.warns(UserWarning, match="before the ``update``"):
        OfficialScore(OUTPUTS).compute()


# The interval


def test_interval_is_the_same_every_time(generator):
    counts = {POINTER: torch.randint(1, 9, (20, 4), generator=generator).numpy()}
    assert bootstrap_interval(counts) == bootstrap_interval(counts)
    assert bootstrap_interval(counts) != bootstrap_interval(counts, seed=1)


def test_interval_matches_resampling_by_hand(generator):
    """Another stream of random numbers and a loop over graphs: the same percentiles, up to the draw."""
    counts = torch.randint(1, 9, (20, 4), generator=generator).numpy()
    rng = np.random.default_rng(5)
    scores = []
    for _ in range(4000):
        hit, false_alarm, miss, _ = sum(counts[g] for g in rng.integers(0, 20, size=20))
        scores.append(2 * hit / (2 * hit + false_alarm + miss))
    assert bootstrap_interval({MASK: counts}, 4000) == pytest.approx(
        np.percentile(scores, [2.5, 97.5]), abs=0.01
    )


def test_interval_resamples_all_outputs_of_a_graph_together():
    """Two outputs that are right on opposite graphs: their mean is 1/2 in every sample of graphs."""
    first = np.array([[1, 0, 0, 0], [0, 1, 0, 0]] * 4)
    assert bootstrap_interval({POINTER: first, MASK_ONE: first[:, [1, 0, 2, 3]]}) == (0.5, 0.5)


def test_interval_of_one_graph_is_its_score():
    assert bootstrap_interval({POINTER: np.array([[3, 1, 0, 0]])}) == (0.75, 0.75)


def test_interval_narrows_with_the_number_of_graphs():
    rng = np.random.default_rng(0)
    wide, narrow = (
        bootstrap_interval({POINTER: np.stack([hits, 10 - hits, 0 * hits, 0 * hits], axis=1)})
        for hits in (rng.integers(0, 11, 20), rng.integers(0, 11, 2000))
    )
    assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])


def test_interval_of_graphs_without_scored_entries_is_finite():
    """A sample may hold only such graphs; that must not stop the evaluation."""
    counts = np.array([[2, 1, 0, 0], [0, 0, 0, 0]])
    low, high = bootstrap_interval({POINTER: counts})
    assert (low, high) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert bootstrap_interval({MASK: counts}) != (low, high)
    with pytest.raises(ValueError, match="'pi'"):
        bootstrap_interval({POINTER: 0 * counts})
