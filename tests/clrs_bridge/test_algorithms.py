"""Labels against networkx and scipy, and on graphs drawn by hand."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree, shortest_path

from clrs_bridge import algorithms
from clrs_bridge.algorithms import Graph
from clrs_bridge.samplers import raw_sample

CASES = [(4, 0.5), (7, 0.3), (16, 0.2), (33, 0.15), (33, 0.6)]
cases = pytest.mark.parametrize(("num_nodes", "edge_prob"), CASES)


def fresh(task, num_nodes, edge_prob):
    """Adjacency matrices, sources and outputs of some graphs."""
    inputs, outputs = raw_sample(task, num_nodes, 6, seed=100 + num_nodes, edge_prob=edge_prob)
    sources = inputs["s"].argmax(axis=1) if "s" in inputs else [None] * 6
    return [
        (matrix, source, {name: array[b] for name, array in outputs.items()})
        for b, (matrix, source) in enumerate(zip(inputs["A"], sources, strict=True))
    ]


def without_loops(matrix):
    graph = nx.from_numpy_array(matrix)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def path_lengths(matrix, source, parent):
    """Length of the way back to the source along the pointers; infinite where they do not lead to it."""
    lengths = np.full(len(parent), np.inf)
    lengths[source] = 0
    for j in range(len(parent)):
        length, at = 0.0, j
        for _ in range(len(parent)):
            if at == source:
                lengths[j] = length
                break
            assert parent[at] == at or matrix[parent[at], at] != 0
            length, at = length + matrix[parent[at], at], parent[at]
    return lengths


def graph_from_edges(num_nodes, edges, source=None, both=True):
    """Graph from {(i, j): weight}."""
    edge, weight = np.zeros((num_nodes, num_nodes), dtype=bool), np.zeros((num_nodes, num_nodes))
    for (i, j), value in edges.items():
        edge[i, j], weight[i, j] = True, value
        if both:
            edge[j, i], weight[j, i] = True, value
    return Graph(edge, weight, source)


@cases
def test_bfs_pointers_have_networkx_depth(num_nodes, edge_prob):
    for matrix, source, labels in fresh("bfs", num_nodes, edge_prob):
        depth = nx.single_source_shortest_path_length(nx.from_numpy_array(matrix), source)
        expected = np.array([depth.get(j, np.inf) for j in range(num_nodes)])
        np.testing.assert_array_equal(path_lengths(matrix, source, labels["pi"]), expected)


@cases
def test_dfs_matches_networkx(num_nodes, edge_prob):
    for matrix, _, labels in fresh("dfs", num_nodes, edge_prob):
        graph = nx.from_numpy_array(matrix, create_using=nx.DiGraph)
        parents = nx.dfs_predecessors(graph, sort_neighbors=sorted)
        np.testing.assert_array_equal(labels["pi"], [parents.get(j, j) for j in range(num_nodes)])


@cases
def test_topological_order_puts_every_edge_forwards(num_nodes, edge_prob):
    for matrix, _, labels in fresh("topological_sort", num_nodes, edge_prob):
        order = [int(labels["topo_head"].argmax())]
        while labels["topo"][order[-1]] != order[-1]:
            order.append(int(labels["topo"][order[-1]]))
        assert sorted(order) == list(range(num_nodes))
        place = np.argsort(order)
        assert all(place[i] < place[j] for i, j in np.argwhere(matrix))


@cases
def test_cut_vertices_and_bridges_match_networkx(num_nodes, edge_prob):
    for matrix, _, labels in fresh("articulation_points", num_nodes, edge_prob):
        assert set(np.flatnonzero(labels["is_cut"])) == set(nx.articulation_points(without_loops(matrix)))
    for matrix, _, labels in fresh("bridges", num_nodes, edge_prob):
        expected = np.where(matrix + np.eye(num_nodes) != 0, 0.0, -1.0)
        for i, j in nx.bridges(without_loops(matrix)):
            expected[i, j] = expected[j, i] = 1
        np.testing.assert_array_equal(labels["is_bridge"], expected)


@cases
def test_components_match_scipy(num_nodes, edge_prob):
    for matrix, _, labels in fresh("strongly_connected_components", num_nodes, edge_prob):
        _, component = connected_components(matrix, connection="strong")
        representative = labels["scc_id"]
        same = component[:, None] == component[None, :]
        np.testing.assert_array_equal(representative[:, None] == representative[None, :], same)
        np.testing.assert_array_equal(component[representative], component)


@cases
def test_spanning_trees_weigh_what_scipy_finds(num_nodes, edge_prob):
    for matrix, _, labels in fresh("mst_kruskal", num_nodes, edge_prob):
        np.testing.assert_array_equal(labels["in_mst"], labels["in_mst"].T)
        loopless = matrix - np.diag(np.diag(matrix))
        expected = minimum_spanning_tree(loopless)
        assert (loopless * labels["in_mst"]).sum() / 2 == pytest.approx(expected.sum())
        assert labels["in_mst"].sum() == 2 * expected.nnz
    for matrix, source, labels in fresh("mst_prim", num_nodes, edge_prob):
        loopless = matrix - np.diag(np.diag(matrix))
        _, component = connected_components(loopless)
        joined = np.flatnonzero(labels["pi"] != np.arange(num_nodes))
        mine = np.flatnonzero(component == component[source])
        assert set(joined) == set(mine) - {source}
        expected = minimum_spanning_tree(loopless[np.ix_(mine, mine)]).sum()
        assert loopless[labels["pi"][joined], joined].sum() == pytest.approx(expected)


@cases
@pytest.mark.parametrize("task", ["bellman_ford", "dijkstra", "dag_shortest_paths"])
def test_paths_are_as_short_as_scipy_finds(task, num_nodes, edge_prob):
    for matrix, source, labels in fresh(task, num_nodes, edge_prob):
        expected = shortest_path(matrix, indices=source)
        np.testing.assert_allclose(path_lengths(matrix, source, labels["pi"]), expected)


@cases
def test_all_pairs_are_as_short_as_scipy_finds(num_nodes, edge_prob):
    for matrix, _, labels in fresh("floyd_warshall", num_nodes, edge_prob):
        before = labels["Pi"].astype(int)
        expected = shortest_path(matrix)
        for i in range(num_nodes):
            unreachable = np.isinf(expected[i])
            assert (before[i][unreachable] == i).all()
            parent = np.where(unreachable, np.arange(num_nodes), before[i])
            np.testing.assert_allclose(path_lengths(matrix, i, parent), expected[i])


def test_floyd_warshall_diagonal_shows_a_long_self_loop():
    """0 and 1 lie 0.2 apart. The loop at 0 (0.5) is longer than there and back (0.4), at 1 (0.3) not."""
    graph = graph_from_edges(3, {(0, 0): 0.5, (1, 1): 0.3, (0, 1): 0.2})
    np.testing.assert_array_equal(algorithms.floyd_warshall(graph)["Pi"], [[1, 0, 0], [1, 1, 1], [2, 2, 2]])


def test_bfs_takes_the_lowest_neighbour_of_the_layer_before():
    graph = graph_from_edges(
        6, dict.fromkeys([(5, 2), (5, 3), (2, 1), (3, 1), (1, 0), (4, 4)], 1.0), source=5
    )
    assert algorithms.bfs(graph)["pi"].tolist() == [1, 2, 5, 5, 4, 5]


def test_representative_of_a_component_is_the_member_found_first():
    """0 -> 2 enters the cycle 1 -> 2 -> 3 -> 1 at 2."""
    graph = graph_from_edges(4, dict.fromkeys([(0, 2), (1, 2), (2, 3), (3, 1)], 1.0), both=False)
    assert algorithms.strongly_connected_components(graph)["scc_id"].tolist() == [0, 2, 2, 2]


def test_bridges_mask_non_edges_and_not_the_diagonal():
    graph = graph_from_edges(4, dict.fromkeys([(0, 1), (1, 2), (0, 2), (2, 3)], 1.0))
    expected = [[0, 0, 0, -1], [0, 0, 0, -1], [0, 0, 0, 1], [-1, -1, 1, 0]]
    assert algorithms.bridges(graph)["is_bridge"].tolist() == expected
    assert algorithms.articulation_points(graph)["is_cut"].tolist() == [0, 0, 1, 0]


def test_topological_sort_points_to_the_next_vertex():
    graph = graph_from_edges(4, dict.fromkeys([(2, 0), (0, 3), (2, 1)], 1.0), both=False)
    labels = algorithms.topological_sort(graph)
    assert labels["topo_head"].tolist() == [0, 0, 1, 0]  # 2, 1, 0, 3
    assert labels["topo"].tolist() == [3, 0, 1, 3]


def test_dag_paths_ignore_what_the_source_does_not_reach():
    graph = graph_from_edges(4, {(0, 1): 0.1, (1, 2): 0.5, (1, 3): 0.1, (3, 2): 0.1}, source=1, both=False)
    assert algorithms.dag_shortest_paths(graph)["pi"].tolist() == [0, 1, 3, 1]


def test_kruskal_takes_equal_weights_in_row_major_order():
    graph = graph_from_edges(4, dict.fromkeys([(2, 3), (1, 3), (1, 2), (0, 3)], 0.5))
    expected = graph_from_edges(4, dict.fromkeys([(0, 3), (1, 2), (1, 3)], 1.0)).weight
    np.testing.assert_array_equal(algorithms.mst_kruskal(graph)["in_mst"], expected)


@pytest.mark.parametrize("algorithm", [algorithms.bellman_ford, algorithms.dijkstra, algorithms.mst_prim])
def test_weight_of_zero_is_an_edge(algorithm):
    graph = graph_from_edges(4, {(0, 1): 0.0, (1, 2): 0.0, (0, 2): 0.5, (2, 3): 0.0}, source=0)
    assert algorithm(graph)["pi"].tolist() == [0, 0, 1, 2]


def test_weight_of_zero_is_an_edge_between_all_pairs_and_in_forests():
    graph = graph_from_edges(3, {(0, 1): 0.0, (1, 2): 0.0, (0, 2): 0.5})
    assert algorithms.floyd_warshall(graph)["Pi"].tolist() == [[0, 0, 1], [1, 1, 1], [1, 2, 2]]
    assert algorithms.mst_kruskal(graph)["in_mst"].tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_graph_without_edges_leaves_every_vertex_alone():
    graph = Graph(np.zeros((3, 3), dtype=bool), np.zeros((3, 3)), 1)
    own = [0, 1, 2]
    for algorithm in (algorithms.bfs, algorithms.dfs, algorithms.mst_prim, algorithms.bellman_ford):
        assert algorithm(graph)["pi"].tolist() == own
    assert algorithms.strongly_connected_components(graph)["scc_id"].tolist() == own
    assert algorithms.topological_sort(graph)["topo"].tolist() == [0, 0, 1]
    assert not algorithms.mst_kruskal(graph)["in_mst"].any()
    assert not algorithms.articulation_points(graph)["is_cut"].any()


def test_cycle_vertices_are_found():
    edge = graph_from_edges(5, dict.fromkeys([(0, 1), (1, 2), (2, 1), (2, 3)], 1.0), both=False).edge
    assert algorithms.find_cycle_vertices(edge).tolist() == [1, 2, 3]
    assert algorithms.find_cycle_vertices(np.eye(3, dtype=bool)).tolist() == [0, 1, 2]
    assert algorithms.find_cycle_vertices(np.triu(np.ones((5, 5), dtype=bool), 1)).size == 0


def test_code_compiles_where_no_cache_can_be_written():
    namespace = {}
    exec(
        "def double(x):\n    return 2 * x", namespace
    )  # of no file, hence without a folder for numba's cache
    assert algorithms._compiled(namespace["double"])(3) == 6
