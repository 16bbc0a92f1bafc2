"""Graph pointers: one vertex of the graph, read from one row, of which several may be right."""

import math

import pytest
import torch
from torch_geometric.data import Data

from graphalgo import (
    LoopedBlock,
    OrJoin,
    Output,
    PairBlock,
    PairModel,
    PairModule,
    Propagator,
    StackedBlocks,
    ToPairBatch,
)
from graphalgo.errors import InputError
from graphalgo.losses import accepted_loss, output_loss, pointer_loss
from graphalgo.metrics import graph_counts, right_entries, score_of_counts
from graphalgo.readouts import GraphPointer, readout_for
from tests import laws, reference

NEXT = Output("next", "graph", "pointer")
SEEN = Output("seen", "node", "mask")


def to_pairs(outputs=(NEXT,), **settings):
    return ToPairBatch(["here"], outputs=outputs, row_attr="here", **settings)


def graph(num_nodes=4, here=1, next_=2, ok=(2, 3)):
    marks = torch.zeros(num_nodes)
    marks[here] = 1
    data = Data(edge_index=torch.tensor([[1, 1, 2], [2, 3, 0]]), num_nodes=num_nodes, here=marks)
    data.next = torch.tensor([next_])
    if ok is not None:
        data.next_ok = torch.zeros(num_nodes, dtype=torch.long)
        data.next_ok[list(ok)] = 1
    data.seen = torch.arange(num_nodes) % 2
    return data


GRAPHS = [graph(), graph(6, here=5, next_=0, ok=[0]), graph(4, here=2, next_=-1, ok=())]


@pytest.fixture
def batch():
    return to_pairs((NEXT, SEEN))(GRAPHS)


# Data -> batch


def test_batch_holds_the_row_the_target_and_every_right_answer(batch):
    assert batch.row.tolist() == [1, 5, 2]
    assert batch.targets["next"].tolist() == [2, 0, -1]
    assert batch.accepted["next"].nonzero().tolist() == [[0, 2], [0, 3], [1, 0]]
    moved = batch.to("cpu")
    assert torch.equal(moved.row, batch.row) and torch.equal(moved.accepted["next"], batch.accepted["next"])


def test_right_answers_may_be_left_out():
    assert to_pairs()([graph(ok=None)]).accepted == {}
    unlabelled = graph()
    del unlabelled.next
    assert to_pairs()(unlabelled).targets == {}


def test_right_answers_are_given_by_all_graphs_or_none():
    with pytest.raises(InputError, match="the marks of right answers 'next_ok': missing from 1 of 2 graphs"):
        to_pairs()([graph(), graph(ok=None)])


def test_vertex_attributes_need_a_front_that_reads_them():
    block = PairBlock(8, [OrJoin(8, 4)])
    with pytest.raises(InputError, match="the data have name, the model has no front"):
        PairModule(LoopedBlock(block), to_pairs(vertex_attrs=["name"]), "names")


def test_vertex_attributes_are_not_spread_over_pairs():
    graphs = [graph(), graph(6, here=5, next_=0, ok=[0])]
    for data in graphs:
        data.name = torch.arange(2 * data.num_nodes).reshape(-1, 2).float()
    made = to_pairs(vertex_attrs=["name"], edges=False)(graphs)
    assert made.x.size(-1) == 3 and to_pairs(edges=False).num_features == 3
    assert torch.equal(made.vertices[1], graphs[1].name)
    assert torch.equal(made.vertices[0, :4], graphs[0].name) and not made.vertices[0, 4:].any()
    assert to_pairs()(graph()).vertices is None


def test_settings_make_the_same_transform_again():
    made = to_pairs(vertex_attrs=["name"], edges=False)
    settings = made.settings()
    outputs = [Output(*output) for output in settings.pop("outputs")]
    assert ToPairBatch(outputs=outputs, **settings).settings() == made.settings()
    plain = ToPairBatch(["here"]).settings()
    assert set(plain) == {"node_attrs", "edge_attrs", "order_attrs", "outputs"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (graph(next_=4), "must lie in -1..3, got 4..4"),
        (graph(next_=0), "graph 0: the target 'next' is not marked as right by 'next_ok'"),
        (graph().update({"here": torch.ones(4)}), "'here' must mark one vertex, it marks 4"),
        (graph().update({"here": torch.zeros(4)}), "'here' must mark one vertex, it marks 0"),
        (graph().update({"next": torch.tensor([1, 2])}), "of 1 entries as the target 'next'"),
        (graph().update({"next_ok": torch.ones(3)}), "of 4 entries as the target 'next_ok'"),
    ],
)
def test_graphs_that_are_labelled_wrongly_are_refused(data, message):
    with pytest.raises(InputError, match=message):
        to_pairs()(data)


def test_a_graph_pointer_without_a_row_is_refused():
    with pytest.raises(InputError, match="say which with row_attr"):
        ToPairBatch(["here"], outputs=[NEXT])


def test_an_output_of_no_kind_is_refused(types_unchecked):
    with pytest.raises(InputError, match="'y' is a graph mask; expected one of node pointer"):
        Output("y", "graph", "mask")


def test_rank_counts_the_axes_of_an_answer():
    kinds = [
        ("graph", "pointer"),
        ("node", "mask_one"),
        ("node", "pointer"),
        ("node", "mask"),
        ("edge", "mask"),
    ]
    assert [Output("y", *kind).rank for kind in kinds] == [0, 0, 1, 1, 2]


# Read-out, loss, score


def test_readout_matches_reference(generator):
    readout = readout_for(NEXT, 3).double()
    assert isinstance(readout, GraphPointer)
    mask = laws.vertex_mask([5, 2, 3])
    t = torch.randn(3, 5, 3, generator=generator, dtype=torch.float64)
    first, last = (
        tuple(p.detach().numpy() for p in (readout.score[k].weight, readout.score[k].bias)) for k in (0, 2)
    )
    hidden = reference.linear(t.numpy(), *first)
    silu = hidden / (1 + reference.entrywise(lambda x: math.exp(-x), hidden))
    expected = torch.from_numpy(reference.linear(silu, *last)[..., 0])
    out = readout(t, mask)
    assert torch.equal(out.isinf(), ~mask)
    laws.assert_close(out[mask], expected[mask])


def test_accepted_loss_matches_reference(generator):
    """-log of the summed probability of the right answers, one graph at a time; -1 does not count."""
    logits = torch.randn(4, 5, generator=generator)
    logits[1, 3:] = -math.inf
    target = torch.tensor([1, 0, -1, 4])
    accepted = torch.zeros(4, 5, dtype=torch.bool)
    accepted[0, [1, 2]] = accepted[1, 0] = accepted[3, [0, 3, 4]] = True
    total = 0.0
    for g in (0, 1, 3):
        weights = [math.exp(x) for x in logits[g].tolist()]
        total -= math.log(sum(w for w, ok in zip(weights, accepted[g], strict=True) if ok) / sum(weights))
    leaf = logits.requires_grad_()
    loss = output_loss(NEXT, leaf, target, accepted)
    assert loss.item() == pytest.approx(total / 3, rel=1e-5)
    loss.backward()
    assert torch.isfinite(leaf.grad).all() and not leaf.grad[2].any()


def test_accepted_loss_of_one_right_answer_is_the_pointer_loss(generator):
    logits = torch.randn(6, 7, generator=generator)
    target = torch.randint(0, 7, (6,), generator=generator)
    one = torch.nn.functional.one_hot(target, 7).bool()
    laws.assert_close(
        accepted_loss(logits, target, one), pointer_loss(logits, target).double(), rtol=1e-6, atol=1e-6
    )


def test_any_accepted_answer_is_right_in_training_and_one_in_the_score():
    target, accepted = torch.tensor([2, 0, -1]), torch.zeros(3, 4, dtype=torch.bool)
    accepted[0, [2, 3]] = accepted[1, 0] = accepted[2, 1] = True
    prediction = torch.tensor([3, 1, 1])
    assert right_entries(NEXT, prediction, target, accepted).tolist() == [True, False, False]
    assert right_entries(NEXT, prediction, target).tolist() == [False, False, False]
    counts = graph_counts(NEXT, torch.tensor([2, 1, 1]), target)
    assert counts.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert score_of_counts(NEXT, counts.sum(dim=0).numpy()) == 0.5


# Model and module


def looped():
    return LoopedBlock(PairBlock(4, [OrJoin(4, 2), Propagator(4, 1)]))


def stacked():
    return StackedBlocks([PairBlock(4, [OrJoin(4, 2)]), PairBlock(4, [Propagator(4, 1)])])


@pytest.mark.parametrize("make", [looped, stacked])
@pytest.mark.parametrize("num_steps", [0, 1, 2])
def test_reading_one_row_is_reading_it_from_the_whole(make, num_steps, batch):
    """Alone it costs one row in the last iteration; beside an output of every vertex, all rows are there."""
    alone = PairModel(make(), batch.x.size(-1), [NEXT])
    beside = PairModel(alone.loop, batch.x.size(-1), [NEXT, SEEN])
    beside.load_state_dict(alone.state_dict() | {k: v for k, v in beside.state_dict().items() if "seen" in k})
    assert alone.reads_a_row and not beside.reads_a_row
    out = alone(batch, num_steps)["next"]
    torch.testing.assert_close(out, beside(batch, num_steps)["next"])
    each = list(alone.each_step(batch, num_steps))
    assert len(each) == num_steps
    for one, other in zip(each, beside.each_step(batch, num_steps), strict=True):
        torch.testing.assert_close(one["next"], other["next"])


@pytest.mark.parametrize("make", [looped, stacked])
def test_rows_of_a_loop_are_those_of_its_whole_state(make, batch, generator):
    loop, rows = make(), torch.tensor([[1, 0], [5, 2], [3, 3]])
    z = laws.random_pairs(batch.mask, 4, generator, dtype=torch.float32)
    whole, part = loop(z, batch.mask, 2), loop(z, batch.mask, 2, rows)
    torch.testing.assert_close(part, whole[torch.arange(3)[:, None], rows])


def test_renaming_vertices_renames_the_answer(generator):
    model = PairModel(stacked(), 5, [NEXT])
    data = graph(6, here=5, next_=0, ok=[0])
    order = torch.randperm(6, generator=generator)
    place = torch.argsort(order)
    other = data.clone()
    other.edge_index, other.next = place[data.edge_index], place[data.next]
    other.here, other.next_ok = data.here[order], data.next_ok[order]
    renamed = model(to_pairs()(other), None)["next"]
    torch.testing.assert_close(renamed, model(to_pairs()(data), None)["next"][:, order])


def test_other_graphs_of_the_batch_change_nothing():
    model = PairModel(stacked(), 5, [NEXT])
    together = model(to_pairs()(GRAPHS), None)["next"]
    for g, data in enumerate(GRAPHS):
        alone = model(to_pairs()(data), None)["next"]
        torch.testing.assert_close(together[g, : data.num_nodes], alone[0])


def module(loop, **settings):
    return PairModule(loop, to_pairs(), task="way", **settings)


def test_a_stack_is_as_deep_as_it_is(batch):
    stack = module(stacked(), train_loops=(4, 8), test_loops=8)
    assert stack.loops_for(batch) == stack.draw_loops(0) == 2
    assert [answer.loop for answer in stack.answers(batch)] == [1, 2]


@pytest.mark.parametrize(("n", "loops"), [(1, 2), (2, 3), (49, 8), (64, 8), (125, 9), (250, 10)])
def test_loops_may_grow_with_the_logarithm_of_the_size(n, loops):
    data = (
        graph(max(n, 4))
        if n >= 4
        else Data(edge_index=torch.empty(2, 0).long(), num_nodes=n, here=torch.eye(n)[0])
    )
    made = to_pairs()(data)
    assert module(looped(), test_loops=2, log_loops=True).loops_for(made) == loops
    assert module(looped(), test_loops=2).loops_for(made) == 2


def test_training_counts_any_accepted_answer(batch):
    logits = torch.zeros(3, 6)
    logits[0, 3] = logits[1, 1] = 1.0
    assert module(stacked()).accuracy({"next": logits}, batch).item() == 0.5
    logits[1, 0] = 2.0
    assert module(stacked()).accuracy({"next": logits}, batch).item() == 1.0


def test_an_answer_is_one_vertex_a_graph():
    answers = module(stacked()).answer(GRAPHS)
    assert all(
        answer["next"].shape == () and 0 <= answer["next"] < data.num_nodes
        for answer, data in zip(answers, GRAPHS, strict=True)
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
        ({"warmup_steps": -1}, "warmup_steps must not be negative"),
    ],
)
def test_settings_that_cannot_train_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        module(stacked(), **settings)


def test_a_stack_needs_no_number_of_steps_and_a_loop_does(batch):
    stack = PairModel(stacked(), batch.x.size(-1), [NEXT])
    assert torch.equal(stack(batch)["next"], stack(batch, 2)["next"])
    with pytest.raises(InputError, match="say how often with num_steps"):
        PairModel(looped(), batch.x.size(-1), [NEXT])(batch)
