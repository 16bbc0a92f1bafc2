import numpy as np
import pytest

from analysis.depth import entry_depths
from analysis.pointers import (
    FIRST_PASS,
    KINDS,
    SMALLEST,
    ancestors,
    has_smallest_representative,
    pointer_kinds,
    scc_errors,
    sum_tree_errors,
    tree_errors,
)
from clrs_bridge import TASKS, sample
from tests.analysis import fakes


def test_has_smallest_representative_matches_known_answer():
    # {0, 3} by 3 (found first), {1, 4} by 1, {2} by itself
    assert has_smallest_representative(np.array([3, 1, 2, 3, 1])).tolist() == [False, True, True, False, True]


def test_scc_representative_is_the_member_the_first_pass_finds_first():
    #  0 -> 2 <-> 1: the pass from 0 finds 2 before 1
    (output,) = TASKS["strongly_connected_components"].outputs
    graph = fakes.graph(3, [(0, 2), (1, 2), (2, 1)], scc_id=[0, 2, 2])
    rows = fakes.perfect([graph], [output])
    rows["prediction"] = [1, 1, 2]  # 0 leaves its component, 1 stays inside, 2 is right
    table = scc_errors(rows, [graph]).set_index("representative")
    columns = ["entries", "right", "wrong", "wrong_inside"]
    assert table.loc[SMALLEST, columns].tolist() == [1, 0, 1, 0]
    assert table.loc[FIRST_PASS, columns].tolist() == [2, 1, 1, 1]
    assert table.loc["all", columns].tolist() == [3, 1, 2, 1]
    assert table["share_inside"].tolist() == [0, 1, 0.5]


def test_scc_errors_match_reference():
    task = TASKS["strongly_connected_components"]
    graphs = sample(task.name, 10, 6, seed=8)
    answers = fakes.answers(task, graphs, loops=2, wrong=0.5)
    counts = {}
    for row in answers.rows.itertuples():
        component = graphs[row.graph].scc_id.tolist()
        members = [v for v in range(10) if component[v] == component[row.i]]
        kind = SMALLEST if component[row.i] == min(members) else FIRST_PASS
        for name in (kind, "all"):
            own = counts.setdefault((row.loop, name), [0, 0, 0])
            own[0] += 1
            own[1] += row.prediction == row.target
            own[2] += row.prediction != row.target and row.prediction in members
    table = scc_errors(answers.rows, graphs)
    actual = {
        (row.loop, row.representative): [row.entries, row.right, row.wrong_inside]
        for row in table.itertuples()
    }
    assert actual == counts


def test_scc_errors_of_perfect_answers_have_no_share_inside():
    task = TASKS["strongly_connected_components"]
    graphs = sample(task.name, 8, 3, seed=8)
    table = scc_errors(fakes.perfect(graphs, task.outputs), graphs)
    assert (table["accuracy"] == 1).all()
    assert table["share_inside"].isna().all()


def test_ancestors_match_known_answer():
    # 0 <- 1 <- 2, 3 at itself, 4 <-> 5
    above = ancestors(np.array([0, 0, 1, 3, 5, 4]))
    ways = {v: set(np.flatnonzero(above[v]).tolist()) for v in range(6)}
    assert ways == {0: {0}, 1: {0}, 2: {0, 1}, 3: {3}, 4: {4, 5}, 5: {4, 5}}


def test_pointer_kinds_match_known_answer():
    # 0 <- 1 <- 2 <- 3, 0 <- 4; 5 out of reach
    kinds = pointer_kinds(np.array([0, 0, 1, 2, 0, 5])).reshape(6, 6)
    named = [[KINDS[kind] for kind in row] for row in kinds.tolist()]
    assert named[1] == ["elsewhere", "itself", "own child", "deeper descendant", "elsewhere", "elsewhere"]
    assert named[0][1:4] == ["own child", "deeper descendant", "deeper descendant"]
    assert named[3] == ["elsewhere", "elsewhere", "elsewhere", "itself", "elsewhere", "elsewhere"]
    assert named[5][5] == "itself"


def slow_kind(parent, i, answer):
    if answer == i:
        return "itself"
    if parent[answer] == i:
        return "own child"
    above = []
    while parent[answer] not in above:
        answer = parent[answer]
        above.append(answer)
    return "deeper descendant" if i in above else "elsewhere"


def test_tree_errors_match_reference():
    task = TASKS["mst_prim"]
    graphs = sample("mst_prim", 10, 6, seed=9)
    answers = fakes.answers(task, graphs, wrong=0.6)
    depths = [entry_depths("mst_prim", graph) for graph in graphs]
    counts = {}
    for row in answers.rows.itertuples():
        own = counts.setdefault(depths[row.graph][row.i], dict.fromkeys(("entries", *KINDS), 0))
        own["entries"] += 1
        if row.prediction != row.target:
            own[slow_kind(graphs[row.graph].pi.tolist(), row.i, row.prediction)] += 1
    table = tree_errors(answers.rows, graphs, depths)
    assert table.set_index("depth")[["entries", *KINDS]].T.to_dict() == counts
    assert (table["wrong"] == table[list(KINDS)].sum(axis=1)).all()


@pytest.mark.parametrize("wrong", [None, 1.0])
def test_tree_error_shares_sum_to_one_or_are_missing(wrong):
    graphs = sample("mst_prim", 6, 2, seed=0)
    rows = fakes.answers(TASKS["mst_prim"], graphs, wrong=wrong).rows
    table = sum_tree_errors(tree_errors(rows, graphs, [entry_depths("mst_prim", graph) for graph in graphs]))
    if wrong is None:
        assert table["share_of_wrong"].isna().all()
    else:
        assert table["share_of_wrong"].sum() == pytest.approx(1)
