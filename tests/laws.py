"""Laws a layer keeps whatever its weights, as assertions about functions ``fn(z, mask)``.

``z[b,i,j,c]`` is a pair state and ``mask[b,i]`` is True at real vertices. ``out_axes`` names the axes of the
result that run over vertices, counted without the batch axis: ``(0, 1)`` for a pair state, ``(0,)`` for one
answer a vertex, ``(0, 1, 2)`` for edge-pointer logits, ``()`` for one answer a graph.

``tests/test_laws.py`` shows each of them a function that breaks it.
"""

import torch
from torch import Tensor

PAIR = (0, 1)


def vertex_mask(sizes: list[int], num_nodes: int | None = None) -> Tensor:
    """True at the first ``sizes[b]`` vertices of graph b."""
    return torch.arange(num_nodes or max(sizes)) < torch.tensor(sizes)[:, None]


def real_pairs(mask: Tensor) -> Tensor:
    """True at pairs of two real vertices."""
    return mask[:, :, None] & mask[:, None, :]


def random_pairs(mask: Tensor, channels: int, generator: torch.Generator, dtype=torch.float64) -> Tensor:
    """Normal entries at real pairs, 0 elsewhere."""
    b, n = mask.shape
    z = torch.randn(b, n, n, channels, generator=generator, dtype=dtype)
    return z * real_pairs(mask)[..., None]


def filled(z: Tensor, mask: Tensor, rubbish: float) -> Tensor:
    """z with padded rows and columns filled with rubbish."""
    return torch.where(real_pairs(mask)[..., None], z, rubbish)


def _take(x: Tensor, order: Tensor, axes: tuple[int, ...]) -> Tensor:
    for axis in axes:
        x = x.index_select(axis, order)
    return x


def _at_real(x: Tensor, mask: Tensor, out_axes: tuple[int, ...]) -> list[Tensor]:
    """What a result says about the real vertices of each graph."""
    return [_take(x[g], mask[g].nonzero().flatten(), out_axes) for g in range(len(mask))]


def assert_close(actual: Tensor, expected, dtype=torch.float64, **tolerances) -> None:
    """Equal within float rounding, same shape; ``expected`` may be a numpy array."""
    torch.testing.assert_close(actual.to(dtype), torch.as_tensor(expected).to(dtype), **tolerances)


def assert_permutation_equivariant(fn, z, mask, generator, out_axes=PAIR) -> None:
    """Renaming the vertices renames the answer and does nothing else. Each graph has its own renaming."""
    orders = [torch.randperm(mask.size(1), generator=generator) for _ in mask]
    renamed_z = torch.stack([_take(z[g], order, PAIR) for g, order in enumerate(orders)])
    renamed_mask = torch.stack([mask[g][order] for g, order in enumerate(orders)])
    out = fn(z, mask)
    renamed = torch.stack([_take(out[g], order, out_axes) for g, order in enumerate(orders)])
    assert_close(fn(renamed_z, renamed_mask), renamed)


def assert_ignores_padding(fn, z, mask, out_axes=PAIR, rubbish=(1e6, -1e6)) -> None:
    """What stands at padded vertices, how many there are, and what shares the batch: none of it matters."""
    expected = _at_real(fn(filled(z, mask, 0.0), mask), mask, out_axes)
    for value in rubbish:
        actual = _at_real(fn(filled(z, mask, value), mask), mask, out_axes)
        for g, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert torch.equal(one, other), f"graph {g} changes when its padding holds {value}"
    for g, real in enumerate(mask):
        at = real.nonzero().flatten()
        alone = fn(_take(z[g], at, PAIR)[None], torch.ones(1, len(at), dtype=torch.bool))
        assert_close(alone[0], expected[g])


def assert_padding_is_zero(fn, z, mask, out_axes=PAIR, rubbish=(0.0, 1e6)) -> None:
    """Padded entries of the result are exactly 0."""
    for value in rubbish:
        out = fn(filled(z, mask, value), mask)
        for g, real in enumerate(mask):
            padded = (~real).nonzero().flatten()
            for axis in out_axes:
                assert not out[g].index_select(axis, padded).count_nonzero(), f"padding of graph {g} is not 0"


def assert_no_gradient_from_padding(fn, z, mask, out_axes=PAIR, rubbish=1e6) -> None:
    """The gradient is finite, and exactly 0 at padded pairs."""
    z = filled(z, mask, rubbish).requires_grad_()
    total = sum(x.square().sum() for x in _at_real(fn(z, mask), mask, out_axes))
    (gradient,) = torch.autograd.grad(total, z)
    assert torch.isfinite(gradient).all(), "the gradient is not finite"
    assert not gradient[~real_pairs(mask)].count_nonzero(), "padding has a gradient"


def assert_finite(fn, *inputs: Tensor) -> None:
    """The result and its gradient by every input are finite."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    out = fn(*inputs)
    assert torch.isfinite(out).all(), "the result is not finite"
    for which, gradient in enumerate(torch.autograd.grad(out.sum(), inputs)):
        assert torch.isfinite(gradient).all(), f"the gradient by input {which} is not finite"


def assert_gradcheck(fn, *inputs: Tensor) -> None:
    """Gradients agree with finite differences; inputs are float64."""
    inputs = [x.detach().double().clone().requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(fn, inputs)


def assert_layer_laws(layer, z, mask, generator, out_axes=PAIR) -> None:
    """Equivariance, padding, and the gradient at padding, for ``layer(z, mask)`` with a pair-state result."""
    assert_permutation_equivariant(layer, z, mask, generator, out_axes)
    assert_ignores_padding(layer, z, mask, out_axes)
    assert_no_gradient_from_padding(layer, z, mask, out_axes)
