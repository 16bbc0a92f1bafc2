import dataclasses
import re
import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis import figures
from analysis.report import analyze, find, find_scores, read_train_loops
from analysis.scores import score_by_loop
from analysis.tables import as_markdown, as_text, percent
from clrs_bridge import TASKS, sample
from graphalgo.batch import Output
from graphalgo.errors import InputError
from tests.analysis import fakes

GENERIC = {"loops", "graphs"}
DEPTH = {"depth", "depth_loops"}
MARGIN = {"margin", "margin_bins"}
EXPECTED = {
    "bfs": DEPTH,
    "dfs": DEPTH,
    "topological_sort": set(),
    "articulation_points": set(),
    "bridges": set(),
    "strongly_connected_components": {"scc"},
    "mst_kruskal": MARGIN,
    "mst_prim": DEPTH | MARGIN | {"key_margin", "key_margin_bins", "tree"},
    "bellman_ford": DEPTH | MARGIN,
    "dijkstra": DEPTH | MARGIN,
    "dag_shortest_paths": DEPTH | MARGIN,
    "floyd_warshall": DEPTH | MARGIN,
}


def findings(answers):
    scores = score_by_loop(answers.rows, answers.outputs, len(answers.graphs))
    return [find_scores(answers, scores, (2, 3)), *find(answers, (2, 3))]


def drawn(finding):
    ax = Figure().subplots()
    finding.draw(ax)
    return ax


@pytest.mark.parametrize("wrong", [None, 0.3, 1.0], ids=["perfect", "some wrong", "random"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_gets_its_analyses(task, wrong):
    graphs = sample(task, 7, 3, seed=0) + sample(task, 5, 1, seed=1)
    answers = fakes.answers(TASKS[task], graphs, loops=2, wrong=wrong)
    found = findings(answers)
    assert {finding.name.removeprefix("fresh-8_") for finding in found} == GENERIC | EXPECTED[task]
    for finding in found:
        assert finding.subtitle == f"{task}, fresh-8: n = 5-7, 4 graphs, 2 loops"
        assert as_markdown(finding.shown).count("\n") == len(finding.shown) + 2
        if finding.draw is not None:
            ax = drawn(finding)
            assert ax.get_xlabel() and ax.get_ylabel()


@pytest.mark.parametrize("task", [task for task in TASKS if TASKS[task].min_nodes <= 2])
def test_single_vertices_are_analysed(task):
    outputs = TASKS[task].outputs
    target = {output.name: [1 if output.type == "mask_one" else 0] for output in outputs}
    weights = [0.5] if TASKS[task].weighted else None
    graph = fakes.graph(1, [(0, 0)], weights, source=0, **target)
    for finding in findings(fakes.answers(TASKS[task], [graph])):
        if finding.draw is not None:
            drawn(finding)


def test_an_unknown_task_gets_the_generic_analyses():
    outputs = (Output("where", "node", "pointer"), Output("seen", "node", "mask"))
    own = SimpleNamespace(name="my_task", outputs=outputs)
    graphs = [fakes.graph(3, [(0, 1)], where=[0, 0, 2], seen=[1, 0, -1])]
    found = findings(fakes.answers(own, graphs, loops=3))
    assert [finding.name for finding in found] == ["fresh-8_loops", "fresh-8_graphs"]
    assert found[0].table["score"].tolist() == [1.0] * 9


def test_a_clrs_name_for_another_task_is_refused():
    other = SimpleNamespace(name="bfs", outputs=(Output("parent", "node", "pointer"),))
    with pytest.raises(InputError, match="no pi, s; give a task of your own a name of its own"):
        findings(fakes.answers(other, [fakes.graph(2, [(0, 1)], parent=[0, 0])]))


def test_margins_are_left_out_where_weights_are_not_positive():
    graph = fakes.graph(2, [(0, 1)], [-0.5], source=0, pi=[0, 0])
    names = [finding.name for finding in findings(fakes.answers(TASKS["bellman_ford"], [graph]))]
    assert not any("margin" in name for name in names)


@pytest.fixture
def run_dir(tmp_path):
    task = TASKS["mst_prim"]
    small = fakes.answers(task, sample(task.name, 8, 4, seed=0), loops=3, wrong=0.4, name="official-8")
    large = fakes.answers(task, sample(task.name, 12, 2, seed=1), loops=4, wrong=0.6, name="fresh-12")
    run_dir = fakes.save(tmp_path / "prim", small, large)
    (run_dir / "config.yaml").write_text("model:\n  init_args:\n    train_loops: [2, 3]\n")
    return run_dir


def test_analyze_writes_what_it_names(run_dir):
    before = dict(matplotlib.rcParams)
    shown = []
    written = analyze(run_dir, show=shown.append)
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    folder = run_dir / "figures"
    assert sorted(folder.iterdir()) == sorted(written)
    assert len(set(written)) == len(written)
    report = (folder / "report.md").read_text()
    for path in written:
        assert path.stat().st_size > 0
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            assert f"]({path.name})" in report
            assert path.with_suffix(".svg") in written
        if path.suffix == ".csv":
            assert f"]({path.name})" in report
            assert len(pd.read_csv(path)) > 0
    for name in re.findall(r"\]\(([^)]+)\)", report):
        assert folder / name in written
    text = "\n".join(shown)
    assert "official-8: n = 8, 4 graphs, 3 loops" in text
    assert "own child" in text and "own child" in report
    overview = pd.read_csv(folder / "overview.csv")
    assert overview.groupby("set")["loop"].max().to_dict() == {"fresh-12": 4, "official-8": 3}


def test_names_with_dollar_signs_are_drawn_as_they_are(tmp_path):
    part = fakes.answers(TASKS["bridges"], sample("bridges", 5, 1, seed=0), name="a_b^c$_{$")
    assert len(analyze(fakes.save(tmp_path, part), show=lambda text: None)) > 0


def test_analyze_twice_writes_the_same_bytes(tmp_path):
    task = TASKS["strongly_connected_components"]
    run_dir = fakes.save(tmp_path, fakes.answers(task, sample(task.name, 8, 2, seed=0), loops=2, wrong=0.3))
    first = {path: path.read_bytes() for path in analyze(run_dir, show=lambda text: None)}
    assert {path: path.read_bytes() for path in analyze(run_dir, show=lambda text: None)} == first


def test_analyze_of_an_untested_run_writes_nothing(tmp_path):
    with pytest.raises(InputError, match="run `graphalgo test` on it first"):
        analyze(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model:\n  train_loops: [4, 24]\n", (4, 24)),
        ("model:\n  class_path: x\n  init_args: {train_loops: [4, 8]}\n", (4, 8)),
        ("model:\n  loop: {class_path: graphalgo.StackedBlocks}\n  train_loops: [4, 8]\n", None),
        ("model:\n  loop: {class_path: graphalgo.LoopedBlock}\n  train_loops: [5, 8]\n", (5, 8)),
        ("model:\n  train_loops: many\n", None),
        ("[1, 2]\n", None),
        ("a: [\n", None),
        ("", None),
    ],
)
def test_train_loops_are_read_if_the_config_says(tmp_path, text, expected):
    assert read_train_loops(tmp_path) is None
    (tmp_path / "config.yaml").write_text(text)
    assert read_train_loops(tmp_path) == expected


def test_long_tables_show_some_loops_and_always_the_last():
    answers = fakes.answers(TASKS["dfs"], sample("dfs", 5, 1, seed=0), loops=34)
    scores = findings(answers)[0]
    assert scores.shown["loop"].tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 34]
    assert len(scores.table) == 34


def test_score_figure_shows_the_scores():
    answers = fakes.answers(
        TASKS["topological_sort"], sample("topological_sort", 6, 3, seed=0), loops=3, wrong=0.4
    )
    scores = findings(answers)[0]
    ax = drawn(scores)
    for line, (_, own) in zip(ax.lines, scores.table.groupby("output", sort=False), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), own["loop"])
        np.testing.assert_array_equal(line.get_ydata(), own["score"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["topo", "topo_head", "mean"]
    assert "in training 2 to 3" in ax.get_xlabel()


def test_figures_keep_every_value_inside_the_axes():
    table = pd.DataFrame(
        {"set": "s", "loop": [1, 2], "score": [0.05, 1.0], "low": [0.0, 1.0], "high": [0.1, 1.0]}
    )
    ax = Figure().subplots()
    figures.draw_scores(table, ax, "set")
    low, high = ax.get_ylim()
    assert low < 0 and high > 1


def test_finding_is_immutable():
    answers = fakes.answers(TASKS["bfs"], sample("bfs", 5, 1, seed=0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        findings(answers)[0].name = "other"


def test_tables_match_known_answer():
    table = pd.DataFrame(
        {"kind": ["a", "bc"], "entries": [1234, 5], "low": [0.5, np.nan], "share_of_x": [1, 0.0004]}
    )
    assert as_text(table).splitlines() == [
        "kind  entries  95% low  share of x",
        "a       1,234   50.00%     100.00%",
        "bc          5        -       0.04%",
    ]
    assert as_markdown(table).splitlines() == [
        "| kind | entries | 95% low | share of x |",
        "| :-- | --: | --: | --: |",
        "| a | 1,234 | 50.00% | 100.00% |",
        "| bc | 5 | - | 0.04% |",
    ]


def test_percent_matches_known_answers():
    shown = [percent(share) for share in (0.97571, 1.0, 0.0, 0.00012345, 12.5)]
    assert shown == ["97.57%", "100.00%", "0.00%", "0.012%", "1250.00%"]
