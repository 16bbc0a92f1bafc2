import dataclasses
import shutil

import numpy as np
import pytest

from analysis.answers import check_answers, dense_weights, lookup, lookup_vertex, read_answers
from clrs_bridge import TASKS, sample
from graphalgo.errors import InputError
from graphalgo.store import load_graphs, save_graphs
from tests.analysis import fakes


@pytest.fixture
def run_dir(tmp_path):
    graphs = sample("topological_sort", 5, 3, seed=0)
    first = fakes.answers(TASKS["topological_sort"], graphs, loops=2, wrong=0.5, name="official-5")
    second = fakes.answers(TASKS["topological_sort"], graphs[:1], name="fresh-5")
    return fakes.save(tmp_path / "run", first, second)


def test_read_answers_gives_back_what_was_written(run_dir):
    graphs = sample("topological_sort", 5, 3, seed=0)
    written = fakes.answers(TASKS["topological_sort"], graphs, loops=2, wrong=0.5)
    first, second = read_answers(run_dir)
    assert (first.set, second.set) == ("official-5", "fresh-5")
    assert (first.task, first.num_loops, first.sizes, len(first.graphs)) == ("topological_sort", 2, "5", 3)
    assert second.num_loops == 1
    columns = ["graph", "output", "loop", "i", "j", "target", "prediction"]
    keys = ["graph", "output", "loop", "i"]
    actual, expected = (
        frame[columns].astype({"output": str}).sort_values(keys).to_numpy().tolist()
        for frame in (first.rows, written.rows)
    )
    assert actual == expected
    topo = first.outputs[0]
    assert len(first.of(topo)) == 30
    assert set(first.final(topo)["loop"]) == {2}


def test_lookup_matches_reference():
    sizes = [3, 1, 4]
    rng = np.random.default_rng(0)
    node = [rng.random(n) for n in sizes]
    edge = [rng.random(n * n) for n in sizes]
    parts = [fakes.graph(n, [], pi=np.arange(n), Pi=np.arange(n * n) % n) for n in sizes]
    by_name = {"pi": node, "Pi": edge}
    for output in (TASKS["bfs"].outputs[0], TASKS["floyd_warshall"].outputs[0]):
        rows = fakes.perfect(parts, [output]).sample(frac=1, random_state=0)
        values = by_name[output.name]
        for row, value in zip(rows.itertuples(), lookup(values, rows), strict=True):
            at = row.i if row.j < 0 else row.i * sizes[row.graph] + row.j
            assert value == values[row.graph][at]
        for row, value in zip(rows.itertuples(), lookup_vertex(node, rows, "target"), strict=True):
            assert value == node[row.graph][row.target]


def test_dense_weights_keep_zero_weights_and_self_loops():
    graph = fakes.graph(2, [(0, 0), (0, 1)], [0.5, 0.0])
    assert dense_weights(graph).tolist() == [[0.5, 0.0], [np.inf, np.inf]]


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        list(read_answers(tmp_path / "nowhere"))


def test_a_run_that_was_not_tested_is_refused(tmp_path):
    with pytest.raises(InputError, match="run `graphalgo test` on it first"):
        list(read_answers(tmp_path))


def test_a_damaged_predictions_table_is_refused(run_dir):
    path = run_dir / "test" / "predictions.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"predictions\.parquet"):
        list(read_answers(run_dir))


def test_missing_graphs_are_refused(run_dir):
    (run_dir / "test" / "graphs" / "fresh-5.safetensors").unlink()
    with pytest.raises(InputError, match="the graphs of set 'fresh-5' are missing"):
        list(read_answers(run_dir))


@pytest.mark.parametrize(("seed", "num_graphs"), [(1, 3), (0, 2)])
def test_other_graphs_are_refused(run_dir, tmp_path, seed, num_graphs):
    other = fakes.answers(TASKS["topological_sort"], sample("topological_sort", 5, num_graphs, seed=seed))
    fakes.save(tmp_path / "other", other)
    graphs = "test/graphs/{}.safetensors".format
    shutil.copy(tmp_path / "other" / graphs(other.set), run_dir / graphs("official-5"))
    with pytest.raises(InputError, match="do not belong to its graphs"):
        list(read_answers(run_dir))


def test_graphs_of_another_task_are_refused(run_dir, tmp_path):
    other = fakes.answers(TASKS["dfs"], sample("dfs", 5, 3, seed=0), name="official-5")
    fakes.save(tmp_path / "other", other)
    graphs = "test/graphs/official-5.safetensors"
    shutil.copy(tmp_path / "other" / graphs, run_dir / graphs)
    with pytest.raises(InputError, match="no attribute 'topo'"):
        list(read_answers(run_dir))


def test_predictions_of_another_task_are_refused(run_dir):
    path = run_dir / "test" / "graphs" / "official-5.safetensors"
    graphs, _ = load_graphs(path)
    save_graphs(path, graphs, {"task": "dfs"})
    with pytest.raises(InputError, match="is of 'topological_sort', but the graphs .* are of 'dfs'"):
        list(read_answers(run_dir))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("loop", 0, "predictions of loop 0, which do not exist"),
        ("output", "other", "predictions of outputs other, which do not exist"),
        ("graph", -1, "and graph -1 is named"),
        ("i", -2, "a vertex that does not exist"),
        ("j", 1, "a vertex that does not exist"),
    ],
)
def test_rows_about_nothing_are_refused(column, value, message):
    good = fakes.answers(TASKS["dfs"], sample("dfs", 5, 3, seed=0))
    check_answers(good)
    rows = good.rows.astype({"output": object})
    rows.loc[rows.index[0], column] = value
    with pytest.raises(InputError, match=message):
        check_answers(dataclasses.replace(good, rows=rows))
