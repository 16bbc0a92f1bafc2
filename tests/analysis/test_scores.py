import numpy as np
import pytest
import torch

from analysis.rates import rates_by, wilson
from analysis.scores import MEAN, official, score_by_graph, score_by_loop
from clrs_bridge import TASKS, sample
from graphalgo.batch import Output
from graphalgo.metrics import OfficialScore
from tests.analysis import fakes


def official_score(answers, loop):
    """The score of graphalgo.metrics, from tensors padded with -1."""
    metric = OfficialScore(answers.outputs)
    rows = answers.rows[answers.rows["loop"] == loop]
    tensors = {}
    for output in answers.outputs:
        own = rows[rows["output"] == output.name]
        largest = max(own["i"].max(), own["j"].max()) + 1
        for column in ("prediction", "target"):
            values = np.full((len(answers.graphs), max(largest, 1), max(largest, 1)), -1)
            at = (own["graph"], own["i"].clip(lower=0), own["j"].clip(lower=0))
            values[at] = own[column]
            tensors[column, output.name] = torch.tensor(values)
    names = [output.name for output in answers.outputs]
    metric.update(*({name: tensors[column, name] for name in names} for column in ("prediction", "target")))
    return metric.compute()


@pytest.mark.parametrize("task", ["bfs", "topological_sort", "bridges", "mst_kruskal", "floyd_warshall"])
def test_score_by_loop_matches_official_score(task):
    answers = fakes.answers(TASKS[task], sample(task, 7, 5, seed=1), loops=2, wrong=0.3)
    table = score_by_loop(answers.rows, answers.outputs, 5)
    for loop in (1, 2):
        row = official(table)[official(table)["loop"] == loop].iloc[0]
        expected = official_score(answers, loop)
        assert row["score"] == pytest.approx(expected["score"], abs=1e-12)
        assert row["low"] == pytest.approx(expected["score_low"], abs=1e-12)
        assert row["high"] == pytest.approx(expected["score_high"], abs=1e-12)
        assert row["exact"] == expected["exact"]


def test_score_by_loop_has_a_mean_only_with_several_outputs():
    two = fakes.answers(
        TASKS["topological_sort"], sample("topological_sort", 6, 4, seed=1), loops=2, wrong=0.5
    )
    table = score_by_loop(two.rows, two.outputs, 4)
    assert list(table["output"]) == ["topo"] * 2 + ["topo_head"] * 2 + [MEAN] * 2
    mean = table[table["output"] != MEAN].groupby("loop")["score"].mean()
    np.testing.assert_allclose(table[table["output"] == MEAN]["score"], mean)
    one = fakes.answers(TASKS["bfs"], sample("bfs", 6, 4, seed=1))
    assert set(score_by_loop(one.rows, one.outputs, 4)["output"]) == {"pi"}


def test_score_by_loop_takes_graphs_without_a_scored_entry():
    out = Output("pi", "node", "pointer")
    graphs = [fakes.graph(2, [(0, 1)], pi=pi) for pi in ([0, 0], [-1, -1])]
    table = score_by_loop(fakes.perfect(graphs, [out]), [out], 2)
    assert table.loc[0, ["score", "low", "high", "exact", "entries"]].tolist() == [1, 1, 1, 1, 2]


def test_score_by_graph_matches_known_answer():
    out = Output("pi", "node", "pointer")
    graphs = [fakes.graph(3, [(0, 1), (1, 0)], pi=[0, 0, 2]), fakes.graph(2, [(0, 1)], pi=[0, 0])]
    graphs.append(fakes.graph(2, [(0, 1)], pi=[-1, -1]))
    rows = fakes.perfect(graphs, [out], loops=2)
    rows.loc[(rows["graph"] == 1) & (rows["i"] == 1) & (rows["loop"] == 2), "prediction"] = 1
    rows.loc[(rows["graph"] == 0) & (rows["loop"] == 1), "prediction"] = 1
    table = score_by_graph(rows, [out], graphs)
    assert table["graph"].tolist() == [1, 0, 2]
    assert table["wrong"].tolist() == [1, 0, 0]
    assert table["num_edges"].tolist() == [1, 2, 1]
    np.testing.assert_array_equal(table["accuracy"], [0.5, 1.0, np.nan])


def test_wilson_matches_known_answers():
    low, high = wilson(np.array([8, 32, 0, 0]), np.array([10, 32, 10, 0]))
    np.testing.assert_allclose(low[:3], [0.4901625, 0.8928204, 0], atol=1e-6)
    np.testing.assert_allclose(high[:3], [0.9433178, 1, 0.2775328], atol=1e-6)
    assert np.isnan([low[3], high[3]]).all()


def test_rates_by_matches_known_answer():
    table = rates_by(
        np.array([True, False, True, True]), loop=np.array([1, 1, 1, 2]), depth=np.array([3, 3, 0, 3])
    )
    expected = [[1, 0, 1, 1, 1.0], [1, 3, 2, 1, 0.5], [2, 3, 1, 1, 1.0]]
    assert table[["loop", "depth", "entries", "right", "accuracy"]].to_numpy().tolist() == expected
