"""PairBlock: mixers side by side, a gate, a residual, a per-pair MLP.

Axes: b graph, i row, j column, c channel, r chosen row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from graphalgo.errors import InputError, check_at_least
from graphalgo.mixers.legs import pair_mask, take_rows


def rms_norm(z: Float[Tensor, "*pairs c"], eps: float = 1e-6) -> Float[Tensor, "*pairs c"]:
    r"""Each pair's vector rescaled to unit root mean square, ``z / sqrt(mean_c z² + eps)``; zero stays zero.

    Half precision is squared and summed in float32.
    """
    return F.rms_norm(z, z.shape[-1:], eps=eps)


class PairBlock(nn.Module):
    r"""One update of the pair state.

    ``t = rms_norm(z)``, ``z ← z + σ(Θ_g t) ⊙ Θ_o mix(t)``, then ``z ← z + MLP(rms_norm(z))``, where ``mix``
    sets the mixers' channels one after another. Padded pairs come out exactly 0.

    Args:
        width: channels of the pair state.
        mixers: modules of :mod:`graphalgo.mixers` (or your own: ``forward(t, mask)``, with ``rows`` as third
            argument if graph pointers are read; ``channels``; and ``width`` if it is to be checked).
        hidden: width of the MLP's hidden layer, ``2 * width`` by default.

    Raises:
        InputError: if there are no mixers, or one is made for another width.

    Cost: the mixers', and about ``b n² width (4 width + 2 hidden)`` multiply-adds for the rest.
    """

    def __init__(self, width: int, mixers: Sequence[nn.Module], hidden: int | None = None):
        super().__init__()
        if not mixers:
            raise InputError("a block needs at least one mixer, got none")
        others = [mixer for mixer in mixers if getattr(mixer, "width", width) != width]
        if others:
            named = ", ".join(f"{type(mixer).__name__} of width {mixer.width}" for mixer in others)
            raise InputError(f"the mixers of a block must have its width, {width}; got {named}")
        hidden = 2 * width if hidden is None else hidden
        check_at_least(1, width=width, hidden=hidden)
        self.width = width
        self.mixers = nn.ModuleList(mixers)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(sum(mixer.channels for mixer in mixers), width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.SiLU(), nn.Linear(hidden, width))

    def forward(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """The next pair state; with ``rows`` only the rows of those vertices, at the cost of so many."""
        t = rms_norm(z)
        chosen = () if rows is None else (rows,)
        mixed = torch.cat([mixer(t, mask, *chosen) for mixer in self.mixers], dim=-1)
        z, t = take_rows(z, rows), take_rows(t, rows)
        z = z + self.gate(t).sigmoid() * self.out(mixed)
        z = z + self.mlp(rms_norm(z))
        return z.masked_fill(~pair_mask(mask, rows), 0)
