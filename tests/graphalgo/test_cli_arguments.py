"""How the command line is read before Lightning sees it: configs by name, lists in place of lists."""

import json

import pytest

from graphalgo import InputError
from graphalgo.cli import CONFIGS, find_config, main, resolve_arguments
from tests import tiny

BFS = str(CONFIGS / "clrs" / "bfs.yaml")


@pytest.mark.parametrize("name", ["clrs/bfs", "clrs/bfs.yaml", BFS])
def test_config_is_found_by_its_name_and_by_its_path(name):
    assert find_config(name) == BFS
    for given in (["--config", name], ["-c", name], [f"--config={name}"]):
        (read,) = {arg.removeprefix("--config=") for arg in resolve_arguments("fit", given)} - {
            "--config",
            "-c",
        }
        assert read == BFS


def test_run_folder_brings_its_config_unless_one_is_given(tmp_path):
    (tmp_path / "config.yaml").write_text("seed_everything: 0")
    own = ["--config", str(tmp_path / "config.yaml")]
    for run_dir in (["--run_dir", str(tmp_path)], [f"--run_dir={tmp_path}"]):
        for command in ("validate", "test", "predict"):
            assert resolve_arguments(command, run_dir) == [*own, *run_dir]
            assert resolve_arguments(command, [*run_dir, "--config", BFS]) == [*run_dir, "--config", BFS]
            assert resolve_arguments(command, [*run_dir, "--help"]) == [*run_dir, "--help"]
        assert resolve_arguments("fit", run_dir) == run_dir
        for resume in (["--resume", "true"], ["--resume=True"]):
            assert resolve_arguments("fit", [*run_dir, *resume]) == [*own, *run_dir, *resume]


def test_list_of_settings_is_put_in_place_of_the_earlier_list():
    tests = "[{num_nodes: 7}]"
    assert resolve_arguments("fit", ["--data.tests", tests]) == [
        "--data.tests",
        "null",
        "--data.tests",
        tests,
    ]
    (null, *given) = resolve_arguments("fit", [f"--data.tests={tests}"])[1:]
    assert (null, given) == ("null", [f"--data.tests={tests}"])
    for plain in (["--data.sizes", "[4, 5]"], ["--data.tests", "[]"], ["--data.tests"]):
        assert resolve_arguments("fit", plain) == plain


@pytest.mark.parametrize("form", [lambda v: ["--data.tests", v], lambda v: [f"--data.tests={v}"]])
def test_new_test_sets_take_nothing_from_the_configs(form, tmp_path):
    """The config's sets have 4 and 3 graphs; what the command line leaves out is the default, 32."""
    run = tiny.fit(tmp_path / "run", "--trainer.max_steps", 1)
    assert (
        main(["test", "--run_dir", str(run), *form("[{num_nodes: 5}, {num_nodes: 4, edge_prob: 0.3}]")]) == 0
    )
    rows = json.loads((run / "test" / "scores.json").read_text())
    assert [(row["set"], row["num_graphs"]) for row in rows] == [("fresh-5", 32), ("fresh-4-p0.3", 32)]


def test_folder_under_proc_is_refused(tmp_path, capsys):
    """No rights are missing where the tests run as root; there is no folder to be made all the same."""
    assert main(tiny.fit_arguments("/proc/graphalgo/run")) == 2
    error = capsys.readouterr().err
    assert error.startswith("graphalgo: cannot write") and len(error.splitlines()) == 1


def test_unknown_config_is_refused_with_those_there_are():
    with pytest.raises(InputError, match="there is no config 'clrs/bsf'.*did you mean clrs/bfs"):
        find_config("clrs/bsf")
