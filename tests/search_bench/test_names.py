"""The names front end: tokens alone, codes that do not run out, and a pair state of two names."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from graphalgo import PairBlock, PairModel, Propagator, StackedBlocks
from graphalgo.errors import InputError
from search_bench import Names, ToNames, balanced, to_pair_batch
from search_bench.names import CODE, ROLES, mentions, slot_codes
from tests import laws

QUESTIONS = balanced(20, 12, seed=0)


def model():
    to_names = ToNames()
    loop = StackedBlocks([PairBlock(16, [Propagator(16, 2)])])
    return PairModel(loop, to_names.num_features, to_names.outputs, Names(16))


def test_mentions_match_reference():
    """Mention by mention, in the order of the tokens."""
    for at in range(len(QUESTIONS)):
        data = QUESTIONS.data(at)
        codes = slot_codes(data)
        expected = np.zeros((data.num_nodes, 2 * CODE + len(ROLES)))
        for slot, (tail, head) in enumerate(data.edge_index.T.tolist()):
            expected[tail, :CODE] += codes[slot]
            expected[head, CODE : 2 * CODE] += codes[slot]
        for role, vertices in enumerate(
            (
                [int(data.start.argmax())],
                [int(data.goal.argmax())],
                [int(data.current.argmax())],
                data.path.tolist(),
            )
        ):
            for vertex in vertices:
                expected[vertex, 2 * CODE + role] += 1
        laws.assert_close(mentions(data), expected, rtol=1e-5, atol=1e-6)


def test_codes_are_of_unit_length_all_but_orthogonal_and_the_questions_own():
    data = balanced(250, 1, seed=0).data(0)
    codes = slot_codes(data)
    products = codes @ codes.T
    assert np.allclose(np.diag(products), 1)
    off = products[~np.eye(len(codes), dtype=bool)]
    assert len(codes) > 100 and abs(off).max() < 6 / 16 and off.std() == pytest.approx(1 / 16, rel=0.1)
    assert np.array_equal(codes, slot_codes(data))
    other = data.clone()
    other.edge_index = data.edge_index.flip(1)
    assert not np.allclose(slot_codes(other)[::-1], codes)


def test_no_pair_feature_tells_of_edges():
    """Two questions that differ in their edges alone have the same pair features."""
    data = QUESTIONS.data(0)
    other = data.clone()
    other.edge_index = data.edge_index.flip(0)
    one, two = ToNames()(data), ToNames()(other)
    assert torch.equal(one.x, two.x) and one.x.size(-1) == 1
    assert not torch.equal(one.vertices, two.vertices)


def test_answers_and_lookahead_do_not_enter_the_names():
    data = QUESTIONS.data(0)
    bare = data.clone()
    for name in ("next", "next_ok", "lookahead"):
        del bare[name]
    assert torch.equal(ToNames()(data).vertices, ToNames()(bare).vertices)


def test_names_take_one_graph_a_batch_or_a_list():
    graphs = QUESTIONS.data_list()[:3]
    together = ToNames()(graphs)
    again = ToNames()(Batch.from_data_list(graphs))
    alone = ToNames()(graphs[1])
    n = graphs[1].num_nodes
    assert torch.equal(together.vertices, again.vertices)
    assert torch.equal(together.vertices[1, :n], alone.vertices[0])
    assert not together.vertices[1, n:].any()
    assert "mentions" not in graphs[0]


def test_other_names_of_vertices_permute_the_first_pair_state():
    """The same tokens under other local numbers."""
    data = QUESTIONS.data(3)
    order = torch.randperm(data.num_nodes)
    place = torch.argsort(order)
    other = data.clone()
    other.edge_index, other.path = place[data.edge_index], place[data.path]
    for name in ("id", "start", "goal", "current"):
        other[name] = data[name][order]
    front = Names(16)
    z, renamed = front(ToNames()(data)), front(ToNames()(other))
    torch.testing.assert_close(renamed, z[:, order][:, :, order])


def test_an_even_head_counts_edges():
    """α of tails on the row, β of heads on the column: the edges u -> v, but for an error."""
    data = balanced(49, 1, seed=3).data(0)
    front = Names(1, num_heads=1)
    with torch.no_grad():
        for parameter in front.parameters():
            parameter.zero_()
        front.mix[0, 0] = front.mix[1, 1] = 1.0
        front.features.weight.fill_(1.0)
    z = front(ToNames()(data))[0, :, :, 0]
    edges = torch.zeros_like(z)
    edges[tuple(data.edge_index)] = 1
    assert ((z > 0.5) == (edges == 1)).float().mean() > 0.995


def test_a_model_over_names_takes_any_size_and_trains_every_parameter():
    pairs = ToNames()(QUESTIONS.data_list())
    network = model()
    network(pairs, None)["next"][pairs.accepted["next"]].sum().backward()
    for name, parameter in network.named_parameters():
        if not name.endswith("score.2.bias"):
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    assert network(ToNames()(balanced(90, 2, seed=0).data_list()), None)["next"].isfinite().any()


def test_what_is_no_question_is_refused():
    with pytest.raises(InputError, match="lacks id, path, start"):
        ToNames()(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))


def test_a_model_over_pair_features_and_one_over_names_have_one_read_out():
    assert ToNames().outputs == to_pair_batch().outputs


def _without_edges(data):
    del data.edge_index


DAMAGE = {
    "no edges": _without_edges,
    "an edge out of range": lambda data: data.edge_index.add_(data.num_nodes),
    "edges of floats": lambda data: data.update({"edge_index": data.edge_index.float()}),
    "the path out of range": lambda data: data.path.sub_(data.num_nodes + 1),
    "short ids": lambda data: data.update({"id": data.id[1:]}),
    "negative ids": lambda data: data.id.neg_(),
    "ids of floats": lambda data: data.update({"id": data.id.float()}),
    "a short start": lambda data: data.update({"start": data.start[1:]}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_graphs_that_are_no_questions_are_refused(damage):
    data = QUESTIONS.data(0)
    DAMAGE[damage](data)
    with pytest.raises(InputError):
        ToNames()([data])
