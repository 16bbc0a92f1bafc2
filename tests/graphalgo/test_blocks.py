"""PairBlock and rms_norm, and how often a block is applied: LoopedBlock, StackedBlocks."""

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from graphalgo.blocks import PairBlock, rms_norm
from graphalgo.errors import InputError
from graphalgo.loop import LoopedBlock, StackedBlocks
from graphalgo.mixers import OrJoin, PowerMean, Propagator, Summed, TriangleAttention
from tests import laws, reference


@pytest.fixture
def mask():
    return laws.vertex_mask([4, 1, 3])


@pytest.fixture
def z(mask, generator):
    return laws.random_pairs(mask, 4, generator)


def all_mixers():
    return [OrJoin(4, 2), PowerMean(4, 3), Summed(4, 1), TriangleAttention(4, 4, num_heads=2, chunk=2)]


def some_mixers():
    return [OrJoin(4, 2), PowerMean(4, 2)]


def block_of(mixers, hidden=None):
    return PairBlock(4, mixers, hidden).double()


# rms_norm


def test_rms_norm_matches_reference(z):
    laws.assert_close(rms_norm(z), reference.rms_norm(z.numpy(), eps=1e-6))


def test_rms_norm_gives_unit_size_and_keeps_zero():
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0], [300.0, -400.0]])
    out = rms_norm(z)
    laws.assert_close(out.square().mean(dim=-1), torch.tensor([1.0, 0.0, 1.0]), dtype=torch.float32)
    assert torch.equal(out[1], torch.zeros(2))
    laws.assert_close(out[2, 0] / out[2, 1], torch.tensor(-0.75))


@pytest.mark.parametrize("size", [0.0, 1e-20, 1e-4, 1e4, 1e15])
def test_rms_norm_is_finite_at_extremes(size):
    laws.assert_finite(rms_norm, torch.full((2, 4), size))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rms_norm_does_not_overflow_in_half_precision(dtype):
    """300^2 is beyond float16."""
    laws.assert_close(rms_norm(torch.full((2, 4), 300.0, dtype=dtype)), torch.ones(2, 4), dtype=torch.float32)


def test_rms_norm_gradcheck(z):
    laws.assert_gradcheck(rms_norm, z[0])


# PairBlock


def twin_of_block(block, z, mask):
    """z <- z + sigmoid(gate t) * out mix(t); z <- z + mlp(rms_norm(z))."""
    weights = {name: weight.detach().numpy() for name, weight in block.named_parameters()}
    t = reference.rms_norm(z, eps=1e-6)
    with torch.no_grad():
        parts = [mixer(torch.as_tensor(t), torch.as_tensor(mask)).numpy() for mixer in block.mixers]
    mixed = reference.linear(np.concatenate(parts, axis=-1), weights["out.weight"])
    gate = reference.entrywise(
        reference.sigmoid, reference.linear(t, weights["gate.weight"], weights["gate.bias"])
    )
    z = z + gate * mixed
    hidden = reference.linear(reference.rms_norm(z, eps=1e-6), weights["mlp.0.weight"], weights["mlp.0.bias"])
    hidden = reference.entrywise(lambda x: x * reference.sigmoid(x), hidden)
    z = z + reference.linear(hidden, weights["mlp.2.weight"], weights["mlp.2.bias"])
    return reference.only_real_pairs(z, mask)


@pytest.mark.parametrize("mixers", [some_mixers, all_mixers])
def test_block_matches_reference(mixers, z, mask):
    block = block_of(mixers())
    laws.assert_close(block(z, mask), twin_of_block(block, z.numpy(), mask.numpy()))


@pytest.mark.parametrize("mixers", [some_mixers, all_mixers])
def test_block_keeps_the_laws(mixers, z, mask, generator):
    block = block_of(mixers())
    laws.assert_layer_laws(block, z, mask, generator)
    laws.assert_padding_is_zero(block, z, mask)


def test_block_gradcheck(generator):
    mask = laws.vertex_mask([2, 1])
    block = block_of(some_mixers())
    laws.assert_gradcheck(lambda z: block(z, mask), laws.random_pairs(mask, 4, generator))


def test_block_trains_every_parameter(z, mask):
    block = block_of(all_mixers())
    block(z, mask).square().sum().backward()
    for name, parameter in block.named_parameters():
        assert parameter.grad.abs().sum() > 0, f"{name} has no gradient"


def test_block_takes_a_mixer_of_ones_own(z, mask):
    class Reversed(nn.Module):
        """The reversed pair's first channel."""

        channels = 1

        def forward(self, t, mask):
            return t[..., :1].transpose(1, 2)

    block = block_of([Reversed()])
    laws.assert_close(block(z, mask), twin_of_block(block, z.numpy(), mask.numpy()))


def test_block_of_hidden_width_has_that_many_parameters():
    """gate 4*4+4, out 2*4, MLP 4*7+7 + 7*4+4; by default hidden is twice the width."""
    mixer = Summed(4, 2)
    of_mixer = sum(parameter.numel() for parameter in mixer.parameters())
    for hidden, width in [(7, 7), (None, 8)]:
        block = PairBlock(4, [mixer], hidden)
        total = sum(parameter.numel() for parameter in block.parameters())
        assert total == of_mixer + 20 + 8 + (4 * width + width + width * 4 + 4)


# Loops


@pytest.fixture
def block():
    return block_of(some_mixers())


def test_loop_of_k_steps_is_k_calls(block, z, mask):
    expected = z
    for _ in range(5):
        expected = block(expected, mask)
    assert torch.equal(LoopedBlock(block)(z, mask, num_steps=5), expected)


def test_loop_of_no_steps_is_the_start(block, z, mask):
    assert torch.equal(LoopedBlock(block)(z, mask, num_steps=0), z)
    assert list(LoopedBlock(block).states(z, mask, num_steps=0)) == []


def test_loop_of_j_then_k_steps_is_j_plus_k(block, z, mask):
    loop = LoopedBlock(block)
    assert torch.equal(loop(loop(z, mask, 2), mask, 3), loop(z, mask, 5))


def test_loop_states_are_the_states_after_each_step(block, z, mask):
    loop = LoopedBlock(block)
    states = list(loop.states(z, mask, num_steps=4))
    assert len(states) == 4
    for step, state in enumerate(states, start=1):
        assert torch.equal(state, loop(z, mask, num_steps=step))


def test_loop_has_one_set_of_weights(block, z, mask):
    """Its gradient is the sum of those of K blocks with equal weights."""
    loop = LoopedBlock(block)
    assert {id(p) for p in loop.parameters()} == {id(p) for p in block.parameters()}
    copies = [block_of(some_mixers()) for _ in range(3)]
    for copy in copies:
        copy.load_state_dict(block.state_dict())
    loop(z, mask, num_steps=3).square().sum().backward()
    StackedBlocks(copies)(z, mask).square().sum().backward()
    for name, parameter in block.named_parameters():
        laws.assert_close(parameter.grad, sum(copy.get_parameter(name).grad for copy in copies))


def test_loop_leaves_its_start_alone(block, z, mask):
    before = z.clone()
    LoopedBlock(block)(z, mask, num_steps=2)
    assert torch.equal(z, before)


def test_loop_keeps_the_laws(block, z, mask, generator):
    loop = LoopedBlock(block)
    laws.assert_layer_laws(lambda z, mask: loop(z, mask, 3), z, mask, generator)
    laws.assert_padding_is_zero(lambda z, mask: loop(z, mask, 3), z, mask)


def test_loop_of_100_steps_is_finite(z, mask):
    loop = LoopedBlock(PairBlock(4, all_mixers()))
    laws.assert_finite(lambda z: loop(z, mask, 100), z.float())


def test_stack_applies_its_blocks_in_order(z, mask):
    blocks = [block_of(some_mixers()) for _ in range(3)]
    stack = StackedBlocks(blocks)
    expected = [blocks[0](z, mask)]
    for block in blocks[1:]:
        expected.append(block(expected[-1], mask))
    states = list(stack.states(z, mask))
    assert len(states) == 3 and all(map(torch.equal, states, expected))
    assert torch.equal(stack(z, mask), expected[-1])


def test_stack_of_fewer_steps_is_its_first_blocks(z, mask):
    blocks = [block_of(some_mixers()) for _ in range(3)]
    assert torch.equal(StackedBlocks(blocks)(z, mask, num_steps=2), StackedBlocks(blocks[:2])(z, mask))


def test_stack_has_weights_of_its_own_in_each_block():
    stack = StackedBlocks([block_of(some_mixers()) for _ in range(3)])
    one = sum(parameter.numel() for parameter in stack.blocks[0].parameters())
    assert sum(parameter.numel() for parameter in stack.parameters()) == 3 * one


# Compilation


def test_block_compiles_once_for_all_sizes(types_unchecked, generator):
    """Batches of several graphs of several vertices share one graph of operations, without a break."""
    block = PairBlock(4, [OrJoin(4, 2), PowerMean(4, 2), TriangleAttention(4, 4, num_heads=2)])
    counter = CompileCounter()
    compiled = torch.compile(block, dynamic=True, fullgraph=True, backend=counter)
    for sizes in ([3, 2], [5, 4, 2], [7, 7], [9, 2, 2, 2], [2, 1], [16] * 8):
        mask = laws.vertex_mask(sizes)
        z = laws.random_pairs(mask, 4, generator, dtype=torch.float32)
        laws.assert_close(compiled(z, mask), block(z, mask), dtype=torch.float32)
    assert counter.frame_count == 1


# what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PairBlock(4, []), "at least one mixer"),
        (lambda: PairBlock(4, [OrJoin(4, 2), Summed(6, 2)]), "width, 4; got Summed of width 6"),
        (lambda: StackedBlocks([]), r"got the widths \[\]"),
        (lambda: StackedBlocks([PairBlock(w, [Summed(w, 2)]) for w in (4, 6)]), r"got the widths \[4, 6\]"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_block_of_every_mixer_runs_in_pure_half_precision(z, mask):
    block = PairBlock(4, all_mixers())
    exact = block(z.float(), mask)
    rounded = block.bfloat16()(z.bfloat16(), mask)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, atol=0.1, rtol=0.1)


NONSENSE = {
    "propagators": lambda: Propagator(4, 0),
    "channels": lambda: Summed(4, -1),
    "width": lambda: OrJoin(0, 2),
    "flip": lambda: OrJoin(4, 2, flip=[]),
    "beta_range": lambda: PowerMean(4, 2, beta_range=(-1.0, 2.0)),
    "chunk": lambda: TriangleAttention(4, 4, chunk=0),
    "hidden": lambda: PairBlock(4, some_mixers(), hidden=-1),
    "blocks": lambda: StackedBlocks([]),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_layers_refuse_what_they_cannot_be(name):
    with pytest.raises(InputError, match=name):
        NONSENSE[name]()


def test_loops_refuse_negative_numbers_of_steps(z, mask):
    for loop in (LoopedBlock(block_of(some_mixers())), StackedBlocks([block_of(some_mixers())])):
        with pytest.raises(InputError, match="num_steps must be at least 0, got -1"):
            loop(z, mask, -1)
