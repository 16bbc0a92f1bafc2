"""The stream of training questions: by step, by process, by worker."""

import torch

from graphalgo.steps import StepBatches, StepLoader
from search_bench import balanced, to_pair_batch
from search_bench.stream import Stream


def ids(graphs):
    return [(graph.id.tolist(), graph.edge_index.tolist(), graph.path.tolist()) for graph in graphs]


def test_batch_depends_on_seed_slot_and_round_alone():
    stream = Stream([13, 20], 10, seed=3)
    assert ids(stream(1, 4)) == ids(Stream([13, 20], 10, seed=3)(1, 4))
    others = [stream(1, 5), stream(0, 4), Stream([13, 20], 10, seed=4)(1, 4), Stream([20, 20], 10, 3)(0, 4)]
    assert all(ids(stream(1, 4)) != ids(other) for other in others)


def test_processes_share_out_one_stream():
    one = Stream([20], 20, seed=3)
    two = [Stream([20], 10, seed=3, rank=rank, world_size=2) for rank in (0, 1)]
    for round_ in (0, 3):
        assert ids(one(0, round_)) == ids(two[0](0, round_)) + ids(two[1](0, round_))


def test_workers_do_not_change_the_stream():
    batches = StepBatches(Stream([13, 20], 8, seed=3), to_pair_batch(), num_sizes=2, seed=3, length=6)
    loaded = [list(StepLoader(batches, lambda: 0, num_workers=workers)) for workers in (0, 2)]
    assert len(loaded[0]) == 6
    for alone, shared in zip(*loaded, strict=True):
        assert torch.equal(alone.x, shared.x)
        assert torch.equal(alone.targets["next"], shared.targets["next"])


def test_graphs_are_those_of_the_generator():
    drawn = Stream([13], 4, seed=0)(0, 0)
    assert [graph.num_nodes <= 13 for graph in drawn] == [True] * 4
    assert ids(drawn) != ids(balanced(13, 4, seed=0).data_list())  # seeds of slots are derived
