"""What a pair state is summed over: each file holds one family, its function first and its module second.

Every module maps ``t`` (b, n, n, width) and the vertex mask (b, n) to (b, n, n, channels) and tells its
``channels``; :class:`graphalgo.PairBlock` sets several side by side.
"""

from graphalgo.mixers.or_join import OrJoin, or_join
from graphalgo.mixers.power_mean import PowerMean, power_mean
from graphalgo.mixers.propagator import Propagator, propagator
from graphalgo.mixers.summed import Summed, summed
from graphalgo.mixers.triangle import TriangleAttention, triangle_attention

__all__ = [
    "OrJoin",
    "PowerMean",
    "Propagator",
    "Summed",
    "TriangleAttention",
    "or_join",
    "power_mean",
    "propagator",
    "summed",
    "triangle_attention",
]
