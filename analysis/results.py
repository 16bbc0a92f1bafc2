"""What trained runs reached, over seeds, beside what others have published.

Scores and exact graphs are fractions; figures of others are the text of their source, in percent.
"""

from __future__ import annotations

import json
import statistics
import struct
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from graphalgo.errors import InputError
from graphalgo.run import load_checkpoint, read_run

SETTING = ("task", "width", "train_loops", "steps", "set", "loops")
"""Runs that have these in common and differ in nothing but their seed are averaged."""
INCIDENTAL = {
    "run_dir",
    "seed_everything",
    "resume",
    "checkpoint",
    "checkpoint_every",
    "enable_progress_bar",
    "enable_model_summary",
    "log_every_n_steps",
    "data_dir",
    "num_workers",
    "force_reload",
    "predict_graphs",
}
"""Entries of config.yaml that change nothing but the seed, or nothing of the result."""


def published() -> dict[str, Any]:
    """Figures of others for CLRS-30's test set, from the packaged ``published.json``.

    Returns:
        ``set`` (the test set they are for), ``models`` (each with ``name``, ``column`` to show it in,
        ``hints``: whether it was trained with intermediate states, ``source``, and ``spread``: what its ±
        is), ``figures`` (each with ``task``, ``model`` and ``figure``, the text of its source in percent),
        ``trivial`` (each with ``task``, ``predictor`` and its ``score`` in percent), ``search`` (figures of
        path search, each with ``model``, ``set`` and ``figure``, all from the tutorial), ``claims`` (by name
        of a claim what is ``reported``, and its ``source``).
    """
    return json.loads(resources.files("analysis").joinpath("published.json").read_text(encoding="utf-8"))


def read_results(run_dirs: Sequence[str | Path]) -> list[dict[str, Any]]:
    """The scores of tested runs.

    Args:
        run_dirs: run folders; see :mod:`graphalgo.run`.

    Returns:
        One row a run and test set: what :class:`graphalgo.evaluate.TestReport` writes, and ``run`` (the
        folder), ``seed``, ``width`` (channels of the pair state), ``train_loops``, ``steps`` (of the last
        checkpoint), ``minutes`` (see :func:`training_minutes`). What a run does not tell is None.

    Raises:
        InputError: a folder holds no run, or one that was not tested, or damaged files.
    """
    rows = []
    for run_dir in map(Path, run_dirs):
        run, config = read_run(run_dir), read_config(run_dir)
        about = {
            "run": str(run_dir),
            "seed": run["seed"],
            "width": find_setting(config, "width"),
            "train_loops": find_setting(config, "train_loops"),
            "steps": training_steps(run_dir),
            "minutes": training_minutes(run_dir),
        }
        rows += [about | row for row in read_scores(run_dir)]
    return rows


def is_tested(run_dir: str | Path) -> bool:
    """Whether ``graphalgo test`` has been through with a run."""
    return (Path(run_dir) / "test" / "scores.json").is_file()


def read_scores(run_dir: str | Path) -> list[dict[str, Any]]:
    """The rows of a run's ``test/scores.json``.

    Raises:
        InputError: it is missing or damaged.
    """
    path = Path(run_dir) / "test" / "scores.json"
    if not is_tested(run_dir):
        raise InputError(f"{run_dir} is not tested; run `graphalgo test --run_dir {run_dir}` first")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error


def read_config(run_dir: str | Path) -> dict[str, Any]:
    """A run's ``config.yaml``.

    Raises:
        InputError: it is missing or damaged.
    """
    path = Path(run_dir) / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is not the config of a run")
    return config


def find_setting(config: Any, name: str) -> Any:
    """The first value of that name, in the order of the file; None if there is none."""
    return next((value for key, value in _settings(config) if key[-1] == name), None)


def _settings(config: Any, key: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Keys and values of a config; lists of plain values are values, other lists have numbers as keys."""
    if isinstance(config, list) and any(isinstance(value, dict | list) for value in config):
        config = {"length": len(config), **dict(enumerate(config))}
    if isinstance(config, dict):
        for name, value in config.items():
            yield from _settings(value, (*key, name))
    else:
        yield key, config


def training_steps(run_dir: str | Path) -> int | None:
    """Optimiser steps behind the last checkpoint; None if the checkpoint was not kept."""
    path = Path(run_dir) / "checkpoints" / "last.ckpt"
    return load_checkpoint(path)["global_step"] if path.is_file() else None


def training_minutes(run_dir: str | Path) -> float | None:
    """Minutes that training took, with its validations, by the clock in its TensorBoard event files.

    It is the time from the first event of a file to its last, summed over the files: a run that was stopped
    and resumed has one for each start. What happens before the first event and after the last (imports,
    the last checkpoint) is not in it.

    Returns:
        Minutes, or None if the run kept no event files.
    """
    spans = [list(_wall_times(path)) for path in Path(run_dir).rglob("events.out.tfevents.*")]
    return sum(times[-1] - times[0] for times in spans if times) / 60 if any(spans) else None


def _wall_times(path: Path) -> Iterator[float]:
    """Times of the events in a file of TFRecords: length (8 bytes), checksum (4), event, checksum (4)."""
    from tensorboard.compat.proto.event_pb2 import Event

    content, at = path.read_bytes(), 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        if at + 16 + length > len(content):
            return  # cut short: the run was killed
        yield Event.FromString(content[at + 12 : at + 12 + length]).wall_time
        at += 16 + length


def over_seeds(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the seeds of each setting and test set.

    Args:
        results: rows of :func:`read_results`.

    Returns:
        One row for each of :data:`SETTING`, in the order of their first rows, with what identifies it,
        ``num_nodes``, ``num_graphs``, ``seeds`` (a tuple), the means ``score``, ``exact`` and ``minutes``,
        and the standard deviations over seeds ``score_sd``, ``exact_sd`` (n - 1; None for a single seed).

    Raises:
        InputError: two runs that would be averaged have the same seed, or differ in more than it.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        groups.setdefault(json.dumps([row[name] for name in SETTING]), []).append(row)
    table = []
    for rows in groups.values():
        check_one_setting(rows)
        mean = {name: rows[0][name] for name in (*SETTING, "num_nodes", "num_graphs")}
        mean["seeds"] = tuple(row["seed"] for row in rows)
        for name in ("score", "exact"):
            values = [row[name] for row in rows]
            mean[name] = statistics.mean(values)
            mean[f"{name}_sd"] = statistics.stdev(values) if len(values) > 1 else None
        minutes = [row["minutes"] for row in rows]
        mean["minutes"] = None if None in minutes else statistics.mean(minutes)
        table.append(mean)
    return table


def check_one_setting(rows: Sequence[dict[str, Any]]) -> None:
    """Refuses to average runs that are no seeds of one setting; see :func:`over_seeds`.

    A setting that only one of two configs has counts as equal: the other was written before there was one.
    """
    first, *others = [row["run"] for row in rows]
    seeds = [row["seed"] for row in rows]
    for at, seed in enumerate(seeds):
        if seed in seeds[:at]:
            twin = rows[seeds.index(seed)]["run"]
            raise InputError(
                f"{twin} and {rows[at]['run']} are runs of one setting and seed; give one of them"
            )
    ours = read_config(first)
    for other in others:
        check_same_settings(first, ours, other, read_config(other))


def check_same_settings(first: str | Path, ours: Any, other: str | Path, theirs: Any) -> None:
    """Refuses two configs that differ in more than what is incidental to a run.

    Args:
        first: what the one is called.
        ours: the one.
        other: what the other is called.
        theirs: the other.

    Raises:
        InputError: if they differ. A setting that only one of the two has counts as equal.
    """
    known = dict(_settings(theirs))
    for key, value in _settings(ours):
        if key in known and known[key] != value and key[-1] not in INCIDENTAL:
            raise InputError(
                f"{first} and {other} differ in more than their seed: {'.'.join(map(str, key))} is "
                f"{value!r} in one, {known[key]!r} in the other; give only runs of one setting"
            )
