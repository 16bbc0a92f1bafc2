"""OR join: is there a middle vertex through which both legs hold?

Axes: b graph, i row, j column, k middle, c channel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from graphalgo.errors import InputError
from graphalgo.mixers.legs import Legs, sum_over_middle, take_rows

STRAIGHT = (False, False)
"""The plain two-step walk: legs (u, k) and (k, v)."""
EVERY_DIRECTION = ((False, False), (True, False), (False, True), (True, True))
"""A term for each way to read the two legs, so that undirected and reversed walks need no extra loop."""


def or_join(
    a: Float[Tensor, "b n n _"],
    b: Float[Tensor, "b n n _"],
    mask: Bool[Tensor, "b n"],
    flip: Sequence[tuple[bool, bool]] = (STRAIGHT,),
    rows: Int[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b r n c"]:
    r"""Noisy OR over two-step walks, ``1 - exp(-Σ_terms Σ_k a[u,k] b[k,v])`` for each channel.

    Family two-step walks, link OR.

    Args:
        a: gates of the first leg in (0, 1), the terms' channels one after another (T·c in all).
        b: gates of the second leg, likewise.
        mask: True at real vertices; others are never in the middle, and their pairs come out 0.
        flip: for each term whether its first leg is read transposed (a[k,u]) and its second (b[v,k]).
        rows: the rows to compute; all by default.

    Returns:
        Values in [0, 1), c channels. Computed with expm1, exact for small sums.

    Cost: one n×n matrix product a channel and term.
    Source: "Attention Is Only as Good as Its Witnesses"; OR join in docs/layers.md (Pearl's noisy OR).
    """
    if len(flip) > 1 or tuple(flip[0]) != STRAIGHT:
        a = _turn(a, [first for first, _ in flip])
        b = _turn(b, [second for _, second in flip])
    terms = len(flip)
    total = sum(
        sum_over_middle(a_term, b_term, mask, rows)
        for a_term, b_term in zip(
            take_rows(a, rows).chunk(terms, dim=-1), b.chunk(terms, dim=-1), strict=True
        )
    )
    return -torch.expm1(-total)


def _turn(leg: Float[Tensor, "b n n _"], flips: Sequence[bool]) -> Float[Tensor, "b n n _"]:
    terms = leg.chunk(len(flips), dim=-1)
    turned = [term.transpose(1, 2) if flip else term for term, flip in zip(terms, flips, strict=True)]
    return torch.cat(turned, dim=-1)


class OrJoin(nn.Module):
    r"""OR join with learned gates ``σ(Θ t + bias + λ log n)``; see :func:`or_join`.

    Args:
        width: channels of the pair state.
        channels: channels it returns.
        flip: the terms, each with whether its legs are read transposed. The default is the one-term form;
            :data:`EVERY_DIRECTION` gives all four.
        log_n_shift: shift the gates by a learned multiple of log n.
    """

    def __init__(
        self,
        width: int,
        channels: int,
        flip: Sequence[tuple[bool, bool]] = (STRAIGHT,),
        log_n_shift: bool = True,
    ):
        super().__init__()
        self.width, self.channels = width, channels
        self.flip = tuple((bool(first), bool(second)) for first, second in flip)
        if not self.flip:
            raise InputError("flip must have a term, such as (False, False), got none")
        self.legs = Legs(width, len(self.flip) * channels, log_n_shift)

    def forward(
        self,
        t: Float[Tensor, "b n n w"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """See :func:`or_join`."""
        a, b = self.legs(t, mask)
        return or_join(a.sigmoid(), b.sigmoid(), mask, self.flip, rows)
