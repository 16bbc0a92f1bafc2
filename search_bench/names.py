"""The names front end: a question as its tokens alone, one vector for each vertex, made of its mentions.

No pair feature tells which vertices share an edge. Each edge of the token sequence is a slot with a code, and
a vertex is told by the codes of the slots that it is mentioned in; that two vertices are the ends of one edge
shows in the codes that their vectors share.

Axes: b graph, i row, j column, e edge, h head, d entry of a code, n vertices, w channel of the pair state.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from graphalgo.batch import PairBatch, ToPairBatch
from graphalgo.errors import InputError
from graphalgo.model import Front
from search_bench.features import NEXT

CODE = 256
"""Length of a code. Two codes have an inner product of 0 ± 1/16."""

ROLES = ("start", "goal", "current", "on the path")
"""Mentions behind ``Q`` and ``P``, which come once a vertex and need no slot."""


def slot_codes(data: Data) -> Float[np.ndarray, "e d"]:
    """A code for every edge slot of a question: d signs, over sqrt(d).

    They are drawn for each question from a stream that its own tokens seed, so that there is one for any
    number of edges, and the same for the same tokens. Nothing can be learned about a particular code.
    """
    tokens = np.concatenate([data.id[data.edge_index].numpy().ravel(), data.id[data.path].numpy()])
    rng = np.random.default_rng(tokens.astype(np.uint64))
    signs = rng.integers(0, 2, size=(data.edge_index.size(1), CODE), dtype=np.int8)
    return (2.0 * signs - 1.0) / CODE**0.5


def mentions(data: Data) -> Float[Tensor, "n v"]:
    """What the tokens say about each vertex: v = 2 d + 4 numbers.

    The sum of the codes of the slots whose tail it is, of those whose head it is, and how often it is
    mentioned in each of :data:`ROLES`.

    Raises:
        InputError: if the graph is not a question of :func:`search_bench.to_data`.

    Cost: O((n + e) d).
    """
    missing = [name for name in ("edge_index", "id", "path", "start", "goal", "current") if name not in data]
    if missing:
        raise InputError(f"the graph lacks {', '.join(missing)}; it is not a question")
    _check_question(data)
    codes = torch.from_numpy(slot_codes(data)).float()
    tails, heads = (torch.zeros(data.num_nodes, CODE).index_add_(0, ends, codes) for ends in data.edge_index)
    on_path = torch.zeros(data.num_nodes).index_add_(0, data.path, torch.ones(len(data.path)))
    roles = torch.stack([data.start, data.goal, data.current, on_path], dim=-1)
    return torch.cat([tails, heads, roles], dim=-1)


def _check_question(data: Data) -> None:
    n, edges = data.num_nodes, data.edge_index
    if not isinstance(edges, Tensor) or edges.dtype != torch.int64 or edges.dim() != 2 or edges.size(0) != 2:
        raise InputError("a question has an edge_index of shape [2, E] and dtype int64")
    for name, per_vertex in {"id": True, "start": True, "goal": True, "current": True, "path": False}.items():
        value = data[name]
        if not isinstance(value, Tensor) or value.dim() != 1 or (per_vertex and len(value) != n):
            raise InputError(f"a question of {n} vertices has a tensor {name!r} of one number a vertex")
        if name in ("id", "path") and (value.is_floating_point() or value.is_complex()):
            raise InputError(f"{name!r} of a question has whole numbers, got {value.dtype}")
    for name, vertices in (("edge_index", edges), ("path", data.path)):
        if vertices.numel() and not 0 <= int(vertices.min()) <= int(vertices.max()) < n:
            raise InputError(f"{name!r} of a question names vertices outside 0..{n - 1}")
    if data.id.numel() and int(data.id.min()) < 0:
        raise InputError("ids of a question must not be negative")


class ToNames(ToPairBatch):
    """The transform (and collate function) from questions to names: no edges, but :func:`mentions`."""

    def __init__(self):
        super().__init__(outputs=(NEXT,), row_attr="current", vertex_attrs=("mentions",), edges=False)

    def forward(self, data: Data | Batch | Sequence[Data]) -> PairBatch:
        """See :class:`graphalgo.ToPairBatch`."""
        if isinstance(data, Data):
            data = data.to_data_list() if isinstance(data, Batch) else [data]
        return super().forward([_named(graph) for graph in data])


def _named(graph: Data) -> Data:
    """A shallow copy with ``mentions``."""
    named = copy.copy(graph)
    named.mentions = mentions(graph)
    return named


class Names(Front):
    r"""The first pair state from learned features of two names.

    ``f_h[u,v] = Σ_d p_h[u,d] q_h[v,d]``, where head h reads a name as ``p_h[u] = α_h ⊙ tails[u] + β_h ⊙
    heads[u]`` and ``q_h`` alike, with learned vectors; then ``z[u,v] = Θ f[u,v] + A roles[u] + B roles[v] +
    bias``. The codes are all but orthogonal: a head whose α and β are even counts the edges u -> v, the edges
    v -> u, common tails or common heads, with an error of about sqrt(degree of u × degree of v / d).

    Args:
        width: channels of the pair state.
        num_heads: features of two names.

    Cost: 2·b·h·d·n² operations.
    Source: "Attention Is Only as Good as Its Witnesses", chapter 3: the pair models start from names made
    of a vertex's mentions; this form of it is ours.
    """

    def __init__(self, width: int, num_heads: int = 8):
        super().__init__()
        self.width, self.num_heads = width, num_heads
        # Each head starts even over the code, as a random mixture of tails and heads, and a little uneven.
        even = torch.randn(2, 2, num_heads, 1)
        self.mix = nn.Parameter(even + 0.1 * torch.randn(2, 2, num_heads, CODE))
        self.features = nn.Linear(num_heads, width)
        self.roles = nn.Linear(len(ROLES), 2 * width, bias=False)

    def forward(self, batch: PairBatch) -> Float[Tensor, "b n n w"]:
        """See the class; reads ``batch.vertices`` alone."""
        tails, heads, roles = batch.vertices.split([CODE, CODE, len(ROLES)], dim=-1)
        first_bhid, second_bhjd = (
            tails.unsqueeze(1) * alpha.unsqueeze(1) + heads.unsqueeze(1) * beta.unsqueeze(1)
            for alpha, beta in self.mix
        )
        f = torch.matmul(first_bhid, second_bhjd.mT).permute(0, 2, 3, 1)
        row, column = self.roles(roles).chunk(2, dim=-1)
        return self.features(f) + row.unsqueeze(2) + column.unsqueeze(1)
