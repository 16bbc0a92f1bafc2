import networkx as nx
import numpy as np
import pandas as pd
import pytest

from analysis.margin import (
    MARGINS,
    accuracy_by_margin,
    all_pairs_margins,
    kruskal_margins,
    margin_histogram,
    prim_cut_margins,
    prim_key_margins,
    shortest_path_margins,
    summarise_margins,
)
from clrs_bridge import TASKS, official, sample
from tests.analysis import fakes

INF, NAN = np.inf, np.nan


def weights_of(graph):
    return {
        (i, j): w for (i, j), w in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True)
    }


def bellman_ford_distances(graph, source):
    weight = weights_of(graph)
    distance = [INF] * graph.num_nodes
    distance[source] = 0.0
    for _ in range(graph.num_nodes):
        for (i, j), w in weight.items():
            distance[j] = min(distance[j], distance[i] + w)
    return distance


def slow_predecessor_margins(graph, source, parent):
    """min over k != parent[v] with an edge k -> v of (d[k] + A[k,v]) / d[v] - 1."""
    weight, d = weights_of(graph), bellman_ford_distances(graph, source)
    out = []
    for v in range(graph.num_nodes):
        others = [d[k] + w for (k, j), w in weight.items() if j == v and k != parent[v]]
        out.append(NAN if v == source or d[v] == INF else min(others, default=INF) / d[v] - 1)
    return out


@pytest.mark.parametrize("task", ["bellman_ford", "dijkstra", "dag_shortest_paths"])
@pytest.mark.parametrize("edge_prob", [0.25, 0.6])
def test_shortest_path_margins_match_reference(task, edge_prob):
    for graph in sample(task, 9, 8, seed=5, edge_prob=edge_prob):
        expected = slow_predecessor_margins(graph, int(graph.s.argmax()), graph.pi.tolist())
        np.testing.assert_allclose(shortest_path_margins(graph), expected, rtol=1e-9, atol=1e-12)


def test_all_pairs_margins_match_reference():
    for graph in sample("floyd_warshall", 8, 6, seed=5, edge_prob=0.5):
        pointers = graph.Pi.reshape(8, 8).tolist()
        expected = [slow_predecessor_margins(graph, i, pointers[i]) for i in range(8)]
        actual = all_pairs_margins(graph).reshape(8, 8)
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_shortest_path_margins_match_known_answer():
    #  0 -> 1 (1.0), 0 -> 2 (2.5), 1 -> 2 (1.0), 2 -> 1 (1.0), 3 -> 1, 4 -> 4; 3 and 4 are out of reach.
    edges, weights = [(0, 1), (0, 2), (1, 2), (2, 1), (3, 1), (4, 4)], [1.0, 2.5, 1.0, 1.0, 0.1, 0.2]
    graph = fakes.graph(5, edges, weights, source=0, pi=[0, 0, 1, 3, 4])
    # Into 1: from 2 at 2 + 1 = 3 against 1. Into 2: from 0 at 2.5 against 2.
    np.testing.assert_allclose(shortest_path_margins(graph), [NAN, 2.0, 0.25, NAN, NAN])


def test_shortest_path_margin_of_a_single_edge_is_infinite():
    graph = fakes.graph(2, [(0, 1)], [0.3], source=0, pi=[0, 0])
    np.testing.assert_array_equal(shortest_path_margins(graph), [NAN, INF])


def slow_exchange_margin(graph, i, j, in_tree):
    """How far the weight of {i, j} can go before the minimum spanning forest changes, relative to it."""

    def total(edges):
        return nx.minimum_spanning_tree(edges).size(weight="weight")

    edges = nx.Graph()
    edges.add_weighted_edges_from((a, b, w) for (a, b), w in weights_of(graph).items() if a != b)
    own, before = edges[i][j]["weight"], total(edges)
    if in_tree:
        edges.remove_edge(i, j)
        if not nx.has_path(edges, i, j):
            return INF
        return (total(edges) - before + own) / own - 1
    edges[i][j]["weight"] = -1.0
    return 1 - (before - (total(edges) + 1)) / own


@pytest.mark.parametrize("edge_prob", [0.4, 0.7])
def test_kruskal_margins_match_reference(edge_prob):
    for graph in sample("mst_kruskal", 9, 5, seed=6, edge_prob=edge_prob):
        margins, tree = kruskal_margins(graph).reshape(9, 9), graph.in_mst.reshape(9, 9)
        edges = {(i, j) for i, j in weights_of(graph) if i != j}
        for i in range(9):
            for j in range(9):
                expected = slow_exchange_margin(graph, i, j, tree[i, j] == 1) if (i, j) in edges else NAN
                np.testing.assert_allclose(margins[i, j], expected, rtol=1e-9, atol=1e-9)


def test_kruskal_margins_match_known_answer():
    #  triangle 0 1 2 with weights 1, 2, 4; bridge 2 - 3; self-loop at 0
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (0, 0)]
    tree = np.zeros((4, 4), dtype=int)
    for i, j in [(0, 1), (1, 2), (2, 3)]:
        tree[i, j] = tree[j, i] = 1
    graph = fakes.graph(4, edges, [1.0, 2.0, 4.0, 0.5, 0.7], undirected=True, in_mst=tree)
    expected = [[NAN, 3.0, 0.5, NAN], [3.0, NAN, 1.0, NAN], [0.5, 1.0, NAN, INF], [NAN, NAN, INF, NAN]]
    np.testing.assert_allclose(kruskal_margins(graph).reshape(4, 4), expected)


@pytest.mark.parametrize("edge_prob", [0.4, 0.7])
def test_prim_cut_margins_match_reference(edge_prob):
    for graph in sample("mst_prim", 9, 5, seed=7, edge_prob=edge_prob):
        parent = graph.pi.tolist()
        expected = [NAN if p == v else slow_exchange_margin(graph, p, v, True) for v, p in enumerate(parent)]
        np.testing.assert_allclose(prim_cut_margins(graph), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("edge_prob", [0.4, 0.7])
def test_prim_key_margins_match_reference(edge_prob):
    for graph in sample("mst_prim", 9, 5, seed=7, edge_prob=edge_prob):
        weight, source = weights_of(graph), int(graph.s.argmax())
        expected, grown = [NAN] * 9, [source]
        while True:
            leaving = [(w, i, j) for (i, j), w in weight.items() if i in grown and j not in grown]
            if not leaving:
                break
            w, i, v = min(leaving)
            assert i == graph.pi[v]
            rivals = [weight[k, v] for k in grown if k != i and (k, v) in weight]
            expected[v] = min(rivals, default=INF) / w - 1
            grown.append(v)
        np.testing.assert_allclose(prim_key_margins(graph), expected, rtol=1e-9, atol=1e-12)


def test_prim_margins_match_known_answer():
    #  0 -1- 1 -2- 2 -1- 3, 0 -3- 2, 1 -8- 3, from 0: adds 1, then 2 (by 1), then 3 (by 2); 4 is alone
    edges = [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3)]
    graph = fakes.graph(5, edges, [1.0, 2.0, 1.0, 3.0, 8.0], source=0, undirected=True, pi=[0, 0, 1, 2, 4])
    np.testing.assert_allclose(prim_cut_margins(graph), [NAN, 2.0, 0.5, 7.0, NAN])
    np.testing.assert_allclose(prim_key_margins(graph), [NAN, INF, 0.5, 7.0, NAN])


@pytest.mark.parametrize(
    ("task", "median"),
    [("bellman_ford", 0.205), ("dijkstra", 0.205), ("mst_kruskal", 0.42), ("mst_prim", 0.51)],
)
def test_median_margin_of_official_graphs_is_the_published_one(task, median):
    margins = np.concatenate([MARGINS[task][0].of(graph) for graph in official(task, "test")])
    assert np.median(margins[np.isfinite(margins)]) == pytest.approx(median, abs=0.005)


@pytest.mark.parametrize("task", MARGINS)
def test_margins_of_one_vertex_are_no_decisions(task):
    (output,) = TASKS[task].outputs
    graph = fakes.graph(1, [(0, 0)], [0.5], source=0, **{output.name: [0]})
    for definition in MARGINS[task]:
        margins = [definition.of(graph)]
        assert np.isnan(margins).all()
        rows = fakes.perfect([graph], [output])
        assert summarise_margins(rows, margins)["entries"].tolist() == [0, 0, 0, 0, 1]
        assert len(accuracy_by_margin(rows, margins)) == 0
        assert len(margin_histogram(rows, margins)) == 0


@pytest.fixture
def decided():
    """Five decisions, wrong at the margins 0 and 0.05; one candidate; no decision (wrong)."""
    margins = [np.array([0.0, 0.002, 0.05, 0.3]), np.array([2.0, INF, NAN])]
    rows = pd.DataFrame({"graph": [0] * 4 + [1] * 3, "i": [0, 1, 2, 3, 0, 1, 2], "j": -1, "target": 1})
    return rows.assign(prediction=[0, 1, 0, 1, 1, 1, 0]), margins


def test_summary_of_margins_matches_known_answer(decided):
    table = summarise_margins(*decided).set_index("answers")
    assert table["entries"].to_dict() == {
        "all": 5,
        "right": 3,
        "wrong": 2,
        "one candidate": 1,
        "no decision": 1,
    }
    assert table["wrong"].tolist() == [2, 0, 2, 0, 1]
    assert table.loc["all", ["q25", "median", "q75"]].tolist() == [0.002, 0.05, 0.3]
    assert table.loc["wrong", "median"] == 0.025
    assert table.loc[["one candidate", "no decision"], "median"].isna().all()


def test_accuracy_by_margin_matches_known_answer(decided):
    table = accuracy_by_margin(*decided)
    assert table["from"].tolist() == [0, 0.001, 0.03, 0.3, 1.0]
    assert table["to"].tolist() == [0.001, 0.003, 0.1, 1.0, INF]
    assert table["accuracy"].tolist() == [0, 1, 0, 1, 1]


def test_margin_histogram_counts_every_decision_once(decided):
    table = margin_histogram(*decided)
    assert table["all"].sum() == 5
    assert table["wrong"].sum() == 2
    assert table["all"].iloc[[0, -1]].tolist() == [1, 1]


def test_margins_of_all_right_and_all_wrong(decided):
    rows, margins = decided
    right = summarise_margins(rows.assign(prediction=1), margins).set_index("answers")
    assert right.loc["wrong", "entries"] == 0
    assert np.isnan(right.loc["wrong", "median"])
    assert (accuracy_by_margin(rows.assign(prediction=1), margins)["accuracy"] == 1).all()
    wrong = summarise_margins(rows.assign(prediction=0), margins).set_index("answers")
    assert wrong.loc["wrong", "median"] == wrong.loc["all", "median"]
    assert np.isnan(wrong.loc["right", "median"])
