"""PairModel: features -> pair state -> loop -> read-outs.

Axes: b graph, i row, j column, c channel, f input feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxtyping import Float
from torch import Tensor, nn

from graphalgo.batch import Output, PairBatch
from graphalgo.blocks import rms_norm
from graphalgo.errors import InputError
from graphalgo.mixers.legs import pair_mask, take_rows
from graphalgo.readouts import readout_for


class Front(nn.Module):
    """Base of what makes the first pair state of a batch: ``forward(batch)`` gives (b, n, n, width).

    What stands at padded pairs does not matter.
    """

    def forward(self, batch: PairBatch) -> Float[Tensor, "b n n w"]:
        """The first pair state."""
        raise NotImplementedError


class PairModel(nn.Module):
    """A pair state started from the features, updated in a loop, read out for each output.

    ``z = Θ x + bias`` at the start, ``z = loop(z)``, and for each output the read-out of ``rms_norm(z)``.
    If nothing but graph pointers are read, the last iteration is computed for their row alone.

    Args:
        loop: :class:`graphalgo.LoopedBlock` or :class:`graphalgo.StackedBlocks`.
        num_features: features of a pair, ``PairBatch.x.size(-1)``.
        outputs: what to read out.
        front: makes the first pair state (b, n, n, ``loop.width``) of a batch; ``Θ x + bias`` by default.

    Raises:
        InputError: if the front is of another width than the loop.

    Example:
        >>> block = PairBlock(32, [OrJoin(32, 16), PowerMean(32, 16)])
        >>> model = PairModel(LoopedBlock(block), num_features=batch.x.size(-1), outputs=task.outputs)
        >>> logits = model(batch, num_steps=8)["pi"]
    """

    def __init__(
        self,
        loop: nn.Module,
        num_features: int,
        outputs: Sequence[Output],
        front: Front | None = None,
    ):
        super().__init__()
        if front is not None and getattr(front, "width", loop.width) != loop.width:
            raise InputError(f"the front makes {front.width} channels, the loop takes {loop.width}")
        self.outputs = tuple(outputs)
        if front is None:
            self.encode = nn.Linear(num_features, loop.width)
        self.front = front
        self.loop = loop
        self.readouts = nn.ModuleDict({out.name: readout_for(out, loop.width) for out in self.outputs})
        self.reads_a_row = all(output.location == "graph" for output in self.outputs)

    def start(self, batch: PairBatch) -> Tensor:
        """The pair state before the first iteration; kept in the features' precision under autocast."""
        z = self.encode(batch.x) if self.front is None else self.front(batch)
        return z.to(batch.x.dtype).masked_fill(~pair_mask(batch.mask), 0)

    def read(self, z: Tensor, mask: Tensor, row: Tensor | None = None) -> dict[str, Tensor]:
        """Logits of every output from a pair state, of which ``row`` alone may be left."""
        t = rms_norm(z)
        logits = {}
        for output in self.outputs:
            seen = t
            if output.location == "graph":
                seen = (t if t.size(1) == 1 else take_rows(t, row[:, None])).squeeze(1)
            logits[output.name] = self.readouts[output.name](seen, mask)
        return logits

    def forward(self, batch: PairBatch, num_steps: int | None = None) -> dict[str, Tensor]:
        """Logits of every output after ``num_steps`` iterations (None: as many as a stack has blocks)."""
        z = self.loop(self.start(batch), batch.mask, num_steps, *self._rows(batch))
        return self.read(z, batch.mask, batch.row)

    def each_step(self, batch: PairBatch, num_steps: int | None) -> Iterator[dict[str, Tensor]]:
        """Logits of every output after each iteration."""
        for z in self.loop.states(self.start(batch), batch.mask, num_steps, *self._rows(batch)):
            yield self.read(z, batch.mask, batch.row)

    def _rows(self, batch: PairBatch) -> tuple[Tensor, ...]:
        """The rows that will be read, if not all of them."""
        return (batch.row[:, None],) if self.reads_a_row else ()
