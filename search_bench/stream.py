"""An endless stream of fresh training questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric.data import Data

from graphalgo.steps import derive_seed
from search_bench.generate import balanced


@dataclass(frozen=True)
class Stream:
    """Balanced questions in the order of their stream, each seen once.

    Attributes:
        sizes: sizes of questions, of which a batch has one.
        batch_size: questions a process and step; multiples of 32 waste none.
        seed: of the stream.
        rank: index of this process among those that train together.
        world_size: number of those processes; they share out ``world_size * batch_size`` questions a step.
    """

    sizes: Sequence[int]
    batch_size: int
    seed: int
    rank: int = 0
    world_size: int = 1

    def __call__(self, slot: int, round_: int) -> list[Data]:
        """See :data:`graphalgo.steps.Source`."""
        first = (round_ * self.world_size + self.rank) * self.batch_size
        seed = derive_seed(self.seed, "search stream", slot)
        return balanced(self.sizes[slot], self.batch_size, seed, first).data_list()
