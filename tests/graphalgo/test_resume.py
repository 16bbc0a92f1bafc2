"""A run that is killed and resumed ends as one that was not: weights, optimiser, schedule, loops, stream."""

import errno
import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
import yaml

from graphalgo.checkpoints import WholeCheckpoints
from graphalgo.cli import main
from graphalgo.errors import InputError
from graphalgo.module import PairModule
from tests import tiny

STREAM = []
POOL = ["--data.train_graphs", "18"]
WORKER = ["--data.num_workers", "1"]


def start(arguments, notes, die=None):
    """Runs the command line in a process of its own, and notes what every training step sees.

    Args:
        arguments: of the command line.
        notes: file that gets a line a training step.
        die: None, or when and how to end: ("step", "validation" or "write", step, signal); the last is in
            the middle of writing the step's last.ckpt. Or ("full", step, None): there is no room for it.
    """
    where, number, how = die or (None, None, None)

    def training_step(module, batch, batch_idx):
        if (where, number) == ("step", module.global_step):
            os.kill(os.getpid(), how)
        seen = {
            "step": module.global_step,
            "loops": module.draw_loops(module.global_step),
            "batch": hashlib.sha256(batch.x.numpy().tobytes()).hexdigest(),
            "rates": [group["lr"] for group in module.optimizers().param_groups],
        }
        with open(notes, "a") as file:
            file.write(json.dumps(seen) + "\n")
        return trains(module, batch, batch_idx)

    def validation_step(module, batch, batch_idx, dataloader_idx=0):
        if (where, number) == ("validation", module.global_step) and not module.trainer.sanity_checking:
            os.kill(os.getpid(), how)
        return validates(module, batch, batch_idx, dataloader_idx)

    def save(content, file, *rest, **options):
        if (where, number) == ("write", content["global_step"]) and "last" in str(file):
            saves(content, file, *rest, **options)
            os.truncate(file, os.path.getsize(file) // 2)
            os.kill(os.getpid(), how)
        if (where, number) == ("full", content["global_step"]) and "last" in str(file):
            size = os.path.getsize(file.parent / "last.ckpt") // 2
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return saves(content, file, *rest, **options)

    trains, PairModule.training_step = PairModule.training_step, training_step
    validates, PairModule.validation_step = PairModule.validation_step, validation_step
    saves, torch.save = torch.save, save
    torch.set_num_threads(1)
    # As from a shell. Loading processes that a server starts would outlive the run that is killed.
    multiprocessing.set_start_method("fork", force=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    raise SystemExit(main(arguments))


@pytest.fixture(scope="module")
def processes():
    """Starts processes from one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warm", __name__])
    return context


@pytest.fixture(scope="module")
def run(processes):
    def run(arguments, notes, die=None, wait=True):
        """Exit status; minus the signal that ended it. Or, without waiting, the process."""
        process = processes.Process(target=start, args=(list(map(str, arguments)), notes, die))
        process.start()
        if not wait:
            return process
        process.join(timeout=240)
        return process.exitcode

    return run


def seen_in(notes):
    return [json.loads(line) for line in Path(notes).read_text().splitlines()] if Path(notes).exists() else []


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """Uninterrupted runs, one for each set of options: their folder and what their steps saw."""
    done = {}

    def whole(options):
        key = tuple(options)
        if key not in done:
            folder = tmp_path_factory.mktemp("whole")
            assert run(tiny.fit_arguments(folder / "run", *options), folder / "notes") == 0
            done[key] = folder / "run", seen_in(folder / "notes")
            assert [seen["step"] for seen in done[key][1]] == list(range(10))
        return done[key]

    return whole


NOT_COMPARED = {"dirpath", "best_model_path", "kth_best_model_path", "best_k_models", "last_model_path"} | {
    "current_score"
}
"""What a checkpoint says about the folder it is in; and a score that Lightning notes and never reads."""


def without_folder(checkpoint):
    callbacks = {
        name: {key: value for key, value in state.items() if key not in NOT_COMPARED}
        for name, state in checkpoint["callbacks"].items()
    }
    return {**checkpoint, "callbacks": callbacks}


def assert_ends_as(left, right):
    """Both checkpoints of two runs are equal in every bit; loops' progress included."""
    for name in ("last", "best"):
        ours, theirs = (without_folder(tiny.read_checkpoint(run_dir, name)) for run_dir in (left, right))
        for part in ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "callbacks"):
            assert tiny.differences(ours[part], theirs[part]) == [], (name, part)
        assert ours["CLRSDataModule"] == theirs["CLRSDataModule"]


def assert_saw_the_same(first, second, uninterrupted, resumed_at):
    """The steps of both parts are those of the run that was not stopped."""
    assert first == uninterrupted[: len(first)]
    assert second == uninterrupted[resumed_at:]


@pytest.mark.parametrize(
    ("source", "loading"),
    [(STREAM, []), (POOL, WORKER)],
    ids=["stream", "pool, loaded by another process"],
)
def test_killed_run_is_resumed_to_the_same_end(source, loading, run, whole, tmp_path):
    """With a loading process, to the end of a run that has none."""
    options = source + loading
    expected, uninterrupted = whole(source)
    step = random.Random(repr(options)).randrange(4, 10)
    folder = tmp_path / "run"
    assert run(tiny.fit_arguments(folder, *options), tmp_path / "one", ("step", step, signal.SIGKILL)) == -9
    saved = tiny.read_checkpoint(folder)["global_step"]
    assert saved == 3 * (step // 3)
    assert run(tiny.fit_arguments(folder, *options, "--resume", "true"), tmp_path / "two") == 0
    assert_saw_the_same(seen_in(tmp_path / "one"), seen_in(tmp_path / "two"), uninterrupted, saved)
    assert len(seen_in(tmp_path / "one")) == step
    assert_ends_as(folder, expected)
    first, second = (folder / "logs" / f"version_{part}" / "metrics.csv" for part in (0, 1))
    assert first.stat().st_size > 0 and second.stat().st_size > 0
    assert len(json.loads((folder / "run.json").read_text())["resumed"]) == 1


def test_run_killed_before_its_first_checkpoint_starts_anew(run, whole, tmp_path):
    expected, uninterrupted = whole(POOL)
    folder = tmp_path / "run"
    assert run(tiny.fit_arguments(folder, *POOL), tmp_path / "one", ("step", 1, signal.SIGKILL)) == -9
    assert not (folder / "checkpoints" / "last.ckpt").exists()
    assert run(tiny.fit_arguments(folder, *POOL, "--resume", "true"), tmp_path / "two") == 0
    assert seen_in(tmp_path / "two") == uninterrupted
    assert_ends_as(folder, expected)


def test_run_killed_in_a_validation_repeats_it(run, whole, tmp_path):
    """Step 6 has both: had the checkpoint come first, the validation would be missing."""
    expected, uninterrupted = whole(STREAM)
    folder = tmp_path / "run"
    assert run(tiny.fit_arguments(folder), tmp_path / "one", ("validation", 6, signal.SIGKILL)) == -9
    assert run(["fit", "--run_dir", folder, "--resume", "true"], tmp_path / "two") == 0
    assert_saw_the_same(seen_in(tmp_path / "one"), seen_in(tmp_path / "two"), uninterrupted, 3)
    assert_ends_as(folder, expected)


def test_run_killed_while_it_writes_a_checkpoint_keeps_the_old_one(run, whole, tmp_path):
    expected, uninterrupted = whole(STREAM)
    folder = tmp_path / "run"
    assert run(tiny.fit_arguments(folder), tmp_path / "one", ("write", 6, signal.SIGKILL)) == -9
    for path in (folder / "checkpoints").glob("[!.]*"):
        assert torch.load(path, weights_only=True)["global_step"] in (2, 3, 4, 6)
    assert tiny.read_checkpoint(folder)["global_step"] == 3
    assert len(list((folder / "checkpoints").glob(".last.*"))) == 1
    assert run(["fit", "--run_dir", folder, "--resume", "true"], tmp_path / "two") == 0
    assert not list(folder.glob(".*")) and not list((folder / "checkpoints").glob(".*"))
    assert_saw_the_same(seen_in(tmp_path / "one"), seen_in(tmp_path / "two"), uninterrupted, 3)
    assert_ends_as(folder, expected)


def test_folder_in_which_another_process_trains_is_refused(run, tmp_path):
    """The other one stands still in its step 4."""
    folder = tmp_path / "run"
    fit = tiny.fit_arguments(folder)
    other = run(fit, tmp_path / "one", ("step", 4, signal.SIGSTOP), wait=False)
    deadline = time.monotonic() + 120
    while len(seen_in(tmp_path / "one")) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        assert run([*fit, "--resume", "true"], tmp_path / "two") == 2
    finally:
        os.kill(other.pid, signal.SIGCONT)
        other.join(120)
    assert other.exitcode == 0
    assert len(seen_in(tmp_path / "one")) == 10 and seen_in(tmp_path / "two") == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stopped_run_says_so_and_is_resumed_to_the_same_end(how, run, whole, tmp_path):
    expected, _ = whole(STREAM)
    folder = tmp_path / "run"
    status = run(tiny.fit_arguments(folder), tmp_path / "one", ("step", 7, how))
    assert status == {signal.SIGTERM: 143, signal.SIGINT: 130}[how]
    assert tiny.read_checkpoint(folder)["global_step"] == 6
    assert run(["fit", "--run_dir", folder, "--resume", "true"], tmp_path / "two") == 0
    assert_ends_as(folder, expected)


def test_resuming_a_finished_run_changes_nothing(run, whole, tmp_path):
    expected, _ = whole(STREAM)
    folder = tmp_path / "run"
    shutil.copytree(expected, folder)
    before = {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()}
    assert run(["fit", "--run_dir", folder, "--resume", "true"], tmp_path / "notes") == 0
    assert seen_in(tmp_path / "notes") == []
    assert {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()} == before
    assert not list(folder.glob("config-*.yaml"))
    assert (folder / "config.yaml").read_bytes() == (expected / "config.yaml").read_bytes()


def test_moved_run_is_resumed_and_keeps_its_best_checkpoint(run, whole, tmp_path):
    expected, _ = whole(STREAM)
    first, folder = tmp_path / "first", tmp_path / "elsewhere" / "run"
    assert run(tiny.fit_arguments(first), tmp_path / "one", ("step", 7, signal.SIGKILL)) == -9
    folder.parent.mkdir()
    first.rename(folder)
    assert run(["fit", "--run_dir", folder, "--resume", "true"], tmp_path / "two") == 0
    assert not first.exists()
    assert_ends_as(folder, expected)
    states = tiny.read_checkpoint(folder)["callbacks"].values()
    assert {state["dirpath"] for state in states if "dirpath" in state} == {str(folder / "checkpoints")}


def test_finished_run_can_be_made_longer(run, whole, tmp_path):
    expected, uninterrupted = whole(POOL)
    folder = tmp_path / "run"
    shutil.copytree(expected, folder)
    longer = ["--trainer.max_steps", "14"]
    assert run(["fit", "--run_dir", folder, "--resume", "true", *longer], tmp_path / "two") == 0
    configs = [yaml.safe_load((folder / name).read_text()) for name in ("config-1.yaml", "config.yaml")]
    assert [config["trainer"].pop("max_steps") for config in configs] == [10, 14]
    assert configs[0] == {**configs[1], "run_dir": configs[0]["run_dir"]}
    assert (folder / "config-1.yaml").read_bytes() == (expected / "config.yaml").read_bytes()
    fresh, all_steps = tmp_path / "fresh", tmp_path / "three"
    assert run(tiny.fit_arguments(fresh, *POOL, *longer), all_steps) == 0
    with_rates = [seen_in(tmp_path / "two"), seen_in(all_steps)[10:]]
    assert [[seen["step"] for seen in part] for part in with_rates] == [[10, 11, 12, 13]] * 2
    assert [seen["batch"] for seen in with_rates[0]] == [seen["batch"] for seen in with_rates[1]]
    assert [seen["loops"] for seen in with_rates[0]] == [seen["loops"] for seen in with_rates[1]]


def test_run_without_room_for_its_checkpoint_fails_and_keeps_the_old_one(run, whole, tmp_path):
    """From step 6 on, no file may be larger than half a checkpoint; as on a full disk, torch fails."""
    expected, _ = whole(STREAM)
    folder = tmp_path / "run"
    assert run(tiny.fit_arguments(folder), tmp_path / "one", ("full", 6, None)) == 2
    assert tiny.read_checkpoint(folder)["global_step"] == 3
    assert not list((folder / "checkpoints").glob(".*"))
    assert run(["fit", "--run_dir", folder, "--resume", "true"], tmp_path / "two") == 0
    assert_ends_as(folder, expected)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("unexpected pos 64 vs 0\nat")]
)
def test_checkpoint_that_cannot_be_written_is_told_with_what_to_do(error, tmp_path, monkeypatch):
    def save(content, file):
        raise error

    (tmp_path / "last.ckpt").write_text("earlier")
    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(InputError, match=r"(left on device|64 vs 0)\); is the disk full\? .* --resume true"):
        WholeCheckpoints().save_checkpoint({}, tmp_path / "last.ckpt")
    assert os.listdir(tmp_path) == ["last.ckpt"] and (tmp_path / "last.ckpt").read_text() == "earlier"


def test_differences_are_seen():
    """The comparison that these tests stand on, on structures that differ in a bit."""
    base = {"a": [torch.tensor([0.0, 1.0]), {"b": float("nan")}], "c": 1}
    assert tiny.differences(base, {"a": [torch.tensor([0.0, 1.0]), {"b": float("nan")}], "c": 1}) == []
    nearly = torch.tensor([0.0, 1.0 + 2**-23])
    assert tiny.differences(base, {"a": [nearly, {"b": float("nan")}], "c": 1}) == [".a.0"]
    assert tiny.differences(base, {"a": base["a"]}) == [".c"]
    assert tiny.differences([torch.tensor(1)], [torch.tensor(1.0)]) == [".0"]
    assert tiny.differences([1, 2], [1]) == [""]
