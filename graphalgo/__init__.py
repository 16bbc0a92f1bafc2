"""Pair-state layers for graph-algorithm reasoning, their training and their evaluation."""

from graphalgo.batch import Output, PairBatch, ToPairBatch
from graphalgo.blocks import PairBlock
from graphalgo.errors import InputError
from graphalgo.loop import LoopedBlock, StackedBlocks
from graphalgo.mixers import OrJoin, PowerMean, Summed, TriangleAttention
from graphalgo.model import PairModel
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
    "PowerMean",
    "StackedBlocks",
    "Summed",
    "ToPairBatch",
    "TriangleAttention",
]
