"""Tokens, questions and graphs, each way: every sample of the benchmark, known answers, keys, bad input."""

import dataclasses

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from graphalgo.errors import InputError
from graphalgo.store import load_graphs, save_graphs
from search_bench import Question, from_data, read_tokens, to_data, write_tokens
from search_bench.tokens import is_test_question, question_key
from tests import reference_search as reference
from tests.search_bench.samples import FILES, edge_list, plain, sample

P, E, PAD, Q = 10, 11, 12, 13
ROW = np.array([PAD] * 17 + [E, 3, 7, E, 7, 2, E, 3, 9, Q, 3, 2, P, 3, 7], dtype=np.uint16)
"""Of size 9: 3 -> 7 -> 2 and 3 -> 9; from 3 to 2, at 7."""


def drawn():
    return read_tokens(ROW)


def changed(**values):
    return dataclasses.replace(drawn(), **values)


def edges_of(*pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


@pytest.mark.parametrize("name", FILES)
def test_every_sample_goes_round(name):
    """Tokens to question to graph and back to the same tokens; the reading is that of the slow twin."""
    questions = sample(name)
    for at in range(len(questions)):
        row, question = questions.tokens[at], questions[at]
        edges, start, goal, path = reference.read_tokens(row)
        assert (edge_list(question), question.start, question.goal) == (edges, start, goal)
        assert question.path.tolist() == path and question.current == path[-1]
        data = questions.data(at)
        assert np.array_equal(write_tokens(from_data(data, questions.size)), row)
        ids = data.id.tolist()
        assert ids == sorted({v for edge in edges for v in edge})
        assert [ids[v] for v in data.next_ok.nonzero().flatten().tolist()] == np.flatnonzero(
            questions.next_ok[at]
        ).tolist()
        assert ids[int(data.next)] == questions.label[at]
        assert at % 20 or reference.is_acyclic(edges)


def test_drawn_row_is_read():
    question = drawn()
    assert question.size == 9
    assert plain(question) == (frozenset({(3, 7), (7, 2), (3, 9)}), 3, 2, (3, 7))
    assert question.current == 7
    assert np.array_equal(write_tokens(question), ROW)


def test_drawn_question_as_graph():
    next_ok = np.zeros(10, dtype=bool)
    next_ok[2] = True
    data = to_data(drawn(), 2, next_ok, 0)
    assert data.num_nodes == 4
    assert data.id.tolist() == [2, 3, 7, 9]
    assert data.edge_index.tolist() == [[1, 2, 1], [2, 0, 3]]
    assert data.start.tolist() == [0, 1, 0, 0]
    assert data.goal.tolist() == [1, 0, 0, 0]
    assert data.current.tolist() == [0, 0, 1, 0]
    assert data.path.tolist() == [1, 2]
    assert data.next.tolist() == [0]
    assert data.next_ok.tolist() == [1, 0, 0, 0]
    assert data.lookahead.tolist() == [0]
    assert set(to_data(drawn()).keys()) == {
        "edge_index", "num_nodes", "id", "start", "goal", "current", "path",
    }  # fmt: skip


def test_vertex_without_edges_is_a_vertex_if_asked_about():
    question = Question(9, edges_of((3, 7)), 3, 5, np.array([3]))
    assert to_data(question).id.tolist() == [3, 5, 7]
    assert plain(read_tokens(write_tokens(question))) == plain(question)


def test_question_without_edges_goes_round():
    question = Question(2, edges_of(), 1, 2, np.array([1]))
    assert plain(read_tokens(write_tokens(question))) == plain(question)
    assert plain(from_data(to_data(question), 2)) == plain(question)


def test_graphs_survive_batches_and_files(tmp_path):
    graphs = [sample("test_n49").data(at) for at in (0, 400, 900)]
    save_graphs(tmp_path / "graphs.safetensors", graphs, {})
    loaded, _ = load_graphs(tmp_path / "graphs.safetensors")
    for copies in (loaded, Batch.from_data_list(graphs).to_data_list()):
        for graph, copy in zip(graphs, copies, strict=True):
            assert sorted(graph.keys()) == sorted(copy.keys())
            assert all(torch.equal(graph[key], copy[key]) for key in graph.keys() if key != "num_nodes")
            assert plain(from_data(copy, 49)) == plain(from_data(graph, 49))


def test_key_matches_reference():
    for name in FILES:
        questions = sample(name)
        for at in range(0, len(questions), 97):
            question = questions[at]
            expected = reference.question_key(
                edge_list(question), question.start, question.goal, question.path.tolist()
            )
            assert question_key(question) == expected
            assert is_test_question(question) == (expected < 2**60)


def test_key_is_of_the_question_alone():
    key = question_key(drawn())
    assert question_key(changed(edges=drawn().edges[:, ::-1].copy())) == key
    assert question_key(changed(size=100)) == key
    others = [
        changed(start=7),
        changed(goal=9),
        changed(path=np.array([3])),
        changed(path=np.array([3, 7, 2])),
        changed(edges=drawn().edges[::-1].copy()),
        changed(edges=drawn().edges[:, :2].copy()),
        changed(start=2, goal=3),
    ]
    assert len({key, *map(question_key, others)}) == len(others) + 1


def altered(at, *values):
    row = ROW.copy()
    row[at : at + len(values)] = values
    return row


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW[1:], "3 n \\+ 5 whole numbers"),
        (ROW.astype(float), "float64"),
        (altered(26, PAD), "expected one Q"),
        (altered(23, Q), "expected one Q"),
        (altered(29, 5), "one P"),
        (altered(20, 5), "padding, then E"),
        (altered(31, PAD), "padding, then E"),
        (altered(16, 5), "padding, then E"),
        (np.roll(ROW, -2), "padding, then E"),
        (np.roll(ROW, 3), "padding, then E"),
        (altered(26, P, 3, 2, Q), "padding, then E"),
        (altered(28, P, 2, 3), "padding, then E"),
        (altered(25, 0), "ids in 1..9"),
        (altered(25, E), "ids in 1..9"),
        (altered(25, 40), "ids in 1..9"),
        (altered(20, E, 3, 7), "1 edges come more than once"),
        (altered(27, 7), "must begin at the start 7"),
        (altered(30, 7), "must begin at the start 3"),
        (altered(31, 2), "a step that is no edge"),
    ],
)
def test_bad_rows_are_refused(row, message):
    with pytest.raises(InputError, match=message):
        read_tokens(row)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (changed(size=8), "ids of size 8 lie in 1..8, got 2..9"),
        (changed(start=0), "1..9, got 0..9"),
        (changed(size=0), "size must lie in 1..65531"),
        (changed(size=2**16), "size must lie in"),
        (changed(edges=edges_of((3, 7), (3, 7))), "1 edges come more than once"),
        (changed(path=np.array([7])), "must begin at the start"),
        (changed(path=np.array([], dtype=np.int64)), "must begin at the start"),
        (changed(path=np.array([3, 2])), "a step that is no edge"),
        (Question(2, edges_of((1, 2), (2, 1)), 1, 2, np.array([1, 2])), "take 12 tokens, size 2 has 11"),
    ],
)
def test_questions_that_are_no_tokens_are_refused(question, message):
    with pytest.raises(InputError, match=message):
        write_tokens(question)


def test_bad_graphs_are_refused():
    data = to_data(drawn())
    del data.id
    with pytest.raises(InputError, match="lacks id"):
        from_data(data, 9)
    data = to_data(drawn())
    data.goal[:] = 1
    with pytest.raises(InputError, match="goal must mark one vertex, it marks 4"):
        from_data(data, 9)
    with pytest.raises(InputError, match="label 4"):
        to_data(drawn(), 4)
