"""Accuracy by lookahead, on answers written by hand."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis import figures
from analysis.answers import check_answers, read_answers
from analysis.lookahead import accuracy_by_lookahead, bin_lookaheads
from analysis.report import analyze, analyze_lookahead, compare_lookaheads, find, find_lookahead
from graphalgo.batch import Output
from graphalgo.errors import InputError
from search_bench import SearchTestSet
from search_bench.datamodule import draw_questions
from tests.analysis import fakes

NEXT = Output("next", "graph", "pointer")
SEARCH = SimpleNamespace(name="search", outputs=(NEXT,))


def question(lookahead, right, accepted=(), num_nodes=5):
    """A graph of which only the answers matter."""
    marks = [int(v == right or v in accepted) for v in range(num_nodes)]
    return fakes.graph(num_nodes, [(0, 1)], next=[right], next_ok=marks, lookahead=[lookahead])


def hand_made():
    """Two loops; the answers of loop 2 to the five questions are right, accepted, wrong, right, wrong."""
    graphs = [
        question(1, 2),
        question(1, 2, [3]),
        question(3, 0, [1]),
        question(4, 4, num_nodes=6),
        question(9, 1),
    ]
    answers = fakes.answers(SEARCH, graphs, loops=2, name="lookahead-20")
    answers.rows.loc[answers.rows["loop"] == 1, "prediction"] = 4
    answers.rows.loc[answers.rows["loop"] == 2, "prediction"] = [2, 3, 2, 4, 0]
    return answers


def test_table_matches_known_answer():
    answers = hand_made()
    check_answers(answers)
    table = accuracy_by_lookahead(answers.rows, NEXT, answers.graphs)
    counts = table[["loop", "lookahead", "questions", "right", "accepted"]].to_numpy().tolist()
    first = [[1, 1, 2, 0, 0], [1, 3, 1, 0, 0], [1, 4, 1, 1, 1], [1, 9, 1, 0, 0]]
    assert counts == [*first, [2, 1, 2, 1, 2], [2, 3, 1, 0, 0], [2, 4, 1, 1, 1], [2, 9, 1, 0, 0]]
    at_one = table.iloc[4]
    assert (at_one["accuracy"], at_one["valid"]) == (0.5, 1.0)
    assert (at_one["low"], at_one["high"]) == pytest.approx((0.0945312, 0.9054688))


def test_bins_match_known_answer():
    answers = hand_made()
    binned = bin_lookaheads(accuracy_by_lookahead(answers.final(NEXT), NEXT, answers.graphs))
    assert binned["lookahead"].tolist() == ["1", "3-4", "9"]
    assert binned["at"].tolist() == pytest.approx([1, 12**0.5, 9])
    assert binned[["questions", "right", "accepted"]].to_numpy().tolist() == [[2, 1, 2], [2, 1, 1], [1, 0, 0]]
    assert binned["accuracy"].tolist() == [0.5, 0.5, 0]


def test_bins_end_at_powers_of_two_and_lose_nothing():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"set": "a", "lookahead": np.arange(130), "questions": rng.integers(1, 9, 130)})
    table = table.assign(right=table["questions"] - 1, accepted=table["questions"])
    both = pd.concat([table, table.iloc[:10].assign(set="A")], ignore_index=True)
    binned = bin_lookaheads(both, ["set"])
    names = ["0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129"]
    assert binned["lookahead"].tolist() == names + names[:6]
    assert binned["set"].tolist() == ["a"] * 10 + ["A"] * 6
    assert binned["questions"].sum() == both["questions"].sum()
    for row in binned.itertuples():
        low, high = (int(end) for end in (row.lookahead.split("-") * 2)[:2])
        own = both[(both["set"] == row.set) & both["lookahead"].between(low, high)]
        assert (row.questions, row.right) == (own["questions"].sum(), own["right"].sum())


def test_questions_without_marks_accept_the_right_answer_alone():
    answers = hand_made()
    for graph in answers.graphs:
        del graph.next_ok
    table = accuracy_by_lookahead(answers.rows, NEXT, answers.graphs)
    assert table["accepted"].tolist() == table["right"].tolist()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("i", 0, "a vertex that does not exist"),
        ("j", 0, "a vertex that does not exist"),
        ("prediction", 5, "a vertex that does not exist"),
        ("prediction", -1, "a vertex that does not exist"),
        ("target", 3, "1 targets differ"),
    ],
)
def test_rows_that_are_no_answers_of_a_graph_are_refused(column, value, message):
    answers = hand_made()
    answers.rows.loc[0, column] = value
    with pytest.raises(InputError, match=message):
        check_answers(answers)


def sets(loops=3):
    """Answers that are right as often as chance would have it."""
    chosen = [SearchTestSet(12, 4), SearchTestSet(40, 1), SearchTestSet(20, random=True, num_questions=30)]
    return [
        fakes.answers(SEARCH, draw_questions(part, "test", 0), loops, wrong=0.6, name=part.name)
        for part in chosen
    ]


def drawn(finding):
    ax = Figure().subplots()
    finding.draw(ax)
    return ax


def test_findings_are_drawn_with_powers_of_two_across():
    small, large, random = sets()
    random.graphs[0].lookahead[:] = 0  # as where there is nothing to choose
    names = [finding.name for finding in find(large)]
    assert names == ["lookahead-40_lookahead", "lookahead-40_lookahead_loops", "lookahead-40_graphs"]
    final, loops = find_lookahead(large)
    assert len(final.shown) == 6 < len(final.table) == 19
    assert final.shown["questions"].sum() == final.table["questions"].sum() == 19
    ax = drawn(final)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "4", "8", "16"]
    assert [text.get_text() for text in ax.texts] == ["2^3"]
    assert list(loops.shown.columns) == ["loop", "1", "2", "3-4", "5-8", "9-16", "17-19"]
    assert drawn(loops).get_ylabel() == "lookahead"
    ax = drawn(compare_lookaheads([small, large, random]))
    assert [tick.get_text() for tick in ax.get_xticklabels()][:3] == ["0", "1", "2"]
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["lookahead-12", "lookahead-40", "random-20"]


def test_sets_of_one_lookahead_are_drawn():
    for ahead in (0, 1, 2):
        table = pd.DataFrame({"set": ["a"], "lookahead": [ahead], "questions": 4, "right": 4, "accepted": 4})
        binned = bin_lookaheads(table, ["set"])
        ax = Figure().subplots()
        figures.draw_lookahead(table.assign(accuracy=1.0), binned, ax, [1, 2])
        assert ax.get_xlim()[0] < ax.get_xlim()[1]


def test_reach_is_marked_only_within_the_lookaheads():
    [finding, _] = find_lookahead(sets(loops=9)[1])
    assert [text.get_text() for text in drawn(finding).texts] == []


def test_report_has_the_lookaheads_and_compares_the_sets(tmp_path, monkeypatch):
    run_dir = fakes.save(tmp_path / "run", *sets(loops=2)[:2])
    shown = []
    written = analyze_lookahead(run_dir, show=shown.append)
    folder = run_dir / "figures"
    assert sorted(folder.iterdir()) == sorted(written)
    table = pd.read_csv(folder / "lookahead.csv")
    assert table.groupby("set", sort=False)["questions"].sum().tolist() == [20, 19]
    assert sum("=== search, " in text for text in shown) == 2
    assert max(text.count("\n") for text in shown) < 12
    named = {path.name for path in written}
    monkeypatch.setattr(figures, "render", lambda draw, stem, title, subtitle: [stem.with_suffix(".png")])
    report = analyze(run_dir, show=str)[-1].read_text()
    assert "Accuracy by lookahead, all sets" in report
    in_report = set(re.findall(r"\((\S*lookahead(?:_loops)?\.(?:png|csv))\)", report))
    assert in_report == {name for name in named if not name.endswith(".svg")}


def test_graphs_that_took_fewer_loops_keep_their_answers(tmp_path):
    """Where the number of loops goes by size, batches of one set differ in it."""
    answers = hand_made()
    fewer = answers.rows[(answers.rows["loop"] == 1) | (answers.rows["graph"] > 1)]
    run_dir = fakes.save(tmp_path / "run", dataclasses.replace(answers, rows=fewer))
    [read] = read_answers(run_dir)
    final = read.final(NEXT).sort_values("graph")
    assert final["prediction"].tolist() == [4, 4, 2, 4, 0]
    assert len(read.rows) == 10
    assert not read.rows.duplicated(["graph", "output", "loop"]).any()


def test_other_graphs_of_that_task_are_refused():
    answers = hand_made()
    for graph in answers.graphs:
        del graph.lookahead
    with pytest.raises(InputError, match="no lookahead; give a task of your own a name"):
        list(find(answers))
