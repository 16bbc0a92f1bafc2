"""PairModel from PyG graphs to logits, and what is written down about the whole way."""

import copy

import pytest
import torch
from torch_geometric.data import Data

import graphalgo
from graphalgo import (
    LoopedBlock,
    OrJoin,
    Output,
    PairBatch,
    PairBlock,
    PairModel,
    PowerMean,
    StackedBlocks,
    ToPairBatch,
    TriangleAttention,
)
from graphalgo.blocks import rms_norm
from graphalgo.losses import output_loss
from tests import laws

OUTPUTS = (
    Output("pi", "node", "pointer"),
    Output("is_cut", "node", "mask"),
    Output("head", "node", "mask_one"),
    Output("is_bridge", "edge", "mask"),
    Output("Pi", "edge", "pointer"),
)
VERTEX_AXES = {"pi": (0, 1), "is_cut": (0,), "head": (0,), "is_bridge": (0, 1), "Pi": (0, 1, 2)}
TO_PAIRS = ToPairBatch(["pos"], ["edge_weight"], ["pos"], OUTPUTS)


def random_graph(num_nodes, generator):
    edge_index = (torch.rand(num_nodes, num_nodes, generator=generator) < 0.4).nonzero().t().contiguous()
    head = torch.zeros(num_nodes, dtype=torch.long)
    head[0] = 1
    return Data(
        num_nodes=num_nodes,
        edge_index=edge_index,
        edge_weight=torch.rand(edge_index.size(1), generator=generator, dtype=torch.float64),
        pos=torch.rand(num_nodes, generator=generator, dtype=torch.float64),
        pi=torch.randint(0, num_nodes, (num_nodes,), generator=generator),
        is_cut=torch.randint(0, 2, (num_nodes,), generator=generator),
        head=head,
        is_bridge=torch.randint(-1, 2, (num_nodes**2,), generator=generator),
        Pi=torch.randint(0, num_nodes, (num_nodes**2,), generator=generator),
    )


@pytest.fixture
def batch(generator):
    batch = TO_PAIRS([random_graph(n, generator) for n in (5, 1, 3, 4)])
    return PairBatch(batch.x.double(), batch.mask, batch.targets)


def model_of(loop):
    return PairModel(loop, len(TO_PAIRS.feature_names), OUTPUTS).double()


@pytest.fixture
def model():
    return model_of(LoopedBlock(PairBlock(4, [OrJoin(4, 2), PowerMean(4, 2)])))


def test_model_gives_logits_of_every_output(model, batch):
    logits = model(batch, num_steps=3)
    assert {name: tuple(y.shape) for name, y in logits.items()} == {
        "pi": (4, 5, 5),
        "is_cut": (4, 5),
        "head": (4, 5),
        "is_bridge": (4, 5, 5),
        "Pi": (4, 5, 5, 5),
    }


def test_model_is_encode_loop_norm_readout(model, batch):
    z = model.encode(batch.x) * laws.real_pairs(batch.mask)[..., None]
    for _ in range(3):
        z = model.loop.block(z, batch.mask)
    for name, logits in model(batch, num_steps=3).items():
        assert torch.equal(logits, model.readouts[name](rms_norm(z), batch.mask))


@pytest.mark.parametrize("name", VERTEX_AXES)
def test_model_keeps_the_laws(name, model, batch, generator):
    def logits(x, mask):
        return model(PairBatch(x, mask), num_steps=3)[name]

    laws.assert_ignores_padding(logits, batch.x, batch.mask, VERTEX_AXES[name])
    laws.assert_no_gradient_from_padding(logits, batch.x, batch.mask, VERTEX_AXES[name])
    laws.assert_permutation_equivariant(logits, batch.x, batch.mask, generator, VERTEX_AXES[name])


def test_model_starts_from_zero_at_padding(model, batch):
    start = model.start(batch)
    assert not start[~laws.real_pairs(batch.mask)].count_nonzero()
    assert start[laws.real_pairs(batch.mask)].count_nonzero()


def test_each_step_ends_with_the_answer(model, batch):
    steps = list(model.each_step(batch, num_steps=4))
    assert len(steps) == 4
    for k, logits in enumerate(steps, start=1):
        for name, expected in model(batch, num_steps=k).items():
            assert torch.equal(logits[name], expected)


def test_model_takes_a_stack(batch):
    blocks = [PairBlock(4, [TriangleAttention(4, 4, num_heads=2)]) for _ in range(3)]
    model = model_of(StackedBlocks(blocks))
    steps = list(model.each_step(batch, num_steps=None))
    assert len(steps) == 3
    for name, logits in model(batch, num_steps=None).items():
        assert torch.equal(logits, steps[-1][name])


def test_loss_trains_every_parameter(model, batch):
    logits = model(batch, num_steps=2)
    sum(output_loss(out, logits[out.name], batch.targets[out.name]) for out in OUTPUTS).backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().sum() > 0, name


def test_loss_of_a_batch_is_that_of_its_graphs_alone(model, generator):
    """A mean over entries: two graphs of equal size weigh the same."""
    graphs = [random_graph(4, generator) for _ in range(2)]
    output = OUTPUTS[0]

    def loss(graphs):
        batch = TO_PAIRS(graphs)
        batch = PairBatch(batch.x.double(), batch.mask, batch.targets)
        return output_loss(output, model(batch, num_steps=2)[output.name], batch.targets[output.name])

    laws.assert_close(loss(graphs), (loss(graphs[:1]) + loss(graphs[1:])) / 2, atol=1e-6, rtol=1e-5)


def test_model_learns_a_small_pool(generator):
    """bfs parents of fixed paths: the loss falls to a tenth and less."""
    graphs = []
    for _ in range(4):
        order = torch.randperm(5, generator=generator)
        pi = torch.empty(5, dtype=torch.long)
        pi[order[0]] = order[0]
        pi[order[1:]] = order[:-1]
        edges = torch.stack([order[:-1], order[1:]])
        s = torch.zeros(5).index_fill(0, order[:1], 1.0)
        graphs.append(Data(num_nodes=5, edge_index=torch.cat([edges, edges.flip(0)], dim=1), s=s, pi=pi))
    to_pairs = ToPairBatch(["s"], outputs=OUTPUTS[:1])
    batch = to_pairs(graphs)
    loop = LoopedBlock(PairBlock(16, [OrJoin(16, 8), PowerMean(16, 8)]))
    model = PairModel(loop, batch.x.size(-1), OUTPUTS[:1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(100):
        loss = output_loss(OUTPUTS[0], model(batch, num_steps=4)["pi"], batch.targets["pi"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_seed_fixes_the_weights():
    def weights(seed):
        torch.manual_seed(seed)
        return model_of(LoopedBlock(PairBlock(4, [OrJoin(4, 2)]))).state_dict()

    one, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_model_round_trips_through_a_safe_checkpoint(model, batch, tmp_path):
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = model_of(LoopedBlock(PairBlock(4, [OrJoin(4, 2), PowerMean(4, 2)])))
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    for name, logits in other(batch, num_steps=2).items():
        assert torch.equal(logits, model(batch, num_steps=2)[name])


def test_model_copies(model, batch):
    for name, logits in copy.deepcopy(model)(batch, num_steps=2).items():
        assert torch.equal(logits, model(batch, num_steps=2)[name])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_model_under_autocast_is_finite(dtype, batch):
    model = model_of(LoopedBlock(PairBlock(4, [OrJoin(4, 2), PowerMean(4, 2)]))).float()
    batch = PairBatch(batch.x.float(), batch.mask, batch.targets)
    with torch.autocast("cpu", dtype=dtype):
        logits = model(batch, num_steps=8)
        loss = sum(output_loss(out, logits[out.name], batch.targets[out.name]) for out in OUTPUTS)
    assert loss.dtype == torch.float32
    loss.backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


def test_package_names_what_it_offers():
    for name in graphalgo.__all__:
        assert hasattr(graphalgo, name)
