"""The command line: the whole way on small runs, and one clear error for each thing that can be wrong."""

import csv
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from clrs_bridge import TASKS, get_task, sample
from graphalgo import evaluate
from graphalgo.cli import config_names, find_config, lightning, main
from graphalgo.lightning_cli import GraphalgoCLI
from graphalgo.predictions import LAST, read_predictions
from graphalgo.steps import derive_seed
from graphalgo.store import load_graphs, save_graphs
from tests import tiny

ROOT = Path(__file__).parents[2]
ONE_SET = ["--data.tests", "[{num_nodes: 7, num_graphs: 5}]"]


def everything_in(folder):
    """Path and content of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else None
        for path in sorted(Path(folder).rglob("*"))
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was trained and tested."""
    folder = tiny.fit(tmp_path_factory.mktemp("cli") / "run")
    assert main(["test", "--run_dir", str(folder)]) == 0
    return folder


@pytest.fixture
def copied(run, tmp_path):
    """A copy of the run to damage."""
    shutil.copytree(run, tmp_path / "copied")
    return tmp_path / "copied"


@pytest.fixture
def refused(capsys):
    """Runs a command that must fail: status 2, an error of a line or two, and no traceback."""

    def refused(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("graphalgo: ") and "Traceback" not in error
        assert len(error.splitlines()) <= 3, error
        return error

    return refused


# What cannot be trained ------------------------------------------------------------------------------------


# The settings of data, model and checkpoints are tested where they are; here is one of each way to be wrong.
BAD_SETTINGS = {
    "unknown task": (["--data.task", "nope"], "unknown task 'nope'; the tasks are bfs, dfs"),
    "size too small": (["--data.sizes", "[1, 5]"], r"bellman_ford needs graphs of at least 2 vertices"),
    "no training graphs": (["--data.train_graphs", "0"], "expected at least one training graph"),
    "unknown option": (["--nope", "1"], "there is no setting --nope\n"),
    "unknown setting": (
        ["--model.lerning_rate", "1"],
        "there is no setting --model.lerning_rate; did you mean model.learning_rate?",
    ),
    "unknown group": (["--modle.test_loops=1"], "--modle.test_loops; did you mean model.test_loops?"),
    "unknown setting of the data": (
        ["--data.siezs", "[4]"],
        "data: clrs_bridge.CLRSDataModule has no setting siezs; did you mean sizes?",
    ),
    "unknown setting of a part": (
        ["--model.loop.init_args.block.init_args.wdith", "4"],
        "model.loop.block: graphalgo.PairBlock has no setting wdith; did you mean width?",
    ),
    "no number": (["--model.learning_rate", "fast"], "model.learning_rate: expected float, got fast\n"),
    "no seed": (["--seed_everything", "1.5"], "seed_everything: expected bool or int, got 1.5\n"),
    "unseeded": (["--seed_everything", "null"], "seed_everything: expected bool or int, got None\n"),
    "no list": (["--data.tests", "3"], "data.tests: expected a list, got 3\n"),
    "too few": (["--model.train_loops", "[4]"], "model.train_loops: Expected a tuple with 2 elements. Got"),
    "no class": (["--model.loop", "Foo"], "model.loop: Expected a dot import path string: Foo\n"),
    "no module": (["--data", "nope.Mine"], "data: No module named 'nope'\n"),
    "misspelt part": (
        ["--model.loop.init_args.block.init_args.mixers", "[{class_path: graphalgo.Propagatr}]"],
        "model.loop.block.mixers: module 'graphalgo' has no attribute 'Propagatr'\n",
    ),
    "refused by a part": (
        [
            "--model.loop",
            "{class_path: graphalgo.VertexTransformer, init_args: "
            "{width: 8, num_layers: 1, num_heads: 3, dim: 8}}",
        ],
        "graphalgo: dim (8) must be a multiple of num_heads (3)\n",
    ),
    "seed of the data": (["--data.seed", "7"], "the data's seed is that of the run: --seed_everything"),
    "no loops": (["--model.test_loops", "0"], "test_loops must be at least 1, got 0"),
    "no steps": (["--trainer.max_steps", "0"], "max_steps must be at least 1, or -1 for no end, got 0"),
    "no folder": (["--run_dir", ""], "the run folder has no name; name one: --run_dir runs/NAME"),
    "no validation": (["--trainer.val_check_interval", "0"], "val_check_interval must be at least 1, got 0"),
    "devices": (["--trainer.devices", "-2"], "the trainer refuses its settings: `devices` selected with"),
    "endless steps": (["--trainer.max_steps", "-5"], "`max_steps` must be a non-negative integer or -1"),
    "negative seed": (["--seed_everything", "-3"], "seed_everything must be a whole number from 0"),
    "random seed": (["--seed_everything", "true"], "seed_everything must be a whole number from 0"),
    "no checkpoints": (["--checkpoint_every", "0"], "checkpoint_every must be at least 1, got 0"),
    "nothing to resume": (["--resume", "true"], "holds no run to resume"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_setting_is_refused_before_anything_is_written(case, refused, tmp_path):
    options, message = BAD_SETTINGS[case]
    assert message in refused(*tiny.fit_arguments(tmp_path / "run", *options))
    left = everything_in(tmp_path / "run") if (tmp_path / "run").exists() else {}
    assert left == {}


def test_unknown_setting_of_a_config_is_told_with_the_one_that_was_meant(refused, tmp_path):
    (tmp_path / "wrong.yaml").write_text(tiny.CONFIG.read_text().replace("warmup_steps", "warm_steps"))
    error = refused("fit", "--config", tmp_path / "wrong.yaml", "--run_dir", tmp_path / "run")
    assert "there is no setting model.warm_steps; did you mean model.warmup_steps?" in error


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_told_with_the_way_around_it(refused, tmp_path):
    config = tiny.CONFIG.read_text().replace("accelerator: cpu", "accelerator: gpu")
    (tmp_path / "gpu.yaml").write_text(config)
    error = refused("fit", "--config", tmp_path / "gpu.yaml", "--run_dir", tmp_path / "run")
    assert "backend" in error and "--trainer.accelerator cpu needs no GPU" in error


def test_command_that_lacks_something_says_what(refused, tmp_path):
    assert "required: fit.run_dir" in refused("fit", "--config", tiny.CONFIG)
    assert "required: fit.model.loop, fit.data" in refused("fit", "--run_dir", tmp_path)
    told = refused("fit", "--config", "search/propagatr")
    assert "there is no config 'search/propagatr'" in told and "did you mean search/propagator" in told
    assert "`graphalgo configs` lists those" in refused("fit", "--config", "qqq")
    assert "test needs a run folder: graphalgo test --run_dir RUN" in refused("test")
    assert "is not a run folder: it has no config.yaml" in refused("predict", "--run_dir", tmp_path)
    assert "there is no folder" in refused("analyze", tmp_path / "missing")


def test_run_folder_that_cannot_be_used_is_refused(run, refused, tmp_path):
    before = everything_in(run)
    error = refused(*tiny.fit_arguments(run))
    assert "already holds a run; choose another folder, or go on with that run: --resume true" in error
    (tmp_path / "file").touch()
    error = refused(*tiny.fit_arguments(tmp_path / "file" / "run"))
    assert "cannot write" in error and "choose a folder that you may write to" in error
    assert everything_in(run) == before


def test_resuming_without_the_last_checkpoint_is_refused(run, refused, tmp_path):
    copied = shutil.copytree(run, tmp_path / "run")
    (copied / "checkpoints" / "last.ckpt").unlink()
    before = everything_in(copied)
    assert "has lost its last checkpoint" in refused("fit", "--run_dir", copied, "--resume", "true")
    assert everything_in(copied) == before


def test_resuming_with_other_settings_is_refused(run, refused):
    before = everything_in(run / "checkpoints"), (run / "run.json").read_bytes()
    resume = ["fit", "--run_dir", run, "--resume", "true"]
    assert "another task: it has 'bellman_ford', this run has 'bfs'" in refused(*resume, "--data.task", "bfs")
    assert "seed 0, not of 'bellman_ford' with seed 1" in refused(*resume, "--seed_everything", "1")
    assert (everything_in(run / "checkpoints"), (run / "run.json").read_bytes()) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {", "config.yaml is damaged: while parsing"),
        ("[1, 2]", "config.yaml is not a config: it holds no settings"),
        ("model: {test_loops: 3}", "required: test.model.loop, test.data"),
    ],
)
def test_damaged_config_is_named(text, message, copied, refused):
    (copied / "config.yaml").write_text(text)
    before = everything_in(copied)
    assert message in refused("test", "--run_dir", copied)
    assert everything_in(copied) == before


# Checkpoints -----------------------------------------------------------------------------------------------


def as_file(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def of_task(checkpoint, task):
    return {**checkpoint, "graphalgo": {**checkpoint["graphalgo"], "task": task}}


def of_width(checkpoint, width):
    weights = {**checkpoint["state_dict"], "model.encode.weight": torch.zeros(width, 10)}
    return {**checkpoint, "state_dict": weights}


BAD_CHECKPOINTS = {
    "another task": (lambda old: as_file(of_task(old, "dijkstra")), "another task: it has 'dijkstra'"),
    "another width": (
        lambda old: as_file(of_width(old, 16)),
        "another model: it has model.encode.weight [16",
    ),
    "foreign": (lambda old: as_file({"state_dict": {}}), "was not written by graphalgo"),
    "no checkpoint": (lambda old: as_file([1, 2]), "it has no 'state_dict'"),
    "cut short": (lambda old: as_file(old)[:5000], "is not a checkpoint, or it was cut short"),
    "damaged": (lambda old: as_file(old).replace(b"optimizer", b"optimiser"), "is damaged"),
    "text": (lambda old: b"hello", "is not a checkpoint, or it was cut short"),
}


@pytest.mark.parametrize("case", BAD_CHECKPOINTS)
def test_checkpoint_that_does_not_fit_is_refused(case, copied, refused):
    make, message = BAD_CHECKPOINTS[case]
    path = copied / "checkpoints" / "last.ckpt"
    path.write_bytes(make(tiny.read_checkpoint(copied)))
    before = everything_in(copied)
    # The way to the file is one for all four; a wrong model and a damaged file are seen at different places.
    resume = case in ("another width", "damaged")
    assert message in refused(*(["fit", "--resume", "true"] if resume else ["test"]), "--run_dir", copied)
    assert everything_in(copied) == before


def test_missing_checkpoint_is_named(copied, refused):
    (copied / "checkpoints" / "last.ckpt").unlink()
    assert "there is no checkpoint other.ckpt" in refused(
        "test", "--run_dir", copied, "--checkpoint", "other.ckpt"
    )
    assert "last.ckpt" in refused("validate", "--run_dir", copied)


# Files of graphs -------------------------------------------------------------------------------------------


def test_cache_that_is_damaged_or_foreign_is_refused_and_can_be_replaced(refused, tmp_path, run):
    folder = tmp_path / "data"
    fit = [*tiny.fit_arguments(tmp_path / "run", "--trainer.max_steps", 1), "--data.data_dir", folder]
    assert main(["validate", "--run_dir", str(run), "--data.data_dir", str(folder)]) == 0
    (path,) = folder.rglob("*.safetensors")
    whole = path.read_bytes()
    save_graphs(tmp_path / "other.safetensors", sample("bellman_ford", 7, 8, 1), {})
    for content, message in (
        (whole[:-8] + b"graphalg", "does not match its checksum"),
        (b"hello", "is not a graph file"),
        ((tmp_path / "other.safetensors").read_bytes(), "holds other graphs than its name says"),
    ):
        path.write_bytes(content)
        error = refused(*fit)
        assert message in error and "force_reload" in error
        assert path.read_bytes() == content and not (tmp_path / "run" / "checkpoints").exists()
        shutil.rmtree(tmp_path / "run")
    assert main([*map(str, fit), "--data.force_reload", "true"]) == 0
    graphs, expected = load_graphs(path)[0], sample("bellman_ford", 7, 8, derive_seed("val", 7))
    assert [graph.edge_weight.tolist() for graph in graphs] == [g.edge_weight.tolist() for g in expected]


def damaged_graph(**changes):
    (graph,) = sample("bellman_ford", 5, 1, 0)
    for name, value in changes.items():
        graph[name].view(-1)[0] = value
    return graph


BAD_GRAPHS = {
    "NaN": (damaged_graph(edge_weight=float("nan")), "'edge_weight' holds values that are not finite"),
    "negative": (damaged_graph(edge_weight=-1.0), "edge_weight must not be negative"),
    "edge to nowhere": (damaged_graph(edge_index=5), "edge_index names vertex 5, outside 0..4"),
    "another task's": (sample("bfs", 5, 1, 0)[0], "'edge_weight' is missing"),
}


def test_graphs_that_cannot_be_answered_are_refused(run, refused, tmp_path):
    mine = tmp_path / "mine.safetensors"
    predict = ["predict", "--run_dir", run, "--data.predict_graphs", mine]
    assert "there is nothing to predict" in refused(*predict[:3])
    assert "cannot read graphs" in refused(*predict)
    mine.write_bytes(b"hello")
    assert "is not a graph file" in refused(*predict)
    good = sample("bellman_ford", 5, 2, 0)
    save_graphs(mine, good, {})
    assert main(list(map(str, predict))) == 0
    before = everything_in(run / "predict")
    for name, (graph, message) in BAD_GRAPHS.items():
        # The bad one comes in a later batch, when answers have been written already.
        same = [g for g in good if name != "another task's"]
        save_graphs(mine, [*same, graph], {})
        assert message in refused(*predict, "--data.test_batch_size", 1), name
        assert everything_in(run / "predict") == before, name


# Tests -----------------------------------------------------------------------------------------------------


def test_analysis_and_test_need_what_comes_before_them(copied, refused, tmp_path):
    shutil.rmtree(copied / "test")
    assert "run `graphalgo test` on it first" in refused("analyze", copied)
    (tmp_path / "run").mkdir()
    assert "train one with `graphalgo fit`" in refused("test", "--run_dir", tmp_path / "run")
    assert "data.tests is empty" in refused("test", "--run_dir", copied, "--data.tests", "[]")


def test_testing_again_leaves_nothing_of_the_earlier_test(copied, capsys):
    assert sorted(os.listdir(copied / "test" / "graphs")) == ["fresh-6.safetensors", "fresh-8.safetensors"]
    assert main(["test", "--run_dir", str(copied), *ONE_SET, "--model.test_loops", "2"]) == 0
    assert sorted(os.listdir(copied / "test" / "graphs")) == ["fresh-7.safetensors"]
    (row,) = json.loads((copied / "test" / "scores.json").read_text())
    assert (row["set"], row["num_nodes"], row["num_graphs"], row["loops"]) == ("fresh-7", 7, 5, 2)
    predictions = read_predictions(copied / "test" / "predictions.parquet")
    assert set(predictions["set"]) == {"fresh-7"} and set(predictions["loop"]) == {1, 2}
    printed = capsys.readouterr().out
    assert "bellman_ford" in printed and f"{100 * row['score']:.2f}" in printed
    assert not [name for name in os.listdir(copied) if name.startswith(".")]


@pytest.mark.parametrize("analysed", [True, False])
def test_testing_again_removes_the_analysis_of_the_earlier_test(analysed, copied):
    (copied / "figures").mkdir()
    (copied / "figures" / "mine.png").touch()
    if analysed:
        (copied / "figures" / "report.md").touch()
    assert main(["test", "--run_dir", str(copied), *ONE_SET]) == 0
    assert (copied / "figures").exists() == (not analysed)


def test_test_that_fails_leaves_the_earlier_one(copied, monkeypatch):
    (copied / "figures").mkdir()
    (copied / "figures" / "report.md").touch()
    before = everything_in(copied)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(evaluate, "save_graphs", fail)
    with pytest.raises(OSError, match="no space left"):
        main(["test", "--run_dir", str(copied), *ONE_SET])
    assert everything_in(copied) == before


def test_part_of_a_test_set_is_scored_as_what_it_is(copied):
    options = ["--trainer.limit_test_batches", "1", "--data.test_batch_size", "2"]
    assert main(["test", "--run_dir", str(copied), *ONE_SET, *options]) == 0
    (row,) = json.loads((copied / "test" / "scores.json").read_text())
    assert row["num_graphs"] == 2
    assert len(load_graphs(copied / "test" / "graphs" / "fresh-7.safetensors")[0]) == 2


def f1_as_in_dm_clrs(prediction, target):
    """clrs._src.evaluation._mask_fn, on entries that are scored."""
    tp = np.sum((prediction > 0.5) & (target > 0.5))
    fp = np.sum((prediction > 0.5) & (target < 0.5))
    fn = np.sum((prediction < 0.5) & (target > 0.5))
    precision = tp / (tp + fp) if tp + fp > 0 else 1.0
    recall = tp / (tp + fn) if tp + fn > 0 else 1.0
    return 2.0 * precision * recall / (precision + recall) if precision + recall > 0.0 else 0.0


@pytest.mark.parametrize("task", ["dijkstra", "topological_sort", "bridges", "floyd_warshall"])
def test_whole_way_from_training_to_analysis(task, tmp_path, capsys):
    """No warning is emitted anywhere: here they are errors."""
    folder = tiny.fit(tmp_path / "run", "--data.task", task, "--trainer.max_steps", 2, *ONE_SET)
    assert main(["validate", "--run_dir", str(folder)]) == 0
    assert "val/fresh-7/score" in capsys.readouterr().out
    assert main(["test", "--run_dir", str(folder)]) == 0
    (row,) = json.loads((folder / "test" / "scores.json").read_text())
    assert (row["task"], row["set"], row["num_graphs"], row["loops"]) == (task, "fresh-7", 5, 3)

    final = read_predictions(folder / "test" / "predictions.parquet", loop=LAST)
    outputs = get_task(task).outputs
    scores = []
    for output in outputs:
        rows = final[final["output"] == output.name]
        right = (rows["prediction"] == rows["target"]).to_numpy()
        is_mask = output.type == "mask"
        scores.append(
            f1_as_in_dm_clrs(*rows[["prediction", "target"]].to_numpy().T) if is_mask else right.mean()
        )
    assert row["score"] == pytest.approx(np.mean(scores), abs=1e-12)
    exact = (final["prediction"] == final["target"]).groupby(final["graph"]).all()
    assert len(exact) == 5 and row["exact"] == pytest.approx(exact.mean(), abs=1e-12)
    graphs, meta = load_graphs(folder / "test" / "graphs" / "fresh-7.safetensors")
    assert meta == {"set": "fresh-7", "task": task}
    first = outputs[0]
    truth = graphs[4][first.name].tolist()
    rows = final[(final["output"] == first.name) & (final["graph"] == 4)]
    where = rows["i"] if first.location == "node" else rows["i"] * 7 + rows["j"]
    assert rows["target"].tolist() == [truth[at] for at in where]

    mine = sample(task, 4, 1, 0) + sample(task, 6, 1, 1)
    for graph in mine:
        for output in outputs:
            del graph[output.name]
    save_graphs(tmp_path / "mine.safetensors", mine, {})
    assert (
        main(
            ["predict", "--run_dir", str(folder), "--data.predict_graphs", str(tmp_path / "mine.safetensors")]
        )
        == 0
    )
    assert "answers for 2 graphs" in capsys.readouterr().out
    answers = read_predictions(folder / "predict" / "predictions.parquet")
    assert (answers["target"] == -1).all() and set(answers["set"]) == {"predict"}
    of_first = answers[answers["output"] == first.name]
    entries = {"node": [4, 6], "edge": [16, 36]}[first.location]
    assert of_first.groupby("graph").size().tolist() == entries

    assert main(["analyze", str(folder)]) == 0
    assert "report.md" in capsys.readouterr().out
    made = os.listdir(folder / "figures")
    assert {"report.md", "overview.csv", "fresh-7_loops.png", "fresh-7_loops.svg"} <= set(made)


def test_run_folder_holds_what_it_takes_to_repeat_the_run(run, tmp_path):
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["data"]["init_args"]["train_graphs"] is None
    again = tmp_path / "again"
    assert main(["fit", "--config", str(run / "config.yaml"), "--run_dir", str(again)]) == 0
    assert (
        tiny.differences(tiny.read_checkpoint(again)["state_dict"], tiny.read_checkpoint(run)["state_dict"])
        == []
    )
    described = json.loads((again / "run.json").read_text())
    assert described["command"][1:] == ["fit", "--config", str(run / "config.yaml"), "--run_dir", str(again)]
    assert (described["task"], described["seed"]) == ("bellman_ford", 0)
    assert (again / "logs" / "version_0" / "metrics.csv").is_file()
    assert list((again / "logs" / "version_0").glob("events.*"))


def test_command_line_is_silent_where_nothing_is_wrong(tmp_path):
    """With bars and summary, as a user has it, without a GPU; and no other framework is loaded."""
    fit = tiny.fit_arguments(tmp_path / "run", "--trainer.max_steps", 2, *ONE_SET)
    shown = ["--trainer.enable_progress_bar", "true", "--trainer.enable_model_summary", "true"]
    bar = ["--trainer.callbacks", "[{class_path: lightning.pytorch.callbacks.TQDMProgressBar}]"]
    program = f"""if True:
        import sys
        from graphalgo.cli import main
        assert main({[*fit, *shown, *bar]}) == 0
        assert main(["test", "--run_dir", {str(tmp_path / "run")!r}]) == 0
        assert not {{"tensorflow", "jax", "clrs"}} & set(sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Epoch 0" in done.stdout and "exact graphs" in done.stdout
    assert "error" not in done.stdout.lower() and "warning" not in done.stdout.lower()


OWN_DATA = """
from clrs_bridge import CLRSDataModule

class Small(CLRSDataModule):
    pass
"""


def test_data_module_in_the_working_directory_is_found(tmp_path, monkeypatch):
    (tmp_path / "own_data.py").write_text(OWN_DATA)
    (tmp_path / "json.py").write_text("raise AssertionError('hides a module that is there already')")
    settings = yaml.safe_load(tiny.CONFIG.read_text())
    settings["data"]["class_path"] = "own_data.Small"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    program = [sys.executable, "-P", "-m", "graphalgo.cli"]  # as installed: without -P, Python looks there
    fit = ["fit", "--config", "config.yaml", "--run_dir", "run", "--trainer.max_steps", "1"]
    done = subprocess.run([*program, *fit], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    assert main(["test", "--run_dir", "run"]) == 0


def test_training_ends_with_its_score_and_what_comes_next(tmp_path, capsys):
    folder = tiny.fit(tmp_path / "my run", "--trainer.max_steps", 4)
    line = capsys.readouterr().out.splitlines()[-1]
    rows = csv.DictReader((folder / "logs" / "version_0" / "metrics.csv").read_text().splitlines())
    score = [float(row["val/score"]) for row in rows if row["val/score"]][-1]
    assert line.startswith(f"{folder}: trained 4 steps, last validation score {100 * score:.2f}; next: ")
    assert main(shlex.split(line.partition("next: graphalgo ")[2])) == 0
    capsys.readouterr()
    assert main(["fit", "--run_dir", str(folder), "--resume", "true"]) == 0  # nothing is left to train
    assert f"{folder}: trained 4 steps; next: graphalgo test" in capsys.readouterr().out


# Help and configs ------------------------------------------------------------------------------------------


def printed_help(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_help_is_there_for_every_command(capsys):
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert main(arguments) == 0
        usage = capsys.readouterr().out
        for command in ("fit", "validate", "test", "predict", "analyze", "demo", "configs"):
            assert f"graphalgo {command}" in usage
    for command in ("fit", "test"):
        text = printed_help(capsys, command, "--help")
        assert text.startswith(f"usage: graphalgo [options] {command}")
        for name in (
            "--run_dir",
            "--checkpoint",
            "--model.test_loops",
            "graphalgo.LoopedBlock",
            "CLRSDataModule",
        ):
            assert name in text
        assert len(text.splitlines()) < 550
    assert "--data.train_graphs" in printed_help(capsys, "fit", "--data.help", "CLRSDataModule")
    for command in ("analyze", "demo", "configs"):
        assert f"usage: graphalgo {command}" in printed_help(capsys, command, "--help")


def test_unknown_command_is_refused_with_the_usage(capsys):
    assert main(["train"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("graphalgo: unknown command 'train'") and "graphalgo fit" in error


def test_configs_are_listed(capsys):
    assert main(["configs"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert listed == config_names()
    expected = {f"clrs/{task}{width}" for task in TASKS for width in ("", "_width128")}
    listed = {name for name in listed if not name.startswith("search/")}
    assert listed == expected | {"demo/bellman_ford", "demo/dfs"}


@pytest.fixture(scope="module")
def parser():
    """The parser of the command line, taken from a run that stops before it trains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphalgoCLI, "before_instantiate_classes", lambda self: None)
        patch.setattr(GraphalgoCLI, "fit", lambda self, **_: None)
        return lightning("fit", tiny.fit_arguments("unused")[1:]).parser


SEARCH_PARAMETERS = {
    "or_join": 2_625,
    "propagator": 2_057,
    "propagator_names": 10_361,
    "summed": 2_593,
    "summed_2_layers": 4_737,
    "summed_2_layers_names": 13_041,
    "summed_3_layers": 6_881,
    "summed_3_layers_names": 15_185,
    "summed_4_layers": 9_025,
    "summed_4_layers_names": 17_329,
    "summed_5_layers": 11_169,
    "summed_5_layers_names": 19_473,
    "transformer": 202_465,
    "triangle": 3_073,
}


@pytest.mark.parametrize("name", [name for name in config_names() if name.startswith("search/")])
@pytest.mark.filterwarnings("ignore:.*was deprecated in v4")
def test_packaged_search_config_makes_its_model_and_data(name, parser):
    config = parser.parse_args(["fit", "--config", find_config(name), "--run_dir", "unused"])
    made = parser.instantiate_classes(config)["fit"]
    assert made["data"].task == made["model"].task == "search"
    assert max(made["data"].sizes) == 49
    assert all(name.split("-")[0] in ("lookahead", "random") for name in made["data"].test_set_names)
    parameters = sum(p.numel() for p in made["model"].parameters())
    assert parameters == SEARCH_PARAMETERS[name.removeprefix("search/")]
    assert f"--config {name} " in Path(find_config(name)).read_text().splitlines()[0]


@pytest.mark.parametrize("name", [name for name in config_names() if not name.startswith("search/")])
@pytest.mark.filterwarnings("ignore:.*was deprecated in v4")
def test_packaged_config_makes_its_model_and_data(name, parser):
    config = parser.parse_args(["fit", "--config", find_config(name), "--run_dir", "unused"])
    made = parser.instantiate_classes(config)["fit"]
    task, _, width = name.split("/")[1].partition("_width")
    assert made["data"].task == made["model"].task == task
    assert made["data"].test_set_names == ["official-64", "fresh-128"]
    assert max(made["data"].sizes) <= 16
    parameters = sum(p.numel() for p in made["model"].parameters())
    # Of the read-outs, that of a mask over vertices is larger, and topological_sort has two.
    expected = {"articulation_points": (11_825, 203_025), "topological_sort": (13_938, 236_050)}
    small, large = expected.get(task, (10_900, 187_000))
    assert parameters == pytest.approx(large if width else small, rel=0.01)
    trainer = config["fit"]["trainer"]
    assert trainer["accelerator"] == ("gpu" if width else "cpu") and trainer["max_steps"] > 0
    head = Path(find_config(name)).read_text().splitlines()[0]
    assert f"--config {name} " in head or name.startswith("demo/")
