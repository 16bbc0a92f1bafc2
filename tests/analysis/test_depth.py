import networkx as nx
import numpy as np
import pandas as pd
import pytest

from analysis.depth import (
    DIAGONAL,
    MEANING,
    UNREACHED,
    accuracy_by_depth,
    bin_depths,
    entry_depths,
    pointer_depths,
)
from clrs_bridge import TASKS, sample
from tests.analysis import fakes


def walk(pointer, root, v):
    """Steps from v to root one by one."""
    steps = 0
    while v != root:
        if pointer[v] == v:
            return UNREACHED
        v, steps = pointer[v], steps + 1
    return steps


def test_pointer_depths_match_known_answer():
    #      0 <- 1 <- 2, 0 <- 3;  4 points at itself;  5 <-> 6;  7 points nowhere, 8 at 7
    pointer = np.array([0, 0, 1, 0, 4, 6, 5, -1, 7])
    is_root = np.arange(9) == 0
    assert pointer_depths(pointer, is_root).tolist() == [0, 1, 2, 1, -1, -1, -1, -1, -1]


@pytest.mark.parametrize("task", ["bfs", "mst_prim", "bellman_ford", "dijkstra", "dag_shortest_paths"])
@pytest.mark.parametrize("edge_prob", [0.2, 0.5])
def test_entry_depths_match_walk_to_source(task, edge_prob):
    for graph in sample(task, 9, 10, seed=2, edge_prob=edge_prob):
        source = int(graph.s.argmax())
        expected = [walk(graph.pi.tolist(), source, v) for v in range(9)]
        assert entry_depths(task, graph).tolist() == expected


def test_bfs_depths_are_distances():
    for graph in sample("bfs", 12, 10, seed=3, edge_prob=0.4):
        edges = nx.Graph(list(zip(*graph.edge_index.tolist(), strict=True)))
        edges.add_nodes_from(range(12))
        distance = nx.single_source_shortest_path_length(edges, int(graph.s.argmax()))
        assert entry_depths("bfs", graph).tolist() == [distance.get(v, UNREACHED) for v in range(12)]


def test_every_dfs_root_has_depth_0():
    #  0 -> 2 -> 1, and the second tree 3 -> 4
    graph = fakes.graph(5, [(0, 2), (2, 1), (3, 4), (3, 1)], pi=[0, 2, 0, 3, 3])
    assert entry_depths("dfs", graph).tolist() == [0, 2, 1, 0, 1]


def test_floyd_warshall_depths_match_known_answer():
    #  0 -1- 1 -1- 2, 0 -5- 2 is too long; 3 is alone; 0 has a self-loop longer than 0 -> 1 -> 0
    edges, weights = [(0, 1), (1, 2), (0, 2), (0, 0)], [1.0, 1.0, 5.0, 3.0]
    pointers = [[1, 0, 1, 0], [1, 1, 1, 1], [1, 2, 2, 2], [3, 3, 3, 3]]
    graph = fakes.graph(4, edges, weights, undirected=True, Pi=pointers)
    d, u = DIAGONAL, UNREACHED
    expected = [[d, 1, 2, u], [1, d, 1, u], [2, 1, d, u], [u, u, u, d]]
    assert entry_depths("floyd_warshall", graph).reshape(4, 4).tolist() == expected


def test_floyd_warshall_depths_match_networkx():
    for graph in sample("floyd_warshall", 8, 10, seed=4, edge_prob=0.5):
        edges = nx.Graph()
        edges.add_nodes_from(range(8))
        for (i, j), w in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True):
            edges.add_edge(i, j, weight=w)
        depths = entry_depths("floyd_warshall", graph).reshape(8, 8)
        paths = dict(nx.all_pairs_dijkstra_path(edges))
        for i in range(8):
            for j in range(8):
                expected = DIAGONAL if i == j else len(paths[i][j]) - 1 if j in paths[i] else UNREACHED
                assert depths[i, j] == expected


@pytest.mark.parametrize("task", MEANING)
def test_accuracy_by_depth_of_perfect_answers_is_1(task):
    graphs = sample(task, 6, 3, seed=0)
    rows = fakes.perfect(graphs, TASKS[task].outputs, loops=2)
    table = accuracy_by_depth(rows, [entry_depths(task, graph) for graph in graphs])
    assert (table["accuracy"] == 1).all()
    assert table["entries"].sum() == len(rows)


def test_accuracy_by_depth_matches_known_answer():
    graphs = [
        fakes.graph(3, [(0, 1), (1, 2)], source=0, pi=[0, 0, 1]),
        fakes.graph(2, [], source=1, pi=[0, 1]),
    ]
    rows = fakes.perfect(graphs, TASKS["bfs"].outputs, loops=2)
    rows.loc[(rows["loop"] == 1) & (rows["i"] == 1), "prediction"] = 0
    table = accuracy_by_depth(rows, [entry_depths("bfs", graph) for graph in graphs])
    # At loop 1 vertex 1 of graph 0 stays right, the source of graph 1 is wrong; its vertex 0 is "self".
    expected = [[1, -1, 1, 1], [1, 0, 2, 1], [1, 1, 1, 1], [1, 2, 1, 1]]
    expected += [[2, -1, 1, 1], [2, 0, 2, 2], [2, 1, 1, 1], [2, 2, 1, 1]]
    assert table[["loop", "depth", "entries", "right"]].to_numpy().tolist() == expected
    binned = bin_depths(table[["loop", "depth", "entries", "right"]], ["loop"])
    assert binned["depth"].tolist() == ["0", "1", "2", "self"] * 2
    assert binned["right"].tolist() == [1, 1, 1, 1, 2, 1, 1, 1]


def test_bin_depths_matches_known_answer():
    depths = np.array([-2, -1, 0, 7, 8, 15, 16, 31, 32, 64])
    binned = bin_depths(pd.DataFrame({"depth": depths, "entries": 1}))
    assert binned["depth"].tolist() == ["0", "7", "8-15", "16-31", "32-63", "64-127", "diagonal", "no path"]
    assert binned["entries"].tolist() == [1, 1, 2, 2, 1, 1, 1, 1]
