"""Weights to give away: what their folder holds, that they are the run's, and that no other file is taken."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml

from benchmarks import ship as command
from graphalgo import InputError, weights
from graphalgo.cli import main
from graphalgo.module import PairModule
from graphalgo.predictions import read_predictions
from graphalgo.shipping import ship
from graphalgo.store import load_graphs, save_graphs
from graphalgo.weights import load_weights, save_weights
from search_bench import balanced
from tests import tiny, tiny_search

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tested run of the search task."""
    return tiny_search.fit(tmp_path_factory.mktemp("pretrained") / "search")


@pytest.fixture(scope="module")
def shipped(run, tmp_path_factory):
    """A place like that of the package, with the weights ``tiny_search``."""
    parent = tmp_path_factory.mktemp("shipped")
    ship(run, "tiny_search", parent, about="Finds a way.")
    return parent


@pytest.fixture
def package(shipped, monkeypatch):
    """Makes that the place of the package."""
    monkeypatch.setattr(weights, "FOLDER", shipped)
    return shipped


@pytest.fixture
def refused(capsys):
    """Runs a command that must fail: status 2, and a line or two."""

    def refused(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("graphalgo: ") and "Traceback" not in error
        return error

    return refused


# What is shipped -------------------------------------------------------------------------------------------


def test_folder_holds_weights_config_and_card_of_the_run(run, shipped):
    folder = shipped / "tiny_search"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.yaml",
        "weights.safetensors",
    ]
    assert [path.name for path in shipped.iterdir()] == ["tiny_search"]
    made, trained = PairModule.from_pretrained(folder), PairModule.from_run(run)
    assert not made.training and made.test_loops == trained.test_loops == 2
    assert tiny.differences(dict(made.state_dict()), dict(trained.state_dict())) == []
    ours, theirs = (yaml.safe_load((place / "config.yaml").read_text()) for place in (folder, run))
    assert ours["trainer"].pop("accelerator") == "auto" and theirs["trainer"].pop("accelerator") == "cpu"
    assert ours["trainer"].pop("enable_progress_bar") is None
    assert theirs["trainer"].pop("enable_progress_bar") is False
    assert ours.pop("run_dir") == "runs/pretrained/tiny_search" and theirs.pop("run_dir") == str(run)
    assert ours == theirs


def test_card_says_what_it_takes_to_repeat_the_run(run, shipped):
    card = (shipped / "tiny_search" / "README.md").read_text()
    size = sum(parameter.numel() for parameter in PairModule.from_run(run).parameters())
    assert card.startswith(
        f"# tiny_search\n\nFinds a way. {size:,} weights for the task `search`, trained for 10 steps with "
        "seed 0.\n"
    )
    (row,) = json.loads((run / "test" / "scores.json").read_text())
    assert f"| lookahead-9 | {row['num_nodes']} | 12 | 2 | {100 * row['score']:.2f} |" in card
    assert "\ngraphalgo fit --config config.yaml --run_dir runs/tiny_search\n" in card
    description = json.loads((run / "run.json").read_text())
    assert description["git"] is None or description["git"]["revision"] in card
    assert f"torch {torch.__version__}" in card and "class_path: search_bench.SearchDataModule" in card


def test_nothing_of_the_machine_is_in_it(shipped):
    for path in (shipped / "tiny_search").iterdir():
        content = path.read_bytes()
        assert str(shipped.parent).encode() not in content and str(ROOT).encode() not in content
        if path.suffix != ".safetensors":
            assert not re.search(rb"(^|[\s'\"=])(/|~|[A-Z]:\\)\w", content), path


def test_run_that_cannot_be_shipped_is_refused(run, shipped, tmp_path):
    with pytest.raises(InputError, match="is there already; remove it first"):
        ship(run, "tiny_search", shipped)
    for name in ("", "../up", "Upper", "a b"):
        with pytest.raises(InputError, match="lower-case letters, digits and underscores alone"):
            ship(run, name, tmp_path)
    with pytest.raises(InputError, match="holds no run"):
        ship(tmp_path, "none", tmp_path / "out")
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    settings["data"]["init_args"]["data_dir"] = "/home/me/data"
    settings["trainer"]["default_root_dir"] = "/home/me"
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    made = yaml.safe_load((ship(folder, "moved", tmp_path / "out") / "config.yaml").read_text())
    assert made["data"]["init_args"]["data_dir"] is made["trainer"]["default_root_dir"] is None
    settings["trainer"]["profiler"] = {"class_path": "Some", "init_args": {"paths": ["/home/me"]}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    message = r"trainer.profiler.init_args.paths\[0\] is '/home/me', which is a place on this machine"
    with pytest.raises(InputError, match=message):
        ship(folder, "profiled", tmp_path / "out")
    shutil.copy(run / "config.yaml", folder)
    saved = tiny.read_checkpoint(run)
    changed = {name: weight + torch.randn_like(weight) for name, weight in saved["state_dict"].items()}
    torch.save({**saved, "state_dict": changed}, folder / "checkpoints" / "last.ckpt")
    with pytest.raises(InputError, match="the scores are of other weights; run `graphalgo test"):
        ship(folder, "other", tmp_path / "out")
    (folder / "test" / "scores.json").unlink()
    with pytest.raises(InputError, match="has no scores"):
        ship(folder, "untested", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["moved"]


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["/usr/bin/graphalgo", "fit", "--config", "search/propagator"], "fit --config search/propagator"),
        (["cli.py", "fit", "--config=/x/graphalgo/configs/clrs/bfs.yaml"], "fit --config=clrs/bfs"),
        (
            ["graphalgo", "fit", "-c", "/x/my.yaml", "--run_dir=/x/run"],
            "fit -c config.yaml --run_dir=runs/me",
        ),
        (["graphalgo", "fit", "--data.data_dir", "/x", "--seed_everything", "1"], "fit --seed_everything 1"),
        (["graphalgo", "fit", "--data.tests", "[{size: 9}]"], "fit --data.tests '[{size: 9}]'"),
    ],
)
def test_command_is_as_one_would_type_it(words, typed):
    from graphalgo.shipping import _command

    assert _command(words, "me") == f"graphalgo {typed}"


def test_command_for_maintainers_makes_the_folder(run, tmp_path, capsys):
    assert command.main([str(run), "mine", "--folder", str(tmp_path), "--about", "It tries."]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "mine")
    assert "It tries." in (tmp_path / "mine" / "README.md").read_text()
    assert command.main([str(run), "mine", "--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("benchmarks.ship: ")


# Weights that do not fit -----------------------------------------------------------------------------------


def rewrite(path, change_tensors=lambda tensors: tensors, **header):
    """Writes a file with a right checksum, by other means than those that are tested."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    tensors = change_tensors(safetensors.torch.load(content))
    header = json.loads(content[8 : 8 + size])["__metadata__"] | header
    header["sha256"] = weights._checksum(tensors, header["graphalgo"])
    path.write_bytes(safetensors.torch.save(tensors, {k: v for k, v in header.items() if v is not None}))


def with_identity(**changes):
    def change(path):
        size = int.from_bytes(path.read_bytes()[:8], "little")
        header = json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]
        rewrite(path, graphalgo=json.dumps(json.loads(header["graphalgo"]) | changes))

    return change


def with_bytes(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def with_tensors(change):
    return lambda path: rewrite(path, change)


def pickled(path):
    torch.save({"state_dict": {}}, path)


NAME = "model.encode.bias"
HOSTILE = {
    "missing": (Path.unlink, "there are no weights"),
    "empty": (with_bytes(lambda old: b""), "is damaged, cut short or no safetensors file"),
    "cut short": (with_bytes(lambda old: old[:-9]), "is damaged, cut short or no safetensors file"),
    "text": (
        with_bytes(lambda old: b"hello, these are no weights"),
        "is damaged, cut short or no safetensors",
    ),
    "huge header": (with_bytes(lambda old: b"\xff" * 8 + old[8:]), "is damaged, cut short or no safetensors"),
    "pickle": (pickled, "is damaged, cut short or no safetensors file"),
    "a bit changed": (with_bytes(lambda old: old[:-1] + bytes([old[-1] ^ 1])), "does not match its checksum"),
    "graphs": (
        lambda path: save_graphs(path, balanced(9, 2, seed=0).data_list(), {}),
        "holds no weights of graphalgo",
    ),
    "no metadata": (
        lambda path: path.write_bytes(safetensors.torch.save({NAME: torch.zeros(8)})),
        "holds no weights of graphalgo",
    ),
    "no identity": (lambda path: rewrite(path, graphalgo="null"), "does not say in a known way"),
    "odd identity": (lambda path: rewrite(path, graphalgo="[1]"), "does not say in a known way"),
    "newer": (lambda path: rewrite(path, version="2"), "has format version 2, this graphalgo reads up to 1"),
    "other feature": (with_identity(colours=["red"]), "does not say in a known way"),
    "other output": (with_identity(outputs=[["next", "graph", "mask"]]), "does not say in a known way"),
    "no task": (with_identity(task=3), "does not say in a known way"),
    "other attributes": (with_identity(node_attrs=["start"]), "another model: it has model.encode.weight"),
    "NaN": (
        with_tensors(lambda old: {**old, NAME: torch.full_like(old[NAME], torch.nan)}),
        f"{NAME} holds values that are not finite",
    ),
    "complex": (
        with_tensors(lambda old: {**old, NAME: old[NAME] + 1j}),
        f"{NAME} holds values that are not finite real numbers",
    ),
    "other shape": (
        with_tensors(lambda old: {**old, NAME: torch.zeros(9)}),
        rf"another model: it has {NAME} \[9\]",
    ),
    "one too many": (
        with_tensors(lambda old: {**old, "more": torch.zeros(1)}),
        r"another model: it has more \[1\], this run not at all",
    ),
    "one too few": (
        with_tensors(lambda old: {name: w for name, w in old.items() if name != NAME}),
        f"another model: it has {NAME} not at all",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_file_that_holds_no_such_weights_is_refused(case, shipped, tmp_path, refused):
    change, message = HOSTILE[case]
    shutil.copytree(shipped / "tiny_search", tmp_path / "copied")
    change(tmp_path / "copied" / "weights.safetensors")
    with pytest.raises(InputError, match=message):
        PairModule.from_pretrained(tmp_path / "copied")
    if case in ("cut short", "other shape"):
        assert re.search(
            message, refused("test", "--pretrained", tmp_path / "copied", "--run_dir", tmp_path / "out")
        )
        assert not (tmp_path / "out" / "test").exists()


def test_damaged_config_of_weights_is_named(shipped, tmp_path, refused):
    shutil.copytree(shipped / "tiny_search", tmp_path / "copied")
    (tmp_path / "copied" / "config.yaml").write_bytes(b"model: [\xff")
    error = refused("test", "--pretrained", tmp_path / "copied", "--run_dir", tmp_path / "out")
    assert f"the config {tmp_path / 'copied' / 'config.yaml'} is damaged" in error


def test_weights_come_back_as_they_were(tmp_path):
    state = {"w": torch.arange(6.0).reshape(2, 3).T, "v": torch.zeros(0), "u": torch.ones(2).bfloat16()}
    state["view"] = state["w"][:2]  # shares memory
    identity = {"task": "t", "node_attrs": [], "edge_attrs": [], "order_attrs": [], "outputs": []}
    save_weights(tmp_path, state, identity)
    loaded = load_weights(tmp_path)
    assert tiny.differences(loaded["state_dict"], state) == [] and loaded["graphalgo"] == identity


# Use -------------------------------------------------------------------------------------------------------


def test_weights_are_found_by_name_and_listed(package, capsys, shipped):
    assert weights.names() == ["tiny_search"]
    made, same = (
        PairModule.from_pretrained("tiny_search"),
        PairModule.from_pretrained(shipped / "tiny_search"),
    )
    assert tiny.differences(dict(made.state_dict()), dict(same.state_dict())) == []
    assert main(["pretrained"]) == 0
    listed = capsys.readouterr().out
    assert (
        listed.startswith("tiny_search\n    Finds a way. ") and "trained for 10 steps with seed 0" in listed
    )
    with pytest.raises(
        InputError, match="no weights 'tiny_serch'.* tiny_search; did you mean 'tiny_search'?"
    ):
        PairModule.from_pretrained("tiny_serch")
    for name in ("../tiny_search/..", "", ".", "/"):
        with pytest.raises(InputError, match="there are no weights"):
            PairModule.from_pretrained(name)


def test_package_without_weights_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "none")
    assert main(["pretrained"]) == 0
    assert capsys.readouterr().out == "no weights come with this version\n"
    with pytest.raises(InputError, match="of which there are none"):
        PairModule.from_pretrained("search_propagator")


def test_test_of_the_weights_gives_the_scores_of_the_run(run, package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["test", "--pretrained", "tiny_search"]) == 0
    folder = tmp_path / "runs" / "pretrained" / "tiny_search"
    scores = (folder / "test" / "scores.json").read_bytes()
    assert scores == (run / "test" / "scores.json").read_bytes()
    ours, theirs = (
        read_predictions(place / "test" / "predictions.parquet").drop(columns="confidence")
        for place in (folder, run)
    )
    assert ours.equals(theirs)
    asked, tested = (
        load_graphs(place / "test" / "graphs" / "lookahead-9.safetensors")[0] for place in (folder, run)
    )
    assert tiny.differences([g.to_dict() for g in asked], [g.to_dict() for g in tested]) == []
    assert main(["analyze", str(folder)]) == 0
    assert main(["test", "--pretrained", "tiny_search"]) == 0  # again, into the same folder


def test_settings_can_be_changed_as_usual(package, tmp_path, capsys):
    folder = tmp_path / "mine"
    test = ["test", "--pretrained=tiny_search", "--run_dir", str(folder), "--model.test_loops", "3"]
    assert main([*test, "--data.tests", "[{size: 11, per_lookahead: 1}]"]) == 0
    (row,) = json.loads((folder / "test" / "scores.json").read_text())
    assert (row["set"], row["num_graphs"], row["loops"]) == ("lookahead-11", 5, 3)


def test_weights_validate_and_predict(package, tmp_path, capsys):
    given = ["--pretrained", "tiny_search", "--run_dir", str(tmp_path / "mine")]
    assert main(["validate", *given]) == 0
    assert "val/lookahead-9/score" in capsys.readouterr().out
    graphs = balanced(12, 4, seed=0).data_list()
    save_graphs(tmp_path / "mine.safetensors", graphs, {})
    assert main(["predict", *given, "--data.predict_graphs", str(tmp_path / "mine.safetensors")]) == 0
    answers = read_predictions(tmp_path / "mine" / "predict" / "predictions.parquet")
    module = PairModule.from_pretrained("tiny_search")
    assert answers["prediction"].tolist() == [int(answer["next"]) for answer in module.answer(graphs)]


def test_pretrained_weights_leave_runs_alone(run, package, tmp_path, refused):
    before = (run / "test" / "scores.json").read_bytes()
    error = refused("test", "--pretrained", "tiny_search", "--run_dir", run)
    assert "holds a run of its own; choose another folder" in error
    assert (run / "test" / "scores.json").read_bytes() == before
    given = ["--pretrained", "tiny_search", "--run_dir", tmp_path / "out"]
    assert "leave out --checkpoint" in refused("test", *given, "--checkpoint", "best")
    assert "fit trains weights of its own" in refused(*tiny.fit_arguments(tmp_path / "out"), *given[:2])
    assert "there are no weights 'nope'" in refused("test", "--pretrained", "nope")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_wheel_holds_the_weights(shipped, tmp_path):
    """Built of a copy of what the build reads, with a folder of weights in its place."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.nb?", "pretrained")
    for package in ("graphalgo", "clrs_bridge", "search_bench", "analysis"):
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(shipped, source / "graphalgo" / "pretrained")
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('.'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = source.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    folder = "graphalgo/pretrained/tiny_search"
    assert {f"{folder}/{name}" for name in ("README.md", "config.yaml", "weights.safetensors")} <= held
    assert "graphalgo/configs/clrs/bfs.yaml" in held and not [name for name in held if "tests/" in name]
