from collections import Counter

import pytest
import torch
from torch.utils.data import DistributedSampler
from torch_geometric.data import Data

from graphalgo.batch import Output, ToPairBatch
from graphalgo.steps import (
    Pool,
    StepBatches,
    StepLoader,
    StepSampler,
    derive_seed,
    pool_indices,
    size_of_step,
)

SIZES = [4, 7, 5]
POOLS = [
    [
        Data(num_nodes=size, edge_index=torch.empty(2, 0).long(), y=torch.full((size,), at % size))
        for at in range(10)
    ]
    for size in SIZES
]


def pool(**changes):
    return Pool(**{"graphs": POOLS, "batch_size": 4, "seed": 3, **changes})


def batches(length=None, seed=3):
    to_pairs = ToPairBatch(outputs=[Output("y", "node", "pointer")])
    return StepBatches(pool(seed=seed), to_pairs, len(SIZES), seed, length)


def seen(batch):
    return batch.targets["y"].tolist()


def test_derived_seeds_never_change():
    assert derive_seed(3, "pool", 0) == 4178933644
    assert len({derive_seed(3, "stream", 0, number) for number in range(1000)}) == 1000


def test_every_round_takes_every_size_once_in_changing_order():
    rounds = [[size_of_step(5, 3 * r + place, 3) for place in range(3)] for r in range(50)]
    for r, drawn in enumerate(rounds):
        assert sorted(drawn) == [(0, r), (1, r), (2, r)]
    assert len({tuple(slot for slot, _ in drawn) for drawn in rounds}) == 6
    assert rounds != [[size_of_step(6, 3 * r + place, 3) for place in range(3)] for r in range(50)]


def test_pool_passes_are_permutations_cut_anywhere():
    row = pool_indices(1, 0, 7, 0, 35)
    for start in range(0, 35, 7):
        assert sorted(row[start : start + 7]) == list(range(7))
    assert len({tuple(row[start : start + 7]) for start in range(0, 35, 7)}) == 5
    assert [at for first in range(0, 35, 5) for at in pool_indices(1, 0, 7, first, 5)] == row
    assert pool_indices(1, 1, 7, 0, 35) != row != pool_indices(2, 0, 7, 0, 35)


def test_batch_depends_on_seed_and_step_alone():
    forward = [seen(batches()[step]) for step in range(12)]
    backward = [seen(batches()[step]) for step in reversed(range(12))]
    assert forward == backward[::-1]
    assert forward != [seen(batches(seed=4)[step]) for step in range(12)]


def test_every_batch_has_one_size():
    drawn = [batches()[step] for step in range(12)]
    assert Counter(batch.mask.size(1) for batch in drawn) == {4: 4, 5: 4, 7: 4}
    assert all(batch.mask.all() and batch.num_graphs == 4 for batch in drawn)


def test_processes_share_out_one_batch():
    shares = [pool(rank=rank, world_size=2)(1, 3) for rank in range(2)]
    assert [id(graph) for share in shares for graph in share] == [
        id(graph) for graph in pool(batch_size=8)(1, 3)
    ]


def test_any_number_of_workers_gives_the_same_batches():
    plain = [seen(batch) for batch in StepLoader(batches(length=9), lambda: 0)]
    assert len(plain) == 9
    for num_workers in (1, 2):
        loader = StepLoader(batches(length=9), lambda: 0, num_workers=num_workers)
        assert [seen(batch) for batch in loader] == plain


def test_sampler_starts_at_the_first_step_not_trained_on():
    trained = []
    sampler = StepSampler(batches(length=5), lambda: len(trained))
    assert isinstance(sampler, DistributedSampler) and len(sampler) == 5
    for expected in ([0, 1, 2, 3, 4], [3, 4], [5, 6, 7, 8, 9], [14]):
        trained = [None] * expected[0]
        assert list(sampler) == expected


def test_endless_stream_has_no_length():
    loader = StepLoader(batches(), lambda: 0)
    with pytest.raises(TypeError, match="no end"):
        len(loader)
    assert [batch.num_graphs for batch, _ in zip(loader, range(4), strict=False)] == [4] * 4
