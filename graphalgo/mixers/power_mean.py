"""Power mean: a soft maximum over the middle vertex of the product of two legs.

Axes: b graph, i row, j column, k middle, c channel.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from graphalgo.errors import InputError
from graphalgo.mixers.legs import Legs, pair_mask, sum_over_middle, take_rows


def power_mean(
    log_x: Float[Tensor, "b n n c"],
    log_y: Float[Tensor, "b n n c"],
    beta: Float[Tensor, " c"],
    mask: Bool[Tensor, "b n"],
    rows: Int[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b r n c"]:
    r"""Power mean over two-step walks, ``((1/n) Σ_k (x[u,k] y[k,v])^β)^(1/β)`` for each channel.

    Family two-step walks, link power mean: the mean of the products at β = 1, their maximum as β → ∞. With
    gates that are exponentials of minus lengths it picks out the shortest way through k.

    Args:
        log_x: logarithms of the first leg's gates, at most 0.
        log_y: logarithms of the second leg's gates.
        beta: exponent β > 0 of each channel.
        mask: True at real vertices; n counts them, others are never in the middle, their pairs come out 0.
        rows: the rows to compute; all by default.

    Returns:
        Values in (0, 1], in float32 or wider, whatever autocast says. The largest x of row u and the largest
        y of column v are taken out of the sum, and the rest is raised to use the whole range of the
        floating-point type: nothing overflows, and only a mean of less than exp(-120/β) of the product of
        the two maxima (exp(-1050/β) in float64) is too small. It is returned as about that bound, with
        gradient through the maxima.

    Cost: one n×n matrix product a channel.
    Source: "Attention Is Only as Good as Its Witnesses"; power mean in docs/layers.md.
    """
    with torch.autocast(log_x.device.type, enabled=False):
        dtype = torch.promote_types(log_x.dtype, torch.float32)
        return _power_mean(take_rows(log_x, rows).to(dtype), log_y.to(dtype), beta.to(dtype), mask, rows)


def _power_mean(log_x: Tensor, log_y: Tensor, beta: Tensor, mask: Tensor, rows: Tensor | None) -> Tensor:
    real_k = mask[:, None, :, None]
    info = torch.finfo(log_x.dtype)
    top_x = log_x.masked_fill(~real_k, info.min).amax(dim=2, keepdim=True)
    top_y = log_y.masked_fill(~real_k.transpose(1, 2), info.min).amax(dim=1, keepdim=True)
    # Raised by `lift`, e^8 terms do not overflow; nor does the gradient, e^lift / least.
    lift = (math.log(info.max) - 8) / 2
    least = math.exp(-lift)
    x = (beta * (log_x - top_x).clamp(max=0) + lift).exp()
    y = (beta * (log_y - top_y).clamp(max=0) + lift).exp()
    log_n = mask.sum(dim=1).to(x.dtype).log()[:, None, None, None]
    log_mean = sum_over_middle(x, y, mask, rows).clamp(min=least).log() - (2 * lift + log_n)
    return (log_mean / beta + top_x + top_y).exp() * pair_mask(mask, rows)


class PowerMean(nn.Module):
    r"""Power mean with learned gates ``σ(Θ t + bias + λ log n)`` and a learned β a channel.

    ``β = exp(log_beta)`` starts at values spread evenly (in the logarithm) over ``beta_range``, so that the
    channels of one layer lie between a mean and a maximum.

    Args:
        width: channels of the pair state.
        channels: channels it returns.
        log_n_shift: shift the gates by a learned multiple of log n.
        beta_range: smallest and largest β at the start.
    """

    def __init__(
        self,
        width: int,
        channels: int,
        log_n_shift: bool = True,
        beta_range: tuple[float, float] = (1.0, 8.0),
    ):
        super().__init__()
        self.width, self.channels = width, channels
        self.legs = Legs(width, channels, log_n_shift)
        if not 0 < min(beta_range) <= max(beta_range) < math.inf:
            raise InputError(f"beta_range must be two numbers above 0, got {tuple(beta_range)}")
        low, high = (torch.tensor(float(beta)).log() for beta in beta_range)
        self.log_beta = nn.Parameter(torch.linspace(low, high, channels))

    def forward(
        self,
        t: Float[Tensor, "b n n w"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """See :func:`power_mean`."""
        a, b = self.legs(t, mask)
        return power_mean(F.logsigmoid(a), F.logsigmoid(b), self.log_beta.exp(), mask, rows).to(t.dtype)
