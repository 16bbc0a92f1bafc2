"""Sets of questions: files of others, what is worked out when they lack it, statistics by hand."""

import numpy as np
import pytest

from graphalgo.errors import InputError
from search_bench import Question, Questions, balanced, join, random_graphs, read_questions, write_tokens
from search_bench.questions import UNKNOWN
from search_bench.statistics import compare, statistics
from tests.search_bench.samples import sample, sample_file

EDGES = np.array([[1, 1, 2, 3, 3, 5, 4], [2, 3, 4, 5, 6, 4, 6]])
"""From 1 to 4: by 2, or by 3 and 5; 6 is a dead end."""


def drawn(path, label):
    question = Question(9, EDGES, 1, 4, np.array(path))
    return Questions(
        write_tokens(question)[None],
        np.array([label]),
        np.isin(np.arange(10), [2, 3] if path == [1] else [5])[None],
        np.array([UNKNOWN]),
    )


def test_statistics_of_a_drawn_graph():
    found = statistics(join([drawn([1], 3), drawn([1, 3], 5)]))
    assert {name: values.tolist() for name, values in found.items()} == {
        "vertices": [6, 6],
        "edges": [7, 7],
        "in-degree 0": [1, 1],
        "in-degree 2 or more": [2, 2],
        "in-degree 3 or more": [0, 0],
        "largest in-degree": [2, 2],
        "out-degree 0": [1, 1],
        "out-degree 2 or more": [2, 2],
        "out-degree 3 or more": [0, 0],
        "largest out-degree": [2, 2],
        "vertices that reach the goal": [5, 5],
        "edges from start to goal": [2, 2],
        "vertices of the path so far": [1, 2],
        "branches": [2, 2],
        "right next vertices": [2, 1],
        "label is nearest": [0, 1],
        "edges from current to goal": [2, 2],
        "lookahead": [2, 1],
        "depth below current - lookahead": [0, 1],
    }


def test_one_question_a_graph_is_the_middle_one():
    one = drawn([1], 2)
    many = join([one, drawn([1], 3), drawn([1, 3], 5), balanced(9, 1, 0), one])
    found = statistics(many, one_a_graph=True)
    assert found["right next vertices"].tolist()[::2] == [2, 2]
    assert found["label is nearest"].tolist()[::2] == [0, 1]
    assert len(found["edges"]) == 3


def test_equal_sets_cannot_be_told_apart():
    found = statistics(random_graphs(30, 50, 0))
    assert {row["p"] for row in compare(found, found)} == {1.0}
    shifted = {**found, "edges": found["edges"] + 12}
    rows = {row["statistic"]: row for row in compare(shifted, found)}
    assert rows["edges"]["p"] < 0.001
    assert rows["edges"]["our_mean"] == pytest.approx(rows["edges"]["their_mean"] + 12)
    assert rows["vertices"]["p"] == 1


def test_training_files_do_not_know_lookaheads():
    questions = sample("train_n250")
    assert (questions.lookahead == UNKNOWN).all()
    assert (questions.size, len(questions)) == (250, 400)


def test_files_without_answers_get_them(tmp_path):
    with np.load(sample_file("random_train_n49")) as file:
        np.savez(tmp_path / "some.npz", tokens=file["tokens"], label=file["label"])
    assert np.array_equal(read_questions(tmp_path / "some.npz").next_ok, sample("random_train_n49").next_ok)


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read questions"):
        read_questions(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("not numpy's")
    with pytest.raises(InputError, match="cannot read questions"):
        read_questions(tmp_path / "text.npz")
    (tmp_path / "cut.npz").write_bytes(sample_file("test_n49").read_bytes()[:5000])
    with pytest.raises(InputError, match="cannot read questions"):
        read_questions(tmp_path / "cut.npz")
    np.savez(tmp_path / "lacks.npz", tokens=np.zeros((1, 32), dtype=np.uint16))
    with pytest.raises(InputError, match="lacks label"):
        read_questions(tmp_path / "lacks.npz")
    np.savez(
        tmp_path / "zero.npz", tokens=np.zeros((1, 32), dtype=np.uint16), label=np.ones(1, dtype=np.int64)
    )
    with pytest.raises(InputError, match="expected one Q"):
        read_questions(tmp_path / "zero.npz")


def test_joining_needs_one_size():
    with pytest.raises(InputError, match=r"sizes \[9, 10\]"):
        join([balanced(9, 1, 0), balanced(10, 1, 0)])
    with pytest.raises(InputError, match=r"sizes \[\]"):
        join([])


def wrong_files(tokens, label, next_ok):
    """Arrays that are no questions, each with what is said of them."""
    whole = {"tokens": tokens, "label": label, "next_ok": next_ok}
    return [
        (whole | {"label": label[:3]}, "label must be whole numbers, a row for each"),
        (whole | {"label": np.full_like(label, 99)}, "is none of its right next vertices"),
        (whole | {"tokens": tokens.astype(np.int64) + 65536}, "tokens go from 0 to 65535"),
        (whole | {"tokens": tokens + 0.5}, "tokens must be whole numbers"),
        (whole | {"tokens": tokens[:0]}, "tokens must be "),
        (whole | {"tokens": tokens[0]}, "tokens must be "),
        (whole | {"next_ok": next_ok[:2]}, "next_ok must be whole numbers, a row for each"),
        (whole | {"next_ok": next_ok[:, :1]}, "next_ok must be bytes"),
        (whole | {"next_ok": np.zeros_like(next_ok)}, "is none of its right next vertices"),
    ]


def test_arrays_that_are_no_questions_are_refused(tmp_path):
    questions = balanced(9, 4, seed=0)
    packed = np.packbits(questions.next_ok, axis=1)
    for number, (arrays, message) in enumerate(wrong_files(questions.tokens, questions.label, packed)):
        np.savez(tmp_path / f"{number}.npz", **arrays)
        with pytest.raises(InputError, match=message):
            read_questions(tmp_path / f"{number}.npz")


def test_damaged_files_of_questions_are_refused(tmp_path):
    questions = balanced(9, 64, seed=0)
    (tmp_path / "empty.npz").touch()
    np.save(tmp_path / "one.npy", questions.tokens)
    np.savez_compressed(tmp_path / "whole.npz", tokens=questions.tokens, label=questions.label)
    content = bytearray((tmp_path / "whole.npz").read_bytes())
    content[120] ^= 255
    (tmp_path / "flipped.npz").write_bytes(content)
    for name in ("empty.npz", "one.npy", "flipped.npz"):
        with pytest.raises(InputError, match="cannot read questions"):
            read_questions(tmp_path / name)
