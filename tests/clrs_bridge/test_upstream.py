"""dm-clrs itself, the referee: every array of every task, and its Feedback as Data."""

import sys

import numpy as np
import pytest
import torch

from clrs_bridge import TASKS, from_feedback, sample
from clrs_bridge.samplers import raw_sample
from clrs_bridge.upstream import feedback_sample, import_clrs
from graphalgo.errors import InputError

GRID = (0.1, 0.3, 0.5, 0.7, 0.9)
CASES = [(4, 8, None), (7, 6, GRID), (16, 4, None), (16, 6, GRID), (33, 2, (0.2,)), (64, 1, None)]


def arrays(points):
    return {point.name: point.data for point in points}


def assert_same_arrays(mine, theirs):
    assert list(mine) == list(theirs)
    for name in mine:
        assert mine[name].dtype == theirs[name].dtype, name
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)


def assert_same_graphs(left, right):
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name in one.keys():
            assert name == "num_nodes" or one[name].dtype == other[name].dtype
            assert name == "num_nodes" or torch.equal(one[name], other[name]), name


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("num_nodes", "num_samples", "edge_prob"), CASES)
def test_native_arrays_and_graphs_match_dm_clrs(task, num_nodes, num_samples, edge_prob):
    seed = 1000 + num_nodes
    feedback = feedback_sample(task, num_nodes, num_samples, seed, edge_prob)
    inputs, outputs = raw_sample(task, num_nodes, num_samples, seed, edge_prob)
    assert_same_arrays(inputs, arrays(feedback.features.inputs))
    assert_same_arrays(outputs, arrays(feedback.outputs))
    assert_same_graphs(from_feedback(feedback, task), sample(task, num_nodes, num_samples, seed, edge_prob))


@pytest.mark.parametrize("task", TASKS)
def test_random_positions_match_dm_clrs(task):
    feedback = feedback_sample(task, 7, 5, seed=9, random_pos=np.random.RandomState([9, 1]))
    assert_same_graphs(from_feedback(feedback, task), sample(task, 7, 5, seed=9, random_pos=True))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_tasks_match_dm_clrs_specs(task):
    spec = import_clrs().SPECS[task.name]
    outputs = [(name, location, kind) for name, (stage, location, kind) in spec.items() if stage == "output"]
    assert outputs == [(output.name, output.location, output.type) for output in task.outputs]
    assert ("s" in spec and spec["s"][0] == "input") == task.has_source


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_dm_clrs_fails_below_the_smallest_graph(task):
    feedback_sample(task.name, task.min_nodes, 1, seed=0)
    with pytest.raises((ValueError, IndexError, AssertionError)):
        from_feedback(feedback_sample(task.name, task.min_nodes - 1, 1, seed=0), task.name)


def test_batch_drawn_from_a_sampler_is_converted():
    sampler, _ = import_clrs().build_sampler("dijkstra", num_samples=6, seed=2, length=8)
    whole = from_feedback(sampler.next(), "dijkstra")
    drawn = from_feedback(sampler.next(4), "dijkstra")
    assert len(drawn) == 4
    for graph in drawn:
        assert any(torch.equal(graph.edge_weight, other.edge_weight) for other in whole)


def test_truncated_weights_and_jax_arrays_are_converted():
    import jax

    sampler, _ = import_clrs().build_sampler("bellman_ford", 3, seed=2, length=8, truncate_decimals=1)
    feedback = sampler.next()
    on_jax = jax.tree_util.tree_map(jax.numpy.asarray, feedback)
    plain = from_feedback(feedback, "bellman_ford")
    for graph, twin in zip(plain, from_feedback(on_jax, "bellman_ford"), strict=True):
        assert torch.equal(graph.edge_index, twin.edge_index) and torch.equal(graph.pi, twin.pi)
        tenths = 10 * graph.edge_weight
        assert torch.allclose(tenths, tenths.round()) and bool((tenths > 0.5).all())


def test_feedback_of_another_task_is_refused():
    feedback = feedback_sample("bfs", 5, 2, seed=0)
    with pytest.raises(InputError, match="not of bridges: it lacks is_bridge"):
        from_feedback(feedback, "bridges")
    with pytest.raises(InputError, match="unknown task"):
        from_feedback(feedback, "minimum")


def test_feedback_with_wrong_shapes_or_values_is_refused():
    def changed(name, change):
        feedback = feedback_sample("bfs", 5, 2, seed=0)
        for point in [*feedback.features.inputs, *feedback.outputs]:
            if point.name == name:
                point.data = change(point.data)
        return feedback

    with pytest.raises(InputError, match=r"pi of bfs: expected the shape \(2, 5\), got \(2, 4\)"):
        from_feedback(changed("pi", lambda data: data[:, :4]), "bfs")
    with pytest.raises(InputError, match="not whole numbers"):
        from_feedback(changed("pi", lambda data: data + 0.5), "bfs")
    with pytest.raises(InputError, match="must mark exactly one vertex"):
        from_feedback(changed("s", np.zeros_like), "bfs")


def test_chunked_feedback_is_refused():
    clrs = import_clrs()
    sampler, _ = clrs.build_sampler("bfs", 4, seed=0, length=5)
    chunked = next(clrs.chunkify(iter([sampler.next() for _ in range(9)]), 2))
    with pytest.raises(InputError, match="chunked over time"):
        from_feedback(chunked, "bfs")


def test_missing_dm_clrs_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "clrs", None)
    with pytest.raises(ImportError, match=r"pip install 'graphalgo\[clrs\]'"):
        import_clrs()
