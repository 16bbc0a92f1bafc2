"""Every mixer: its slow twin, the laws, gradients, extremes, and answers worked out on drawn graphs.

A new mixer adds a line to LAYERS and one to MODULES, and a drawn answer.
"""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from graphalgo.errors import InputError
from graphalgo.mixers import (
    OrJoin,
    PowerMean,
    Propagator,
    Summed,
    TriangleAttention,
    or_join,
    power_mean,
    propagator,
    summed,
    triangle_attention,
)
from graphalgo.mixers.or_join import EVERY_DIRECTION
from graphalgo.mixers.propagator import SMALLEST, cap_rows, walk_sum
from tests import laws, reference

BETA = torch.tensor([0.5, 1.0, 7.0], dtype=torch.float64)
CROSSED = ((False, True), (True, False), (True, True))


def heads(leg):
    return leg.unflatten(-1, (2, -1))


# name: layer(a, b, mask, rows) of two raw legs with 6 channels each, and its twin of the same arrays
LAYERS = {
    "summed": (summed, reference.summed),
    "or_join": (
        lambda a, b, mask, rows=None: or_join(a.sigmoid(), b.sigmoid(), mask, rows=rows),
        lambda a, b, mask: reference.or_join(gates(a), gates(b), mask),
    ),
    "or_join crossed": (
        lambda a, b, mask, rows=None: or_join(a.sigmoid(), b.sigmoid(), mask, CROSSED, rows),
        lambda a, b, mask: reference.or_join(gates(a), gates(b), mask, CROSSED),
    ),
    "power_mean": (
        lambda a, b, mask, rows=None: power_mean(
            F.logsigmoid(a), F.logsigmoid(b), BETA.repeat(2).to(a.dtype), mask, rows
        ),
        lambda a, b, mask: reference.power_mean(log_gates(a), log_gates(b), BETA.repeat(2).numpy(), mask),
    ),
    "propagator": (
        lambda a, b, mask, rows=None: propagator(a.sigmoid(), b.sigmoid(), mask, rows),
        lambda a, b, mask: reference.propagator(gates(a), gates(b), mask),
    ),
    "triangle_attention": (
        lambda a, b, mask, rows=None: triangle_attention(
            heads(a), heads(b), heads(b.cos()), heads(a.sin()), mask, rows=rows
        ),
        lambda a, b, mask: reference.triangle_attention(
            *(leg.reshape(*leg.shape[:3], 2, -1) for leg in (a, b, np.cos(b), np.sin(a))), mask
        ),
    ),
}


def gates(leg):
    return reference.entrywise(reference.sigmoid, leg)


def log_gates(leg):
    return reference.entrywise(reference.log_sigmoid, leg)


def of_pairs(layer):
    """The layer as a function of one pair state that holds both raw legs."""
    return lambda z, mask: layer(*z.chunk(2, dim=-1), mask)


@pytest.fixture(params=LAYERS)
def layer_and_twin(request):
    return LAYERS[request.param]


@pytest.fixture
def mask():
    """Sizes mixed, odd and 1; the real vertices of the last graph are not the first ones."""
    mask = laws.vertex_mask([5, 1, 3, 2, 4])
    mask[4] = torch.tensor([True, False, True, True, False])
    return mask


@pytest.fixture
def z(mask, generator):
    return 2 * laws.random_pairs(mask, 12, generator)


def test_layer_matches_reference(layer_and_twin, z, mask):
    layer, twin = layer_and_twin
    a, b = z.chunk(2, dim=-1)
    laws.assert_close(layer(a, b, mask), twin(a.numpy(), b.numpy(), mask.numpy()))


def test_layer_matches_reference_in_float32(layer_and_twin, z, mask):
    layer, twin = layer_and_twin
    a, b = z.float().chunk(2, dim=-1)
    out = layer(a, b, mask)
    assert out.dtype == torch.float32
    expected = twin(a.double().numpy(), b.double().numpy(), mask.numpy())
    laws.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def test_layer_is_permutation_equivariant(layer_and_twin, z, mask, generator):
    laws.assert_permutation_equivariant(of_pairs(layer_and_twin[0]), z, mask, generator)


def test_layer_ignores_padding(layer_and_twin, z, mask):
    layer = of_pairs(layer_and_twin[0])
    laws.assert_ignores_padding(layer, z, mask)
    laws.assert_padding_is_zero(layer, z, mask)
    laws.assert_no_gradient_from_padding(layer, z, mask)


def test_layer_gradcheck(layer_and_twin, generator):
    mask = laws.vertex_mask([3, 2])
    z = laws.random_pairs(mask, 12, generator)
    laws.assert_gradcheck(lambda z: of_pairs(layer_and_twin[0])(z, mask), z)


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e4])
def test_layer_is_finite_at_extremes(layer_and_twin, size, z, mask):
    """Gates that are 0 and 1 in float32, attention that is one-hot, and pairs that are all alike."""
    layer = of_pairs(layer_and_twin[0])
    laws.assert_finite(lambda z: layer(z, mask), size * z.float().sign())
    laws.assert_finite(lambda z: layer(z, mask), size * torch.ones_like(z).float())
    laws.assert_finite(lambda z: layer(z, mask), -size * torch.ones_like(z).float())


def test_layer_of_one_vertex_is_the_walk_that_stays(layer_and_twin, generator):
    """n = 1: the sum has one term."""
    layer, twin = layer_and_twin
    mask = laws.vertex_mask([1])
    a, b = laws.random_pairs(mask, 12, generator).chunk(2, dim=-1)
    laws.assert_close(layer(a, b, mask), twin(a.numpy(), b.numpy(), mask.numpy()))


ROWS = torch.tensor([[4, 0, 0], [0, 0, 0], [1, 2, 0], [1, 1, 0], [3, 2, 0]])
"""Real rows of each graph of ``mask``, one of them twice."""


def test_chosen_rows_are_those_of_the_whole(layer_and_twin, z, mask):
    """Values and gradients."""
    layer, _ = layer_and_twin
    whole, part = z.clone().requires_grad_(), z.clone().requires_grad_()
    taken = layer(*whole.chunk(2, dim=-1), mask)[torch.arange(len(mask))[:, None], ROWS]
    chosen = layer(*part.chunk(2, dim=-1), mask, ROWS)
    assert chosen.shape == taken.shape
    laws.assert_close(chosen, taken)
    taken.square().sum().backward()
    chosen.square().sum().backward()
    laws.assert_close(part.grad, whole.grad)


# Modules: weights from the pair state to the legs


MODULES = {
    "Summed": lambda **kwargs: Summed(4, 6),
    "OrJoin": lambda **kwargs: OrJoin(4, 6, **kwargs),
    "OrJoin every direction": lambda **kwargs: OrJoin(4, 6, flip=EVERY_DIRECTION, **kwargs),
    "PowerMean": lambda **kwargs: PowerMean(4, 6, **kwargs),
    "Propagator": lambda **kwargs: Propagator(4, 3),
    "TriangleAttention": lambda **kwargs: TriangleAttention(4, 6, num_heads=2, chunk=2),
}


def randomised(module, generator):
    """Every parameter drawn, so that none of them hides behind a start at 0; float64."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return module.double()


@pytest.fixture(params=MODULES)
def module(request, generator):
    return randomised(MODULES[request.param](), generator)


@pytest.fixture
def t(mask, generator):
    return laws.random_pairs(mask, 4, generator)


def twin_of_module(module, t, mask):
    weights = {name: weight.detach().numpy() for name, weight in module.named_parameters()}
    t, mask = t.numpy(), mask.numpy()
    if isinstance(module, TriangleAttention):
        legs = reference.linear(t, weights["project.weight"]).reshape(*t.shape[:3], 4, module.num_heads, -1)
        return reference.triangle_attention(*np.moveaxis(legs, 3, 0), mask)
    if isinstance(module, Propagator):
        linear = 4 * reference.linear(t, weights["project.weight"]) + weights["bias"]
        return reference.propagator(*np.split(gates(linear), 2, axis=-1), mask)
    bias = weights["legs.project.bias"]
    shift = weights.get("legs.shift", np.zeros(len(bias)))
    legs = reference.gate_logits(t, weights["legs.project.weight"], bias, shift, mask)
    a, b = np.split(legs, 2, axis=-1)
    if isinstance(module, Summed):
        return reference.summed(a, b, mask)
    if isinstance(module, OrJoin):
        return reference.or_join(gates(a), gates(b), mask, module.flip)
    beta = [math.exp(log_beta) for log_beta in weights["log_beta"]]
    return reference.power_mean(log_gates(a), log_gates(b), beta, mask)


def test_module_matches_reference(module, t, mask):
    out = module(t, mask)
    assert out.size(-1) == module.channels == 6
    laws.assert_close(out, twin_of_module(module, t, mask))


def test_module_takes_rows(module, t, mask):
    expected = module(t, mask)[torch.arange(len(mask))[:, None], ROWS]
    laws.assert_close(module(t, mask, ROWS), expected)


def test_module_keeps_the_laws(module, t, mask, generator):
    laws.assert_layer_laws(module, t, mask, generator)
    laws.assert_padding_is_zero(module, t, mask)


def test_module_trains_every_parameter(module, t, mask):
    module(t, mask).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad.abs().sum() > 0, f"{name} has no gradient"


@pytest.mark.parametrize("kind", [OrJoin, PowerMean])
def test_log_n_shift_can_be_switched_off(kind, t, mask, generator):
    shifted = randomised(kind(4, 6), generator)
    plain = kind(4, 6, log_n_shift=False).double()
    plain.load_state_dict({name: w for name, w in shifted.state_dict().items() if name != "legs.shift"})
    assert not torch.equal(plain(t, mask), shifted(t, mask))
    with torch.no_grad():
        shifted.legs.shift.zero_()
    assert torch.equal(plain(t, mask), shifted(t, mask))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODULES)
def test_module_under_autocast_stays_near_float32(name, dtype, generator):
    """A sum over 300 middle vertices neither overflows nor loses more than half precision does."""
    mask = laws.vertex_mask([300] if name != "TriangleAttention" else [30])
    t = laws.random_pairs(mask, 4, generator, dtype=torch.float32)
    module = MODULES[name]()
    with torch.autocast("cpu", dtype=dtype), torch.no_grad():
        half = module(t, mask)
    with torch.no_grad():
        whole = module(t, mask)
    assert torch.isfinite(half).all()
    laws.assert_close(half, whole, dtype=torch.float32, rtol=0.05, atol=0.05)


# Answers worked out on drawn graphs


def drawn(num_nodes, edges):
    """(1, n, n, 1) with 1 at the edges drawn."""
    z = torch.zeros(1, num_nodes, num_nodes, 1, dtype=torch.float64)
    for i, j in edges:
        z[0, i, j] = 1
    return z


def all_real(z):
    return torch.ones(z.shape[:2], dtype=torch.bool)


def test_or_join_reaches_in_two_steps_along_a_directed_path():
    """0 -> 1 -> 2 -> 3: 0 reaches 2, 1 reaches 3, no more."""
    road = drawn(4, [(0, 1), (1, 2), (2, 3)])
    out = or_join(road, road, all_real(road))
    laws.assert_close(out, (1 - math.exp(-1)) * drawn(4, [(0, 2), (1, 3)]))


def test_or_join_counts_ways_in_the_exponent():
    """Two ways from 0 to 3 in the diamond: 1 - exp(-2)."""
    road = drawn(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    laws.assert_close(or_join(road, road, all_real(road)), (1 - math.exp(-2)) * drawn(4, [(0, 3)]))


# A red road at 0 and 1, a blue one at 1 and 2, drawn each in both directions; the flip that joins 0 to 2.
DRAWN = [
    ((False, False), (0, 1), (1, 2)),
    ((True, False), (1, 0), (1, 2)),
    ((False, True), (0, 1), (2, 1)),
    ((True, True), (1, 0), (2, 1)),
]


@pytest.mark.parametrize(("joining", "red", "blue"), DRAWN)
@pytest.mark.parametrize("flip", [flip for flip, _, _ in DRAWN])
def test_or_join_reads_each_leg_in_its_direction(flip, joining, red, blue):
    a, b = drawn(3, [red]), drawn(3, [blue])
    answer = (1 - math.exp(-1)) * drawn(3, [(0, 2)] if flip == joining else [])
    laws.assert_close(or_join(a, b, all_real(a), [flip]), answer)


@pytest.mark.parametrize(("joining", "red", "blue"), DRAWN)
def test_or_join_of_every_direction_joins_all_drawings(joining, red, blue):
    a, b = drawn(3, [red]).repeat(1, 1, 1, 4), drawn(3, [blue]).repeat(1, 1, 1, 4)
    out = or_join(a, b, all_real(a), EVERY_DIRECTION)
    assert out.shape == (1, 3, 3, 1)
    laws.assert_close(out, (1 - math.exp(-1)) * drawn(3, [(0, 2)]))


def test_or_join_terms_carry_their_channels_one_after_another():
    """Two terms of two channels; only the second term's second channel (the fourth) is drawn, and flipped."""
    a, b = torch.zeros(1, 3, 3, 4).double(), torch.zeros(1, 3, 3, 4).double()
    a[0, 1, 0, 3] = b[0, 1, 2, 3] = 1
    out = or_join(a, b, all_real(a), [(False, False), (True, False)])
    expected = torch.zeros(1, 3, 3, 2).double()
    expected[0, 0, 2, 1] = 1 - math.exp(-1)
    laws.assert_close(out, expected)


def test_or_join_is_exact_for_small_sums():
    """1 - exp(-1e-12) is 0 in float32 unless expm1 computes it."""
    a = torch.full((1, 1, 1, 1), 1e-6)
    out = or_join(a, a, all_real(a))
    assert out.item() == pytest.approx(1e-12, rel=1e-5, abs=0)


def test_summed_counts_two_step_walks():
    """Two ways from 0 to 3 in the diamond, divided by sqrt(4); and none from 3 to 0."""
    road = drawn(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    laws.assert_close(summed(road, road, all_real(road)), drawn(4, [(0, 3)]))


def test_summed_reads_the_first_leg_from_the_row():
    red, blue = drawn(3, [(0, 1)]), drawn(3, [(1, 2)])
    laws.assert_close(summed(red, blue, all_real(red)), drawn(3, [(0, 2)]) / math.sqrt(3))
    laws.assert_close(summed(blue, red, all_real(red)), drawn(3, []))


def lengths(num_nodes, roads, other):
    """Log-gates: minus the length of each road, and minus ``other`` elsewhere."""
    log_gate = torch.full((1, num_nodes, num_nodes, 1), -other)
    for (i, j), length in roads.items():
        log_gate[0, i, j] = -length
    return log_gate


def test_power_mean_of_large_beta_is_the_shortest_way():
    """0 -> 3 by way of 1 is 1 + 5 long, by way of 2 it is 2 + 1: (exp(-3 beta) / 4)^(1 / beta)."""
    x = lengths(4, {(0, 1): 1.0, (0, 2): 2.0}, other=20.0)
    y = lengths(4, {(1, 3): 5.0, (2, 3): 1.0}, other=20.0)
    out = power_mean(x, y, torch.tensor([50.0]), all_real(x))
    assert -math.log(out[0, 0, 3]) == pytest.approx(3 + math.log(4) / 50, rel=1e-5)


def test_power_mean_of_beta_one_is_the_mean():
    x, y = (
        lengths(2, {(0, 0): 0.0, (0, 1): 1.0}, other=9.0),
        lengths(2, {(0, 1): 2.0, (1, 1): 0.5}, other=9.0),
    )
    out = power_mean(x, y, torch.tensor([1.0]), all_real(x))
    assert out[0, 0, 1].item() == pytest.approx((math.exp(-2) + math.exp(-1.5)) / 2, rel=1e-6)


@pytest.mark.parametrize("beta", [1e-2, 1.0, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("depth", [0.0, 1.0, 100.0, 1e4])
def test_power_mean_is_finite_for_every_beta(beta, depth, generator):
    mask = laws.vertex_mask([6, 3])
    log_x = -depth * laws.random_pairs(mask, 2, generator).float().abs()
    log_y = -depth * laws.random_pairs(mask, 2, generator).float().abs()
    laws.assert_finite(
        lambda log_x, log_y, beta: power_mean(log_x, log_y, beta, mask),
        log_x,
        log_y,
        torch.full((2,), beta),
    )


@pytest.mark.parametrize("beta", [0.25, 1.0, 8.0, 20.0])
def test_power_mean_in_float32_is_as_good_as_in_float64(beta, generator):
    """Values and gradients, as long as beta times the depth of the sums stays below 80."""
    mask = laws.vertex_mask([6, 4])
    legs = [-laws.random_pairs(mask, 1, generator).abs().clamp(max=2.0) for _ in range(2)]

    def value_and_gradient(dtype):
        inputs = [leg.to(dtype).requires_grad_() for leg in legs]
        out = power_mean(*inputs, torch.tensor([beta], dtype=dtype), mask)
        return [out, *torch.autograd.grad(out.sum(), inputs)]

    for single, double in zip(
        value_and_gradient(torch.float32), value_and_gradient(torch.float64), strict=True
    ):
        laws.assert_close(single, double, rtol=1e-4, atol=1e-5)


def test_power_mean_lies_between_the_mean_and_the_maximum(generator):
    mask = laws.vertex_mask([6])
    log_x, log_y = (F.logsigmoid(laws.random_pairs(mask, 1, generator)) for _ in range(2))
    product = (log_x.squeeze(-1)[:, :, :, None] + log_y.squeeze(-1)[:, None]).exp()
    out = [power_mean(log_x, log_y, torch.tensor([beta]).double(), mask) for beta in (1.0, 3.0, 12.0)]
    laws.assert_close(out[0].squeeze(-1), product.mean(dim=2))
    for lower, upper in zip(out, [*out[1:], product.amax(dim=2).unsqueeze(-1)], strict=True):
        assert (lower < upper).all()


def test_power_mean_too_small_for_the_floats_keeps_its_gradient():
    """What is returned in place of a mean that underflows still falls when a gate closes."""
    mask = laws.vertex_mask([2])
    log_x = torch.tensor([[0.0, -400.0], [0.0, -400.0]])[None, :, :, None].requires_grad_()
    log_y = torch.tensor([[-400.0, -400.0], [0.0, 0.0]])[None, :, :, None].requires_grad_()
    power_mean(log_x, log_y, torch.tensor([4.0]), mask).log().sum().backward()
    assert (log_x.grad[0, :, 0] > 0).all() and (log_y.grad[0, 1] > 0).all()


def test_propagator_weighs_walks_of_every_length():
    """0 <-> 1 with gates 1/2 and 1/4, a source at 0: walks 0, 010, 01010, ... and those that end at 1."""
    gate = 0.5 * drawn(2, [(0, 1)]) + 0.25 * drawn(2, [(1, 0)])
    out = propagator(gate, drawn(2, [(0, 0)]), all_real(gate))[0, 0]
    x = torch.tensor([1, 0.5]).double() / (1 - 0.125)
    laws.assert_close(out, torch.stack([x.log(), 1 - (-x).exp()], dim=-1))


def test_propagator_caps_rows_and_nothing_else():
    """Gates of 1 to each of three others share out 0.99; a gate of 1/2 alone stays."""
    gate = drawn(4, [(0, 1), (0, 2), (0, 3)]) + 0.5 * drawn(4, [(1, 2)])
    out = propagator(gate, drawn(4, [(3, 0)]), all_real(gate))[0, 3, :, 0].exp()
    laws.assert_close(out, torch.tensor([1, 0.33, 0.33 + 0.165, 0.33]))


def test_walk_sum_keeps_the_exact_weight_of_long_walks():
    """On a path of 600 roads a walk of l roads keeps 0.99^l, and with gates 0.3, 0.3^l."""
    n = 601
    step = torch.diag(torch.ones(n - 1, dtype=torch.float64), 1)
    start = torch.nn.functional.one_hot(torch.tensor([0]), n).double()
    length = torch.arange(n).double()
    for kept in (1.0, 0.3):
        log_x = walk_sum(start, cap_rows(kept * step)).log()[0]
        laws.assert_close(log_x[:580], length[:580] * math.log(min(kept, 0.99)), rtol=1e-12, atol=1e-12)
    seen = propagator(
        (0.3 * step)[None, :, :, None].float(),
        start.expand(n, n)[None, :, :, None],
        torch.ones(1, n, dtype=torch.bool),
        torch.tensor([[0]]),
    )[0, 0, :, 0]
    expected = (length * math.log(0.3)).clamp(min=math.log(SMALLEST))
    laws.assert_close(seen, expected.float(), rtol=1e-6, atol=1e-5)


def test_walk_sum_is_exact_at_every_entry_however_small(generator):
    """Beside large entries stand some of 10^-40; each is right to 10^-12 of its own size."""
    n = 12
    gate = 10 ** (-6 * torch.rand(n, n, generator=generator).double())
    gate *= 10 ** -(4 * (torch.arange(n)[:, None] - torch.arange(n)).abs().double())
    capped = cap_rows(gate)
    source = torch.nn.functional.one_hot(torch.tensor([0]), n).double()
    term, total = source.numpy().astype(np.longdouble), np.zeros((1, n), dtype=np.longdouble)
    for _ in range(5000):
        total, term = total + term, term @ capped.numpy().astype(np.longdouble)
    assert total.min() < 1e-30
    laws.assert_close(walk_sum(source, capped), total.astype(np.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
def test_propagator_of_a_spoilt_graph_leaves_the_others(spoilt, generator):
    mask = laws.vertex_mask([4, 4, 3])
    gate, source = laws.random_pairs(mask, 4, generator).sigmoid().chunk(2, dim=-1)
    alone = propagator(gate, source, mask)
    for at in (0, 1, 2):
        broken = gate.clone()
        broken[at, 1, 2] = spoilt
        broken.requires_grad_()
        out = propagator(broken, source, mask)
        others = [g for g in range(3) if g != at]
        assert torch.equal(out[others], alone[others])
        out[others].sum().backward()
        assert torch.isfinite(broken.grad[others]).all()
        assert broken.grad[others].any()


def test_rows_that_sum_to_less_than_one_bound_the_spectral_radius(generator):
    gate = torch.rand(20, 9, 9, generator=generator).double() * 10 ** (
        2 - 4 * torch.rand(20, 1, 1, generator=generator)
    )
    capped = cap_rows(gate)
    assert (capped.sum(dim=-1) <= 0.99 + 1e-12).all()
    assert (torch.linalg.eigvals(capped).abs().amax(dim=-1) <= 0.99 + 1e-12).all()
    small = gate.sum(dim=-1) <= 0.99
    assert small.any() and torch.equal(capped[small], gate[small])


def test_gradient_of_the_propagator_reuses_the_factors(generator):
    mask = laws.vertex_mask([6, 5])
    gate, source = laws.random_pairs(mask, 4, generator).sigmoid().chunk(2, dim=-1)
    out = propagator(gate.requires_grad_(), source, mask, torch.tensor([[1], [2]])).sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as backward:
        out.backward()
    called = {event.key for event in backward.key_averages()}
    assert "aten::linalg_lu_solve" in called
    assert not [name for name in called if "lu_factor" in name or "solve_ex" in name or "inv" in name]


def one_head(z):
    return z.unsqueeze(3)


def test_triangle_attention_without_scores_is_the_mean_of_products():
    """Red 0 -> 1, blue 1 -> 2, three middle vertices alike: 1/3 at (0, 2)."""
    red, blue = one_head(drawn(3, [(0, 1)])), one_head(drawn(3, [(1, 2)]))
    out = triangle_attention(0 * red, 0 * red, red, blue, all_real(red))
    laws.assert_close(out, drawn(3, [(0, 2)]) / 3)


def test_triangle_attention_attends_along_the_legs():
    """q on 0 -> 1 and k on 1 -> 2 agree only for (0, 2) by way of 1; every other pair averages."""
    q, k = one_head(drawn(3, [(0, 1)])), one_head(drawn(3, [(1, 2)]))
    v1 = one_head(torch.arange(9.0, dtype=torch.float64).reshape(1, 3, 3, 1))
    v2 = torch.ones_like(v1)
    out = triangle_attention(100 * q, 100 * k, v1, v2, all_real(q))
    laws.assert_close(out[0, 0, 2, 0], torch.tensor(1.0))  # v1[0, 1]
    laws.assert_close(out[0, 0, 1, 0], torch.tensor(1.0))  # mean of 0, 1, 2
    laws.assert_close(out[0, 2, :, 0], torch.full((3,), 7.0))
    out = triangle_attention(100 * q, 100 * k, v2, v1, all_real(q))
    laws.assert_close(out[0, 0, 2, 0], torch.tensor(5.0))  # v2[1, 2]
    laws.assert_close(out[0, 1, 2, 0], torch.tensor(5.0))  # mean of 2, 5, 8


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7])
def test_triangle_attention_in_chunks_is_the_whole(chunk, mask, generator):
    """Values and gradients; in chunks the backward pass computes the rows again."""
    legs = [laws.random_pairs(mask, 4, generator).unflatten(-1, (2, 2)).requires_grad_() for _ in range(4)]
    whole = triangle_attention(*legs, mask)
    chunked = triangle_attention(*legs, mask, chunk=chunk)
    laws.assert_close(chunked, whole)
    with torch.no_grad():
        laws.assert_close(triangle_attention(*legs, mask, chunk=chunk), whole)
    weight = torch.randn(whole.shape, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad((whole * weight).sum(), legs)
    for actual, right in zip(torch.autograd.grad((chunked * weight).sum(), legs), expected, strict=True):
        laws.assert_close(actual, right)


def test_triangle_attention_refuses_heads_that_do_not_divide():
    with pytest.raises(InputError, match="multiple of num_heads"):
        TriangleAttention(4, 6, num_heads=4)
