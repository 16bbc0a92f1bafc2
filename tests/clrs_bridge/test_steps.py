from collections import Counter

import pytest
import torch
from torch.utils.data import DistributedSampler

from clrs_bridge import get_task, sample
from clrs_bridge.steps import (
    Pool,
    StepBatches,
    StepLoader,
    StepSampler,
    Stream,
    derive_seed,
    pool_indices,
    size_of_step,
)

SIZES = [4, 7, 5]


def batches(source, length=None, seed=3):
    return StepBatches(source, get_task("bfs").to_pair_batch(), len(SIZES), seed, length)


def pool(**changes):
    graphs = [sample("bfs", size, 10, size) for size in SIZES]
    return Pool(**{"graphs": graphs, "batch_size": 4, "seed": 3, **changes})


def stream(**changes):
    return Stream(**{"task": "bfs", "sizes": SIZES, "batch_size": 4, "seed": 3, **changes})


def same(left, right):
    return torch.equal(left.x, right.x) and torch.equal(left.targets["pi"], right.targets["pi"])


def test_derived_seeds_never_change():
    assert derive_seed(3, "pool", 0) == 4178933644
    assert len({derive_seed(3, "stream", 0, number) for number in range(1000)}) == 1000


def test_every_round_takes_every_size_once_in_changing_order():
    rounds = [[size_of_step(5, 3 * r + place, 3) for place in range(3)] for r in range(50)]
    for r, drawn in enumerate(rounds):
        assert sorted(drawn) == [(0, r), (1, r), (2, r)]
    assert len({tuple(slot for slot, _ in drawn) for drawn in rounds}) == 6
    assert rounds[7] == [size_of_step(5, 21 + place, 3) for place in range(3)]
    assert rounds != [[size_of_step(6, 3 * r + place, 3) for place in range(3)] for r in range(50)]


def test_pool_passes_are_permutations_cut_anywhere():
    row = pool_indices(1, 0, 7, 0, 35)
    for start in range(0, 35, 7):
        assert sorted(row[start : start + 7]) == list(range(7))
    assert len({tuple(row[start : start + 7]) for start in range(0, 35, 7)}) == 5
    assert [at for first in range(0, 35, 5) for at in pool_indices(1, 0, 7, first, 5)] == row
    assert pool_indices(1, 1, 7, 0, 35) != row != pool_indices(2, 0, 7, 0, 35)


@pytest.mark.parametrize("source", [pool, stream])
def test_batch_depends_on_seed_and_step_alone(source):
    forward = [batches(source())[step] for step in range(12)]
    backward = [batches(source())[step] for step in reversed(range(12))][::-1]
    assert all(same(a, b) for a, b in zip(forward, backward, strict=True))
    assert Counter(batch.mask.size(1) for batch in forward) == {4: 4, 5: 4, 7: 4}
    assert all(batch.mask.all() and batch.num_graphs == 4 for batch in forward)
    other = [batches(source(seed=4), seed=4)[step] for step in range(12)]
    assert not all(a.x.shape == b.x.shape and same(a, b) for a, b in zip(forward, other, strict=True))


def test_stream_never_repeats_a_graph():
    source = stream(sizes=[16], batch_size=8)
    seen = {tuple(data.edge_index.flatten().tolist()) for number in range(20) for data in source(0, number)}
    assert len(seen) == 160


def test_processes_share_out_one_batch_of_the_pool():
    shares = [pool(rank=rank, world_size=2)(1, 0) for rank in range(2)]
    whole = pool(batch_size=8)(1, 0)
    assert [len(share) for share in shares] == [4, 4]
    assert [d.edge_index.tolist() for share in shares for d in share] == [
        d.edge_index.tolist() for d in whole
    ]


def test_processes_draw_different_graphs_of_a_stream():
    left, right = (stream(sizes=[16], rank=rank)(0, 0) for rank in range(2))
    assert not {str(d.edge_index.tolist()) for d in left} & {str(d.edge_index.tolist()) for d in right}


@pytest.mark.parametrize("source", [pool, stream])
def test_any_number_of_workers_gives_the_same_batches(source):
    plain = list(StepLoader(batches(source(), length=9), lambda: 0))
    assert len(plain) == 9
    for num_workers in (1, 2):
        loader = StepLoader(batches(source(), length=9), lambda: 0, num_workers=num_workers)
        assert all(same(a, b) for a, b in zip(plain, loader, strict=True))


def test_sampler_starts_at_the_first_step_not_trained_on():
    trained = []
    sampler = StepSampler(batches(pool(), length=5), lambda: len(trained))
    assert isinstance(sampler, DistributedSampler) and len(sampler) == 5
    for expected in ([0, 1, 2, 3, 4], [3, 4], [5, 6, 7, 8, 9], [14]):
        trained = [None] * expected[0]
        assert list(sampler) == expected


def test_endless_stream_has_no_length():
    loader = StepLoader(batches(stream()), lambda: 0)
    with pytest.raises(TypeError, match="no end"):
        len(loader)
    assert [batch.num_graphs for batch, _ in zip(loader, range(4), strict=False)] == [4] * 4
