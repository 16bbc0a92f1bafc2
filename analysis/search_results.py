"""What trained runs of path search reached: by model, set and lookahead, over seeds.

A run is one of the seeds of a model if its folder is called ``<model>-seed<seed>``, as ``search/<model>`` is
called the config that it was trained with. Shares are fractions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.answers import read_answers
from analysis.lookahead import COUNTS, accuracy_by_lookahead, bin_lookaheads
from analysis.results import training_minutes, training_steps
from graphalgo.errors import InputError
from graphalgo.run import load_checkpoint, read_run

RUN = re.compile(r"(?P<model>.+)-seed(?P<seed>\d+)")


def read_search_runs(run_dirs: Sequence[str | Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tested runs of the task ``search``.

    Args:
        run_dirs: run folders, each called ``<model>-seed<seed>``.

    Returns:
        Runs: ``model``, ``seed``, ``parameters``, ``steps``, ``minutes`` and ``converged`` (questions seen
        when the training accuracy had been high in two checks; missing if it never was).
        Answers: ``model``, ``seed``, ``set``, ``num_nodes`` (of the largest graph) and the columns of
        :func:`analysis.lookahead.accuracy_by_lookahead`, a row a lookahead, of the final answers.

    Raises:
        InputError: a folder is called otherwise, or holds no tested run of this task, or a seed is not its
            own.
    """
    runs, answered = [], []
    for run_dir in map(Path, run_dirs):
        called = RUN.fullmatch(run_dir.name)
        run = read_run(run_dir)
        if called is None or int(called["seed"]) != run["seed"] or run["task"] != "search":
            raise InputError(
                f"{run_dir} is no run of path search that is called <model>-seed<seed>: its task is "
                f"{run['task']!r}, its seed {run['seed']}"
            )
        about = {"model": called["model"], "seed": run["seed"]}
        runs.append(about | _training(run_dir))
        for answers in read_answers(run_dir):
            output = answers.outputs[0]
            table = accuracy_by_lookahead(answers.final(output), output, answers.graphs).drop(columns="loop")
            size = max(graph.num_nodes for graph in answers.graphs)
            answered.append(table.assign(**about, set=answers.set, num_nodes=size))
    return pd.DataFrame(runs), pd.concat(answered, ignore_index=True)


def _training(run_dir: Path) -> dict[str, Any]:
    saved = load_checkpoint(run_dir / "checkpoints" / "last.ckpt")
    noted = [state for name, state in saved.get("callbacks", {}).items() if name.startswith("Converged")]
    step = noted[0]["converged_step"] if noted else None
    batch_size = saved.get("SearchDataModule", {}).get("batch_size")
    return {
        "parameters": sum(weight.numel() for weight in saved["state_dict"].values()),
        "steps": training_steps(run_dir),
        "minutes": training_minutes(run_dir),
        "converged": None if step is None or batch_size is None else step * batch_size,
    }


def over_sets(answered: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of each model on each set, over its seeds.

    Args:
        answered: the second table of :func:`read_search_runs`.

    Returns:
        ``model``, ``set``, ``num_nodes``, ``seeds``, ``lookaheads`` (how many different ones), ``questions``
        (a seed), ``accuracy`` (mean over seeds), ``accuracy_sd`` (n - 1; missing for one seed), ``lowest``
        (at any lookahead, in any seed), ``valid`` (mean over seeds; any child that reaches the goal).
    """
    keys = ["model", "set"]
    seeds = answered.groupby([*keys, "seed"], sort=False)[COUNTS].sum().reset_index()
    seeds = seeds.assign(
        accuracy=seeds["right"] / seeds["questions"], valid=seeds["accepted"] / seeds["questions"]
    )
    each = answered.groupby(keys, sort=False)
    found = seeds.groupby(keys, sort=False)
    table = pd.DataFrame(
        {
            "num_nodes": each["num_nodes"].max(),
            "seeds": found["seed"].nunique(),
            "lookaheads": each["lookahead"].nunique(),
            "questions": found["questions"].max(),
            "accuracy": found["accuracy"].mean(),
            "accuracy_sd": found["accuracy"].std(),
            "lowest": each["accuracy"].min(),
            "valid": found["valid"].mean(),
        }
    )
    return table.reset_index()


def over_lookaheads(answered: pd.DataFrame, keys: Sequence[str] = ("model", "set")) -> pd.DataFrame:
    """Questions of all seeds together, in bins; see :func:`analysis.lookahead.bin_lookaheads`."""
    return bin_lookaheads(answered, list(keys))
