"""From the pair state to the answer: one read-out for every (location, type).

Axes: b graph, i row, j column, q choice (a vertex), c channel. Each read-out maps the normalised pair state
``t = rms_norm(z)`` and the vertex mask to logits; logits of a padded choice are -inf, logits of padded
entries mean nothing and are never scored.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from graphalgo.batch import Output


def both_ways(t: Float[Tensor, "b n n c"]) -> Float[Tensor, "b n n 2*c"]:
    """The pair's vector and the reversed pair's, ``[t[i,j], t[j,i]]``."""
    return torch.cat([t, t.transpose(1, 2)], dim=-1)


def _mlp(width_in: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, width), nn.SiLU(), nn.Linear(width, 1))


class EdgeMask(nn.Module):
    r"""For each pair (i, j) a yes or no: ``logit[i,j] = MLP([t[i,j], t[j,i]])``.

    Args:
        width: channels of the pair state.

    Cost: that of a per-pair MLP.
    """

    def __init__(self, width: int):
        super().__init__()
        self.score = _mlp(2 * width, width)

    def forward(self, t: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n n"]:
        """Logit of yes."""
        return self.score(both_ways(t)).squeeze(-1)


class NodePointer(EdgeMask):
    """For each vertex i a choice over vertices j: the logits of :class:`EdgeMask` as a choice."""

    def forward(self, t: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n n"]:
        """Logits over j."""
        return super().forward(t, mask).masked_fill(~mask[:, None, :], -math.inf)


class EdgePointer(nn.Module):
    r"""For each pair (i, j) a choice over vertices q, from the two legs it would join.

    ``logit[i,j,q] = ⟨A t[i,q], B t[q,j]⟩/√c + α[i,q] + β[q,j]``, with A, B, α, β linear in t. Where the
    answer is the vertex before j on the best way from i, q is a good choice if i→q is short and q→j is its
    last step.

    Args:
        width: channels of the pair state.

    Cost: 2·b·c·n³ operations, memory b·n³.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.first = nn.Linear(width, width + 1)
        self.second = nn.Linear(width, width + 1)

    def forward(self, t: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n n n"]:
        """Logits over q."""
        first, alpha = self.first(t).split([self.width, 1], dim=-1)
        second, beta = self.second(t).split([self.width, 1], dim=-1)
        first_bqic, second_bqcj = first.transpose(1, 2), second.permute(0, 1, 3, 2)
        logit_bqij = torch.matmul(first_bqic, second_bqcj) / math.sqrt(self.width)
        logit_bqij = (
            logit_bqij + alpha.squeeze(-1).transpose(1, 2).unsqueeze(-1) + beta.squeeze(-1).unsqueeze(2)
        )
        return logit_bqij.permute(0, 2, 3, 1).masked_fill(~mask[:, None, None, :], -math.inf)


class NodeMask(nn.Module):
    r"""For each vertex i a yes or no: ``logit[i] = MLP([t[i,i], max_j t[i,j], max_j t[j,i]])``.

    The maximum runs over real vertices: it does not thin out as their number grows, as a mean would.

    Args:
        width: channels of the pair state.

    Cost: O(b n² c).
    """

    def __init__(self, width: int):
        super().__init__()
        self.score = _mlp(3 * width, width)

    def forward(self, t: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """Logit of yes."""
        floor = torch.finfo(t.dtype).min
        row = t.masked_fill(~mask[:, None, :, None], floor).amax(dim=2)
        column = t.masked_fill(~mask[:, :, None, None], floor).amax(dim=1)
        own = t.diagonal(dim1=1, dim2=2).transpose(1, 2)
        return self.score(torch.cat([own, row, column], dim=-1)).squeeze(-1)


class NodeMaskOne(NodeMask):
    """One vertex of the graph: the logits of :class:`NodeMask` as a choice over vertices."""

    def forward(self, t: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """Logits over vertices."""
        return super().forward(t, mask).masked_fill(~mask, -math.inf)


class GraphPointer(nn.Module):
    r"""One vertex of the graph, from the row of the vertex r that asks: ``logit[q] = MLP(t[r,q])``.

    It reads one row of the pair state, so that the last iteration need be computed for that row alone.

    Args:
        width: channels of the pair state.

    Cost: that of an MLP a vertex.
    """

    def __init__(self, width: int):
        super().__init__()
        self.score = _mlp(width, width)

    def forward(self, t: Float[Tensor, "b n c"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """Logits over vertices from the row ``t[b, q] = t[b, r, q]`` of each graph."""
        return self.score(t).squeeze(-1).masked_fill(~mask, -math.inf)


def readout_for(output: Output, width: int) -> nn.Module:
    """A new read-out for an output, by its location and type."""
    kinds = {
        ("node", "pointer"): NodePointer,
        ("node", "mask"): NodeMask,
        ("node", "mask_one"): NodeMaskOne,
        ("edge", "mask"): EdgeMask,
        ("edge", "pointer"): EdgePointer,
        ("graph", "pointer"): GraphPointer,
    }
    return kinds[output.location, output.type](width)
