"""Questions: a set of them in the benchmark's own form, one row of tokens each."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, UInt16, UInt64
from torch_geometric.data import Data

from graphalgo.errors import InputError
from search_bench.lookahead import valid_next
from search_bench.tokens import Question, question_key, read_tokens, to_data

UNKNOWN = -1
"""Lookahead of a question whose lookahead is not known."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions of one size, q in number.

    Attributes:
        tokens: one question a row; :mod:`search_bench.tokens` says how.
        label: id of one right next vertex: drawn uniformly from all of them, the only one of a test question.
        next_ok: by id (0..size), whether it is a right next vertex: a child of the current vertex from which
            the goal can be reached.
        lookahead: of the step for whose sake the question was asked, which is the first of a shortest
            completion (of any completion in a test set); -1 where it is not known.
    """

    tokens: UInt16[np.ndarray, "q t"]
    label: Int[np.ndarray, " q"]
    next_ok: Bool[np.ndarray, "q m"]
    lookahead: Int[np.ndarray, " q"]

    @property
    def size(self) -> int:
        """Ids go up to it, and there are at most so many edges."""
        return self.next_ok.shape[1] - 1

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.tokens)

    def __getitem__(self, at: int) -> Question:
        """One question, without its answer."""
        return read_tokens(self.tokens[at])

    def data(self, at: int) -> Data:
        """One question with its answer as a graph; :func:`search_bench.tokens.to_data` says what it holds."""
        return to_data(self[at], int(self.label[at]), self.next_ok[at], int(self.lookahead[at]))

    def data_list(self) -> list[Data]:
        """All questions as graphs."""
        return [self.data(at) for at in range(len(self))]

    def keys(self) -> UInt64[np.ndarray, " q"]:
        """Of each question its :func:`search_bench.tokens.question_key`."""
        return np.array([question_key(self[at]) for at in range(len(self))], dtype=np.uint64)


def join(parts: Sequence[Questions]) -> Questions:
    """The questions of all parts, which must be of one size.

    Raises:
        InputError: if there are none, or of several sizes.
    """
    sizes = sorted({part.size for part in parts})
    if len(sizes) != 1:
        raise InputError(f"expected questions of one size, got the sizes {sizes}")
    return Questions(
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.next_ok for part in parts]),
        np.concatenate([part.lookahead for part in parts]),
    )


def read_questions(path: str | os.PathLike) -> Questions:
    """Reads questions that were drawn elsewhere, as by the benchmark's own generator.

    The file is numpy's ``.npz`` with the arrays ``tokens`` (q, 3 size + 5) and ``label`` (q,), and if known
    ``lookahead`` (q,) and ``next_ok`` (q, bytes), whose bits (the highest first) stand for ids. Right next
    vertices that are not given are worked out.

    Raises:
        InputError: if the file cannot be read, an array is missing, or a row is not a question.
    """
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file}
    except (OSError, EOFError, TypeError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read questions from {path}: {error}") from error
    missing = {"tokens", "label"} - arrays.keys()
    if missing:
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; is it a file of questions?")
    _check_arrays(path, arrays)
    tokens = arrays["tokens"].astype(np.uint16)
    questions = [read_tokens(row) for row in tokens]
    if "next_ok" in arrays:
        next_ok = np.unpackbits(arrays["next_ok"], axis=1)[:, : questions[0].size + 1].astype(bool)
    else:
        next_ok = np.stack(
            [
                valid_next(question.edges, question.size + 1, question.current, question.goal)
                for question in questions
            ]
        )
    label = arrays["label"].astype(np.int64)
    wrong = [at for at, own in enumerate(label) if not (0 < own < next_ok.shape[1] and next_ok[at, own])]
    if wrong:
        raise InputError(
            f"{path}: the label of question {wrong[0]}, {label[wrong[0]]}, is none of its right next vertices"
        )
    lookahead = arrays.get("lookahead", np.full(len(tokens), UNKNOWN))
    return Questions(tokens, label, next_ok, lookahead.astype(np.int64))


def _check_arrays(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuses arrays of other shapes or kinds than :func:`read_questions` describes."""
    tokens = arrays["tokens"]
    if tokens.ndim != 2 or not len(tokens):
        raise InputError(f"{path}: tokens must be (questions, 3 size + 5), got the shape {tokens.shape}")
    for name in ("tokens", "label", "lookahead", "next_ok"):
        own = arrays.get(name)
        if own is None:
            continue
        if (
            own.dtype.kind not in "iu"
            or len(own) != len(tokens)
            or own.ndim != 1 + (name in ("tokens", "next_ok"))
        ):
            raise InputError(
                f"{path}: {name} must be whole numbers, a row for each of {len(tokens)} questions, got "
                f"{own.dtype} of the shape {own.shape}"
            )
    if tokens.min() < 0 or tokens.max() > np.iinfo(np.uint16).max:
        raise InputError(f"{path}: tokens go from 0 to {np.iinfo(np.uint16).max}")
    needed = (tokens.shape[1] - 5) // 3 // 8 + 1
    if "next_ok" in arrays and (arrays["next_ok"].dtype != np.uint8 or arrays["next_ok"].shape[1] < needed):
        raise InputError(f"{path}: next_ok must be bytes (uint8), at least {needed} a question")
