"""Propagator: all walks, of every length, in one linear solve.

Axes: b graph, i row or source, j column or target, k middle, c channel, r chosen row.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from graphalgo.errors import check_at_least
from graphalgo.mixers.legs import pair_mask, take_rows

SHARPNESS = 4.0
"""Factor of Θ in gates and sources: they must come near 0 and 1, and so move faster than other weights do."""

CLOSED = -4.0
"""Bias of gates and sources at the start: walks are rare until they are learned."""

CEILING = 0.99
"""Largest sum t₀ of a row of gates: a step passes on at most this share of a walk's weight."""

SMALLEST = 1e-290
"""Smallest weight of walks that is told from none; its inverse and that times 100 are float64 numbers too."""


def cap_rows(gate: Float[Tensor, "*b n n"], ceiling: float = CEILING) -> Float[Tensor, "*b n n"]:
    r"""Gates whose rows sum to at most the ceiling: ``G[u,:] = g[u,:] t₀ / max(t₀, Σ_v g[u,v])``.

    A matrix without negative entries whose rows sum to at most t₀ has a spectral radius of at most t₀
    (Gershgorin), so that the walks of ℓ steps from any vertex weigh at most t₀^ℓ together, on any graph.

    Args:
        gate: not negative.
        ceiling: t₀ in (0, 1).

    Cost: O(n²).
    """
    return gate * (ceiling / gate.sum(dim=-1, keepdim=True).clamp(min=ceiling))


def walk_sum(source: Float[Tensor, "*b r n"], capped: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b r n"]:
    r"""Weight of all walks from a source, ``X = S (I - G)^(-1) = S + S G + S G² + …``.

    ``X[r,v] = Σ_k S[r,k] Σ_ℓ (G^ℓ)[k,v]``.

    The rows of G sum to less than 1, so the columns of ``(I - G)ᵀ`` are diagonally dominant: elimination with
    partial pivoting never swaps them, and as S and G are not negative it never subtracts one entry from
    another except on the diagonal. So every entry of X is exact to some hundred units of its *own* last
    place, however small it is, down to the smallest number of the type.

    Args:
        source: S, not negative, one row or several.
        capped: G, not negative, rows that sum to less than 1. A system that is not such (NaN) gives NaN in
            its own rows and leaves the other systems of the batch as they are.

    Returns:
        X. The backward pass solves the transposed system with the factors of the forward pass.

    Cost: ⅔ n³ operations a system for its factors, then 2 n² a row; as much again a row for the gradient.
    """
    system = torch.eye(capped.size(-1), dtype=capped.dtype, device=capped.device) - capped
    solution, _ = torch.linalg.solve_ex(system.mT, source.mT, check_errors=False)
    return solution.mT


def propagator(
    gate: Float[Tensor, "b n n c"],
    source: Float[Tensor, "b n n c"],
    mask: Bool[Tensor, "b n"],
    rows: Int[Tensor, "b r"] | None = None,
    ceiling: float = CEILING,
) -> Float[Tensor, "b r n 2*c"]:
    r"""Walks of every length through capped gates, ``[log X, 1 - exp(-X)]`` with ``X = S (I - G)^(-1)``.

    ``G[u,:] = g[u,:] t₀ / max(t₀, Σ_v g[u,v])``, so the series converges on any graph, cycles included.
    Family walks of every length, links free energy and OR.

    Args:
        gate: g, gates in [0, 1].
        source: S, gates in [0, 1]: which vertices the walks of row u start from.
        mask: True at real vertices; no walk visits others, and their pairs come out 0.
        rows: the rows to compute; all by default.
        ceiling: t₀.

    Returns:
        log X for each channel, then 1 - exp(-X). Sums and solve are in float64 whatever the precision of the
        gates: a walk of hundreds of steps keeps its place in log X. Weights below 1e-290 (above all, no walk
        at all) read as that, -667.7, with gradient 0.

    Cost: ⅔ n³ operations a channel, and 4 n² a row and channel; memory O(b c n²).
    Source: "Attention Is Only as Good as Its Witnesses", chapter 3; propagator in docs/layers.md.
    """
    padding = ~pair_mask(mask)
    with torch.autocast(gate.device.type, enabled=False):
        g_bcij = gate.masked_fill(padding, 0).double().permute(0, 3, 1, 2)
        s_bcrj = take_rows(source.masked_fill(padding, 0), rows).double().permute(0, 3, 1, 2)
        x_bcrj = walk_sum(s_bcrj, cap_rows(g_bcij, ceiling))
        x = x_bcrj.permute(0, 2, 3, 1)
        links = torch.cat([x.clamp(min=SMALLEST).log(), -torch.expm1(-x)], dim=-1)
    return links.to(gate.dtype).masked_fill(~pair_mask(mask, rows), 0)


class Propagator(nn.Module):
    r"""Propagator with learned gates ``g = σ(4 Θ t + b)`` and sources ``S = σ(4 Θ' t + b')``.

    See :func:`propagator`; it returns two channels for each of its own. The factor 4 is one of learning:
    gates that stop at 2/3 on the roads, or at 1e-4 elsewhere, are good enough for the walks of small graphs
    and hide walks of hundreds of steps. Biases start at -4, so that gates start nearly closed.

    Args:
        width: channels of the pair state.
        propagators: matrices of gates.
    """

    def __init__(self, width: int, propagators: int = 4):
        super().__init__()
        check_at_least(1, width=width, propagators=propagators)
        self.width, self.channels = width, 2 * propagators
        self.project = nn.Linear(width, 2 * propagators, bias=False)
        self.bias = nn.Parameter(torch.full((2 * propagators,), CLOSED))

    def gates(self, t: Float[Tensor, "b n n w"]) -> tuple[Float[Tensor, "b n n c"], Float[Tensor, "b n n c"]]:
        """Raw gates and sources."""
        gate, source = (SHARPNESS * self.project(t) + self.bias).sigmoid().chunk(2, dim=-1)
        return gate, source

    def forward(
        self,
        t: Float[Tensor, "b n n w"],
        mask: Bool[Tensor, "b n"],
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n _"]:
        """See :func:`propagator`."""
        return propagator(*self.gates(t), mask, rows)
