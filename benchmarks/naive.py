"""The mixers as their formulas read: every product over (i, k, j) is laid out in memory, then reduced over k.
A propagator's inverse is computed whole.

Written with broadcasting alone, for graphs without padding. What a mixer saves is measured against these.

Axes: b graph, i row, k middle, j column, c channel, h head, d channel of a head.
"""

from __future__ import annotations

import math

import torch


def products(a, b):
    """a[i,k] b[k,j]: (b, i, k, j, ...) from two (b, n, n, ...)."""
    return a[:, :, :, None] * b[:, None]


def summed(a, b):
    """n^(-1/2) Σ_k a[i,k] b[k,j]."""
    return products(a, b).sum(dim=2) / math.sqrt(a.size(1))


def or_join(a, b, flip):
    """1 - exp(-Σ_terms Σ_k a[i,k] b[k,j]), each leg read transposed where its flip says so."""
    total = 0
    terms = zip(a.chunk(len(flip), dim=-1), b.chunk(len(flip), dim=-1), flip, strict=True)
    for a_term, b_term, (flip_a, flip_b) in terms:
        left = a_term.transpose(1, 2) if flip_a else a_term
        right = b_term.transpose(1, 2) if flip_b else b_term
        total = total + products(left, right).sum(dim=2)
    return 1 - torch.exp(-total)


def power_mean(log_x, log_y, beta):
    """((1/n) Σ_k (x[i,k] y[k,j])^β)^(1/β), as a logarithm of a sum of powers."""
    log_powers = beta * (log_x[:, :, :, None] + log_y[:, None])
    return ((log_powers.logsumexp(dim=2) - math.log(log_x.size(1))) / beta).exp()


def propagator(gate, source, ceiling=0.99):
    """[log X, 1 - exp(-X)] with X = S (I - G)^-1, the inverse of every channel laid out; in float64."""
    g, s = (leg.double().permute(0, 3, 1, 2) for leg in (gate, source))
    g = g * ceiling / g.sum(dim=-1, keepdim=True).clamp(min=ceiling)
    inverse = torch.linalg.inv(torch.eye(g.size(-1), dtype=g.dtype) - g)
    x = (s @ inverse).permute(0, 2, 3, 1)
    return torch.cat([x.log(), 1 - (-x).exp()], dim=-1).to(gate.dtype)


def propagator_row(gate, source):
    """The first row of :func:`propagator`, of all that are computed."""
    return propagator(gate, source)[:, :1]


def triangle_attention(q, k, v1, v2):
    """Σ_k softmax_k(⟨q[i,k], k[k,j]⟩ / √d) v1[i,k] v2[k,j], head by head."""
    score_bikjh = products(q, k).sum(dim=-1) / math.sqrt(q.size(-1))
    weight_bikjh = score_bikjh.softmax(dim=2)
    return (weight_bikjh[..., None] * products(v1, v2)).sum(dim=2).flatten(3)
