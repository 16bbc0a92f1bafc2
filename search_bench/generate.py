"""Fresh questions: balanced over lookaheads for training, at one lookahead for testing, and random graphs.

Written from the published description of the benchmark's generators and compared with samples of them.

**Balanced graph** of size n for a lookahead L. It has one branch if L = 0, else 2..floor((n - 1) / L), all
equally likely, and ``min(L branches + 1 + uniform{0..5}, n)`` vertices (no fewer than its branches need).
From the start run a path of ``max(1, L)`` edges that ends at the goal, and other paths of L edges, or L + 1
with chance 1/2 while there are vertices to spare. A path of uniform length (0 to all that is left) ends at
the start. Each vertex left then gets uniformly 0..3 children, in proportion to 1/2 + in-degree, and 0..3
parents (1..3 if it has no child) that it does not reach, in proportion to 1/2 + out-degree, each without
replacement.

**Random graph** of size n: uniformly 3..n - 1 vertices; vertex i >= 1 has one parent with chance 1/2, else
uniformly 1..3 (at most i), drawn from 0..i - 1 without replacement; start and goal are two vertices drawn at
random. A graph without a path from start to goal is replaced by another.

**Questions** about a graph: for each shortest path from start to goal and each of its steps, "the path so far
is what comes before the step". In balanced training such a question is kept if the step's lookahead equals L,
and then a new L is drawn, for the questions still to come about this graph and for the next graphs; so kept
questions are uniform over lookaheads. All questions about a random graph are kept. At a wanted lookahead, all
paths are taken, and a question is kept if the shortest path from the start has more than min(L, 2) vertices,
the current vertex has several children of which exactly one reaches the goal, and the step's lookahead is L.

Graphs with more than n edges or more than 64 such paths are replaced, questions that do not fit into 3 n + 5
tokens left out. Ids are a random sample of 1..n, edges stand in random order, both anew for every question.

**Streams.** Question i depends on (generator, its settings, seed, split, i) alone. Questions are drawn in
blocks of 32, each from a SplitMix64 stream of its own, whose seed is a hash of all that; so any part of a
stream can be drawn anywhere, and parts drawn by several workers are the parts of one stream. (The head of a
block has no graph before it, whose further steps most questions of lookahead 0 are about.)

**Splits.** :func:`search_bench.tokens.is_test_question` says of any question whether it is a test question or
a training question. Ids are drawn again until the question is of the split that was asked for.

Source: Saparov et al., Transformers Struggle to Learn to Search, ICLR 2025 (arXiv 2412.04703).
"""

from __future__ import annotations

import hashlib
import json
import numbers
from typing import Literal

import numpy as np

from graphalgo.errors import InputError
from search_bench import kernels
from search_bench.lookahead import max_lookahead
from search_bench.questions import Questions
from search_bench.tokens import MAX_SIZE

BLOCK = 32
"""Questions drawn from one stream of random numbers."""

STREAM_VERSION = 1
"""Part of every stream's seed; raise it when the generators change."""

Split = Literal["train", "test"]

_KINDS = {"balanced": kernels.BALANCED, "at_lookahead": kernels.AT_LOOKAHEAD, "random": kernels.RANDOM}
_GRAPHS_A_QUESTION = 1_000
_MAX_SEED = 2**63 - 1


def balanced(size: int, count: int, seed: int, first: int = 0, split: Split = "train") -> Questions:
    """Questions that are uniform over the lookaheads 0..floor((size - 1) / 2).

    Args:
        size: ids go up to it, and a graph has at most so many vertices and edges; at least 3.
        count: number of questions.
        seed: of the stream, a whole number in 0..2^63 - 1.
        first: number of the first of these questions in the stream.
        split: ``"train"`` or ``"test"``.

    Raises:
        InputError: if an argument is out of range, or the size too small for any question of the split.

    Cost: O(size) a question, and up to 62 questions more than asked for where ``first`` and ``count`` do not
    divide by 32.
    """
    return _draw("balanced", _checked(size, count, seed, first, 3), split, kernels.NO_LOOKAHEAD)


def at_lookahead(
    size: int, lookahead: int, count: int, seed: int, first: int = 0, split: Split = "test"
) -> Questions:
    """Questions at one lookahead with one right next vertex each.

    Args:
        size: see :func:`balanced`.
        lookahead: 1..floor((size - 1) / 2).
        count: see :func:`balanced`.
        seed: see :func:`balanced`.
        first: see :func:`balanced`.
        split: see :func:`balanced`.

    Raises:
        InputError: see :func:`balanced`; or the lookahead is out of range.

    Cost: see :func:`balanced`.
    """
    checked = _checked(size, count, seed, first, 3)
    if not 1 <= lookahead <= max_lookahead(size):
        raise InputError(
            f"the lookahead at size {size} must lie in 1..{max_lookahead(size)}, got {lookahead}"
        )
    return _draw("at_lookahead", checked, split, int(lookahead))


def random_graphs(size: int, count: int, seed: int, first: int = 0, split: Split = "train") -> Questions:
    """Questions about random graphs.

    Args:
        size: see :func:`balanced`; at least 4.
        count: see :func:`balanced`.
        seed: see :func:`balanced`.
        first: see :func:`balanced`.
        split: see :func:`balanced`.

    Raises:
        InputError: see :func:`balanced`.

    Cost: see :func:`balanced`.
    """
    return _draw("random", _checked(size, count, seed, first, 4), split, kernels.NO_LOOKAHEAD)


def _draw(kind: str, counts: tuple[int, int, int, int], split: Split, lookahead: int) -> Questions:
    """The questions first .. first + count - 1, cut out of whole blocks."""
    size, count, seed, first = counts
    if split not in ("train", "test"):
        raise InputError(f"unknown split {split!r}; there are train and test")
    begin, end = first // BLOCK, -(-(first + count) // BLOCK)
    num = (end - begin) * BLOCK
    rows = kernels.Rows(
        np.empty((num, 3 * size + 5), dtype=np.uint16),
        np.empty(num, dtype=np.int64),
        np.zeros((num, size + 1), dtype=bool),
        np.empty(num, dtype=np.int64),
    )
    for block in range(begin, end):
        at = (block - begin) * BLOCK
        words = [STREAM_VERSION, kind, size, lookahead, seed, split, block]
        filled = kernels.fill(
            _KINDS[kind],
            size,
            lookahead,
            split == "test",
            _seed(words),
            _GRAPHS_A_QUESTION * BLOCK,
            kernels.Rows(*(array[at : at + BLOCK] for array in rows)),
        )
        if filled < BLOCK:
            raise InputError(
                f"found too few {split} questions of size {size} among {_GRAPHS_A_QUESTION * BLOCK} graphs; "
                "take a larger size"
            )
    return Questions(*(array[first - begin * BLOCK :][:count] for array in rows))


def _seed(words: list[int | str]) -> np.uint64:
    digest = hashlib.sha256(json.dumps(words).encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def _checked(size: int, count: int, seed: int, first: int, smallest: int) -> tuple[int, int, int, int]:
    limits = {
        "size": (size, smallest, MAX_SIZE),
        "count": (count, 1, None),
        "seed": (seed, 0, _MAX_SEED),
        "first": (first, 0, None),
    }
    for name, (value, low, high) in limits.items():
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise InputError(f"{name} must be a whole number, got {value!r}")
        if value < low or (high is not None and value > high):
            upto = "or more" if high is None else f"to {high}"
            raise InputError(f"{name} must be {low} {upto}, got {value}")
    return int(size), int(count), int(seed), int(first)
