"""Every read-out: its slow twin, the laws, gradients, and answers read off a drawn graph."""

import math

import pytest
import torch

from graphalgo.batch import Output
from graphalgo.readouts import EdgeMask, EdgePointer, NodeMask, NodeMaskOne, NodePointer, readout_for
from tests import laws, reference

KINDS = {
    "node pointer": (NodePointer, (0, 1)),
    "edge pointer": (EdgePointer, (0, 1, 2)),
    "node mask": (NodeMask, (0,)),
    "node mask_one": (NodeMaskOne, (0,)),
    "edge mask": (EdgeMask, (0, 1)),
}
CHOICES = (NodePointer, EdgePointer, NodeMaskOne)


@pytest.fixture(params=KINDS)
def readout_and_axes(request):
    kind, axes = KINDS[request.param]
    return kind(3).double(), axes


@pytest.fixture
def mask():
    mask = laws.vertex_mask([5, 1, 3, 4])
    mask[3] = torch.tensor([False, True, True, False, True])
    return mask


@pytest.fixture
def t(mask, generator):
    return laws.random_pairs(mask, 3, generator)


def of_layer(layer):
    return layer.weight.detach().numpy(), layer.bias.detach().numpy()


def twin(readout, t, mask):
    if isinstance(readout, EdgePointer):
        return reference.edge_pointer_logits(t, of_layer(readout.first), of_layer(readout.second))
    weights = (of_layer(readout.score[0]), of_layer(readout.score[2]))
    if isinstance(readout, NodeMask):
        return reference.node_logits(t, mask, weights)
    return reference.pair_logits(t, weights)


def at_real(logits, mask, axes):
    """Logits of real entries and real choices, one graph after another, flattened."""
    parts = []
    for g, real in enumerate(mask):
        part = logits[g]
        for axis in axes:
            part = part.index_select(axis, real.nonzero().flatten())
        parts.append(part.flatten())
    return torch.cat(parts)


def test_readout_matches_reference(readout_and_axes, t, mask):
    readout, axes = readout_and_axes
    expected = torch.as_tensor(twin(readout, t.numpy(), mask.numpy()))
    laws.assert_close(at_real(readout(t, mask), mask, axes), at_real(expected, mask, axes))


def test_readout_keeps_the_laws(readout_and_axes, t, mask, generator):
    readout, axes = readout_and_axes
    laws.assert_ignores_padding(readout, t, mask, axes)
    laws.assert_no_gradient_from_padding(readout, t, mask, axes)
    laws.assert_permutation_equivariant(readout, t, mask, generator, axes)


def test_readout_never_chooses_padding(readout_and_axes, t, mask):
    """Every row has a finite choice, rows of padded vertices too, so that no softmax is of nothing."""
    readout, axes = readout_and_axes
    logits = readout(laws.filled(t, mask, 1e3), mask)
    if not isinstance(readout, CHOICES):
        assert torch.isfinite(logits).all()
        return
    choices = mask.reshape(len(mask), *[1] * (len(axes) - 1), -1).expand_as(logits)
    assert (logits[~choices] == -math.inf).all() and torch.isfinite(logits[choices]).all()
    assert not logits.softmax(dim=-1).isnan().any()


def test_readout_gradcheck(readout_and_axes, generator):
    mask = laws.vertex_mask([2, 2])
    readout, axes = readout_and_axes
    laws.assert_gradcheck(
        lambda t: at_real(readout(t, mask), mask, axes), laws.random_pairs(mask, 3, generator)
    )


def test_readout_trains_every_parameter(readout_and_axes, t, mask):
    readout, axes = readout_and_axes
    at_real(readout(t, mask), mask, axes).square().sum().backward()
    for name, parameter in readout.named_parameters():
        assert parameter.grad.abs().sum() > 0, f"{name} has no gradient"


@pytest.mark.parametrize("size", [0.0, 1e3])
def test_readout_is_finite_at_extremes(readout_and_axes, size, t, mask):
    readout, axes = readout_and_axes
    laws.assert_finite(lambda t: at_real(readout.float()(t, mask), mask, axes), size * t.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_readout_in_half_precision_chooses_among_real_vertices(readout_and_axes, dtype, t, mask):
    readout, axes = readout_and_axes
    with torch.no_grad():
        logits = readout.to(dtype)(t.to(dtype), mask)
    assert logits.dtype == dtype and not logits.isnan().any()
    assert torch.isfinite(at_real(logits, mask, axes)).all()


def test_readout_for_knows_every_location_and_type():
    for name, (kind, _) in KINDS.items():
        location, type_ = name.split()
        assert type(readout_for(Output("answer", location, type_), 3)) is kind


# Answers read off a drawn graph, with weights set by hand


def reading(readout, channel):
    """The MLP passes one of its inputs on: SiLU(20 x) / 20 is x for x in {0, 1}."""
    for parameter in readout.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        readout.score[0].weight[0, channel] = 20
        readout.score[2].weight[0, 0] = 1 / 20
    return readout


def drawn(num_nodes, *relations):
    t = torch.zeros(1, num_nodes, num_nodes, len(relations))
    for c, edges in enumerate(relations):
        for i, j in edges:
            t[0, i, j, c] = 1
    return t, torch.ones(1, num_nodes, dtype=torch.bool)


def test_node_pointer_points_from_row_to_column():
    """Drawn parents: 0 is the root, 1 and 2 hang below 0, 3 below 1."""
    parents = [(0, 0), (1, 0), (2, 0), (3, 1)]
    t, mask = drawn(4, parents)
    logits = reading(NodePointer(1), channel=0)(t, mask)
    assert logits.argmax(dim=-1).tolist() == [[0, 0, 0, 1]]
    logits = reading(NodePointer(1), channel=1)(*drawn(4, [(j, i) for i, j in parents]))
    assert logits.argmax(dim=-1).tolist() == [[0, 0, 0, 1]]


def test_edge_mask_reads_the_pair_then_the_reversed_pair():
    t, mask = drawn(3, [(0, 1)])
    for channel, answer in [(0, (0, 1)), (1, (1, 0))]:
        logits = reading(EdgeMask(1), channel)(t, mask)
        assert (logits > 0.5).nonzero().tolist() == [[0, *answer]]


@pytest.mark.parametrize(("channel", "answer"), [(0, [2]), (1, [0]), (2, [1])])
def test_node_mask_reads_itself_its_row_and_its_column(channel, answer):
    """A road 0 -> 1 and a loop at 2, which is in both maxima of 2 as well."""
    t, mask = drawn(3, [(0, 1), (2, 2)])
    logits = reading(NodeMask(1), channel)(t, mask)
    assert (logits > 0.5).nonzero()[:, 1].tolist() == (answer if channel == 0 else sorted([*answer, 2]))


def test_node_mask_maximum_runs_over_real_vertices_only():
    """All entries are -1: the maximum is -1, not the 0 of padding."""
    readout = NodeMask(1)
    full = readout(torch.full((1, 2, 2, 1), -1.0), torch.ones(1, 2, dtype=torch.bool))
    t = torch.zeros(1, 3, 3, 1)
    t[:, :2, :2] = -1
    padded = readout(t, laws.vertex_mask([2], num_nodes=3))
    laws.assert_close(padded[:, :2], full, dtype=torch.float32)


def test_edge_pointer_joins_the_leg_from_the_row_to_the_leg_into_the_column():
    """Red 0 -> 1 and blue 1 -> 2: the vertex before 2 on the way from 0 is 1."""
    readout = EdgePointer(2)
    for parameter in readout.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        readout.first.weight[0, 0] = 1  # A reads red
        readout.second.weight[0, 1] = 1  # B reads blue
    logits = readout(*drawn(3, [(0, 1)], [(1, 2)]))
    assert logits.nonzero().tolist() == [[0, 0, 2, 1]]
    assert logits[0, 0, 2, 1].item() == pytest.approx(1 / math.sqrt(2))


def test_edge_pointer_biases_are_read_at_each_leg():
    readout = EdgePointer(1)
    for parameter in readout.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        readout.first.weight[1, 0] = 1  # alpha
    t, mask = drawn(3, [(0, 1)])
    assert readout(t, mask).nonzero().tolist() == [[0, 0, j, 1] for j in range(3)]
    with torch.no_grad():
        readout.first.weight[1, 0], readout.second.weight[1, 0] = 0, 1  # beta
    assert readout(t, mask).nonzero().tolist() == [[0, i, 1, 0] for i in range(3)]
