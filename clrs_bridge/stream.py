"""An endless stream of fresh training graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric.data import Data

from clrs_bridge.samplers import sample
from graphalgo.steps import derive_seed


@dataclass(frozen=True)
class Stream:
    """Graphs drawn for one step and never seen again.

    Attributes:
        task: name of the task.
        sizes: vertices of a graph, by size.
        batch_size: graphs a process and step.
        seed: of the stream.
        edge_prob: see :func:`clrs_bridge.sample`.
        random_pos: see :func:`clrs_bridge.sample`.
        rank: index of this process among those that train together; each draws graphs of its own.
    """

    task: str
    sizes: Sequence[int]
    batch_size: int
    seed: int
    edge_prob: Sequence[float] | None = None
    random_pos: bool = False
    rank: int = 0

    def __call__(self, slot: int, round_: int) -> list[Data]:
        """See :data:`graphalgo.steps.Source`."""
        seed = derive_seed(self.seed, "stream", slot, round_, self.rank)
        return sample(self.task, self.sizes[slot], self.batch_size, seed, self.edge_prob, self.random_pos)
