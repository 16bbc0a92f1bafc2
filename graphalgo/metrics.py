"""The official CLRS score, exact-graph accuracy and their interval over graphs.

Everything is counted in whole numbers a graph, whatever the training precision, and only then divided.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torchmetrics import Metric

from graphalgo.batch import NOT_SCORED, Output
from graphalgo.errors import InputError


def decide(output: Output, logits: Tensor) -> Int[Tensor, "*entries"]:
    """The answer: the first choice with the largest logit, or whether the logit of yes is above 0.

    Raises:
        InputError: if a logit is NaN.
    """
    if bool(logits.isnan().any()):
        raise InputError(
            f"the model's answers to {output.name!r} are NaN: the training has diverged; train again with a "
            "lower learning rate or with gradient clipping"
        )
    return choose(output, logits)


def choose(output: Output, logits: Tensor) -> Int[Tensor, "*entries"]:
    """The answer of logits that hold no NaN; see :func:`decide`."""
    return (logits > 0).long() if output.type == "mask" else logits.argmax(dim=-1)


def graph_counts(output: Output, prediction: Tensor, target: Tensor) -> Int[Tensor, "b 4"]:
    """For each graph the scored entries that are right as 1, wrong as 1, missed (1 read as 0), right as 0.

    For a mask these are true positives, false positives, false negatives and true negatives. A pointer has no
    0 and 1: right ones stand in the first column, wrong ones in the second.
    """
    scored = target != NOT_SCORED
    if output.type == "mask":
        yes, truth = prediction == 1, target == 1
        kinds = [yes & truth, yes & ~truth, ~yes & truth, ~yes & ~truth]
    else:
        none = torch.zeros_like(scored)
        kinds = [prediction == target, prediction != target, none, none]
    return torch.stack([(kind & scored).reshape(len(target), -1).sum(dim=1) for kind in kinds], dim=1)


def right_entries(
    output: Output, prediction: Tensor, target: Tensor, accepted: Tensor | None = None
) -> Bool[Tensor, "*entries"]:
    """At which entries the answer is right: the target, or any accepted answer where several are."""
    if accepted is None:
        return prediction == target
    return accepted.gather(1, prediction[:, None]).squeeze(1) & (target != NOT_SCORED)


def score_of_counts(output: Output, counts: np.ndarray) -> np.ndarray:
    r"""The official score of pooled counts, in [0, 1].

    Pointer and mask_one: right / all. Mask: F1 of the counts pooled over all graphs,
    ``2 P R / (P + R)``, with precision P = 1 if nothing is predicted, recall R = 1 if nothing is true, and
    F1 = 0 if P + R = 0.

    Args:
        output: whose counts they are.
        counts: (..., 4) as in :func:`graph_counts`, summed over graphs.

    Raises:
        ValueError: if a pointer has no scored entry.

    Source: dm-clrs 2.0.3, ``clrs.evaluate``.
    """
    hits, wrong, missed, _ = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    if output.type != "mask":
        if np.any(hits + wrong == 0):
            raise ValueError(f"no entry of {output.name!r} is scored")
        return np.asarray(hits / (hits + wrong))
    precision = np.where(hits + wrong > 0, hits / np.maximum(hits + wrong, 1), 1.0)
    recall = np.where(hits + missed > 0, hits / np.maximum(hits + missed, 1), 1.0)
    both = precision + recall
    return np.where(both > 0, 2 * precision * recall / np.where(both > 0, both, 1), 0.0)


class OfficialScore(Metric):
    """The official score of a set of graphs, with exact-graph accuracy and an interval over graphs.

    Counts are kept a graph, so that F1 is pooled over the whole set and not averaged over batches, and so
    that graphs can be resampled. ``compute`` returns ``score`` (mean over outputs), ``exact`` (share of
    graphs with every scored entry right), ``score_low`` and ``score_high`` (the 2.5 and 97.5 percentiles of
    the score of 1,000 bootstrap samples of graphs, with a fixed seed) and ``num_graphs``.

    Args:
        outputs: what the task asks for.
    """

    full_state_update = False

    def __init__(self, outputs: Sequence[Output]):
        super().__init__()
        self.outputs = tuple(outputs)
        for output in self.outputs:
            self.add_state(f"counts_{output.name}", default=[], dist_reduce_fx="cat")

    def update(self, predictions: dict[str, Tensor], targets: dict[str, Tensor]) -> None:
        """Adds a batch: for each output the answers of :func:`decide` and the targets of a PairBatch."""
        for output in self.outputs:
            counts = graph_counts(output, predictions[output.name], targets[output.name])
            getattr(self, f"counts_{output.name}").append(counts)

    def counts(self, output: Output) -> np.ndarray:
        """(graphs, 4) counts of one output."""
        kept = getattr(self, f"counts_{output.name}")
        return (torch.cat(kept) if isinstance(kept, list) else kept).cpu().numpy()

    def compute(self) -> dict[str, float]:
        """See the class."""
        counts = {output: self.counts(output) for output in self.outputs}
        num_graphs = len(next(iter(counts.values())))
        right = [(c[:, 1] + c[:, 2]) == 0 for c in counts.values()]
        low, high = bootstrap_interval(counts)
        return {
            "score": float(np.mean([score_of_counts(output, c.sum(axis=0)) for output, c in counts.items()])),
            "score_low": low,
            "score_high": high,
            "exact": float(np.mean(np.logical_and.reduce(right))),
            "num_graphs": num_graphs,
        }


def bootstrap_interval(
    counts: dict[Output, np.ndarray], num_resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """The 95% percentile interval of the score, graphs resampled with replacement.

    Args:
        counts: for each output the (graphs, 4) counts of the same graphs.
        num_resamples: number of bootstrap samples. One without a scored entry of some pointer has no score
            and is left out.
        seed: of their draw.

    Raises:
        ValueError: if a pointer has no scored entry in any graph.
    """
    num_graphs = len(next(iter(counts.values())))
    rng = np.random.default_rng(seed)
    times = rng.multinomial(num_graphs, np.full(num_graphs, 1 / num_graphs), size=num_resamples)
    for output, c in counts.items():
        score_of_counts(output, c.sum(axis=0))
        if output.type != "mask":
            times = times[times @ c.sum(axis=1) > 0]
    scores = np.mean([score_of_counts(output, times @ c) for output, c in counts.items()], axis=0)
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)
