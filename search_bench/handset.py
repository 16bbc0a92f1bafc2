"""A propagator set by hand: what a trained one should have learned, and an exact answer to every question."""

from __future__ import annotations

import math

import torch

from graphalgo.blocks import PairBlock
from graphalgo.loop import StackedBlocks
from graphalgo.mixers import Propagator
from graphalgo.mixers.propagator import SHARPNESS, SMALLEST
from graphalgo.model import PairModel
from search_bench.features import to_pair_batch

WIDTH = 16
SURE = 200.0
"""A gate of this logit is 1 in float32, and one of minus this is 0."""


def hand_set_propagator(background: float = 0.0) -> PairModel:
    """One propagator layer whose gates are open on every road walked backwards, with the source at the goal.

    So ``X[u,v]`` weighs the walks from the goal, against the roads, to v, whatever u; without background it
    is above 0 exactly where v reaches the goal. Of the children of the current vertex the one with the
    largest X is the answer. It takes the pair features of :func:`search_bench.features.to_pair_batch`.

    Every feature f is the channel 2f - 1, and channels left over are 1, so that rescaling a pair's vector
    changes nothing until log X comes in.

    Args:
        background: gate on all other pairs, in [0, 1).

    Raises:
        ValueError: if it is not in [0, 1).

    Source: "Attention Is Only as Good as Its Witnesses", chapter 3; docs/layers.md.
    """
    if not 0 <= background < 1:
        raise ValueError(f"a gate lies in [0, 1), got {background}")
    to_pairs = to_pair_batch()
    mixer = Propagator(WIDTH, propagators=1)
    model = PairModel(StackedBlocks([PairBlock(WIDTH, [mixer])]), to_pairs.num_features, to_pairs.outputs)
    block, pointer = model.loop.blocks[0], model.readouts["next"]
    at = {name: channel for channel, name in enumerate(to_pairs.feature_names)}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.encode.weight[: len(at), :] = 2 * torch.eye(len(at))
        model.encode.bias.fill_(1.0)
        model.encode.bias[: len(at)] = -1.0
        closed = math.log(background / (1 - background)) if background else -SURE
        gate, source = mixer.project.weight
        gate[at["reversed edge"]], mixer.bias[0] = (SURE - closed) / 2 / SHARPNESS, (SURE + closed) / 2
        source[at["goal of v"]] = SURE / SHARPNESS
        # 1 + log X / 666 is above 0 where there is a walk, and increases with its weight.
        block.gate.bias.fill_(SURE)
        block.out.weight[WIDTH - 1, 0] = -1 / (math.log(SMALLEST) + 1)
        first, _, last = pointer.score
        first.weight[0, [at["edge"], WIDTH - 1]] = 100.0
        first.bias[0] = -50.0
        last.weight[0, 0] = 1.0
    return model.eval()
