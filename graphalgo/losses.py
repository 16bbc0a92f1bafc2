"""The training loss of each output type.

Axes: b graph, i row, j column, q choice. Entries whose target is -1 do not count.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from graphalgo.batch import NOT_SCORED, Output


def pointer_loss(logits: Float[Tensor, "*entries q"], target: Int[Tensor, "*entries"]) -> Float[Tensor, ""]:
    """Cross-entropy over the choices in nats, mean over scored entries (0 if none); also mask_one's."""
    total = F.cross_entropy(
        logits.flatten(0, -2).float(), target.flatten(), ignore_index=NOT_SCORED, reduction="sum"
    )
    return total / (target != NOT_SCORED).sum().clamp(min=1)


def mask_loss(logits: Float[Tensor, "*entries"], target: Int[Tensor, "*entries"]) -> Float[Tensor, ""]:
    """Binary cross-entropy in nats, mean over scored entries; 0 if none is scored."""
    scored = target != NOT_SCORED
    loss = F.binary_cross_entropy_with_logits(
        logits.float(), target.clamp(min=0).to(torch.float32), reduction="none"
    )
    return torch.where(scored, loss, 0.0).sum() / scored.sum().clamp(min=1)


def accepted_loss(
    logits: Float[Tensor, "b q"], target: Int[Tensor, " b"], accepted: Bool[Tensor, "b q"]
) -> Float[Tensor, ""]:
    """Minus the logarithm of the probability of any right answer, in nats; mean over scored entries.

    Where several answers are right, it does not ask for a choice among them, as a drawn target would.
    """
    scored = target != NOT_SCORED
    logits = logits.float()
    right = accepted | ~scored[:, None]
    loss = logits.logsumexp(dim=-1) - logits.masked_fill(~right, -math.inf).logsumexp(dim=-1)
    return torch.where(scored, loss, 0.0).sum() / scored.sum().clamp(min=1)


def output_loss(
    output: Output, logits: Tensor, target: Tensor, accepted: Tensor | None = None
) -> Float[Tensor, ""]:
    """The loss of one output, by its type."""
    if accepted is not None:
        return accepted_loss(logits, target, accepted)
    return (mask_loss if output.type == "mask" else pointer_loss)(logits, target)
