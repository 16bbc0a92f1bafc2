"""The whole way on two tasks in a few minutes: train, test, see where it errs."""

from __future__ import annotations

import shutil
from pathlib import Path

from graphalgo.cli import lightning
from graphalgo.errors import InputError
from graphalgo.evaluate import print_scores
from graphalgo.predictions import LAST, read_predictions
from graphalgo.run import read_run

TASKS = ("bellman_ford", "dfs")
"""One weighted task and one whose answer has depth."""

MADE_BY = "graphalgo demo"
"""How the demo's runs are told from others of the same config."""


def demo(folder: Path, max_steps: int | None = None) -> None:
    """Trains, tests and analyses both tasks; prints the tables and says where the figures are.

    Args:
        folder: gets one run folder a task; run folders of an earlier demo are replaced.
        max_steps: training steps instead of the configs' own.

    Raises:
        InputError: if the folder holds something other than an earlier demo.
    """
    _clear(folder)
    steps = [] if max_steps is None else ["--trainer.max_steps", str(max_steps)]
    if max_steps is not None:
        steps += ["--trainer.val_check_interval", str(max_steps)]
    rows, written = [], []
    for task in TASKS:
        run_dir = str(folder / task)
        print(f"\n== {task}: training on graphs of at most 16 vertices", flush=True)
        lightning("fit", ["--config", f"demo/{task}", "--run_dir", run_dir, *steps], made_by=MADE_BY)
        print(f"\n== {task}: testing on 64 and 128 vertices", flush=True)
        rows += lightning("test", ["--run_dir", run_dir]).rows
    from analysis.report import analyze

    for task in TASKS:
        print(f"\n== {task}: where it errs", flush=True)
        written += analyze(folder / task)
    print()
    print_scores(rows)
    for task in TASKS:
        print(
            f"Every vertex pointing to itself would score {100 * trivial_score(folder / task):.1f} on {task}."
        )
    print("\nFigures:")
    for path in written:
        if Path(path).suffix == ".png":
            print(f"  {path}")
    print("\nReports, tables and figures together:")
    for task in TASKS:
        print(f"  {folder / task / 'figures' / 'report.md'}")


def trivial_score(run_dir: Path) -> float:
    """Share of right answers on the first test set if every vertex points to itself."""
    answers = read_predictions(run_dir / "test" / "predictions.parquet", loop=LAST)
    answers = answers[answers["set"] == answers["set"].iloc[0]]
    return float((answers["target"] == answers["i"]).mean())


def _clear(folder: Path) -> None:
    """Removes an earlier demo, once nothing in the folder is found to be anything else."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder; choose another --run_dir")
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in TASKS or not _is_demo(path):
            raise InputError(f"{folder} holds {path.name!r}, which is no demo's; choose another --run_dir")
    for task in TASKS:
        shutil.rmtree(folder / task, ignore_errors=True)


def _is_demo(run_dir: Path) -> bool:
    """Whether a run folder is the demo's own, or empty: a run of the user's may have the name of a task."""
    if not run_dir.is_dir() or run_dir.is_symlink():
        return False
    if not any(path.is_file() for path in run_dir.rglob("*")):
        return True
    try:
        return read_run(run_dir).get("made_by") == MADE_BY
    except InputError:
        return False
