"""The laws see what they are for: each is shown a function that breaks it, and one that does not."""

import pytest
import torch

from tests import laws


@pytest.fixture
def mask():
    return laws.vertex_mask([4, 2, 3])


@pytest.fixture
def z(mask, generator):
    return laws.random_pairs(mask, 2, generator)


def lawful(z, mask):
    """sum_k z[i,k] z[k,j]."""
    z = laws.filled(z, mask, 0.0)
    return torch.einsum("bikc,bkjc->bijc", z, z)


def row_sums(z, mask):
    return laws.filled(z, mask, 0.0).sum(dim=2)


def test_all_laws_pass_a_lawful_layer(z, mask, generator):
    laws.assert_layer_laws(lawful, z, mask, generator)
    laws.assert_padding_is_zero(lawful, z, mask)
    laws.assert_layer_laws(row_sums, z, mask, generator, out_axes=(0,))
    laws.assert_padding_is_zero(row_sums, z, mask, out_axes=(0,))


@pytest.mark.parametrize(
    "breaker",
    [
        lambda z, mask: z * torch.arange(z.size(1))[:, None, None],  # row numbers
        lambda z, mask: z * torch.arange(z.size(2))[:, None],  # column numbers
        lambda z, mask: z.cumsum(dim=2),
        lambda z, mask: z + z[:, :1],  # vertex 0 is special
        lambda z, mask: z.roll(1, dims=0),  # the batch is shifted
    ],
)
def test_permutation_equivariance_refuses(breaker, z, mask, generator):
    with pytest.raises(AssertionError):
        laws.assert_permutation_equivariant(breaker, z, mask, generator)


def test_permutation_equivariance_lets_a_transposed_leg_through(z, mask, generator):
    """Why a twin and a drawn answer are needed beside the laws."""
    laws.assert_permutation_equivariant(
        lambda z, mask: torch.einsum("bikc,bjkc->bijc", z, z), z, mask, generator
    )


def test_permutation_equivariance_refuses_wrong_axes(z, mask, generator):
    with pytest.raises(AssertionError):
        laws.assert_permutation_equivariant(row_sums, z, mask, generator, out_axes=())


@pytest.mark.parametrize(
    "breaker",
    [
        lambda z, mask: torch.einsum("bikc,bkjc->bijc", z, z),  # sums over padded middle vertices
        lambda z, mask: (
            laws.filled(z, mask, 0.0).mean(dim=2, keepdim=True) + 0 * z
        ),  # divides by the padded n
        lambda z, mask: laws.filled(z, mask, 0.0) / z.size(0),  # looks at the size of the batch
        lambda z, mask: laws.filled(z, mask, 0.0) - laws.filled(z, mask, 0.0).mean(dim=(0, 1, 2)),
        lambda z, mask: z * (0 * z.amax()) + z.amin(),
    ],
)
def test_ignores_padding_refuses(breaker, z, mask):
    with pytest.raises(AssertionError):
        laws.assert_ignores_padding(breaker, z, mask)


def test_padding_is_zero_refuses(z, mask):
    for breaker in [
        lambda z, mask: z,
        lambda z, mask: laws.filled(z, mask, 0.0).exp(),
        lambda z, mask: torch.where(mask[:, :, None, None], z, 0.0),  # only rows
        lambda z, mask: torch.where(mask[:, None, :, None], z, 0.0),  # only columns
        lambda z, mask: laws.filled(z, mask, torch.nan),
    ]:
        with pytest.raises(AssertionError):
            laws.assert_padding_is_zero(breaker, z, mask)


def test_no_gradient_from_padding_refuses(z, mask):
    def square_root_under_where(z, mask):
        """Right result; the entry not taken has an infinite slope, and 0 * inf is NaN."""
        return torch.where(laws.real_pairs(mask)[..., None], z.abs().sqrt(), 0.0)

    laws.assert_ignores_padding(square_root_under_where, z, mask)
    with pytest.raises(AssertionError, match="not finite"):
        laws.assert_no_gradient_from_padding(square_root_under_where, z, mask, rubbish=0.0)
    with pytest.raises(AssertionError, match="padding has a gradient"):
        laws.assert_no_gradient_from_padding(lambda z, mask: z + z.sum(), z, mask, rubbish=0.0)


def test_finite_refuses():
    laws.assert_finite(lambda x: x.square(), torch.zeros(3))
    with pytest.raises(AssertionError, match="result"):
        laws.assert_finite(lambda x: x.log(), torch.zeros(3))
    with pytest.raises(AssertionError, match="gradient by input 1"):
        laws.assert_finite(lambda x, y: x + y.sqrt(), torch.zeros(3), torch.zeros(3))


def test_gradcheck_refuses():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    laws.assert_gradcheck(lambda x: x * x, torch.rand(3))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        laws.assert_gradcheck(Wrong.apply, torch.rand(3))


def test_close_refuses_shapes_that_broadcast():
    laws.assert_close(torch.zeros(3), torch.zeros(3).numpy())
    with pytest.raises(AssertionError):
        laws.assert_close(torch.zeros(3), torch.zeros(1, 3))
    with pytest.raises(AssertionError):
        laws.assert_close(torch.zeros(3), torch.full((3,), 1e-5))
