"""Tables and figures of path search, from a tiny run under the names of several."""

import copy
import json
import shutil

import pandas as pd
import pytest
import yaml

from analysis.search_results import over_lookaheads, over_sets, read_search_runs
from benchmarks import results, search_results
from graphalgo.cli import main
from graphalgo.errors import InputError
from graphalgo.predictions import LAST, read_predictions
from graphalgo.store import load_graphs
from tests import fake_runs, tiny_search

README = "<!-- search:begin -->\nold\n<!-- search:end -->\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkout with a run of ten steps; its copies pass for other models."""
    root = tmp_path_factory.mktemp("root")
    settings = tiny_search.config(propagators=2)
    settings["data"]["init_args"]["tests"] = [
        {"size": 9, "per_lookahead": 3},
        {"size": 12, "random": True, "num_questions": 5},
    ]
    noted = {"accuracy": 0.01, "checks": 1, "every": 5, "stop": False}
    settings["trainer"]["callbacks"] = [{"class_path": "graphalgo.convergence.Converged", "init_args": noted}]
    given = root / "given.yaml"
    given.write_text(yaml.safe_dump(settings))
    run = root / "runs" / "search" / "propagator-seed0"
    assert main(["fit", "--config", str(given), "--run_dir", str(run)]) == 0
    assert main(["test", "--run_dir", str(run)]) == 0
    for name in ("or_join-seed0", "summed_2_layers-seed0", "summed_3_layers_names-seed0"):
        shutil.copytree(run, run.with_name(name))
    (root / "README.md").write_text(README)
    return root


@pytest.fixture
def runs(root):
    return sorted((root / "runs" / "search").iterdir())


def test_runs_and_answers_are_those_of_the_folders(root, runs):
    trained, answered = read_search_runs(runs)
    assert trained["model"].tolist() == ["or_join", "propagator", "summed_2_layers", "summed_3_layers_names"]
    assert set(trained["steps"]) == {10} and trained["parameters"].gt(100).all()
    assert trained["converged"].iloc[0] in (5 * 8, 10 * 8)
    own = answered[(answered["model"] == "propagator") & (answered["set"] == "lookahead-9")]
    assert own["lookahead"].tolist() == [1, 2, 3, 4] and own["questions"].tolist() == [3] * 4
    test = root / "runs" / "search" / "propagator-seed0" / "test"
    rows = read_predictions(test / "predictions.parquet", set="lookahead-9", loop=LAST)
    graphs, _ = load_graphs(test / "graphs" / "lookahead-9.safetensors")
    right = [int(graphs[g].next) == p for g, p in zip(rows["graph"], rows["prediction"], strict=True)]
    assert own["right"].sum() == sum(right)


def test_sets_match_known_answer():
    counts = [("a", 0, 1, 4, 4), ("a", 0, 2, 1, 4), ("a", 1, 1, 4, 4), ("a", 1, 2, 3, 4)]
    table = pd.DataFrame(counts, columns=["set", "seed", "lookahead", "right", "questions"])
    table = table.assign(model="m", num_nodes=9, accepted=table["right"], accuracy=table["right"] / 4)
    row = over_sets(table).iloc[0]
    assert (row["seeds"], row["questions"], row["lookaheads"], row["num_nodes"]) == (2, 8, 2, 9)
    assert row["accuracy"] == pytest.approx((5 / 8 + 7 / 8) / 2) and row["lowest"] == 0.25
    assert row["accuracy_sd"] == pytest.approx(2**0.5 / 8)
    assert over_lookaheads(table)["questions"].tolist() == [8, 8]


def test_only_seeds_of_path_search_are_read(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "or_join-seed3")
    shutil.copytree(runs[0], tmp_path / "or_join")
    other = fake_runs.make(tmp_path / "bfs-seed0", [fake_runs.scores("bfs", 1.0)])
    for path in (tmp_path / "or_join-seed3", tmp_path / "or_join", other):
        with pytest.raises(InputError, match="is no run of path search that is called"):
            read_search_runs([path])


def test_readme_gets_tables_and_figures(root):
    assert results.main(["--root", str(root)]) == 0
    text = (root / "README.md").read_text()
    assert "old" not in text
    assert "| `search/propagator` | " in text and "| `or_join` | lookahead-9 | 1 | 12 | 4 |" in text
    assert "**Depth law, pair features**" in text and "**Depth law, names**" in text
    assert "| 2 | 4 | 1 | " in text and "| set by hand | 0 | " in text
    assert "`summed_2_layers` |" not in text.partition("Accuracy in percent")[0].partition("| set |")[2]
    drawn = sorted(path.stem for path in (root / "docs" / "figures").glob("*.png"))
    assert drawn == ["search_depth", "search_depth_names", "search_gates", "search_propagator"]
    assert results.main(["--root", str(root), "--check"]) == 0


def test_tables_outlive_the_run_folders(root, tmp_path, capsys):
    assert results.main(["--root", str(root)]) == 0
    for name in ("README.md", "benchmarks"):
        (shutil.copytree if (root / name).is_dir() else shutil.copy)(root / name, tmp_path / name)
    assert results.main(["--root", str(tmp_path), "--check"]) == 0
    kept = tmp_path / "benchmarks" / "measured" / "search" / "or_join-seed0.json"
    assert str(root) not in kept.read_text()
    whole = json.loads(kept.read_text())
    for damaged in BAD_NOTES:
        kept.write_text(json.dumps(damaged(copy.deepcopy(whole))))
        assert results.main(["--root", str(tmp_path), "--check"]) == 2
        assert "is no note of a run of path search" in capsys.readouterr().err


BAD_NOTES = [
    lambda note: {},
    lambda note: [],
    lambda note: note | {"steps": None},
    lambda note: note | {"sets": []},
    lambda note: note | {"sets": [note["sets"][0] | {"right": [99] * 4}]},
    lambda note: note | {"sets": [note["sets"][0] | {"questions": [0] * 4}]},
    lambda note: note | {"sets": [note["sets"][0] | {"accepted": [1]}]},
]


def test_unlike_runs_are_not_averaged(root, tmp_path, capsys):
    assert results.main(["--root", str(root)]) == 0
    for name in ("README.md", "benchmarks"):
        (shutil.copytree if (root / name).is_dir() else shutil.copy)(root / name, tmp_path / name)
    kept = tmp_path / "benchmarks" / "measured" / "search"
    note = json.loads((kept / "or_join-seed0.json").read_text())
    (kept / "other.json").write_text(json.dumps(note))
    assert results.main(["--root", str(tmp_path), "--check"]) == 2
    assert "runs of one setting and seed" in capsys.readouterr().err
    note["config"]["model"]["learning_rate"] = 1.0
    (kept / "other.json").write_text(json.dumps(note | {"seed": 1}))
    assert results.main(["--root", str(tmp_path), "--check"]) == 2
    assert "differ in more than their seed: model.learning_rate" in capsys.readouterr().err


def test_only_all_right_answers_are_a_hundred_percent():
    assert [search_results.percent(share) for share in (1, 0.9999, 0.5)] == ["100.0", "99.9", "50.0"]
