"""Pair-state layers for graph-algorithm reasoning, their training and their evaluation."""

from typing import TYPE_CHECKING

from graphalgo.batch import Output, PairBatch, ToPairBatch
from graphalgo.blocks import PairBlock
from graphalgo.errors import InputError
from graphalgo.loop import LoopedBlock, StackedBlocks
from graphalgo.mixers import OrJoin, PowerMean, Propagator, Summed, TriangleAttention
from graphalgo.model import PairModel

if TYPE_CHECKING:
    from graphalgo.module import PairModule

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "LoopedBlock",
    "OrJoin",
    "Output",
    "PairBatch",
    "PairBlock",
    "PairModel",
    "PairModule",
    "Propagator",
    "PowerMean",
    "StackedBlocks",
    "Summed",
    "ToPairBatch",
    "TriangleAttention",
]


def __getattr__(name: str) -> type:
    """``PairModule``, imported when it is asked for, because it brings all of Lightning with it."""
    if name != "PairModule":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graphalgo.module import PairModule

    return PairModule
