"""Samples drawn by the benchmark's own generator, and how tests look at questions."""

from pathlib import Path

from search_bench import read_questions

FOLDER = Path(__file__).parents[1] / "data" / "search"
FILES = sorted(path.stem for path in FOLDER.glob("*.npz"))


def sample_file(name):
    return FOLDER / f"{name}.npz"


def sample(name):
    return read_questions(sample_file(name))


def edge_list(question):
    return list(zip(*question.edges.tolist(), strict=True))


def plain(question):
    """A question as plain values, whatever the order of its edges."""
    return frozenset(edge_list(question)), question.start, question.goal, tuple(question.path.tolist())
