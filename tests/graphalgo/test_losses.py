"""The loss of every output type: its slow twin, what does not count, and values known by heart."""

import math

import numpy as np
import pytest
import torch

from graphalgo.batch import Output
from graphalgo.losses import mask_loss, output_loss, pointer_loss
from tests import laws, reference


def padded_logits(shape, mask, generator):
    """Random logits; those of a padded choice are -inf, as the read-outs give them."""
    logits = torch.randn(*shape, generator=generator)
    return logits.masked_fill(~mask.reshape(len(mask), *[1] * (len(shape) - 2), -1), -math.inf)


def random_targets(shape, sizes, top, generator):
    """Padded entries and a tenth of the others hold -1."""
    target = torch.full(shape, -1)
    for g, size in enumerate(sizes):
        inside = (g, *[slice(size)] * (len(shape) - 1))
        entries = torch.randint(0, top or size, target[inside].shape, generator=generator)
        entries[torch.rand(entries.shape, generator=generator) < 0.1] = -1
        target[inside] = entries
    return target


SIZES = [5, 1, 3]
MASK = laws.vertex_mask(SIZES)


@pytest.mark.parametrize(
    "entries", [(3,), (3, 5), (3, 5, 5)], ids=["mask_one", "node pointer", "edge pointer"]
)
def test_pointer_loss_matches_reference(entries, generator):
    logits = padded_logits((*entries, 5), MASK, generator)
    target = random_targets(entries, SIZES, None, generator)
    expected = reference.pointer_loss(logits.double().numpy(), target.numpy(), MASK.numpy())
    laws.assert_close(pointer_loss(logits, target), np.array(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("entries", [(3, 5), (3, 5, 5)], ids=["node mask", "edge mask"])
def test_mask_loss_matches_reference(entries, generator):
    logits = 3 * torch.randn(entries, generator=generator)
    target = random_targets(entries, SIZES, 2, generator)
    expected = reference.mask_loss(logits.double().numpy(), target.numpy())
    laws.assert_close(mask_loss(logits, target), np.array(expected), rtol=1e-5, atol=1e-6)


def test_pointer_loss_of_equal_logits_is_log_n():
    logits = torch.zeros(1, 4, 4)
    assert pointer_loss(logits, torch.arange(4)[None]).item() == pytest.approx(math.log(4))


def test_mask_loss_of_logit_zero_is_log_2():
    assert mask_loss(torch.zeros(1, 3), torch.tensor([[0, 1, 1]])).item() == pytest.approx(math.log(2))


def test_mask_loss_falls_as_the_logit_of_yes_rises():
    target = torch.tensor([[1]])
    assert mask_loss(torch.tensor([[2.0]]), target) < mask_loss(torch.tensor([[1.0]]), target)


def test_loss_is_a_mean_over_entries_and_not_over_graphs():
    """Two scored entries of loss log 2 and one that is right: 2/3 log 2."""
    logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[100.0, 0.0], [0.0, 0.0]]])
    target = torch.tensor([[0, 1], [0, -1]])
    assert pointer_loss(logits, target).item() == pytest.approx(2 / 3 * math.log(2))


@pytest.mark.parametrize(("loss", "logits"), [(pointer_loss, (2, 3, 3)), (mask_loss, (2, 3))])
def test_loss_of_nothing_scored_is_zero_with_gradient_zero(loss, logits):
    logits = torch.randn(logits).requires_grad_()
    value = loss(logits, torch.full((2, 3), -1))
    value.backward()
    assert value == 0 and not logits.grad.count_nonzero()


@pytest.mark.parametrize(("loss", "shape"), [(pointer_loss, (2, 3, 3)), (mask_loss, (2, 3))])
def test_loss_ignores_logits_that_are_not_scored(loss, shape, generator):
    logits = torch.randn(shape, generator=generator)
    target = torch.tensor([[0, 1, -1], [1, -1, -1]])
    rubbish = logits.clone()
    rubbish[target == -1] = 1e6
    rubbish.requires_grad_()
    value = loss(rubbish, target)
    assert torch.equal(value, loss(logits, target))
    value.backward()
    assert not rubbish.grad[target == -1].count_nonzero() and torch.isfinite(rubbish.grad).all()


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_loss_is_finite_at_extremes(size, generator):
    target = random_targets((3, 5), SIZES, None, generator)
    sign = torch.randn(3, 5, 5, generator=generator).sign()
    logits = (size * sign).masked_fill(~MASK[:, None], -math.inf).requires_grad_()
    pointer_loss(logits, target).backward()
    assert torch.isfinite(logits.grad).all()
    laws.assert_finite(lambda logits: mask_loss(logits, target.clamp(max=1)), size * sign[..., 0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_loss_is_summed_in_float32(dtype):
    """40,000 entries of log 2 each: a float16 sum stalls or overflows."""
    target = torch.zeros(1, 200, 200, dtype=torch.long)
    value = mask_loss(torch.zeros(1, 200, 200, dtype=dtype), target)
    assert value.dtype == torch.float32 and value.item() == pytest.approx(math.log(2), rel=1e-5)
    value = pointer_loss(torch.zeros(1, 40_000, 2, dtype=dtype), torch.zeros(1, 40_000, dtype=torch.long))
    assert value.dtype == torch.float32 and value.item() == pytest.approx(math.log(2), rel=1e-5)


@pytest.mark.parametrize(
    ("location", "type_", "logits", "target"),
    [
        ("node", "pointer", (3, 5, 5), (3, 5)),
        ("edge", "pointer", (3, 5, 5, 5), (3, 5, 5)),
        ("node", "mask_one", (3, 5), (3,)),
        ("node", "mask", (3, 5), (3, 5)),
        ("edge", "mask", (3, 5, 5), (3, 5, 5)),
    ],
)
def test_output_loss_goes_by_type(location, type_, logits, target, generator):
    logits = torch.randn(logits, generator=generator)
    target = random_targets(target, SIZES, 2 if type_ == "mask" else None, generator)
    loss = mask_loss if type_ == "mask" else pointer_loss
    assert torch.equal(output_loss(Output("y", location, type_), logits, target), loss(logits, target))
