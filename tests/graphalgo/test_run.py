import errno
import fcntl
import json
import multiprocessing
import os
import pickle
import random
import subprocess

import pytest
import torch

from graphalgo.batch import Output, ToPairBatch
from graphalgo.errors import InputError
from graphalgo.run import (
    claimed_run_folder,
    describe_run,
    git_revision,
    keep_earlier_config,
    load_checkpoint,
    prepare_run_folder,
    read_run,
    versions,
)


def test_description_holds_what_made_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/graphalgo", "fit", "--seed", "3"])
    written = describe_run(tmp_path, "bfs", 3)
    assert written == read_run(tmp_path) == json.loads((tmp_path / "run.json").read_text())
    assert (written["task"], written["seed"], written["resumed"]) == ("bfs", 3, [])
    assert written["command"] == ["graphalgo", "fit", "--seed", "3"]
    assert written["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert {"python", "torch-geometric", "lightning", "numpy", "graphalgo"} <= written["versions"].keys()
    assert written["created"].endswith("+00:00")
    assert os.listdir(tmp_path) == ["run.json"]


def test_resumed_run_keeps_the_first_description(tmp_path):
    first = describe_run(tmp_path, "bfs", 3)
    second = describe_run(tmp_path, "bfs", 3)
    assert len(second["resumed"]) == 1 and second["resumed"][0].keys() == {
        "created",
        "command",
        "git",
        "versions",
    }
    assert {**second, "resumed": []} == first


def test_folder_of_another_run_is_refused(tmp_path):
    describe_run(tmp_path, "bfs", 3)
    for task, seed in (("dfs", 3), ("bfs", 4)):
        with pytest.raises(InputError, match="describes a run of 'bfs' with seed 3"):
            describe_run(tmp_path, task, seed)
    with pytest.raises(InputError, match="already holds a run"):
        prepare_run_folder(tmp_path)
    assert prepare_run_folder(tmp_path, resume=True) == tmp_path


def test_run_folder_is_made_or_refused_with_a_reason(tmp_path):
    made = prepare_run_folder(tmp_path / "a" / "b")
    assert made.is_dir() and os.listdir(made) == []
    with pytest.raises(InputError, match="no run to resume"):
        prepare_run_folder(made, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        prepare_run_folder(tmp_path / "file" / "run")
    with pytest.raises(InputError, match="holds no run"):
        read_run(made)
    for text in ("{", "[]", '{"task": "bfs"}'):
        (made / "run.json").write_text(text)
        with pytest.raises(InputError, match="run.json"):
            read_run(made)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_run_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write"):
        prepare_run_folder(tmp_path)


def claim_and_wait(run_dir, ready, go_on):
    with claimed_run_folder(run_dir):
        ready.set()
        go_on.wait(60)


@pytest.mark.parametrize("killed", [False, True])
def test_claimed_folder_is_refused_until_its_owner_is_gone(killed, tmp_path):
    context = multiprocessing.get_context("fork")
    ready, go_on = context.Event(), context.Event()
    owner = context.Process(target=claim_and_wait, args=(tmp_path, ready, go_on))
    owner.start()
    assert ready.wait(60)
    before = os.listdir(tmp_path)
    with pytest.raises(InputError, match="another process trains in .*; wait for its end"):
        with claimed_run_folder(tmp_path):
            pass
    assert os.listdir(tmp_path) == before
    owner.kill() if killed else go_on.set()
    owner.join(60)
    with claimed_run_folder(tmp_path):
        assert os.listdir(tmp_path) == [".lock"]
    assert os.listdir(tmp_path) == []


def test_lock_that_its_owner_removes_meanwhile_is_not_taken(tmp_path, monkeypatch):
    """Who opened it before would hold a file that nobody else sees."""
    removed = []

    def lockf(file, how):
        if not removed:
            removed.append((tmp_path / ".lock").unlink())
        return locks(file, how)

    locks = fcntl.lockf
    monkeypatch.setattr(fcntl, "lockf", lockf)
    with claimed_run_folder(tmp_path):
        assert removed and (tmp_path / ".lock").exists()


def test_file_system_without_locks_can_be_trained_on(tmp_path, monkeypatch):
    def lockf(file, how):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "lockf", lockf)
    with claimed_run_folder(tmp_path):
        pass


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path):
    kept = ["last.ckpt", "best.ckpt", ".mine.ckpt", "last.0123456789abcdef.ckpt"]
    (tmp_path / "checkpoints").mkdir()
    for name in (*kept, ".last.0123456789abcdef.ckpt", ".best.fedcba9876543210.ckpt"):
        (tmp_path / "checkpoints" / name).touch()
    with claimed_run_folder(tmp_path):
        assert sorted(os.listdir(tmp_path / "checkpoints")) == sorted(kept)


def test_replaced_config_is_kept_by_the_next_free_number(tmp_path):
    config, new = tmp_path / "config.yaml", tmp_path / "new.yaml"
    texts = [f"run_dir: runs/a\ntrainer: {{max_steps: {steps}}}\n" for steps in (10, 20, 30)]
    for text in texts:
        new.write_text(text)
        if config.exists():
            keep_earlier_config(config, new)
        new.rename(config)
    names = ("config-1.yaml", "config-2.yaml", "config.yaml")
    assert [(tmp_path / name).read_text() for name in names] == texts
    new.write_text("trainer: {max_steps: 30}\nrun_dir: elsewhere\n")  # moved, otherwise equal
    keep_earlier_config(config, new)
    assert new.read_text() == texts[2] and not (tmp_path / "config-3.yaml").exists()


def test_git_revision_is_of_the_checkout_that_runs(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    module = tmp_path / "run.py"
    module.write_text("")
    monkeypatch.setattr("graphalgo.run.__file__", str(module))
    assert git_revision() is None
    git("init")
    assert git_revision() is None  # a checkout, but not of this code
    git("add", "run.py")
    git("commit", "-m", "first")
    found = git_revision()
    assert len(found["revision"]) == 40 and found["dirty"] is False
    module.write_text("changed")
    assert git_revision() == {**found, "dirty": True}


def test_versions_name_missing_packages(monkeypatch):
    monkeypatch.setattr("graphalgo.run._PACKAGES", ("torch", "no-such-package-here"))
    assert versions()["no-such-package-here"] is None


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": {"w": torch.rand(50)}, "global_step": 3}, path)
    return path


def test_checkpoint_loads(checkpoint):
    assert load_checkpoint(checkpoint)["global_step"] == 3


def test_checkpoint_that_is_none_is_refused(checkpoint, tmp_path):
    content = checkpoint.read_bytes()
    with pytest.raises(InputError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "missing.ckpt")
    with pytest.raises(InputError, match="there is no checkpoint"):
        load_checkpoint(tmp_path)
    for bad in (b"", b"hello", content[: len(content) // 2], content[:-10], pickle.dumps({"state_dict": {}})):
        checkpoint.write_bytes(bad)
        with pytest.raises(InputError, match="not a checkpoint, or it was cut short"):
            load_checkpoint(checkpoint)
    for other in ({"weights": torch.zeros(1)}, [1, 2]):
        torch.save(other, checkpoint)
        with pytest.raises(InputError, match="no 'state_dict'"):
            load_checkpoint(checkpoint)


IDENTITY = {"task": "bfs", **ToPairBatch(("s",), outputs=[Output("pi", "node", "pointer")]).settings()}


@pytest.mark.parametrize(
    "said",
    [
        [],
        {**IDENTITY, "task": 3},
        {key: value for key, value in IDENTITY.items() if key != "outputs"},
        {**IDENTITY, "outputs": 3},
        {**IDENTITY, "outputs": [["pi", "node"]]},
        {**IDENTITY, "outputs": [["pi", "edge", "mask_one"]]},
        {**IDENTITY, "node_attrs": "s t"},
        {**IDENTITY, "node_attrs": None},
        {**IDENTITY, "colour": "red"},
    ],
)
def test_checkpoint_whose_identity_is_malformed_is_refused(said, tmp_path):
    torch.save({"state_dict": {}, "graphalgo": IDENTITY}, tmp_path / "last.ckpt")
    assert load_checkpoint(tmp_path / "last.ckpt")["graphalgo"] == IDENTITY
    torch.save({"state_dict": {}, "graphalgo": said}, tmp_path / "last.ckpt")
    with pytest.raises(InputError, match="last.ckpt is damaged: what it says of its task"):
        load_checkpoint(tmp_path / "last.ckpt")


class _Unsafe:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


def test_checkpoint_with_code_is_refused_and_does_not_run_it(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {}, "hyper_parameters": _Unsafe()}, checkpoint)
    with pytest.raises(InputError, match="can run code"):
        load_checkpoint(checkpoint)
    assert os.listdir(tmp_path) == [checkpoint.name]


def test_checkpoint_with_flipped_bytes_loads_equal_or_is_refused(checkpoint):
    whole = load_checkpoint(checkpoint)
    content = checkpoint.read_bytes()
    draws = random.Random(0)
    refused = 0
    for position in draws.sample(range(len(content)), 200):
        damaged = bytearray(content)
        damaged[position] ^= 1 << draws.randrange(8)
        checkpoint.write_bytes(damaged)
        try:
            loaded = load_checkpoint(checkpoint)
        except InputError:
            refused += 1
        else:
            assert torch.equal(loaded["state_dict"]["w"], whole["state_dict"]["w"]), position
    assert refused > 50
