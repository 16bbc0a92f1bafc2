"""A block applied K times, or L blocks applied once each.

Axes: b graph, i row, j column, c channel, t loop step, r chosen row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from graphalgo.errors import InputError, check_at_least
from graphalgo.mixers.legs import take_rows


class LoopedBlock(nn.Module):
    """One block with one set of weights, applied as often as each call asks for.

    Args:
        block: maps (z, mask) to the next z, as :class:`graphalgo.PairBlock` does, and (z, mask, rows) to rows
            of it if graph pointers are read.
    """

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block
        self.width = block.width
        self.depth = None

    def compile_blocks(self) -> None:
        """Compiles the block, once for all batch sizes and numbers of vertices."""
        self.block.compile(dynamic=True)

    def states(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        num_steps: int | None,
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Iterator[Float[Tensor, "b _ n c"]]:
        """The pair state after each of ``num_steps`` iterations; the last one's chosen rows only.

        Raises:
            InputError: if ``num_steps`` is None or negative.
        """
        if num_steps is None:
            raise InputError("a looped block is applied as often as it is told; say how often with num_steps")
        check_at_least(0, num_steps=num_steps)
        return _states([self.block] * num_steps, z, mask, rows)

    def forward(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        num_steps: int | None,
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """The pair state after ``num_steps`` iterations; ``z`` itself after 0.

        With ``rows`` the last iteration is computed for those rows alone.
        """
        return _last(self.states(z, mask, num_steps, rows), take_rows(z, rows))


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
        self.depth = len(self.blocks)

    def compile_blocks(self) -> None:
        """Compiles each block, once for all batch sizes and numbers of vertices."""
        for block in self.blocks:
            block.compile(dynamic=True)

    def states(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        num_steps: int | None = None,
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Iterator[Float[Tensor, "b _ n c"]]:
        """The pair state after each block, at most the first ``num_steps``; see :class:`LoopedBlock`."""
        if num_steps is not None:
            check_at_least(0, num_steps=num_steps)
        return _states(list(self.blocks[:num_steps]), z, mask, rows)

    def forward(
        self,
        z: Float[Tensor, "b n n c"],
        mask: Bool[Tensor, "b n"],
        num_steps: int | None = None,
        rows: Int[Tensor, "b r"] | None = None,
    ) -> Float[Tensor, "b r n c"]:
        """The pair state after the last block; with ``rows``, which computes those rows alone."""
        return _last(self.states(z, mask, num_steps, rows), take_rows(z, rows))


def _states(blocks: Sequence[nn.Module], z: Tensor, mask: Tensor, rows: Tensor | None) -> Iterator[Tensor]:
    for block in blocks[:-1]:
        z = block(z, mask)
        yield z
    if blocks:
        yield blocks[-1](z, mask) if rows is None else blocks[-1](z, mask, rows)


def _last(states: Iterator[Tensor], otherwise: Tensor) -> Tensor:
    """The last state; without any, the other one."""
    state = otherwise
    for state in states:  # noqa: B007  (the earlier ones are not kept)
        pass
    return state
