"""Labels of a user's own graphs, and the graphs that are refused."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

from clrs_bridge import TASKS, label, sample
from graphalgo.errors import InputError


def bare(data, task):
    """The graph alone, edges shuffled."""
    order = torch.randperm(data.edge_index.size(1))
    graph = Data(edge_index=data.edge_index[:, order], num_nodes=data.num_nodes)
    if task.weighted:
        graph.edge_weight = data.edge_weight[order]
    if task.has_source:
        graph.source = int(data.s.argmax())
    return graph


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_label_gives_what_sample_gives(task):
    for data in sample(task.name, 11, 3, seed=4):
        labelled = label(bare(data, task), task.name)
        assert set(labelled.keys()) == set(data.keys())
        for name in data.keys():
            assert name == "num_nodes" or torch.equal(labelled[name], data[name])


def test_label_keeps_positions_and_relabels():
    data = sample("dijkstra", 8, 1, seed=0, random_pos=True)[0]
    again = label(data, "mst_prim")
    assert torch.equal(again.pos, data.pos) and torch.equal(again.s, data.s)


def test_label_takes_networkx_graphs():
    graph = nx.Graph([(0, 1, {"weight": 2}), (1, 2, {"weight": 2}), (0, 2, {"weight": 5})])
    graph.add_node(3)
    data = from_networkx(graph)
    data.source = 0
    assert label(data, "dijkstra").pi.tolist() == [0, 0, 1, 3]
    assert label(data, "bridges").is_bridge.reshape(4, 4)[3].tolist() == [-1, -1, -1, 0]
    assert label(from_networkx(nx.DiGraph([("a", "b"), ("c", "a")])), "dfs").pi.tolist() == [0, 0, 2]


def test_label_takes_single_precision_and_columns_of_weights():
    data = sample("floyd_warshall", 6, 1, seed=0)[0]
    data.edge_weight = data.edge_weight.float().unsqueeze(1)
    labelled = label(data, "floyd_warshall")
    assert labelled.edge_weight.dtype == torch.float64
    assert torch.equal(labelled.edge_weight.float(), data.edge_weight[:, 0])


def test_label_takes_the_smallest_and_the_empty_graph():
    empty = Data(edge_index=torch.zeros(2, 0, dtype=torch.int64), num_nodes=1, source=0)
    for name, task in TASKS.items():
        labelled = label(empty, name)
        assert [labelled[output.name].tolist() for output in task.outputs][0] == [0]


def test_label_takes_arrays_and_lists():
    edges = torch.tensor([[0, 1], [1, 0]])
    data = Data(edge_index=edges, pos=[0.1, 0.2], edge_weight=np.array([2, 2]), s=[0, 1])
    labelled = label(data, "dijkstra")
    assert labelled.num_nodes == 2 and labelled.pi.tolist() == [1, 1]
    assert labelled.edge_weight.tolist() == [2, 2] and labelled.pos.tolist() == [0.1, 0.2]


PAIR = torch.tensor([[0, 1], [1, 0]])
BAD = [
    ("bfs", {"edge_index": torch.tensor([[0, 3], [3, 0]])}, "names vertex 3, outside 0..2"),
    ("bfs", {"edge_index": torch.tensor([[0, 1, 0], [1, 0, 1]])}, "more than once"),
    (
        "bfs",
        {"edge_index": torch.tensor([[0, 1], [1, 2]])},
        "undirected graph, but 2 edges lack their reverse",
    ),
    ("bfs", {"edge_index": PAIR.float()}, "int64"),
    ("bfs", {"edge_index": None}, "expected an edge_index"),
    ("bfs", {"num_nodes": 0}, "at least one vertex"),
    ("bfs", {"num_nodes": None}, "number of vertices is not known"),
    ("bfs", {"source": None}, "bfs needs a source: set data.source"),
    ("bfs", {"source": 3}, "the source is vertex 3, outside 0..2"),
    ("bfs", {"s": torch.ones(3)}, "must mark exactly one of 3 vertices as the source.*marks 3"),
    ("bfs", {"s": torch.tensor([0, 0, 0, 1])}, r"has the shape \[4\]"),
    ("bfs", {"s": torch.tensor([0, 1])}, r"has the shape \[2\]"),
    ("bfs", {"s": torch.tensor([0, float("nan"), 0])}, "with a 1 among zeros"),
    ("bfs", {"s": torch.tensor([0, 0.3, 0])}, "with a 1 among zeros"),
    ("bfs", {"source": 1.5}, "one vertex, a whole number, got 1.5"),
    ("bfs", {"source": float("nan")}, "one vertex, a whole number"),
    ("bfs", {"source": torch.tensor([0, 1])}, "one vertex, a whole number"),
    ("bfs", {"source": "a"}, "expected numbers in data.source, got 'a'"),
    ("bfs", {"pos": "here"}, "expected numbers in data.pos"),
    ("mst_kruskal", {"edge_weight": ["a", "b"]}, "expected numbers in data.edge_weight"),
    ("mst_kruskal", {"edge_weight": torch.ones(2, dtype=torch.complex64)}, "dense real numbers"),
    ("bfs", {"pos": torch.tensor([0.1, 0.3, 0.2])}, "data.pos must hold one number a vertex, increasing"),
    ("bfs", {"pos": torch.rand(3, 2)}, r"got the shape \[3, 2\]"),
    ("mst_kruskal", {"edge_weight": None}, "mst_kruskal needs weights: set data.edge_weight"),
    ("mst_kruskal", {"edge_weight": torch.tensor([1.0, float("nan")])}, "not finite"),
    ("mst_kruskal", {"edge_weight": torch.tensor([-1.0, -1.0])}, "must not be negative"),
    ("mst_kruskal", {"edge_weight": torch.tensor([1.0, 2.0])}, "0 -> 1 weighs 1 and 1 -> 0 weighs 2"),
    ("mst_kruskal", {"edge_weight": torch.ones(3)}, "for each of 2 edges"),
    (
        "mst_kruskal",
        {"edge_weight": torch.ones(2, 2)},
        r"one weight an edge in data.edge_weight, got the shape \[2, 2\]",
    ),
    ("topological_sort", {}, r"without cycles, but vertices \[0, 1\]"),
    ("dag_shortest_paths", {"edge_index": torch.tensor([[0, 2], [1, 2]])}, r"vertices \[2\]"),
]


@pytest.mark.parametrize(("task", "change", "message"), BAD)
def test_bad_graph_is_refused(task, change, message):
    values = {"edge_index": PAIR, "num_nodes": 3, "edge_weight": torch.ones(2), "source": 0} | change
    data = Data(**{name: value for name, value in values.items() if value is not None})
    with pytest.raises(InputError, match=message):
        label(data, task)


@pytest.mark.usefixtures("types_unchecked")
@pytest.mark.parametrize("thing", [nx.path_graph(3), None])
def test_what_is_not_one_graph_is_refused(thing):
    with pytest.raises(InputError, match="expected one PyG Data"):
        label(thing, "bfs")


def test_batch_is_refused():
    with pytest.raises(InputError, match="one by one"):
        label(Batch.from_data_list(sample("bfs", 4, 2, seed=0)), "bfs")
