"""Training batches by step: the batch of step t is a pure function of (seed, t).

So a resumed run sees exactly the batches an uninterrupted one would have seen, and the number of loading
processes changes nothing. A step draws one size for its whole batch: batches need no padding, and there are
as many graph shapes as sizes.

Steps go in rounds of ``len(sizes)``. Round r takes every size once, in an order of its own, so the batch of
step t is that size's batch number r = t // len(sizes). Random streams are numpy's frozen ``RandomState``,
seeded by :func:`derive_seed`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torch_geometric.data import Data

from graphalgo.batch import PairBatch, ToPairBatch


def derive_seed(*words: int | str) -> int:
    """A seed in 0..2**32 - 1 for a purpose: a hash of the words that name it."""
    return int.from_bytes(hashlib.sha256(json.dumps(words).encode()).digest()[:4], "little")


def size_of_step(seed: int, step: int, num_sizes: int) -> tuple[int, int]:
    """Which size a step trains on, and how many batches of that size came before.

    Args:
        seed: of the run.
        step: t >= 0.
        num_sizes: number of sizes.

    Returns:
        Index of the size, and the round t // num_sizes.
    """
    round_, place = divmod(step, num_sizes)
    order = np.random.RandomState(derive_seed(seed, "sizes", round_)).permutation(num_sizes)
    return int(order[place]), round_


def pool_indices(seed: int, slot: int, pool_size: int, first: int, count: int) -> list[int]:
    """Entries ``first .. first + count - 1`` of an endless row of shuffled passes over a pool.

    Pass e is a permutation of the whole pool that depends on (seed, slot, e) alone, so within a pass no graph
    comes twice. A batch may reach from one pass into the next.

    Args:
        seed: of the run.
        slot: index of the pool.
        pool_size: graphs in the pool.
        first: position in the row.
        count: number of entries.
    """
    positions = range(first, first + count)
    return [int(_pass(seed, slot, at // pool_size, pool_size)[at % pool_size]) for at in positions]


@functools.lru_cache(maxsize=16)
def _pass(seed: int, slot: int, number: int, pool_size: int) -> np.ndarray:
    return np.random.RandomState(derive_seed(seed, "pass", slot, number)).permutation(pool_size)


Source = Callable[[int, int], list[Data]]
"""From a size's index and the number of a batch of that size to this process's share of the batch."""


@dataclass(frozen=True)
class Pool:
    """A fixed set of graphs for each size, seen again and again.

    Attributes:
        graphs: the graphs of each size.
        batch_size: graphs a process and step.
        seed: of the order.
        rank: index of this process among those that train together.
        world_size: number of those processes; they share out one batch of ``world_size * batch_size`` graphs.
    """

    graphs: Sequence[Sequence[Data]]
    batch_size: int
    seed: int
    rank: int = 0
    world_size: int = 1

    def __call__(self, slot: int, round_: int) -> list[Data]:
        """See :data:`Source`."""
        pool = self.graphs[slot]
        first = (round_ * self.world_size + self.rank) * self.batch_size
        return [pool[at] for at in pool_indices(self.seed, slot, len(pool), first, self.batch_size)]


@dataclass(frozen=True, eq=False)
class StepBatches(Dataset):
    """Item t is the batch of training step t, for any t >= 0.

    Attributes:
        source: the graphs.
        to_pairs: turns them into a ``PairBatch``.
        num_sizes: number of sizes of the source.
        seed: of the order of sizes.
        length: steps of an epoch; None for one epoch without end.
    """

    source: Source
    to_pairs: ToPairBatch
    num_sizes: int
    seed: int
    length: int | None = None

    def __getitem__(self, step: int) -> PairBatch:
        """The batch of a step."""
        return self.to_pairs(self.source(*size_of_step(self.seed, step, self.num_sizes)))

    def __len__(self) -> int:
        """Steps of an epoch."""
        if self.length is None:
            raise TypeError("this stream of batches has no end")
        return self.length


class StepSampler(DistributedSampler):
    """The steps still to come in the current epoch, from the first one that was not trained on.

    It is a ``DistributedSampler`` in name so that Lightning leaves it in place on several devices: all of
    them go through the same steps, each with its own share of the batch.

    Args:
        batches: what the steps index.
        trained: gives the number of batches trained on so far.
    """

    def __init__(self, batches: StepBatches, trained: Callable[[], int]):
        self.batches = batches
        self.trained = trained

    def __iter__(self) -> Iterator[int]:
        """Steps in order, up to the end of the epoch."""
        step = self.trained()
        while True:
            yield step
            step += 1
            if self.batches.length is not None and step % self.batches.length == 0:
                return

    def __len__(self) -> int:
        """Steps of a whole epoch."""
        return len(self.batches)

    def set_epoch(self, epoch: int) -> None:
        """Nothing: the steps know where they are."""


class StepLoader(DataLoader):
    """Loads the batches of a ``StepSampler``. Having a state tells Lightning that it can resume in mid-epoch.

    Args:
        batches: the batches.
        trained: gives the number of batches trained on so far.
        **kwargs: further arguments of ``DataLoader``.
    """

    def __init__(self, batches: StepBatches, trained: Callable[[], int], **kwargs: Any):
        super().__init__(batches, batch_size=None, sampler=StepSampler(batches, trained), **kwargs)

    def state_dict(self) -> dict[str, int]:
        """Number of batches trained on; a note, since the trainer's own count is what is gone by."""
        return {"trained": self.sampler.trained()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Nothing: the trainer's count is restored with the trainer."""
