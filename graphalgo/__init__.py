"""Pair-state layers for graph-algorithm reasoning, their training and their evaluation."""

from graphalgo.batch import Output, PairBatch, ToPairBatch
from graphalgo.errors import InputError

__version__ = "0.1.0"
__all__ = ["InputError", "Output", "PairBatch", "ToPairBatch"]
