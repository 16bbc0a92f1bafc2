"""The door: PyG Data in, dense pair features and targets out, and everything that is refused there."""

import copy

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader as GraphLoader
from torch_geometric.utils import from_networkx

from graphalgo.batch import Output, PairBatch, ToPairBatch
from graphalgo.errors import InputError
from tests import laws, reference

OUTPUTS = (
    Output("pi", "node", "pointer"),
    Output("is_cut", "node", "mask"),
    Output("head", "node", "mask_one"),
    Output("is_bridge", "edge", "mask"),
    Output("Pi", "edge", "pointer"),
)
NAMES = dict(node_attrs=("pos", "s"), edge_attrs=("edge_weight", "length"), order_attrs=("pos", "rank"))


def random_graph(num_nodes, generator, density=0.5):
    """A graph with every kind of attribute and target, self-loops included."""

    def whole(*shape, low=0, high):
        return torch.randint(low, high, shape, generator=generator)

    edge_index = (torch.rand(num_nodes, num_nodes, generator=generator) < density).nonzero().t().contiguous()
    edges = edge_index.size(1)
    head = torch.zeros(num_nodes, dtype=torch.long)
    head[whole(high=num_nodes)] = 1
    return Data(
        num_nodes=num_nodes,
        edge_index=edge_index,
        edge_weight=torch.rand(edges, generator=generator, dtype=torch.float64),
        length=torch.randn(edges, generator=generator),
        pos=torch.rand(num_nodes, generator=generator, dtype=torch.float64),
        s=torch.nn.functional.one_hot(whole(high=num_nodes), num_nodes).double(),
        rank=whole(num_nodes, high=3),
        pi=whole(num_nodes, high=num_nodes),
        is_cut=whole(num_nodes, high=2),
        head=head,
        is_bridge=whole(num_nodes * num_nodes, low=-1, high=2),
        Pi=whole(num_nodes * num_nodes, high=num_nodes),
    )


@pytest.fixture
def graphs(generator):
    return [random_graph(n, generator) for n in (5, 1, 3, 2)]


@pytest.fixture
def to_pairs():
    return ToPairBatch(**NAMES, outputs=OUTPUTS)


def assert_equal(one: PairBatch, other: PairBatch):
    assert torch.equal(one.x, other.x) and torch.equal(one.mask, other.mask)
    assert one.targets.keys() == other.targets.keys()
    for name, target in one.targets.items():
        assert torch.equal(target, other.targets[name])


def path(**attributes):
    """0 -> 1 -> 2 and whatever else is asked for."""
    return Data(num_nodes=3, edge_index=torch.tensor([[0, 1], [1, 2]]), **attributes)


# What comes out


def test_features_match_reference(graphs, to_pairs):
    expected = reference.pair_features(graphs, **NAMES)
    laws.assert_close(to_pairs(graphs).x, expected, dtype=torch.float32)


def test_features_of_a_drawn_path():
    """0 -> 1 with weight 2.5: each feature at the pair it belongs to and nowhere else."""
    data = Data(
        num_nodes=2,
        edge_index=torch.tensor([[0], [1]]),
        edge_weight=torch.tensor([2.5]),
        pos=torch.tensor([3.0, 7.0]),
    )
    to_pairs = ToPairBatch(["pos"], ["edge_weight"], ["pos"])
    x = dict(zip(to_pairs.feature_names, to_pairs(data).x[0].unbind(dim=-1), strict=True))
    assert {name: value.tolist() for name, value in x.items()} == {
        "identity": [[1, 0], [0, 1]],
        "edge": [[0, 1], [0, 0]],
        "reversed edge": [[0, 0], [1, 0]],
        "edge_weight of (u, v)": [[0, 2.5], [0, 0]],
        "edge_weight of (v, u)": [[0, 0], [2.5, 0]],
        "pos of u": [[3, 3], [7, 7]],
        "pos of v": [[3, 7], [3, 7]],
        "pos of u < pos of v": [[0, 1], [0, 0]],
    }


def test_feature_names_count_the_features(graphs, to_pairs):
    assert len(to_pairs.feature_names) == to_pairs(graphs).x.size(-1)
    assert len(set(to_pairs.feature_names)) == len(to_pairs.feature_names)


def test_attributes_of_several_columns_keep_their_order():
    data = path(colour=torch.arange(6.0).reshape(3, 2), span=torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    x = ToPairBatch(["colour"], ["span"])(data).x[0]
    assert x.shape == (3, 3, 3 + 4 + 4)
    assert x[0, 1].tolist() == [0, 1, 0, 1, 2, 0, 0, 0, 1, 2, 3]
    assert x[2, 1].tolist() == [0, 0, 1, 0, 0, 3, 4, 4, 5, 2, 3]


def test_padding_is_exactly_zero(graphs, to_pairs):
    batch = to_pairs(graphs)
    assert batch.mask.tolist() == laws.vertex_mask([5, 1, 3, 2]).tolist()
    assert not batch.x[~laws.real_pairs(batch.mask)].count_nonzero()


def test_targets_are_laid_out_by_location_and_type(graphs, to_pairs):
    targets = to_pairs(graphs).targets
    assert {name: tuple(y.shape) for name, y in targets.items()} == {
        "pi": (4, 5),
        "is_cut": (4, 5),
        "head": (4,),
        "is_bridge": (4, 5, 5),
        "Pi": (4, 5, 5),
    }
    for g, graph in enumerate(graphs):
        n = graph.num_nodes
        assert targets["pi"][g].tolist() == graph.pi.tolist() + [-1] * (5 - n)
        assert targets["is_cut"][g].tolist() == graph.is_cut.tolist() + [-1] * (5 - n)
        assert targets["head"][g].item() == graph.head.tolist().index(1)
        for name in ("is_bridge", "Pi"):
            for i in range(5):
                for j in range(5):
                    expected = int(graph[name][i * n + j]) if max(i, j) < n else -1
                    assert targets[name][g, i, j].item() == expected
    assert all(y.dtype == torch.int64 for y in targets.values())


def test_edge_targets_may_be_square(graphs, to_pairs):
    squares = [copy.copy(graph) for graph in graphs]
    for graph in squares:
        graph.Pi = graph.Pi.reshape(graph.num_nodes, -1)
    assert_equal(to_pairs(squares), to_pairs(graphs))


def test_targets_may_be_floats_that_hold_whole_numbers(graphs, to_pairs):
    floats = [copy.copy(graph) for graph in graphs]
    for graph in floats:
        graph.is_bridge, graph.head = graph.is_bridge.double(), graph.head.double()
    assert_equal(to_pairs(floats), to_pairs(graphs))


def test_entries_marked_minus_one_are_not_scored():
    targets = ToPairBatch(outputs=OUTPUTS)(
        path(pi=torch.tensor([-1, 0, 2]), is_cut=torch.tensor([1, -1, 0]))
    ).targets
    assert targets["pi"].tolist() == [[-1, 0, 2]] and targets["is_cut"].tolist() == [[1, -1, 0]]


def test_mask_one_with_a_masked_entry_is_not_scored():
    """dm-clrs leaves out rows of a mask_one that hold any -1."""
    head = Output("head", "node", "mask_one")
    graphs = [path(head=torch.tensor(marks)) for marks in ([0, 1, 0], [-1, -1, -1], [0, 1, -1])]
    assert ToPairBatch(outputs=[head])(graphs).targets["head"].tolist() == [1, -1, -1]


def test_unlabelled_graphs_have_no_targets(graphs, to_pairs):
    bare = [path() for _ in range(2)]
    assert ToPairBatch(outputs=OUTPUTS)(bare).targets == {}


def test_order_is_compared_before_rounding():
    """Two positions that are one number in float32 are still in order; equal ones are not."""
    data = Data(num_nodes=2, edge_index=torch.empty(2, 0, dtype=torch.long))
    data.pos = torch.tensor([0.5, 0.5 + 1e-12], dtype=torch.float64)
    assert ToPairBatch(order_attrs=["pos"])(data).x[0, :, :, 3].tolist() == [[0, 1], [0, 0]]
    data.pos = torch.tensor([2**40, 2**40 + 1])
    assert ToPairBatch(order_attrs=["pos"])(data).x[0, :, :, 3].tolist() == [[0, 1], [0, 0]]


def test_weight_of_zero_is_an_edge():
    x = ToPairBatch(edge_attrs=["edge_weight"])(path(edge_weight=torch.tensor([0.0, 1.0]))).x[0]
    assert x[0, 1, 1:5].tolist() == [1, 0, 0, 0]


def test_features_are_permutation_equivariant(generator):
    """Renamed vertices and shuffled edges: renamed features and targets."""
    graph = random_graph(6, generator)
    order = torch.randperm(6, generator=generator)  # new vertex v is the old order[v]
    new_name = order.argsort()
    shuffled = torch.randperm(graph.num_edges, generator=generator)
    square = graph.is_bridge.reshape(6, 6)[order][:, order]
    renamed = Data(
        num_nodes=6,
        edge_index=new_name[graph.edge_index][:, shuffled],
        edge_weight=graph.edge_weight[shuffled],
        length=graph.length[shuffled],
        **{name: graph[name][order] for name in ("pos", "s", "rank", "is_cut", "head")},
        pi=new_name[graph.pi[order]],
        is_bridge=square.flatten(),
        Pi=new_name[graph.Pi.reshape(6, 6)[order][:, order]].flatten(),
    )
    to_pairs = ToPairBatch(**NAMES, outputs=OUTPUTS)
    old, new = to_pairs(graph), to_pairs(renamed)
    assert torch.equal(new.x, old.x[:, order][:, :, order])
    assert torch.equal(new.targets["pi"], new_name[old.targets["pi"][:, order]])
    assert torch.equal(new.targets["head"], new_name[old.targets["head"]])
    assert torch.equal(new.targets["is_bridge"], old.targets["is_bridge"][:, order][:, :, order])
    assert torch.equal(new.targets["Pi"], new_name[old.targets["Pi"][:, order][:, :, order]])


# What goes in


def test_batch_input_equals_list_input(graphs, to_pairs):
    assert_equal(to_pairs(Batch.from_data_list(graphs)), to_pairs(graphs))


def test_loader_of_pyg_equals_list_input(graphs, to_pairs):
    (batch,) = GraphLoader(graphs, batch_size=4)
    assert_equal(to_pairs(batch), to_pairs(graphs))


def test_collate_fn_of_a_loader(graphs, to_pairs):
    loader = torch.utils.data.DataLoader(graphs, batch_size=3, collate_fn=to_pairs)
    first, last = loader
    assert_equal(first, to_pairs(graphs[:3]))
    assert_equal(last, to_pairs(graphs[3:]))


def test_one_graph_is_a_batch_of_one(graphs, to_pairs):
    assert_equal(to_pairs(graphs[0]), to_pairs(graphs[:1]))


def test_a_batch_holds_what_each_graph_gives_alone(graphs, to_pairs):
    whole = to_pairs(graphs)
    for g, graph in enumerate(graphs):
        n, alone = graph.num_nodes, to_pairs(graph)
        assert torch.equal(whole.x[g, :n, :n], alone.x[0])
        assert torch.equal(whole.targets["pi"][g, :n], alone.targets["pi"][0])


def test_input_is_left_as_it_was(graphs, to_pairs):
    before = copy.deepcopy(graphs)
    to_pairs(graphs)
    for old, new in zip(before, graphs, strict=True):
        assert old.keys() == new.keys()
        assert all(torch.equal(old[name], new[name]) for name in old.keys() if name != "num_nodes")


def test_empty_edge_list():
    data = Data(num_nodes=3, edge_index=torch.empty(2, 0, dtype=torch.long), edge_weight=torch.empty(0))
    batch = ToPairBatch(edge_attrs=["edge_weight"])(data)
    assert batch.x.shape == (1, 3, 3, 5) and batch.x.sum() == 3 and batch.mask.all()


@pytest.mark.parametrize("edges", [[], [[0, 0]]], ids=["bare", "self-loop"])
def test_single_vertex(edges):
    data = Data(
        num_nodes=1, edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), pi=torch.tensor([0])
    )
    batch = ToPairBatch(outputs=[Output("pi", "node", "pointer")])(data)
    assert batch.x.tolist() == [[[[1.0, len(edges), len(edges)]]]]
    assert batch.targets["pi"].tolist() == [[0]]


def test_isolated_trailing_vertices_count():
    data = Data(num_nodes=5, edge_index=torch.tensor([[0], [1]]))
    assert ToPairBatch()(data).mask.sum() == 5
    data = Data(edge_index=torch.tensor([[0], [1]]), pos=torch.arange(5.0))
    assert ToPairBatch(["pos"])(data).mask.sum() == 5
    batch = Batch.from_data_list([Data(num_nodes=5, edge_index=torch.tensor([[0], [1]]))] * 2)
    assert ToPairBatch()(batch).num_nodes.tolist() == [5, 5]


def test_graphs_of_networkx():
    batch = ToPairBatch(edge_attrs=["edge_weight"])(
        from_networkx(nx.path_graph(4)).update({"edge_weight": torch.ones(6)})
    )
    assert torch.equal(batch.x[0, :, :, 1], torch.as_tensor(nx.to_numpy_array(nx.path_graph(4))).float())


# What is refused


def refused(data, match, **kwargs):
    with pytest.raises(InputError, match=match):
        ToPairBatch(**kwargs)(data)


def test_refuses_no_graphs():
    refused([], "at least one graph")


def test_refuses_what_is_not_a_graph(types_unchecked):
    refused([path(), torch.zeros(3)], "graph 1 is a Tensor")


@pytest.mark.parametrize("thing", [None, 5, HeteroData()])
def test_refuses_what_is_no_list_of_graphs(types_unchecked, thing):
    refused(thing, f"expected PyG Data or a list of them, got a {type(thing).__name__}")


@pytest.mark.parametrize("count", [3.0, torch.tensor(3)])
def test_refuses_a_number_of_vertices_that_is_not_whole(count):
    refused(path().update({"num_nodes": count}), "at least one vertex, a whole number, got num_nodes")


def test_takes_numbers_of_vertices_of_numpy():
    four, other = (path().update({"num_nodes": count}) for count in (4, np.int64(4)))
    assert_equal(ToPairBatch()(other), ToPairBatch()(four))


@pytest.mark.parametrize(
    "value",
    [torch.zeros(3, dtype=torch.complex64), torch.ones(3).to_sparse(), np.zeros(3)],
    ids=["complex", "sparse", "numpy"],
)
def test_refuses_attributes_and_targets_that_are_no_plain_numbers(value):
    refused(path(pos=value), "'pos' is missing or no dense tensor of real numbers", node_attrs=["pos"])
    refused(path(pi=value), "expected a dense tensor of 3 entries as the target 'pi'", outputs=OUTPUTS)


def test_refuses_an_attribute_without_a_dimension():
    refused(path(pos=torch.tensor(1.0)), "each of 3 nodes", node_attrs=["pos"])
    data = Data(edge_index=torch.tensor([[0], [1]]), pos=torch.tensor(1.0))
    refused(data, "set data.num_nodes", node_attrs=["pos"])


def test_refuses_no_vertices():
    refused(Data(num_nodes=0, edge_index=torch.empty(2, 0, dtype=torch.long)), "at least one vertex")


def test_refuses_an_unknown_number_of_vertices():
    refused(Data(edge_index=torch.tensor([[0], [1]])), "set data.num_nodes")


def test_refuses_duplicate_edges():
    data = Data(num_nodes=3, edge_index=torch.tensor([[0, 1, 0], [1, 2, 1]]))
    refused([path(), data], r"graph 1: 1 edges are given more than once.*coalesce")


@pytest.mark.parametrize("edge", [[0, 3], [-1, 0]])
def test_refuses_edges_out_of_range(edge):
    data = Data(num_nodes=3, edge_index=torch.tensor([[0, edge[0]], [1, edge[1]]]))
    refused([path(), data], rf"graph 1: .*vertex {3 if 3 in edge else -1}, outside 0\.\.2")


@pytest.mark.parametrize(
    "edge_index",
    [None, torch.zeros(3, 2, dtype=torch.long), torch.zeros(4, dtype=torch.long), torch.zeros(2, 1)],
    ids=["missing", "transposed", "flat", "float"],
)
def test_refuses_an_edge_index_of_another_form(edge_index):
    refused(Data(num_nodes=3, edge_index=edge_index), "graph 0: expected an edge_index")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e300])
@pytest.mark.parametrize("name", ["pos", "length", "edge_weight"])
def test_refuses_values_that_are_not_finite(name, value, graphs, to_pairs):
    graphs[2][name] = torch.full_like(graphs[2][name], 0, dtype=torch.float64)
    graphs[2][name][0] = value
    refused(graphs, f"{name}.*not finite", **NAMES)


def test_refuses_negative_weights_but_no_other_negative_attribute():
    data = path(edge_weight=torch.tensor([1.0, -0.5]), length=torch.tensor([1.0, -0.5]))
    refused(data, r"negative.*-0\.5", edge_attrs=["edge_weight"])
    assert ToPairBatch(edge_attrs=["length"])(data).x.min() == -0.5


@pytest.mark.parametrize("name", ["pos", "edge_weight"])
def test_refuses_missing_attributes(name, graphs):
    del graphs[1][name]
    refused(graphs, f"graph 1: .*{name}.* missing", **NAMES)


def test_refuses_attributes_of_the_wrong_size():
    refused(path(pos=torch.zeros(4)), "each of 3 nodes.*4", node_attrs=["pos"])
    refused(path(edge_weight=torch.zeros(3)), "each of 2 edges.*3", edge_attrs=["edge_weight"])
    refused(path(pos=torch.zeros(3, 1, 1)), "each of 3 nodes", node_attrs=["pos"])


def test_refuses_attributes_whose_width_differs_between_graphs():
    refused(
        [path(pos=torch.zeros(3, 2)), path(pos=torch.zeros(3, 1))], "different widths", node_attrs=["pos"]
    )


def test_refuses_an_order_of_several_columns():
    refused(path(pos=torch.zeros(3, 2)), "one value a vertex", order_attrs=["pos"])


@pytest.mark.parametrize("name", ["pi", "is_cut", "head", "is_bridge", "Pi"])
def test_refuses_targets_of_the_wrong_size(name, graphs, to_pairs):
    graphs[2][name] = torch.zeros(7, dtype=torch.long)
    refused(
        graphs,
        rf"graph 2: expected .* {3 if graphs[0][name].numel() == 5 else 9} entries.*{name}",
        outputs=OUTPUTS,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("pi", 3), ("pi", -2), ("Pi", 3), ("is_cut", 2), ("is_cut", -2), ("is_bridge", 2), ("head", 2)],
)
def test_refuses_targets_out_of_range(name, value, graphs):
    graphs[2][name][1] = value
    refused(graphs, rf"graph 2: .*{name}.*must lie in -1\.\.", outputs=OUTPUTS)


@pytest.mark.parametrize("value", [0.5, torch.nan])
def test_refuses_targets_that_are_not_whole(value):
    refused(path(is_cut=torch.tensor([0.0, value, 1.0])), "not whole numbers", outputs=OUTPUTS)


def test_refuses_targets_of_some_graphs_only(graphs):
    del graphs[3].Pi
    refused(graphs, "'Pi': missing from 1 of 4 graphs", outputs=OUTPUTS)


def test_refuses_two_marked_vertices():
    refused(path(head=torch.tensor([1, 0, 1])), "marks 2 vertices", outputs=OUTPUTS)


def test_refuses_no_marked_vertex():
    """A mask_one without a mark asks for a vertex that is not there."""
    refused(path(head=torch.tensor([0, 0, 0])), "'head' marks no vertices", outputs=OUTPUTS)


def test_refuses_a_batch_vector_that_does_not_say_which_graphs():
    """A batch vector on a plain Data, sorted or not, is not a list of graphs."""
    refused(path(batch=torch.tensor([0, 1, 0])), "Batch.from_data_list")


def test_refuses_a_batch_that_was_put_together_by_hand():
    batch = Batch(batch=torch.tensor([1, 0, 1]), edge_index=torch.tensor([[0], [2]]), num_nodes=3)
    refused(batch, "Batch.from_data_list")


def test_a_batch_vector_shuffled_later_changes_nothing(graphs, to_pairs):
    batch = Batch.from_data_list(graphs)
    batch.batch = batch.batch.flip(0)
    assert_equal(to_pairs(batch), to_pairs(graphs))


def test_refuses_tensors_on_several_devices():
    refused(path(pos=torch.zeros(3, device="meta")), "several devices.*cpu.*meta", node_attrs=["pos"])


# PairBatch


def test_pair_batch_moves_as_one(graphs, to_pairs):
    moved = to_pairs(graphs).to("meta")
    assert {moved.x.device.type, moved.mask.device.type} == {"meta"}
    assert {y.device.type for y in moved.targets.values()} == {"meta"}
    assert moved.num_graphs == 4


def test_pair_batch_counts_vertices(graphs, to_pairs):
    assert to_pairs(graphs).num_nodes.tolist() == [5, 1, 3, 2]
    assert to_pairs(graphs).num_graphs == 4


def test_repr_names_what_is_read(to_pairs):
    assert "edge_weight" in repr(to_pairs) and "is_bridge" in repr(to_pairs)
