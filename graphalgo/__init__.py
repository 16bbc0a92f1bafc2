"""Pair-state layers for graph-algorithm reasoning, their training and their evaluation."""

from typing import TYPE_CHECKING

from graphalgo.batch import Output, PairBatch, ToPairBatch
from graphalgo.blocks import PairBlock
from graphalgo.errors import InputError
from graphalgo.loop import LoopedBlock, StackedBlocks
from graphalgo.mixers import OrJoin, PowerMean, Propagator, Summed, TriangleAttention
from graphalgo.model import PairModel
from graphalgo.transformer import VertexTransformer

if TYPE_CHECKING:
    from graphalgo.module import PairModule
    from graphalgo.solver import PathSolver

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
    "PathSolver",
    "Propagator",
    "PowerMean",
    "StackedBlocks",
    "Summed",
    "ToPairBatch",
    "TriangleAttention",
    "VertexTransformer",
]


def __getattr__(name: str) -> type:
    """Classes that are imported when they are asked for, because they bring all of Lightning with them."""
    if name == "PairModule":
        from graphalgo.module import PairModule

        return PairModule
    if name == "PathSolver":
        from graphalgo.solver import PathSolver

        return PathSolver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
