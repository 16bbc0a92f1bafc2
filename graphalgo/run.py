"""Run folders: who made a run, with what, and whether a folder or a checkpoint can be used.

A run folder holds everything a run leaves: ``config.yaml``, ``run.json`` (written here), metrics,
checkpoints, and, once tested, scores, predictions and the graphs they are about.
"""

import contextlib
import fcntl
import importlib.metadata
import itertools
import json
import os
import pickle
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import yaml

from graphalgo.batch import Output, ToPairBatch
from graphalgo.errors import InputError
from graphalgo.store import atomic_write

_PACKAGES = ("graphalgo", "torch", "torch-geometric", "lightning", "numpy", "numba", "dm-clrs")


def prepare_run_folder(run_dir: str | os.PathLike, resume: bool = False) -> Path:
    """Make a run folder, or check the one that is there.

    Args:
        run_dir: the folder.
        resume: the folder holds the run that is to be continued.

    Returns:
        The folder.

    Raises:
        InputError: the folder cannot be written to; it holds another run; or, with ``resume``, it holds none.
    """
    run_dir = Path(run_dir)
    if resume and not (run_dir / "run.json").is_file():
        raise InputError(f"{run_dir} holds no run to resume (no run.json); leave out --resume to start one")
    if not resume and any((run_dir / name).exists() for name in ("run.json", "checkpoints", "config.yaml")):
        raise InputError(
            f"{run_dir} already holds a run; choose another folder, or go on with that run: --resume true"
        )
    with atomic_write(run_dir / ".writable"):
        pass
    (run_dir / ".writable").unlink(missing_ok=True)  # another process of the same run may be as far
    return run_dir


@contextlib.contextmanager
def claimed_run_folder(run_dir: str | os.PathLike) -> Iterator[None]:
    """Keep other processes from training in a run folder; the claim ends with the body or with the process.

    Temporary files of checkpoints that a killed process left are removed. Where the file system knows no
    locks, nobody is kept away. A process must not claim a folder twice.

    Args:
        run_dir: the folder, which must be there.

    Raises:
        InputError: another process has claimed it.
    """
    path = Path(run_dir) / ".lock"
    lock = _locked(path)
    try:
        for left in (Path(run_dir) / "checkpoints").glob(".*." + 16 * "[0-9a-f]" + ".ckpt"):
            left.unlink(missing_ok=True)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _locked(path: Path) -> int:
    """A descriptor that holds the file's lock. It is fcntl's: loading processes do not inherit it."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            os.close(lock)
            raise InputError(
                f"another process trains in {path.parent}; wait for its end, or choose another folder"
            ) from error
        except OSError:  # no locks here
            return lock
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        os.close(lock)  # its last owner has removed it since


def describe_run(
    run_dir: str | os.PathLike, task: str, seed: int, made_by: str | None = None
) -> dict[str, Any]:
    """Write ``run.json``: what made the run.

    It holds the task, the seed, the command line, the code's git revision and the versions of the packages.
    If the folder has a ``run.json`` already, the first description stays and this start is added to its list
    ``resumed``.

    Args:
        run_dir: the run folder.
        task: name of the task.
        seed: the run's seed.
        made_by: what started it, if not its user.

    Returns:
        What was written.

    Raises:
        InputError: the folder cannot be written to, its ``run.json`` is damaged, or it belongs to
            a run of another task or seed.
    """
    path = Path(run_dir) / "run.json"
    start = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "git": git_revision(),
        "versions": versions(),
    }
    description = {"task": task, "seed": seed, **start, "resumed": []}
    if made_by is not None:
        description["made_by"] = made_by
    if path.exists():
        description = read_run(run_dir)
        if (description["task"], description["seed"]) != (task, seed):
            raise InputError(
                f"{path} describes a run of {description['task']!r} with seed {description['seed']}, "
                f"not of {task!r} with seed {seed}; choose another folder"
            )
        description["resumed"].append(start)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(description, indent=2) + "\n")
    return description


def keep_earlier_config(config: Path, new: Path) -> None:
    """Before a run's config is replaced: keeps it as ``config-1.yaml``, or by the next free number.

    If the new one differs in nothing but the folder's name, it gets the text of the earlier one instead.

    Args:
        config: the ``config.yaml`` that is there.
        new: the file that is to replace it.
    """
    earlier, later = ({**read_config(path), "run_dir": None} for path in (config, new))
    if earlier == later:
        shutil.copyfile(config, new)
        return
    free = (config.with_stem(f"{config.stem}-{number}") for number in itertools.count(1))
    with atomic_write(next(path for path in free if not path.exists())) as kept:
        shutil.copyfile(config, kept)


def read_run(run_dir: str | os.PathLike) -> dict[str, Any]:
    """Read ``run.json``.

    Args:
        run_dir: the run folder.

    Returns:
        What :func:`describe_run` wrote.

    Raises:
        InputError: the folder holds no run, or its ``run.json`` is damaged.
    """
    path = Path(run_dir) / "run.json"
    try:
        description = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{run_dir} holds no run: cannot read {path} ({error.strerror or error})") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not isinstance(description, dict) or not {"task", "seed", "resumed"} <= description.keys():
        raise InputError(f"{path} is not a description of a run")
    return description


def read_config(path: str | os.PathLike) -> dict[str, Any]:
    """Read the YAML of a config, without what it names being made or checked.

    Args:
        path: the file.

    Returns:
        Its settings.

    Raises:
        InputError: the file is missing or holds no settings.
    """
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the config {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"the config {path} is damaged: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a config: it holds no settings")
    return config


def load_checkpoint(path: str | os.PathLike, map_location: str = "cpu") -> dict[str, Any]:
    """Load a Lightning checkpoint without running any code it may hold (``weights_only=True``).

    Args:
        path: the ``.ckpt`` file.
        map_location: device for the tensors.

    Returns:
        The checkpoint; it has at least ``state_dict``.

    Raises:
        InputError: the file is missing, cut short, damaged, not a checkpoint, or holds objects other than
            tensors and plain values, or an entry ``graphalgo`` that is not as graphalgo writes it.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path}")
    try:
        damaged = _damaged_member(path)
        checkpoint = None if damaged else torch.load(path, map_location=map_location, weights_only=True)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is not a checkpoint, or it was cut short: {error}") from error
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds objects other than tensors and plain values; it is not loaded, because such a "
            "file can run code"
        ) from error
    except Exception as error:  # zipfile and torch raise many kinds for a damaged archive
        raise InputError(f"{path} is damaged or not a checkpoint: {error}") from error
    if damaged:
        raise InputError(f"{path} is damaged: {damaged} in it does not match its checksum")
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise InputError(f"{path} is not a Lightning checkpoint: it has no 'state_dict'")
    if "graphalgo" in checkpoint and not _is_identity(checkpoint["graphalgo"]):
        raise InputError(f"{path} is damaged: what it says of its task is not as graphalgo writes it")
    return checkpoint


def _is_identity(said: Any) -> bool:
    """Whether a checkpoint's entry ``graphalgo`` is the name of a task and settings of a ToPairBatch."""
    if not isinstance(said, dict) or not isinstance(said.get("task"), str):
        return False
    settings = {key: value for key, value in said.items() if key != "task"}
    try:
        outputs = [Output(*output) for output in settings["outputs"]]
        return ToPairBatch(**{**settings, "outputs": outputs}).settings() == settings
    except (TypeError, KeyError, InputError):
        return False


def _damaged_member(path: Path) -> str | None:
    """Return the first part of the archive whose checksum is wrong; ``torch.load`` looks at none of them."""
    with zipfile.ZipFile(path) as archive:
        return archive.testzip()


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages a result depends on; None for one that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def git_revision() -> dict[str, Any] | None:
    """Revision of the running code, and whether tracked files differ from it.

    Returns:
        ``{"revision": ..., "dirty": ...}``, or None if the package does not run from a git checkout of its
        own.
    """
    here = Path(__file__).resolve()
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)
        revision = _git(here.parent, "rev-parse", "HEAD")
        dirty = bool(_git(here.parent, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"revision": revision, "dirty": dirty}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()
