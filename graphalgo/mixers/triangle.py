"""Triangle attention: for each pair (u, v) a softmax over the middle vertex.

Axes: b graph, i row, j column, k middle, h head, d channel of a head.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from graphalgo.errors import InputError, check_at_least
from graphalgo.mixers.legs import pair_mask, take_rows


def triangle_attention(
    q: Float[Tensor, "b n n h d"],
    k: Float[Tensor, "b n n h d"],
    v1: Float[Tensor, "b n n h d"],
    v2: Float[Tensor, "b n n h d"],
    mask: Bool[Tensor, "b n"],
    chunk: int | None = None,
    rows: Int[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b r n c"]:
    r"""Attention of the pair (u, v) over middle vertices, head by head.

    ``out[u,v] = Σ_k softmax_k(⟨q[u,k], k[k,v]⟩/√d) (v1[u,k] ⊙ v2[k,v])``.
    Family two-step walks, link average.

    Args:
        q: queries, read at (u, k).
        k: keys, read at (k, v).
        v1: first factor of the value, read at (u, k).
        v2: second factor, read at (k, v).
        mask: True at real vertices; others get weight 0, and their pairs come out 0.
        chunk: rows u computed at a time; the rows' intermediate results are computed again in the backward
            pass instead of kept. None computes all rows at once.
        rows: the rows to compute; all by default.

    Returns:
        The heads' values one after another, c = h·d channels.

    Cost: b·h·n³·(2d + 3d) operations; memory b·n²·h·d for each row of a chunk.
    Source: "Attention Is Only as Good as Its Witnesses"; triangle attention in docs/layers.md.
    """
    q, v1 = take_rows(q, rows), take_rows(v1, rows)
    if chunk is None or chunk >= q.size(1):
        out = _rows(q, k, v1, v2, mask)
    else:
        out = _chunked_rows(q, k, v1, v2, mask, chunk)
    return out.flatten(3) * pair_mask(mask, rows)


@torch.compiler.disable  # the number of chunks depends on n: compiled, it would be compiled for every size
def _chunked_rows(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor, mask: Tensor, chunk: int) -> Tensor:
    rows = zip(q.split(chunk, dim=1), v1.split(chunk, dim=1), strict=True)
    if torch.is_grad_enabled():
        parts = [checkpoint(_rows, q_i, k, v1_i, v2, mask, use_reentrant=False) for q_i, v1_i in rows]
    else:
        parts = [_rows(q_i, k, v1_i, v2, mask) for q_i, v1_i in rows]
    return torch.cat(parts, dim=1)


def _rows(
    q: Float[Tensor, "b r n h d"],
    k: Float[Tensor, "b n n h d"],
    v1: Float[Tensor, "b r n h d"],
    v2: Float[Tensor, "b n n h d"],
    mask: Bool[Tensor, "b n"],
) -> Float[Tensor, "b r n h d"]:
    """The rows u held by ``q`` and ``v1``, against all columns v."""
    q_bhkid = q.permute(0, 3, 2, 1, 4) / math.sqrt(q.size(-1))
    k_bhkdj = k.permute(0, 3, 1, 4, 2)
    score_bhkij = torch.matmul(q_bhkid, k_bhkdj)
    score_bhkij = score_bhkij.masked_fill(~mask[:, None, :, None, None], -math.inf)
    weight_bhkij = score_bhkij.softmax(dim=2)
    # Σ_k weight[k,i,j] v1[i,k,d] v2[k,j,d]: for each (i, j) a product of 1×n by n×d.
    value_bhijkd = v1.permute(0, 3, 1, 2, 4).unsqueeze(3) * v2.permute(0, 3, 2, 1, 4).unsqueeze(2)
    out_bhij1d = torch.matmul(weight_bhkij.permute(0, 1, 3, 4, 2).unsqueeze(-2), value_bhijkd)
    return out_bhij1d.squeeze(-2).permute(0, 2, 3, 1, 4)


class TriangleAttention(nn.Module):
    """Triangle attention with learned linear queries, keys and values; see :func:`triangle_attention`.

    Args:
        width: channels of the pair state.
        channels: channels it returns, a multiple of ``num_heads``.
        num_heads: number of heads.
        chunk: rows computed at a time once there are more vertices than this; bounds the memory.
    """

    def __init__(self, width: int, channels: int, num_heads: int = 4, chunk: int | None = 16):
        super().__init__()
        check_at_least(1, width=width, channels=channels, chunk=1 if chunk is None else chunk)
        if num_heads < 1 or channels % num_heads:
            raise InputError(f"channels ({channels}) must be a multiple of num_heads ({num_heads})")
        self.width, self.channels = width, channels
        self.num_heads, self.chunk = num_heads, chunk
        self.project = nn.Linear(width, 4 * channels, bias=False)

    def forward(
        self,
        t: Float[Tensor, "b n n w"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """See :func:`triangle_attention`."""
        legs = self.project(t).unflatten(-1, (4, self.num_heads, -1)).unbind(dim=3)
        return triangle_attention(*legs, mask, self.chunk, rows)
