"""The two legs (u, k) and (k, v) of a two-step walk: their projection, and the sum over the middle vertex.

Axes: b graph, i row, j column, k middle, c channel, r chosen row. Every layer takes ``rows``, the rows that
will be read; without it, it computes all of them.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from graphalgo.errors import check_at_least


def sum_over_middle(
    a: Float[Tensor, "b r n c"],
    b: Float[Tensor, "b n n c"],
    mask: Bool[Tensor, "b n"],
    rows: Int[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b r n c"]:
    r"""For each channel the matrix product Σ_k a[u,k] b[k,v], over real vertices k; 0 at padded pairs.

    Args:
        a: first legs, of the chosen rows only. Finite everywhere, whatever it holds in the padding.
        b: second legs, of all rows.
        mask: True at real vertices.
        rows: which rows ``a`` holds; None for all.

    Cost: one r×n by n×n matrix product a channel, 2·b·c·r·n² floating-point operations; memory b·c·n².
    """
    a = a * mask[:, None, :, None]
    a_bcik, b_bckj = a.permute(0, 3, 1, 2), b.permute(0, 3, 1, 2)
    return torch.matmul(a_bcik, b_bckj).permute(0, 2, 3, 1).masked_fill(~pair_mask(mask, rows), 0)


def pair_mask(mask: Bool[Tensor, "b n"], rows: Int[Tensor, "b r"] | None = None) -> Bool[Tensor, "b r n 1"]:
    """True where both vertices of the pair are real."""
    return (take_rows(mask, rows)[:, :, None] & mask[:, None, :]).unsqueeze(-1)


def take_rows(x: Shaped[Tensor, "b n *rest"], rows: Int[Tensor, "b r"] | None) -> Shaped[Tensor, "b r *rest"]:
    """The chosen rows of each graph; all of them for None."""
    return x if rows is None else x[torch.arange(len(x), device=x.device)[:, None], rows]


class Legs(nn.Module):
    r"""Both legs as learned linear maps of the pair state, shifted by a learned multiple of log n.

    ``a[u,k] = Θ_a t[u,k] + bias_a + λ_a log n`` and ``b`` alike, with n the number of real vertices of the
    graph. The shift is what the size law asks of a sum over n candidates; λ starts at 0.

    Args:
        width: channels of the pair state.
        channels: channels of each leg.
        log_n_shift: whether the legs are shifted.
    """

    def __init__(self, width: int, channels: int, log_n_shift: bool):
        super().__init__()
        check_at_least(1, width=width, channels=channels)
        self.project = nn.Linear(width, 2 * channels)
        self.shift = nn.Parameter(torch.zeros(2 * channels)) if log_n_shift else None

    def forward(
        self, t: Float[Tensor, "b n n w"], mask: Bool[Tensor, "b n"]
    ) -> tuple[Float[Tensor, "b n n c"], Float[Tensor, "b n n c"]]:
        """Both legs before their link."""
        legs = self.project(t)
        if self.shift is not None:
            log_n = mask.sum(dim=1).to(legs.dtype).log()
            legs = legs + log_n[:, None, None, None] * self.shift
        a, b = legs.chunk(2, dim=-1)
        return a, b
