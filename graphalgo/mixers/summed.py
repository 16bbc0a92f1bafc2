"""Summed pair layer: how many two-step walks, weighted by their legs.

Axes: b graph, i row, j column, k middle, c channel.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from graphalgo.mixers.legs import Legs, sum_over_middle, take_rows


def summed(
    a: Float[Tensor, "b n n c"],
    b: Float[Tensor, "b n n c"],
    mask: Bool[Tensor, "b n"],
    rows: Int[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b r n c"]:
    r"""Sum over two-step walks, ``n^(-1/2) Σ_k a[u,k] b[k,v]`` for each channel.

    Family two-step walks, link count. The fixed factor makes it a layer that does not carry over to larger
    graphs; it is here as the baseline that the others are measured against.

    Args:
        a: first legs, any real numbers.
        b: second legs.
        mask: True at real vertices; n counts them, others are never in the middle, their pairs come out 0.
        rows: the rows to compute; all by default.

    Cost: one n×n matrix product a channel.
    Source: "Attention Is Only as Good as Its Witnesses"; summed in docs/layers.md.
    """
    n = mask.sum(dim=1).to(a.dtype)[:, None, None, None]
    return sum_over_middle(take_rows(a, rows), b, mask, rows) * n.rsqrt()


class Summed(nn.Module):
    """Summed pair layer with learned linear legs; see :func:`summed`.

    Args:
        width: channels of the pair state.
        channels: channels it returns.
    """

    def __init__(self, width: int, channels: int):
        super().__init__()
        self.width, self.channels = width, channels
        self.legs = Legs(width, channels, log_n_shift=False)

    def forward(
        self,
        t: Float[Tensor, "b n n w"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """See :func:`summed`."""
        return summed(*self.legs(t, mask), mask, rows)
