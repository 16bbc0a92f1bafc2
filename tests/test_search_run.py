"""Path search the whole way: a tiny model is trained by the command line, resumed, tested and analysed."""

import contextlib
import io
import json
import math
import re

import pandas as pd
import pytest
import yaml

from graphalgo.cli import main
from graphalgo.module import PairModule
from graphalgo.predictions import LAST, read_predictions
from graphalgo.store import load_graphs
from search_bench import SearchDataModule, SearchTestSet
from tests import tiny

TESTS = [{"size": 9, "per_lookahead": 3}, {"size": 40, "random": True, "num_questions": 10}]
CONVERGED = {
    "class_path": "graphalgo.convergence.Converged",
    "init_args": {"accuracy": 0.2, "checks": 2, "every": 8},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    settings = yaml.safe_load(tiny.CONFIG.read_text())
    settings["data"] = {
        "class_path": "search_bench.SearchDataModule",
        "init_args": {
            "sizes": [7, 9],
            "batch_size": 16,
            "val_sets": [{"size": 9, "per_lookahead": 2}],
            "tests": TESTS,
        },
    }
    settings["model"].update(test_loops=1, log_loops=True)
    settings["trainer"].update(max_steps=48, val_check_interval=24, callbacks=[CONVERGED])
    settings["checkpoint_every"] = 5
    path = tmp_path_factory.mktemp("search") / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture(scope="module")
def run(config):
    assert main(["fit", "--config", str(config), "--run_dir", str(config.parent / "run")]) == 0
    return config.parent / "run"


@pytest.fixture(scope="module")
def printed(run):
    """What the test of the run prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["test", "--run_dir", str(run)]) == 0
    return out.getvalue()


@pytest.fixture
def tested(run, printed):
    return run


def test_training_ends_where_it_has_converged(run):
    log = pd.read_csv(next((run / "logs").glob("version_*/metrics.csv")))
    checks = log["train/check_accuracy"].dropna().tolist()
    converged = log["train/converged_step"].dropna().tolist()
    assert converged == [8 * len(checks)] and min(checks[-2:]) >= 0.2
    assert tiny.read_checkpoint(run)["global_step"] == converged[0] < 48
    assert log["train/accuracy"].dropna().between(0, 1).all()
    assert log["val/lookahead-9/score"].notna().any()


def test_run_that_was_stopped_ends_at_the_same_step_with_the_same_weights(config, run, monkeypatch):
    """It is stopped after the checkpoint of step 10, between two checks."""
    stopped = config.parent / "stopped"
    fit = ["fit", "--config", str(config), "--run_dir", str(stopped)]
    trains = PairModule.training_step

    def stop(module, batch, batch_idx):
        if module.global_step == 11:
            raise KeyboardInterrupt
        return trains(module, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(PairModule, "training_step", stop)
        assert main(fit) == 130
    assert tiny.read_checkpoint(stopped)["global_step"] == 10
    assert main([*fit, "--resume", "true"]) == 0
    ours, theirs = tiny.read_checkpoint(stopped), tiny.read_checkpoint(run)
    assert ours["global_step"] == theirs["global_step"]
    assert tiny.differences(ours["state_dict"], theirs["state_dict"]) == []
    name = next(key for key in theirs["callbacks"] if key.startswith("Converged"))
    assert ours["callbacks"][name] == theirs["callbacks"][name]


def test_scores_are_those_of_the_one_right_answer(tested):
    made = SearchDataModule(tests=[SearchTestSet(**chosen) for chosen in TESTS])
    scores = json.loads((tested / "test" / "scores.json").read_text())
    assert [row["set"] for row in scores] == made.test_set_names == ["lookahead-9", "random-40"]
    answers = read_predictions(tested / "test" / "predictions.parquet", loop=LAST)
    for row in scores:
        graphs, _ = load_graphs(tested / "test" / "graphs" / f"{row['set']}.safetensors")
        assert [graph.next.tolist() for graph in graphs] == [
            g.next.tolist() for g in made.test_graphs(row["set"])
        ]
        own = answers[answers["set"] == row["set"]].sort_values("graph")
        right = [int(graph.next) == answer for graph, answer in zip(graphs, own["prediction"], strict=True)]
        assert row["score"] == pytest.approx(sum(right) / len(right))
        assert row["loops"] == 1 + math.ceil(math.log2(row["num_nodes"]))
    assert scores[0]["loops"] < scores[1]["loops"]


def test_table_and_figure_by_lookahead_come_with_the_test(run, printed):
    assert printed.count("Accuracy by lookahead\n") == 2 and "Accuracy by lookahead, all sets" in printed
    assert re.search(r"^3-4 +6 ", printed, re.MULTILINE)
    for name in ("lookahead", "lookahead-9_lookahead", "random-40_lookahead_loops"):
        for suffix in ("csv", "png", "svg"):
            assert (run / "figures" / f"{name}.{suffix}").stat().st_size > 0


def test_own_questions_are_answered(tested):
    graphs = tested / "test" / "graphs" / "random-40.safetensors"
    assert main(["predict", "--run_dir", str(tested), "--data.predict_graphs", str(graphs)]) == 0
    answers = read_predictions(tested / "predict" / "predictions.parquet")
    sizes = [graph.num_nodes for graph in load_graphs(graphs)[0]]
    assert answers["graph"].tolist() == list(range(10)) and (answers["prediction"] < sizes).all()
