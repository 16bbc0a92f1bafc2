"""The tables of results in the documentation, from run folders and reports that are made up."""

import json

import pytest

from benchmarks import results, samplers
from tests import fake_runs

README = """# A title

<!-- results:begin -->
old
<!-- results:end -->

In between.

<!-- demo:begin -->
<!-- demo:end -->
The end.
"""
DOCS = "Speed\n\n<!-- bench:begin -->\n<!-- bench:end -->\n"


@pytest.fixture
def root(tmp_path):
    """A checkout with runs, a demo and a report."""
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(DOCS)
    for seed, score in enumerate((0.96, 0.98)):
        rows = [
            fake_runs.scores("mst_prim", score),
            fake_runs.scores("mst_prim", score / 2, 128, "fresh-128"),
        ]
        fake_runs.make(tmp_path / "runs" / "results" / f"mst_prim-seed{seed}", rows, seed)
    row = fake_runs.scores("floyd_warshall", 0.5)
    fake_runs.make(tmp_path / "runs" / "results" / "a", [row], settings=fake_runs.config(width=128))
    fake_runs.make(tmp_path / "runs" / "results" / "bfs", [fake_runs.scores("bfs", 1.0)])
    fake_runs.make(tmp_path / "runs" / "demo" / "dfs", [fake_runs.scores("dfs", 0.3)], starts=())
    row = {"task": "bfs", "num_nodes": 16, "ours": 1000.0, "dm_clrs": 50.0, "ratio": 20.0}
    machine = {"cpu": "A CPU", "cores": 2, "threads": 1, "load": 0.1, "versions": {"python": "3.11.7"}}
    report = {"benchmark": "samplers", "rounds": 5, "machine": machine, "rows": [row]}
    path = tmp_path / "benchmarks" / "measured" / "samplers.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(report))
    return tmp_path


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_readme_gets_the_runs_beside_published_figures(root):
    assert results.main(["--root", str(root)]) == 0
    text = (root / "README.md").read_text()
    assert "old" not in text and "In between." in text and text.endswith("<!-- demo:end -->\nThe end.\n")
    title = lines_of(text, "| task")[0]
    assert (
        "this project (no hints) | trivial | MPNN (hints) | Triplet-GMPNN (hints) | FloydNet (no hints)"
        in title
    )
    prim, *own = lines_of(text, "| mst_prim")
    assert prim == (
        "| mst_prim | 32 | 8 | 2 | 97.0 ± 1.4 | 1.6 | 69.08 ± 7.56 | 86.39 ± 1.33 | "
        "2.1 above the width-128 block | 97.57 (97.20 with the Kirchhoff read-out, "
        "96.84 with its log n shift) |  |"
    )
    assert own == [
        "| mst_prim | 32 | 0 | official-64 | 64 | 32 | 8 | 96.0 | 95.0–97.0 | 48.0 | 100 | 5.0 |",
        "| mst_prim | 32 | 1 | official-64 | 64 | 32 | 8 | 98.0 | 97.0–99.0 | 49.0 | 100 | 5.0 |",
        "| mst_prim | 32 | mean of 2 | official-64 | 64 | 32 | 8 | 97.0 ± 1.4 |  | 48.5 ± 0.7 | 100 | 5.0 |",
        "| mst_prim | 32 | 0 | fresh-128 | 128 | 32 | 8 | 48.0 | 47.0–49.0 | 24.0 | 100 | 5.0 |",
        "| mst_prim | 32 | 1 | fresh-128 | 128 | 32 | 8 | 49.0 | 48.0–50.0 | 24.5 | 100 | 5.0 |",
        "| mst_prim | 32 | mean of 2 | fresh-128 | 128 | 32 | 8 | 48.5 ± 0.7 |  | 24.2 ± 0.4 | 100 | 5.0 |",
    ]
    nodes = "40.8 (Bevilacqua et al.); 42.2 (Rodionov and Prokhorenkova)"
    warshall = lines_of(text, "| floyd_warshall | 128 ")[0]
    assert "| 1 | 50.0 | 13.3 |" in warshall and warshall.endswith(f"| 96.2 | 98.3 | {nodes} |")
    order = [line.split()[1] for line in lines_of(text.partition("Numbers are")[0], "| ")]
    assert order == ["task", ":---", "bfs", "mst_prim", "floyd_warshall"]
    for source in ("arXiv 2209.11142", "arXiv 2601.19094", "standard error over 3 seeds"):
        assert source in text


def test_demo_and_benchmarks_are_filled_in(root):
    results.main(["--root", str(root)])
    demo = (root / "README.md").read_text().partition("<!-- demo:begin -->")[2]
    assert "| dfs | official-64 | 64 | 32 | 8 | 30.0 | 29.0–31.0 | 15.0 | 100 |  |" in demo
    assert "a trivial predictor has 1.6 on dfs" in demo
    docs = (root / "docs" / "benchmarks.md").read_text()
    assert "A CPU, 2 cores, 1 thread used" in docs and "python 3.11.7" in docs
    assert "| bfs | 16 | 1000 | 50 | 20 |" in docs
    assert samplers.COLUMNS[-1].title in docs


def test_check_tells_what_is_out_of_date_and_changes_nothing(root, capsys):
    assert results.main(["--root", str(root), "--check"]) == 1
    assert capsys.readouterr().out.count("is out of date") == 3
    assert (root / "README.md").read_text() == README
    assert results.main(["--root", str(root)]) == 0
    assert results.main(["--root", str(root), "--check"]) == 0
    (root / "runs" / "demo" / "dfs" / "test" / "scores.json").write_text(
        json.dumps([fake_runs.scores("dfs", 0.4)])
    )
    capsys.readouterr()
    assert results.main(["--root", str(root), "--check"]) == 1
    assert capsys.readouterr().out == f"{root / 'README.md'} (demo) is out of date\n"


def test_parts_without_a_source_and_runs_without_scores_are_left(root, tmp_path_factory, capsys):
    for seed in (0, 1):
        (root / "runs" / "results" / f"mst_prim-seed{seed}" / "test" / "scores.json").unlink()
    nothing = str(tmp_path_factory.mktemp("nothing"))
    assert results.main(["--root", str(root), "--demo", nothing, "--bench", nothing]) == 0
    told = capsys.readouterr().err
    assert told.count("not tested yet") == 2 and told.count("left as it is") == 3
    text = (root / "README.md").read_text()
    assert "| mst_prim" not in text and "| floyd_warshall" in text
    assert text.endswith("<!-- demo:begin -->\n<!-- demo:end -->\nThe end.\n")
    assert (root / "docs" / "benchmarks.md").read_text() == DOCS


def test_only_the_runs_that_are_named_are_shown(root):
    assert results.main(["--root", str(root), str(root / "runs" / "results" / "bfs")]) == 0
    text = (root / "README.md").read_text()
    assert "| bfs" in text and "| mst_prim" not in text


@pytest.mark.parametrize(
    "text",
    ["", README.replace("<!-- results:end -->", ""), README.replace("old", "<!-- results:begin -->")],
    ids=["none", "no end", "twice"],
)
def test_markers_that_are_missing_or_doubled_are_named(root, capsys, text):
    (root / "README.md").write_text(text)
    assert results.main(["--root", str(root)]) == 2
    assert "<!-- results:begin --> and <!-- results:end --> once" in capsys.readouterr().err
    assert (root / "README.md").read_text() == text


def test_folders_and_reports_that_are_none_are_named(root, capsys):
    assert results.main(["--root", str(root), str(root)]) == 2
    assert "holds no run" in capsys.readouterr().err
    (root / "benchmarks" / "measured" / "other.json").write_text('{"benchmark": "other"}')
    assert results.main(["--root", str(root)]) == 2
    told = capsys.readouterr().err
    assert "other.json is not a report of samplers or search or search_distribution or mixers" in told
