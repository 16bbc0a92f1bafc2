"""How a sum over a family is read: the noisy OR, the free energy, and the softmax of few among many."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from analysis.claims.claim import Claim, Measurement
from graphalgo.mixers.or_join import or_join
from graphalgo.mixers.power_mean import power_mean


def noisy_or(full: bool) -> Measurement:
    """``1 - exp(-Z)`` of an OR join whose walks weigh Z together; the claim is about every Z from 3 on."""
    sums = torch.cat([torch.linspace(0, 6, 601 if full else 61), torch.tensor([3.0])]).sort().values
    read = torch.stack([_joined(total / 4) for total in sums.tolist()])
    least = float(read[sums >= 3].min())
    crossing = float(sums[read > 0.95].min())
    shown = [0.0, 0.1, 1.0, 2.0, 3.0, 4.0]
    detail = pd.DataFrame(
        [{"Z": f"{total:g}", "1 - exp(-Z)": f"{float(_joined(total / 4)):.4f}"} for total in shown]
    )
    return Measurement(
        f"{least:.4f} at Z = 3; above 0.95 from Z = {crossing:.2g} on",
        least > 0.95 and bool((read.diff() >= 0).all()) and float(read[0]) == 0,
        detail,
    )


def _joined(weight: float) -> Tensor:
    """Pair (0, 0) of an OR join over four walks of this weight each."""
    legs = torch.ones(1, 4, 4, 1, dtype=torch.float64)
    return or_join(weight * legs, legs, torch.ones(1, 4, dtype=torch.bool))[0, 0, 0, 0]


SOFT_MINIMA = ((1.0, 2.83), (10.0, 3.00))
COSTS = (3.0, 5.0, 6.0)


def soft_minimum(full: bool) -> Measurement:
    """``-log(Σ_k exp(-β cost_k)) / β`` of costs 3, 5 and 6, read off a power mean, which divides by n."""
    betas = [beta for beta, _ in SOFT_MINIMA] + [100.0]
    found = {beta: _soft_minimum(beta) for beta in betas}
    detail = pd.DataFrame(
        [{"β": f"{beta:g}", "soft minimum": f"{value:.4f}"} for beta, value in found.items()]
    )
    agrees = all(abs(found[beta] - value) < 0.005 for beta, value in SOFT_MINIMA)
    below = all(value <= min(COSTS) + 1e-12 for value in found.values())
    shown = "; ".join(f"{found[beta]:.2f} at β = {beta:g}" for beta, _ in SOFT_MINIMA)
    return Measurement(shown, agrees and below, detail)


def _soft_minimum(beta: float) -> float:
    n = len(COSTS)
    log_x = torch.zeros(1, n, n, 1, dtype=torch.float64)
    log_x[0, 0, :, 0] = -torch.tensor(COSTS, dtype=torch.float64)
    mask = torch.ones(1, n, dtype=torch.bool)
    mean = power_mean(log_x, torch.zeros_like(log_x), torch.tensor([beta], dtype=torch.float64), mask)
    return -math.log(mean[0, 0, 0, 0]) - math.log(n) / beta


BETA, NEAR, FAR = 3.0, 40, 4000
"""Inverse temperature, and how many other towns there are."""
REPORTED_NEAR, REPORTED_FAR = 0.80, 0.04


def crowd(full: bool) -> Measurement:
    """Softmax weight of the children, one margin above the others, whose share among 40 is 80%.

    Neither the number of children nor their margin is told. Both enter as ``children · exp(β Δ)`` alone, so
    that 80% among 40 others settle the share among 4,000. With whole numbers of children at Δ = 1, eight come
    closest.
    """
    children = [count for count in range(1, 41) if round(_share(count, NEAR), 2) == REPORTED_NEAR]
    crowds = [NEAR, 400, FAR]
    detail = pd.DataFrame(
        [
            {
                "children": count,
                "other towns": others,
                "weight of the children": f"{_share(count, others):.4f}",
            }
            for count in children
            for others in crowds
        ]
    )
    near, far = (max(_share(count, others) for count in children) for others in (NEAR, FAR))
    return Measurement(
        f"{100 * near:.1f}% among {NEAR}, {100 * far:.2f}% among {FAR:,} ({children[0]} children, Δ = 1)",
        bool(children) and far < REPORTED_FAR,
        detail,
    )


def _share(children: int, others: int) -> float:
    scores = np.concatenate([np.ones(children), np.zeros(others)])
    weights = torch.softmax(torch.from_numpy(BETA * scores), dim=0)
    return float(weights[:children].sum())


CLAIMS = (
    Claim("noisy_or", "The OR link 1 - exp(-Z) is above 0.95 once the witnesses weigh Z = 3", noisy_or),
    Claim("soft_minimum", "The free energy of costs 3, 5 and 6 is a soft minimum", soft_minimum),
    Claim("crowd", "At β = 3 the children drown in the crowd as it grows", crowd),
)
