"""VertexTransformer: attention over vertices with a bias of pairs, its layers, and the model around it."""

import copy

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch_geometric.data import Data

from graphalgo import LoopedBlock, OrJoin, PairBatch, PairBlock, PairModel, PairModule, VertexTransformer
from graphalgo.errors import InputError
from graphalgo.losses import output_loss
from graphalgo.transformer import VertexLayer, vertex_attention
from search_bench import balanced, to_pair_batch
from search_bench.features import NEXT
from tests import laws, reference

VERTEX = (0,)
"""The one axis of a result that runs over vertices."""


@pytest.fixture
def mask():
    """Sizes mixed, odd and 1; the real vertices of the last graph are not the first ones."""
    mask = laws.vertex_mask([5, 1, 3, 2])
    mask[3] = torch.tensor([False, True, False, True, True])
    return mask


@pytest.fixture
def z(mask, generator):
    return laws.random_pairs(mask, 4, generator)


def transformer(num_layers=2):
    return VertexTransformer(width=4, num_layers=num_layers, num_heads=2, dim=6).double()


# vertex_attention


def parts_of(z):
    """Queries, keys and values on the diagonal, and a bias, of a pair state of 20 channels: 2 heads of 3."""
    own, bias = z.diagonal(dim1=1, dim2=2).transpose(1, 2)[..., :18], z[..., 18:]
    return *(part.unflatten(-1, (2, 3)) for part in own.chunk(3, dim=-1)), bias


def attention(z, mask):
    return vertex_attention(*parts_of(z), mask)


@pytest.fixture
def parts(mask, generator):
    return 2 * laws.random_pairs(mask, 20, generator)


def test_attention_matches_reference(parts, mask):
    expected = reference.vertex_attention(*(part.numpy() for part in parts_of(parts)), mask.numpy())
    laws.assert_close(attention(parts, mask), expected)
    with torch.no_grad():
        laws.assert_close(attention(parts.float(), mask), expected, rtol=1e-5, atol=1e-6)


def test_attention_keeps_the_laws(parts, mask, generator):
    laws.assert_layer_laws(attention, parts, mask, generator, VERTEX)
    laws.assert_padding_is_zero(attention, parts, mask, VERTEX)


def test_attention_ignores_padding_without_gradients(parts, mask):
    """Inference may take another path through torch than training does."""
    with torch.inference_mode():
        laws.assert_ignores_padding(attention, parts, mask, VERTEX)
        laws.assert_padding_is_zero(attention, parts, mask, VERTEX)


def test_attention_gradcheck(generator):
    mask = laws.vertex_mask([3, 2])
    laws.assert_gradcheck(lambda z: attention(z, mask), laws.random_pairs(mask, 20, generator))


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e4])
def test_attention_is_finite_at_extremes(size, parts, mask):
    laws.assert_finite(lambda z: attention(z, mask), size * parts.float().sign())
    laws.assert_finite(lambda z: attention(z, mask), -size * torch.ones_like(parts).float())


def test_attention_reads_the_vertex_that_the_bias_marks():
    """Row i of the bias is of the vertex that attends: 0 reads 1, 1 reads 2, 2 reads 0."""
    mask = laws.vertex_mask([3])
    zero = torch.zeros(1, 3, 1, 2)
    value = torch.tensor([[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]])[None, :, None]
    bias = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])[None, ..., None]
    expected = [[[20.0, 2.0], [30.0, 3.0], [10.0, 1.0]]]
    laws.assert_close(vertex_attention(zero, zero, value, 200 * bias, mask), expected)


# VertexTransformer


def twin_of_transformer(module, z, mask):
    """x[u] = start t[u,u]; each layer x <- x + out attention, x <- x + mlp; z[u,v] + A x[u] + B x[v]."""
    weights = {name: weight.detach().numpy() for name, weight in module.named_parameters()}
    width, (_, n) = module.width, mask.shape
    t = reference.rms_norm(z, eps=1e-6)
    x = reference.linear(np.stack([t[:, u, u] for u in range(n)], 1), weights["start.weight"])
    x = x + weights["start.bias"]
    for at, layer in enumerate(module.layers):
        of = {name.removeprefix(f"layers.{at}."): weight for name, weight in weights.items()}
        normed, heads = reference.rms_norm(x, eps=1e-6), layer.num_heads
        q, k, v = (
            reference.linear(normed, part).reshape(*mask.shape, heads, -1)
            for part in np.split(of["project.weight"], 3)
        )
        attended = reference.vertex_attention(q, k, v, reference.linear(t, of["bias.weight"]), mask)
        x = x + reference.linear(attended, of["out.weight"])
        hidden = reference.linear(reference.rms_norm(x, eps=1e-6), of["mlp.0.weight"], of["mlp.0.bias"])
        hidden = reference.entrywise(lambda value: value * reference.sigmoid(value), hidden)
        x = x + reference.linear(hidden, of["mlp.2.weight"], of["mlp.2.bias"])
    row = reference.linear(x, weights["read.weight"][:width])
    column = reference.linear(x, weights["read.weight"][width:])
    return reference.only_real_pairs(z + row[:, :, None] + column[:, None, :], mask)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_transformer_matches_reference(num_layers, z, mask):
    module = transformer(num_layers)
    laws.assert_close(module(z, mask), twin_of_transformer(module, z.numpy(), mask.numpy()))


def test_transformer_keeps_the_laws(z, mask, generator):
    module = transformer()
    laws.assert_layer_laws(module, z, mask, generator)
    laws.assert_padding_is_zero(module, z, mask)


def test_vertex_states_keep_the_laws(z, mask, generator):
    """At the start and after each layer, padded vertices are exactly 0."""
    module = transformer()
    for step in range(3):

        def states(z, mask, step=step):
            return list(module.vertex_states(z, mask))[step]

        laws.assert_layer_laws(states, z, mask, generator, VERTEX)
        laws.assert_padding_is_zero(states, z, mask, VERTEX)


def test_transformer_gradcheck(generator):
    mask = laws.vertex_mask([2, 1])
    module = transformer()
    laws.assert_gradcheck(lambda z: module(z, mask), laws.random_pairs(mask, 4, generator))


def test_transformer_of_one_vertex_matches_reference(generator):
    mask = laws.vertex_mask([1])
    z = laws.random_pairs(mask, 4, generator)
    module = transformer()
    laws.assert_close(module(z, mask), twin_of_transformer(module, z.numpy(), mask.numpy()))


def test_transformer_of_rows_is_those_rows_of_the_whole(z, mask):
    """Padded ones and repeated ones too."""
    module = transformer()
    rows = torch.tensor([[4, 0, 4], [0, 1, 0], [2, 3, 1], [1, 0, 3]])
    whole = module(z, mask)
    expected = torch.stack([whole[g, chosen] for g, chosen in enumerate(rows)])
    assert torch.equal(module(z, mask, rows=rows), expected)
    *earlier, last = module.states(z, mask, rows=rows)
    assert torch.equal(last, expected)
    assert [state.shape for state in earlier] == [z.shape]


def test_states_are_the_states_after_each_layer(z, mask):
    module = transformer(3)
    states = list(module.states(z, mask))
    assert len(states) == module.depth == 3
    for step, state in enumerate(states, start=1):
        assert torch.equal(state, module(z, mask, num_steps=step))
    assert torch.equal(states[-1], module(z, mask))


def test_transformer_of_fewer_steps_is_its_first_layers(z, mask):
    module = transformer(3)
    shorter = copy.deepcopy(module)
    del shorter.layers[2]
    assert torch.equal(module(z, mask, num_steps=2), shorter(z, mask))
    assert len(list(module.states(z, mask, num_steps=2))) == 2
    assert list(module.states(z, mask, num_steps=0)) == []


def test_transformer_leaves_its_start_alone(z, mask):
    before = z.clone()
    transformer()(z, mask)
    assert torch.equal(z, before)


def test_transformer_trains_every_parameter(z, mask):
    module = transformer()
    module(z, mask).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad.abs().sum() > 0, f"{name} has no gradient"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_transformer_under_autocast_is_near_and_keeps_float32(dtype, z, mask):
    module, z = transformer().float(), z.float()
    exact = module(z, mask)
    with torch.autocast("cpu", dtype=dtype):
        out = module(z, mask)
    assert out.dtype == torch.float32
    laws.assert_close(out, exact, torch.float32, atol=0.1, rtol=0.1)
    out.square().sum().backward()
    for name, parameter in module.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


def test_transformer_runs_in_pure_half_precision(z, mask):
    module = transformer().float()
    exact = module(z.float(), mask)
    rounded = module.bfloat16()(z.bfloat16(), mask)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, atol=0.1, rtol=0.1)


def test_transformer_has_that_many_parameters():
    """project 6*18, bias 4*2, out 6*6, MLP 6*h+h + h*6+6 a layer; start 4*6+6, read 6*8."""
    for hidden, width in [(7, 7), (None, 12)]:
        module = VertexTransformer(4, 3, 2, 6, hidden)
        layer = 6 * 18 + 4 * 2 + 6 * 6 + (6 * width + width + width * 6 + 6)
        assert sum(p.numel() for p in module.parameters()) == 3 * layer + (4 * 6 + 6) + 6 * 8


def test_layer_compiles_once_for_all_sizes(types_unchecked, generator):
    layer = VertexLayer(4, num_heads=2, dim=6)
    counter = CompileCounter()
    compiled = torch.compile(layer, dynamic=True, fullgraph=True, backend=counter)
    for sizes in ([3, 2], [5, 4, 2], [7, 7], [9, 2, 2, 2], [2, 1], [16] * 8):
        mask = laws.vertex_mask(sizes)
        t = laws.random_pairs(mask, 4, generator, dtype=torch.float32)
        state = torch.randn(*mask.shape, 6, generator=generator) * mask[..., None]
        laws.assert_close(compiled(state, t, mask), layer(state, t, mask), dtype=torch.float32)
    assert counter.frame_count == 1


def test_compile_blocks_compiles_each_layer(monkeypatch):
    compiled = []
    monkeypatch.setattr(
        VertexLayer, "compile", lambda self, **settings: compiled.append((self, settings)), raising=True
    )
    module = transformer(3)
    module.compile_blocks()
    assert compiled == [(layer, {"dynamic": True}) for layer in module.layers]


# The model around it


def model_of(loop, num_features=9):
    return PairModel(loop, num_features, [NEXT])


@pytest.fixture
def batch():
    return to_pair_batch()(balanced(9, 6, seed=0).data_list())


def test_model_runs_forward_and_backward(batch):
    model = model_of(transformer().float(), batch.x.size(-1))
    steps = list(model.each_step(batch, num_steps=None))
    logits = model(batch, num_steps=None)["next"]
    assert len(steps) == 2 and torch.equal(steps[-1]["next"], logits)
    assert logits.shape == batch.mask.shape
    assert torch.equal(logits.isinf(), ~batch.mask)
    output_loss(NEXT, logits, batch.targets["next"], batch.accepted["next"]).backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        # A constant added to all logits changes no choice.
        assert parameter.grad.abs().sum() > 0 or name == "readouts.next.score.2.bias", name


def test_model_is_permutation_equivariant(batch, generator):
    model = model_of(transformer()).double()
    marks = to_pair_batch().feature_names.index("current of u")

    def logits(x, mask):
        row = x[..., marks].diagonal(dim1=1, dim2=2).argmax(dim=1)
        return model(PairBatch(x, mask, row=row), num_steps=None)["next"]

    laws.assert_permutation_equivariant(logits, batch.x.double(), batch.mask, generator, VERTEX)


def test_module_takes_its_depth_for_the_number_of_iterations(batch):
    module = PairModule(transformer(3).float(), to_pair_batch(), "search", train_loops=(4, 8), test_loops=8)
    assert module.loops_for(batch) == module.draw_loops(0) == 3
    assert len(module.answers(batch)) == 3


def two_roads(length):
    """From vertex 0, where the question is asked, two roads of so many edges: over 1 to the goal, over 2."""
    tails = [0, 0, *range(1, 2 * length - 1)]
    mark = torch.eye(2 * length + 1)
    edge_index = torch.tensor([tails, range(1, 2 * length + 1)])
    return Data(
        num_nodes=len(mark), edge_index=edge_index, start=mark[0], current=mark[0], goal=mark[2 * length - 1]
    )


def difference_of_children(loop, length, num_steps=None):
    """How much the logits of the two children differ."""
    model = model_of(loop).double()
    batch = to_pair_batch()(two_roads(length))
    batch = PairBatch(batch.x.double(), batch.mask, row=batch.row)
    logits = model(batch, num_steps)["next"][0]
    return (logits[1] - logits[2]).abs().item()


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_transformer_sees_as_far_as_it_has_layers(num_layers):
    """A child that the goal is L edges behind differs from one without; at L + 1 edges they are alike."""
    assert difference_of_children(transformer(num_layers), num_layers + 1) > 1e-9
    assert difference_of_children(transformer(num_layers), num_layers + 2) < 1e-13


def test_pair_state_sees_farther_in_as_many_steps():
    """Three edges in two steps, where two layers of a Transformer see two."""
    loop = LoopedBlock(PairBlock(4, [OrJoin(4, 2)]))
    assert difference_of_children(loop, 4, num_steps=2) > 1e-12


# what is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"dim": 7}, r"dim \(7\) must be a multiple of num_heads \(2\)"),
        ({"dim": 0}, r"dim \(0\) must be a multiple"),
        ({"num_heads": 0}, r"must be a multiple of num_heads \(0\)"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        VertexTransformer(**{"width": 4, "num_layers": 2, "num_heads": 2, "dim": 6, **settings})
