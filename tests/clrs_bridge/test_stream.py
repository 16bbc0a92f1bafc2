import torch

from clrs_bridge import get_task
from clrs_bridge.stream import Stream
from graphalgo.steps import StepBatches, StepLoader


def stream(**changes):
    return Stream(**{"task": "bellman_ford", "sizes": [4, 7], "batch_size": 4, "seed": 3, **changes})


def weights(graphs):
    return [tuple(graph.edge_weight.tolist()) for graph in graphs]


def test_batch_depends_on_its_arguments_alone():
    assert weights(stream()(1, 5)) == weights(stream()(1, 5))
    assert [graph.num_nodes for graph in stream()(1, 5)] == [7] * 4


def test_no_graph_comes_twice():
    batches = [(seed, rank, number) for seed in range(2) for rank in range(2) for number in range(20)]
    drawn = [weights(stream(seed=s, rank=r, sizes=[16])(0, number)) for s, r, number in batches]
    assert len({graph for batch in drawn for graph in batch}) == 4 * len(batches)


def test_edge_probabilities_and_positions_are_drawn():
    graphs = [g for number in range(10) for g in stream(edge_prob=[0.1, 1.0], random_pos=True)(1, number)]
    assert {graph.num_edges == 49 for graph in graphs} == {True, False}
    assert len({tuple(graph.pos.tolist()) for graph in graphs}) == len(graphs)


def test_any_number_of_workers_gives_the_same_batches():
    to_pairs = get_task("bellman_ford").to_pair_batch()
    plain, *others = (
        list(StepLoader(StepBatches(stream(), to_pairs, 2, 3, 7), lambda: 2, num_workers=num_workers))
        for num_workers in (0, 1, 2)
    )
    assert len(plain) == 5
    for other in others:
        assert all(torch.equal(a.x, b.x) for a, b in zip(plain, other, strict=True))
