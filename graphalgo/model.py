"""PairModel: features -> pair state -> loop -> read-outs.

Axes: b graph, i row, j column, c channel, f input feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from graphalgo.batch import Output, PairBatch
from graphalgo.blocks import rms_norm
from graphalgo.mixers.legs import pair_mask
from graphalgo.readouts import readout_for


class PairModel(nn.Module):
    """A pair state started from the features, updated in a loop, read out for each output.

    ``z = Θ x + bias`` at the start, ``z = loop(z)``, and for each output the read-out of ``rms_norm(z)``.

    Args:
        loop: :class:`graphalgo.LoopedBlock` or :class:`graphalgo.StackedBlocks`.
        num_features: features of a pair, ``PairBatch.x.size(-1)``.
        outputs: what to read out.

    Example:
        >>> block = PairBlock(32, [OrJoin(32, 16), PowerMean(32, 16)])
        >>> model = PairModel(LoopedBlock(block), num_features=batch.x.size(-1), outputs=task.outputs)
        >>> logits = model(batch, num_steps=8)["pi"]
    """

    def __init__(self, loop: nn.Module, num_features: int, outputs: Sequence[Output]):
        super().__init__()
        self.outputs = tuple(outputs)
        self.encode = nn.Linear(num_features, loop.width)
        self.loop = loop
        self.readouts = nn.ModuleDict({out.name: readout_for(out, loop.width) for out in self.outputs})

    def start(self, batch: PairBatch) -> Tensor:
        """The pair state before the first iteration; kept in the features' precision under autocast."""
        return self.encode(batch.x).to(batch.x.dtype) * pair_mask(batch.mask)

    def read(self, z: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Logits of every output from a pair state."""
        t = rms_norm(z)
        return {name: readout(t, mask) for name, readout in self.readouts.items()}

    def forward(self, batch: PairBatch, num_steps: int | None) -> dict[str, Tensor]:
        """Logits of every output after ``num_steps`` iterations (None: as many as a stack has blocks)."""
        return self.read(self.loop(self.start(batch), batch.mask, num_steps), batch.mask)

    def each_step(self, batch: PairBatch, num_steps: int | None) -> Iterator[dict[str, Tensor]]:
        """Logits of every output after each iteration."""
        for z in self.loop.states(self.start(batch), batch.mask, num_steps):
            yield self.read(z, batch.mask)
