"""The benchmarks run, and their instruments measure what they say; no time is asserted."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import mixers, samplers, search
from benchmarks.common import Column, cpu_model, markdown, measure_in_turns

ROOT = Path(__file__).parents[1]
needs_dm_clrs = pytest.mark.skipif(
    importlib.util.find_spec("clrs") is None, reason="dm-clrs is not installed"
)


@pytest.mark.parametrize(
    ("benchmark", "rows"),
    [(mixers, 7), (search, 1), pytest.param(samplers, 1, marks=needs_dm_clrs)],
    ids=["mixers", "search", "samplers"],
)
def test_benchmark_runs_and_reports(benchmark, rows, tmp_path):
    name = benchmark.__name__.rpartition(".")[2]
    out = tmp_path / "new" / f"{name}.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert (report["benchmark"], report["rounds"], len(report["rows"])) == (name, 1, rows)
    assert {"cpu", "cores", "load", "versions"} <= report["machine"].keys()
    assert markdown(report["rows"], benchmark.COLUMNS) == done.stdout.strip()
    assert all(column.key in row for row in report["rows"] for column in benchmark.COLUMNS)


@pytest.mark.parametrize("benchmark", [mixers, samplers, search])
def test_help_explains(benchmark, capsys):
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(["--help"])
    assert stopped.value.code == 0
    assert benchmark.__doc__ in capsys.readouterr().out


def test_distributions_are_compared(capsys):
    search.main(["--distribution", "--quick"])
    table = capsys.readouterr().out
    assert "| random_train_n125 | lookahead |" in table and table.count("\n") > 15


def test_sides_take_turns_and_medians_are_kept():
    calls = []

    def side(name, values):
        return lambda turn: calls.append((turn, name)) or values[turn]

    sides = {"a": side("a", [5.0, 1.0, 2.0]), "b": side("b", [9.0, 7.0, 8.0])}
    assert measure_in_turns(sides, 3) == {"a": 2.0, "b": 8.0}
    assert calls == [(turn, name) for turn in range(3) for name in "ab"]


def test_peak_memory_is_what_was_held_at_once():
    def body():
        first = torch.ones(10**6, dtype=torch.uint8)
        second = torch.ones(2 * 10**6, dtype=torch.uint8)
        del first
        third = torch.ones(5 * 10**5, dtype=torch.uint8)
        return second, third

    assert mixers.peak_bytes(body) == 3 * 10**6


@pytest.mark.parametrize("at", [0, 1])
def test_sides_that_differ_are_not_timed(at):
    ours = [torch.ones(2, 2), torch.ones(3)]
    theirs = [tensor.clone() for tensor in ours]
    mixers.check("a mixer", ours, theirs)
    theirs[at][0] += 0.01
    with pytest.raises(AssertionError, match="a mixer: (value|gradient 1) differs"):
        mixers.check("a mixer", ours, theirs)


def test_table_leaves_missing_entries_blank():
    columns = (Column("task", "task"), Column("n", "n", "d"))
    table = markdown([{"task": "bfs", "n": 16}, {"task": "dfs"}], columns)
    assert table.splitlines() == ["| task | n |", "| :--- | ---: |", "| bfs | 16 |", "| dfs |  |"]


def test_processor_is_named(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: A  Fast(R) CPU @ 2GHz\n")
    assert cpu_model(tmp_path / "cpuinfo") == "A Fast(R) CPU @ 2GHz"
    assert cpu_model(tmp_path / "none")
