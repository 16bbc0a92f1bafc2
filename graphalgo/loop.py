"""A block applied K times, or L blocks applied once each.

Axes: b graph, i row, j column, c channel, t loop step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxtyping import Bool, Float
from torch import Tensor, nn

from graphalgo.errors import InputError


class LoopedBlock(nn.Module):
    """One block with one set of weights, applied as often as each call asks for.

    Args:
        block: maps (z, mask) to the next z, as :class:`graphalgo.PairBlock` does.
    """

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block
        self.width = block.width

    def compile_blocks(self) -> None:
        """Compiles the block, once for all batch sizes and numbers of vertices."""
        self.block.compile(dynamic=True)

    def states(
        self, z: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"], num_steps: int
    ) -> Iterator[Float[Tensor, "b n n c"]]:
        """The pair state after each of ``num_steps`` iterations."""
        for _ in range(num_steps):
            z = self.block(z, mask)
            yield z

    def forward(
        self, z: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"], num_steps: int
    ) -> Float[Tensor, "b n n c"]:
        """The pair state after ``num_steps`` iterations; ``z`` itself after 0."""
        for state in self.states(z, mask, num_steps):
            z = state
        return z


class StackedBlocks(nn.Module):
    """Several blocks with their own weights, applied once each, in order.

    Args:
        blocks: each maps (z, mask) to the next z.

    Raises:
        InputError: if there are no blocks, or their widths differ.
    """

    def __init__(self, blocks: Sequence[nn.Module]):
        super().__init__()
        widths = [block.width for block in blocks]
        if len(set(widths)) != 1:
            raise InputError(f"expected blocks of one width, got the widths {widths}")
        self.blocks = nn.ModuleList(blocks)
        self.width = blocks[0].width

    def compile_blocks(self) -> None:
        """Compiles each block, once for all batch sizes and numbers of vertices."""
        for block in self.blocks:
            block.compile(dynamic=True)

    def states(
        self, z: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"], num_steps: int | None = None
    ) -> Iterator[Float[Tensor, "b n n c"]]:
        """The pair state after each block; at most the first ``num_steps`` of them."""
        for block in self.blocks[:num_steps]:
            z = block(z, mask)
            yield z

    def forward(
        self, z: Float[Tensor, "b n n c"], mask: Bool[Tensor, "b n"], num_steps: int | None = None
    ) -> Float[Tensor, "b n n c"]:
        """The pair state after the last block."""
        for state in self.states(z, mask, num_steps):
            z = state
        return z
