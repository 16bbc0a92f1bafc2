"""The demo: what it puts in place of what, and the whole of it on a small budget."""

import json
from pathlib import Path

import pytest
import torch

from analysis import report
from graphalgo import InputError, Output, cli, demo
from graphalgo.cli import main
from graphalgo.predictions import PredictionsWriter

POINTER = Output("pi", "node", "pointer")


def run_of(folder, task, made_by=demo.MADE_BY):
    """The files of a run."""
    run = folder / task
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "last.ckpt").write_bytes(b"weights")
    command = ["graphalgo", "fit", "--config", f"demo/{task}", "--run_dir", str(run)]
    described = {"task": task, "seed": 0, "resumed": [], "command": command}
    described |= {} if made_by is None else {"made_by": made_by}
    (run / "run.json").write_text(json.dumps(described))
    return run


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def predictions(run_dir, sets):
    """A table of predictions; ``sets`` maps a name to the targets (b, n) of one pointer."""
    path = run_dir / "test" / "predictions.parquet"
    with PredictionsWriter(path, task="bellman_ford", outputs=[POINTER]) as writer:
        for name, target in sets.items():
            for loop in (1, 2):
                sure = torch.ones(target.shape)
                writer.write(name, 0, loop, POINTER, torch.zeros_like(target), target, sure)


@pytest.fixture
def parts(monkeypatch):
    """Stands in for training, testing and analysis; returns the calls."""
    calls = []

    def lightning(command, args, made_by=None):
        assert made_by == (demo.MADE_BY if command == "fit" else None)
        calls.append((command, args))
        run_dir = Path(args[args.index("--run_dir") + 1])
        if command == "test":
            predictions(run_dir, {"official-64": torch.tensor([[0, 0, 1, 3]])})
        return type("Done", (), {"rows": []})

    def analyze(run_dir):
        calls.append(("analyze", run_dir))
        return [run_dir / "figures" / "overview.png", run_dir / "figures" / "overview.csv"]

    monkeypatch.setattr(demo, "lightning", lightning)
    monkeypatch.setattr(report, "analyze", analyze)
    return calls


def test_trivial_score_is_of_the_first_set_and_the_last_loop(tmp_path):
    # Of seven scored vertices three point to themselves; -1 is not scored. The second set is left alone.
    first = torch.tensor([[0, 0, 2, 2], [1, 1, 0, -1]])
    predictions(tmp_path, {"official-64": first, "fresh-128": torch.tensor([[0, 1, 2]])})
    assert demo.trivial_score(tmp_path) == pytest.approx(3 / 7)


def test_demo_trains_tests_and_analyses_each_task(parts, tmp_path, capsys):
    demo.demo(tmp_path / "demo")
    folders = [str(tmp_path / "demo" / task) for task in demo.TASKS]
    fits = [
        ("fit", ["--config", f"demo/{t}", "--run_dir", f]) for t, f in zip(demo.TASKS, folders, strict=True)
    ]
    tests = [("test", ["--run_dir", folder]) for folder in folders]
    assert parts[:4] == [fits[0], tests[0], fits[1], tests[1]]
    assert parts[4:] == [("analyze", Path(folder)) for folder in folders]
    printed = capsys.readouterr().out
    for task, folder in zip(demo.TASKS, folders, strict=True):
        assert f"Every vertex pointing to itself would score 50.0 on {task}." in printed
        assert f"{folder}/figures/overview.png" in printed and f"{folder}/figures/report.md" in printed
    assert "overview.csv" not in printed


def test_demo_with_fewer_steps_validates_at_its_end(parts, tmp_path):
    demo.demo(tmp_path / "demo", max_steps=7)
    steps = ["--trainer.max_steps", "7", "--trainer.val_check_interval", "7"]
    assert [args[-4:] for command, args in parts if command == "fit"] == [steps, steps]


def test_earlier_demo_is_replaced(parts, tmp_path):
    for task in demo.TASKS:
        run_of(tmp_path, task)
    demo.demo(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path)}
    assert left == {f"{task}/test/predictions.parquet" for task in demo.TASKS}


def test_demo_is_told_from_a_run_of_the_same_config_by_what_training_writes(tmp_path):
    for name, made_by in (("demo", demo.MADE_BY), ("own", None)):
        run = tmp_path / name / "dfs"
        quick = ["--run_dir", str(run), "--trainer.max_steps", "1", "--trainer.limit_val_batches", "0"]
        cli.lightning("fit", ["--config", "demo/dfs", *quick], made_by=made_by)
        assert demo._is_demo(run) == (name == "demo")


def foreign_file(folder):
    (folder / "notes.txt").write_text("mine")


def own_training(folder):
    run_of(folder, "dfs", made_by=None)


def training_below_a_folder_called_demo(folder):
    run_of(folder / "demo", "dfs", made_by=None).rename(folder / "dfs")
    (folder / "demo").rmdir()


def files_without_description(folder):
    (folder / "dfs").mkdir()
    (folder / "dfs" / "thesis.tex").write_text("mine")


def damaged_description(folder):
    (run_of(folder, "dfs") / "run.json").write_text("{")


def file_called_as_a_task(folder):
    (folder / "dfs").write_text("mine")


def link_to_elsewhere(folder):
    run_of(folder.with_name("elsewhere"), "dfs")
    (folder / "dfs").symlink_to(folder.with_name("elsewhere") / "dfs")


@pytest.mark.parametrize(
    "foreign",
    [
        foreign_file,
        own_training,
        training_below_a_folder_called_demo,
        files_without_description,
        damaged_description,
        file_called_as_a_task,
        link_to_elsewhere,
    ],
)
def test_folder_with_anything_else_is_refused_and_kept(foreign, parts, tmp_path):
    """The other task's folder is a demo's, and is kept as well."""
    folder = tmp_path / "runs"
    run_of(folder, "bellman_ford")
    foreign(folder)
    before = files_in(tmp_path)
    with pytest.raises(InputError, match="which is no demo's; choose another --run_dir"):
        demo.demo(folder)
    assert files_in(tmp_path) == before and parts == []


def test_command_line_refuses_what_is_no_folder_for_a_demo(parts, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    own_training(tmp_path / "runs")
    for name, message in (("file", "is not a folder"), ("runs", "holds 'dfs', which is no demo's")):
        assert main(["demo", "--run_dir", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("graphalgo: ") and message in error and len(error.splitlines()) == 1
    assert parts == []


@pytest.mark.slow
def test_whole_demo_leaves_reports_and_figures(tmp_path, capsys):
    assert main(["demo", "--run_dir", str(tmp_path / "demo"), "--max_steps", "2"]) == 0
    printed = capsys.readouterr().out
    for task in demo.TASKS:
        run = tmp_path / "demo" / task
        assert str(run / "figures" / "report.md") in printed
        assert (run / "figures" / "report.md").is_file() and list((run / "figures").glob("*.png"))
        rows = json.loads((run / "test" / "scores.json").read_text())
        assert [row["set"] for row in rows] == ["official-64", "fresh-128"]
        assert 0 < demo.trivial_score(run) < 0.5
