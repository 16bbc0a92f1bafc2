"""VertexTransformer: the fair control, which keeps vertex states and sees the pairs it starts from.

Axes: b graph, i row, the vertex that attends, j column, the vertex attended to, h head, d channel of a head,
c channel of the pair state, s channel of a vertex state, r chosen row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from graphalgo.blocks import rms_norm
from graphalgo.errors import InputError
from graphalgo.mixers.legs import pair_mask, take_rows


def vertex_attention(
    q: Float[Tensor, "b n h d"],
    k: Float[Tensor, "b n h d"],
    v: Float[Tensor, "b n h d"],
    bias: Float[Tensor, "b n n h"],
    mask: Bool[Tensor, "b n"],
) -> Float[Tensor, "b n s"]:
    r"""Softmax attention over vertices, with a bias for each pair and head.

    ``out[i] = Σ_j softmax_j(⟨q[i], k[j]⟩/√d + bias[i,j]) v[j]``, head by head.
    Family single vertices, link average.

    Args:
        q: queries.
        k: keys.
        v: values.
        bias: what is added to the scores, read at (i, j).
        mask: True at real vertices, at least one in each graph; others get weight 0 and come out 0.

    Returns:
        The heads' values one after another, s = h·d channels.

    Cost: 4·b·h·d·n² operations; memory b·h·n².
    Source: "Attention Is Only as Good as Its Witnesses", chapter 3, the fair control.
    """
    q_bhid, k_bhjd, v_bhjd = (x.transpose(1, 2) for x in (q, k, v))
    bias_bhij = bias.permute(0, 3, 1, 2).masked_fill(~mask[:, None, None, :], -math.inf)
    out_bhid = F.scaled_dot_product_attention(q_bhid, k_bhjd, v_bhjd, attn_mask=bias_bhij)
    return out_bhid.transpose(1, 2).flatten(2).masked_fill(~mask.unsqueeze(-1), 0)


class VertexLayer(nn.Module):
    r"""One update of the vertex states.

    With ``x = rms_norm(state)``, ``state ← state + Θ_o attention(Q x, K x, V x, Θ_h t)``, then
    ``state ← state + MLP(rms_norm(state))``; see :func:`vertex_attention`. Padded vertices come out
    exactly 0.

    Args:
        width: channels of the pair state.
        num_heads: number of heads.
        dim: channels of a vertex state, a multiple of ``num_heads``.
        hidden: width of the MLP's hidden layer, ``2 * dim`` by default.

    Raises:
        InputError: if dim is no multiple of num_heads.

    Cost: that of the attention, and ``b n² width num_heads + b n dim (4 dim + 2 hidden)`` multiply-adds.
    """

    def __init__(self, width: int, num_heads: int, dim: int, hidden: int | None = None):
        super().__init__()
        if num_heads < 1 or dim < 1 or dim % num_heads:
            raise InputError(f"dim ({dim}) must be a multiple of num_heads ({num_heads})")
        hidden = 2 * dim if hidden is None else hidden
        self.num_heads = num_heads
        # A bias of the keys, or one of the pairs' scores, would be alike for all j and change no softmax.
        self.project = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = nn.Linear(width, num_heads, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(
        self, state: Float[Tensor, "b n s"], t: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b n s"]:
        """The next vertex states, with ``t`` the normalised pair state at the start."""
        q, k, v = self.project(rms_norm(state)).unflatten(-1, (3, self.num_heads, -1)).unbind(dim=2)
        state = state + self.out(vertex_attention(q, k, v, self.bias(t), mask))
        state = state + self.mlp(rms_norm(state))
        return state.masked_fill(~mask.unsqueeze(-1), 0)


class VertexTransformer(nn.Module):
    r"""A Transformer over vertices in place of a loop: the pair state is where it starts, not what it keeps.

    ``t = rms_norm(z)``, vertex states ``x[u] = Θ t[u,u] + bias`` at the start, then the layers, each with
    weights of its own (:class:`VertexLayer`), whose scores get ``Θ_h t[u,v]``. What is read is
    ``z[u,v] + A x[u] + B x[v]``. So it is told all that a pair-state model is told, in its attention and in
    its read-out, but it keeps n vectors and not n². Vertices have no names: two of them differ only by their
    own pairs and by those of vertices that as many edges as layers reach. So L layers tell children of one
    vertex apart by what lies at most L edges behind them, and no further.

    Args:
        width: channels of the pair state.
        num_layers: number of layers, which is the number of iterations.
        num_heads: heads of each layer.
        dim: channels of a vertex state, a multiple of ``num_heads``.
        hidden: width of the MLPs' hidden layer, ``2 * dim`` by default.

    Raises:
        InputError: if there are no layers, or dim is no multiple of num_heads.

    Cost: that of the layers, O(n²) each, and ``b n dim width + b n² width`` for what is read.
    Source: "Attention Is Only as Good as Its Witnesses", chapter 3, the fair control; that vertex states
    start from the diagonal is ours.

    Example:
        >>> loop = VertexTransformer(width=16, num_layers=6, num_heads=4, dim=32)
        >>> model = PairModel(loop, num_features=batch.x.size(-1), outputs=[NEXT])
        >>> logits = model(batch, num_steps=None)["next"]
    """

    def __init__(self, width: int, num_layers: int, num_heads: int, dim: int, hidden: int | None = None):
        super().__init__()
        if num_layers < 1:
            raise InputError(f"num_layers must be at least 1, got {num_layers}")
        self.width = width
        self.depth = num_layers
        self.layers = nn.ModuleList(VertexLayer(width, num_heads, dim, hidden) for _ in range(num_layers))
        self.start = nn.Linear(width, dim)
        self.read = nn.Linear(dim, 2 * width, bias=False)

    def compile_blocks(self) -> None:
        """Compiles each layer, once for all batch sizes and numbers of vertices."""
        for layer in self.layers:
            layer.compile(dynamic=True)

    def states(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        num_steps: int | None = None,
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Iterator[Float[Tensor, "b _ n c"]]:
        """What is read after each layer, at most the first ``num_steps``; the last one's chosen rows only."""
        after = list(self.vertex_states(z, mask, num_steps))[1:]
        for step, state in enumerate(after, start=1):
            yield self.pair_state(z, state, mask, rows if step == len(after) else None)

    def forward(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        num_steps: int | None = None,
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """What is read after the last layer; with ``rows``, those rows of it alone."""
        *_, state = self.vertex_states(z, mask, num_steps)
        return self.pair_state(z, state, mask, rows)

    def vertex_states(
        self, z: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"], num_steps: int | None = None
    ) -> Iterator[Float[Tensor, "b n s"]]:
        """The vertex states at the start and after each layer, at most the first ``num_steps``."""
        t = rms_norm(z)
        own = t.diagonal(dim1=1, dim2=2).transpose(1, 2)
        state = self.start(own).to(z.dtype).masked_fill(~mask.unsqueeze(-1), 0)
        yield state
        for layer in self.layers[:num_steps]:
            state = layer(state, t, mask)
            yield state

    def pair_state(
        self,
        z: Float[Tensor, "b n n c"],
        state: Float[Tensor, "b n s"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """``z[u,v] + A x[u] + B x[v]`` of vertex states x, or the chosen rows of it; 0 at padded pairs."""
        row, column = self.read(state).chunk(2, dim=-1)
        pairs = take_rows(z, rows) + take_rows(row, rows).unsqueeze(2) + column.unsqueeze(1)
        return pairs.masked_fill(~pair_mask(mask, rows), 0)
