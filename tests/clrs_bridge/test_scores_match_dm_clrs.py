"""The official score next to ``clrs.evaluate`` itself, which takes seconds to import."""

import importlib.util

import numpy as np
import pytest
import torch

from clrs_bridge import TASKS, from_feedback
from clrs_bridge.upstream import feedback_sample, import_clrs
from graphalgo.metrics import OfficialScore, decide

pytestmark = pytest.mark.skipif(importlib.util.find_spec("clrs") is None, reason="dm-clrs is not installed")


def logits_near(output, target, share_wrong, generator):
    """Logits that decide for the truth, except for a share of entries chosen at random."""
    truth = target.clamp(min=0)
    num_nodes = target.size(-1) if target.dim() > 1 else 9
    if output.type == "mask":
        right = torch.nn.functional.one_hot(truth, 2)[..., 1].float() - 0.5
        wrong = torch.rand(target.shape, generator=generator) < share_wrong
        return torch.where(wrong, -right, right)
    noise = torch.rand(*target.shape, num_nodes, generator=generator)
    keep = torch.rand(target.shape, generator=generator) >= share_wrong
    return noise + 2 * torch.nn.functional.one_hot(truth, num_nodes) * keep[..., None]


def as_dm_clrs(clrs, truth, decision):
    """Our decision in the form in which dm-clrs's own decoders give theirs."""
    data = decision.numpy()
    if truth.type_ == "mask_one":
        data = np.eye(truth.data.shape[-1])[data]
    return clrs.DataPoint(truth.name, truth.location, truth.type_, data)


@pytest.mark.parametrize("share_wrong", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_score_matches_dm_clrs(task, share_wrong, generator):
    clrs = import_clrs()
    feedback = feedback_sample(task.name, num_nodes=9, num_samples=6, seed=5)
    targets = task.to_pair_batch()(from_feedback(feedback, task.name)).targets
    decisions = {
        output.name: decide(output, logits_near(output, targets[output.name], share_wrong, generator))
        for output in task.outputs
    }
    score = OfficialScore(task.outputs)
    score.update(decisions, targets)
    theirs = clrs.evaluate(
        feedback.outputs,
        {truth.name: as_dm_clrs(clrs, truth, decisions[truth.name]) for truth in feedback.outputs},
    )
    assert score.compute()["score"] == pytest.approx(theirs["score"], abs=1e-6)
    assert (theirs["score"] == 1) == (share_wrong == 0.0)


@pytest.mark.parametrize("predicted", [0, 1])
@pytest.mark.parametrize("true", [-1, 0, 1])
def test_score_of_masks_all_alike_matches_dm_clrs(predicted, true):
    """Nothing predicted, nothing true, nothing scored."""
    clrs = import_clrs()
    (output,) = TASKS["articulation_points"].outputs
    prediction, target = torch.full((2, 3), predicted), torch.full((2, 3), true)
    score = OfficialScore([output])
    score.update({output.name: prediction}, {output.name: target})
    point = clrs.DataPoint(output.name, output.location, output.type, target.numpy().astype(float))
    theirs = clrs.evaluate((point,), {output.name: as_dm_clrs(clrs, point, prediction)})
    assert score.compute()["score"] == theirs["score"]


def test_score_of_a_masked_mask_one_matches_dm_clrs():
    """A graph whose marks hold any -1 is left out."""
    clrs = import_clrs()
    output = TASKS["topological_sort"].outputs[1]
    marks = torch.tensor([[0, 1, 0], [0, 1, -1], [1, 0, 0]])
    prediction = torch.tensor([1, 0, 2])
    score = OfficialScore([output])
    score.update({output.name: prediction}, {output.name: torch.tensor([1, -1, 0])})
    point = clrs.DataPoint(output.name, output.location, output.type, marks.numpy())
    theirs = clrs.evaluate((point,), {output.name: as_dm_clrs(clrs, point, prediction)})
    assert score.compute()["score"] == theirs["score"] == 0.5
