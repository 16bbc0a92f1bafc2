"""The benchmark's token sequences, questions, and PyG graphs, each way.

A question of size n is a row of 3 n + 5 tokens: padding; then for each edge ``E u v``, in any order; then
``Q start goal``; then ``P`` and the path taken so far, whose last vertex is the current one. Ids are 1..n;
the other tokens are ``P`` = n + 1, ``E`` = n + 2, padding = n + 3 and ``Q`` = n + 4.

Axes: t token, e edge, p vertex of the path, m id (0, which is none, to size), n vertices.

Source: Saparov et al., Transformers Struggle to Learn to Search, ICLR 2025 (arXiv 2412.04703).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped, UInt16
from torch_geometric.data import Data

from graphalgo.errors import InputError
from search_bench import kernels

MAX_SIZE = 2**16 - 5
"""The largest size whose tokens fit into 16 bits."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked.

    Attributes:
        size: ids go up to it, and a sequence has 3 size + 5 tokens.
        edges: ids of tails and heads, in the order given; a set, although it has an order.
        start: id.
        goal: id.
        path: ids of the path so far, from the start to the current vertex.
    """

    size: int
    edges: Int[np.ndarray, "2 e"]
    start: int
    goal: int
    path: Int[np.ndarray, " p"]

    @property
    def current(self) -> int:
        """Id of the vertex whose next one is asked for."""
        return int(self.path[-1])


def read_tokens(tokens: Shaped[np.ndarray, " t"]) -> Question:
    """The question of a row of tokens.

    Raises:
        InputError: if there are not 3 n + 5 whole numbers, they are not in the order above, an edge comes
            twice, or the path does not lead from the start along edges.

    Cost: O(t).
    """
    size, over = divmod(len(tokens) - 5, 3)
    if over or size < 1 or not np.issubdtype(tokens.dtype, np.integer):
        raise InputError(
            f"expected a row of 3 n + 5 whole numbers for size n, got {len(tokens)} of {tokens.dtype}"
        )
    row = tokens.astype(np.int64)
    is_path, is_edge, is_padding, is_query = (row == size + which for which in range(1, 5))
    if is_query.sum() != 1 or is_path.sum() != 1:
        raise InputError(
            f"expected one Q ({size + 4}) and one P ({size + 1}) for size {size}, got {is_query.sum()} and "
            f"{is_path.sum()}"
        )
    first, query = int(is_padding.sum()), int(is_query.argmax())
    in_order = (
        query + 4 < len(row)
        and is_padding[:first].all()
        and is_edge[first:query:3].all()
        and is_path[query + 3]
        and (query - first) % 3 == 0
    )
    if not in_order:
        raise InputError("expected padding, then E u v for each edge, then Q start goal, then P and the path")
    special = is_padding | is_query | is_path
    special[first:query:3] = True
    ids = row[~special]
    if ids.min() < 1 or ids.max() > size:
        raise InputError(f"expected ids in 1..{size} behind E, Q and P, got {ids.min()}..{ids.max()}")
    edges = np.stack([row[first + 1 : query : 3], row[first + 2 : query : 3]])
    question = Question(size, edges, int(row[query + 1]), int(row[query + 2]), row[query + 4 :])
    _check(question)
    return question


def write_tokens(question: Question) -> UInt16[np.ndarray, " t"]:
    """The row of tokens of a question, padded on the left; edges keep their order.

    Raises:
        InputError: if an id is out of range, an edge comes twice, the path does not lead from the start
            along edges, or the tokens do not fit into 3 size + 5.
    """
    size, num_edges = question.size, question.edges.shape[1]
    if not 1 <= size <= MAX_SIZE:
        raise InputError(f"the size must lie in 1..{MAX_SIZE}, got {size}")
    ids = np.concatenate([question.edges.ravel(), [question.start, question.goal], question.path])
    if ids.min() < 1 or ids.max() > size:
        raise InputError(f"ids of size {size} lie in 1..{size}, got {ids.min()}..{ids.max()}")
    _check(question)
    used, room = 3 * num_edges + 4 + len(question.path), 3 * size + 5
    if used > room:
        raise InputError(
            f"{num_edges} edges and a path of {len(question.path)} take {used} tokens, size {size} has "
            f"{room}; take a larger size"
        )
    edge_tokens = np.stack([np.full(num_edges, size + 2), *question.edges], axis=1).ravel()
    tail = [size + 4, question.start, question.goal, size + 1]
    padding = np.full(room - used, size + 3)
    return np.concatenate([padding, edge_tokens, tail, question.path]).astype(np.uint16)


def to_data(
    question: Question,
    label: int | None = None,
    next_ok: Bool[np.ndarray, " m"] | None = None,
    lookahead: int | None = None,
) -> Data:
    """The question as a graph of n vertices.

    Only ids that occur become vertices, in the order of their ids: how many ids a size allows says nothing
    about the graph. Which vertex is which id stands in ``id``; nothing else depends on it.

    Args:
        question: what is asked.
        label: id of the next vertex to train on.
        next_ok: by id, whether it is a right next vertex.
        lookahead: of the question.

    Returns:
        ``Data`` with ``num_nodes``; ``edge_index`` (2, e), edges in the order of the question; ``start``,
        ``goal`` and ``current`` (n,), float32, 1 at that vertex and 0 elsewhere; ``path`` (p,), the vertices
        of the path so far; ``id`` (n,); and what is given of ``next`` (1,), the vertex of the label,
        ``next_ok`` (n,), int64, 1 at right next vertices, and ``lookahead`` (1,).

    Raises:
        InputError: if the label does not occur.

    Cost: O(e log e).
    """
    ends = [question.start, question.goal]
    ids, at = np.unique(np.concatenate([question.edges.ravel(), ends, question.path]), return_inverse=True)
    n, num_ends = len(ids), question.edges.size
    local = torch.from_numpy(at)

    def mark(place: int) -> torch.Tensor:
        marks = torch.zeros(n)
        marks[local[place]] = 1
        return marks

    data = Data(edge_index=local[:num_ends].reshape(2, -1), num_nodes=n)
    data.start, data.goal, data.current = mark(num_ends), mark(num_ends + 1), mark(-1)
    data.path = local[num_ends + 2 :]
    data.id = torch.from_numpy(ids)
    if label is not None:
        if label not in ids:
            raise InputError(f"the label {label} is not the id of a vertex of the question")
        data.next = torch.from_numpy(np.flatnonzero(ids == label))
    if next_ok is not None:
        data.next_ok = torch.from_numpy(next_ok[ids].astype(np.int64))
    if lookahead is not None:
        data.lookahead = torch.tensor([lookahead])
    return data


def from_data(data: Data, size: int) -> Question:
    """The question of a graph that :func:`to_data` made.

    Args:
        data: the graph.
        size: of the question; ids go up to it.

    Raises:
        InputError: if an attribute is missing, or start or goal do not mark one vertex.
    """
    missing = [name for name in ("edge_index", "id", "start", "goal", "path") if name not in data]
    if missing:
        raise InputError(f"the graph lacks {', '.join(missing)}; it is not a question")
    for name in ("start", "goal"):
        if int((data[name] != 0).sum()) != 1:
            raise InputError(f"{name} must mark one vertex, it marks {int((data[name] != 0).sum())}")
    ids = data.id.numpy()
    return Question(
        size,
        ids[data.edge_index.numpy()],
        int(ids[int(data.start.argmax())]),
        int(ids[int(data.goal.argmax())]),
        ids[data.path.numpy()],
    )


def question_key(question: Question) -> int:
    """A 64-bit name of a question: its set of edges, start, goal and path so far.

    With M = SplitMix64's finaliser, g = 0x9E3779B97F4A7C15 and all arithmetic modulo 2^64:
    ``k = sum_e M(g (2^32 u_e + v_e))``; then ``k = M(k + start)``; then ``k = M((k xor x) + g)`` for x the
    goal and each vertex of the path. The order of edges and the size do not enter. Ids do: for the largest
    lookaheads all questions are equal up to ids, so that disjoint sets can be disjoint only as to ids.

    Cost: O(e).
    """
    ends = [question.start, question.goal, *question.path.tolist()]
    ids = np.concatenate([question.edges.ravel(), ends])
    names = np.arange(ids.max() + 1)
    source, target = question.edges
    key = kernels.question_key(
        source, target, len(source), question.start, question.goal, question.path, len(question.path), names
    )
    return int(key)


def is_test_question(question: Question) -> bool:
    """Whether a question may be tested on; if not, it may be trained on. One question in 16 may be.

    The generators go by it, so that no test question is ever trained on, whatever the seeds and sizes.
    """
    return question_key(question) >> (64 - kernels.TEST_BITS) == 0


def _check(question: Question) -> None:
    code = question.edges[0] * (question.size + 1) + question.edges[1]
    if len(np.unique(code)) != len(code):
        raise InputError(f"{len(code) - len(np.unique(code))} edges come more than once")
    if len(question.path) == 0 or question.path[0] != question.start:
        raise InputError(f"the path so far must begin at the start {question.start}, got {question.path}")
    steps = question.path[:-1] * (question.size + 1) + question.path[1:]
    if not np.isin(steps, code).all():
        raise InputError(f"the path so far {question.path} takes a step that is no edge")
