"""Sampled graphs: dm-clrs's official bytes, what a Data holds, determinism, and refused input."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from clrs_bridge import TASKS, get_task, official, sample
from clrs_bridge.samplers import OFFICIAL_SPLITS, raw_sample
from graphalgo.errors import InputError

HASHES = Path(__file__).parents[1] / "data" / "clrs_hashes.txt"
UNDIRECTED = [name for name, task in TASKS.items() if not task.directed]
ACYCLIC = [name for name, task in TASKS.items() if task.acyclic]


def official_hashes():
    lines = [line.split() for line in HASHES.read_text().splitlines() if line and not line.startswith("#")]
    return [pytest.param(split, task, i, o, id=f"{split}-{task}") for split, task, _, i, _, o in lines]


def digest(arrays):
    sha = hashlib.sha256()
    for name, array in arrays.items():
        sha.update(f"{name}|{array.dtype}|{array.shape}|".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]


def dense(data):
    matrix = np.zeros((data.num_nodes, data.num_nodes))
    i, j = data.edge_index.numpy()
    matrix[i, j] = data.edge_weight.numpy() if "edge_weight" in data else 1
    return matrix


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left.keys():
        if isinstance(left[name], torch.Tensor):
            assert left[name].dtype == right[name].dtype, name
            assert torch.equal(left[name], right[name]), name
        else:
            assert left[name] == right[name], name


def test_hashes_cover_every_task_and_split():
    assert len(official_hashes()) == len(TASKS) * len(OFFICIAL_SPLITS) == 36


@pytest.mark.parametrize(("split", "task", "inputs_hash", "outputs_hash"), official_hashes())
def test_official_split_has_dm_clrs_bytes(split, task, inputs_hash, outputs_hash):
    inputs, outputs = raw_sample(task, **OFFICIAL_SPLITS[split])
    assert (digest(inputs), digest(outputs)) == (inputs_hash, outputs_hash)


@pytest.mark.parametrize("task", TASKS)
def test_data_holds_the_raw_arrays(task):
    inputs, outputs = raw_sample(task, 9, 5, seed=7)
    for b, data in enumerate(sample(task, 9, 5, seed=7)):
        assert data.num_nodes == 9
        np.testing.assert_array_equal(dense(data), inputs["A"][b])
        np.testing.assert_array_equal(data.pos, inputs["pos"][b])
        if TASKS[task].has_source:
            np.testing.assert_array_equal(data.s, inputs["s"][b])
        for name, array in outputs.items():
            np.testing.assert_array_equal(data[name], array[b].reshape(-1))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_data_has_no_attribute_beyond_the_documented_ones(task):
    data = sample(task.name, 6, 1, seed=0)[0]
    expected = {"num_nodes", "edge_index", "pos"} | {output.name for output in task.outputs}
    expected |= {"edge_weight"} if task.weighted else set()
    expected |= {"s"} if task.has_source else set()
    assert set(data.keys()) == expected
    assert data.edge_index.dtype == torch.int64
    assert all(data[name].dtype == torch.float64 for name in expected & {"pos", "s", "edge_weight"})
    assert all(data[output.name].dtype == torch.int64 for output in task.outputs)
    order = data.edge_index[0] * 6 + data.edge_index[1]
    assert bool((order[1:] > order[:-1]).all())


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_sample_becomes_a_pair_batch_with_every_target(task):
    graphs = sample(task.name, 7, 2, seed=0) + sample(task.name, 5, 1, seed=0)
    batch = task.to_pair_batch()(graphs)
    assert batch.mask.sum(dim=1).tolist() == [7, 7, 5]
    assert set(batch.targets) == {output.name for output in task.outputs}
    assert Batch.from_data_list(graphs).num_graphs == 3


@pytest.mark.parametrize("task", TASKS)
def test_sample_is_determined_by_its_seed(task):
    first, second = sample(task, 8, 3, seed=5), sample(task, 8, 3, seed=5)
    for left, right in zip(first, second, strict=True):
        assert_same(left, right)
    other = sample(task, 8, 3, seed=6)
    assert any(
        not np.array_equal(dense(left), dense(right)) for left, right in zip(first, other, strict=True)
    )


def test_longer_sample_starts_with_the_shorter_one():
    for left, right in zip(
        sample("dijkstra", 8, 2, 5, random_pos=True),
        sample("dijkstra", 8, 4, 5, random_pos=True),
        strict=False,
    ):
        assert_same(left, right)


def test_sample_leaves_global_random_streams_alone():
    np.random.seed(3)
    torch.manual_seed(3)
    expected = np.random.RandomState(3).random_sample(4)
    state = torch.get_rng_state()
    for task in TASKS:
        sample(task, 8, 2, seed=1, random_pos=True)
    np.testing.assert_array_equal(np.random.random_sample(4), expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_graphs_do_not_share_memory():
    first, second = sample("bfs", 8, 2, seed=0)
    assert first.pos.untyped_storage().nbytes() == 8 * 8
    first.pos.zero_()
    assert bool(second.pos.any())


@pytest.mark.parametrize("task", UNDIRECTED)
def test_undirected_graph_is_symmetric(task):
    for data in sample(task, 16, 10, seed=11):
        matrix = dense(data)
        np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("task", ACYCLIC)
def test_dag_has_no_cycle(task):
    for data in sample(task, 16, 10, seed=11, edge_prob=1.0):
        walks = np.linalg.matrix_power((dense(data) != 0).astype(np.int64), 16)
        assert not walks.any()


def test_edge_prob_is_squared_for_undirected_graphs_and_one_gives_the_complete_graph():
    density = np.mean([data.edge_index.size(1) for data in sample("bfs", 32, 50, 0, edge_prob=0.3)]) / 32**2
    assert density == pytest.approx(0.3**2 * 31 / 32 + 0.3 / 32, abs=0.01)
    assert sample("bfs", 8, 1, 0, edge_prob=1.0)[0].edge_index.size(1) == 64


def test_several_edge_probs_are_all_drawn():
    densities = {
        round(data.edge_index.size(1) / 32**2, 1) for data in sample("dfs", 32, 40, 0, edge_prob=(0.1, 0.9))
    }
    assert densities == {0.1, 0.9}


@pytest.mark.parametrize("task", ["dfs", "dijkstra"])
def test_random_pos_is_sorted_and_leaves_the_graph_as_it_is(task):
    for plain, moved in zip(sample(task, 9, 4, 2), sample(task, 9, 4, 2, random_pos=True), strict=True):
        assert bool((moved.pos[1:] > moved.pos[:-1]).all())
        assert 0 <= float(moved.pos.min()) and float(moved.pos.max()) < 1
        assert not torch.equal(moved.pos, plain.pos)
        moved.pos = plain.pos
        assert_same(plain, moved)


@pytest.mark.parametrize(("split", "count", "size"), [("train", 1000, 16), ("val", 32, 16), ("test", 32, 64)])
def test_official_has_the_sizes_of_clrs30(split, count, size):
    graphs = official("dfs", split)
    assert len(graphs) == count
    assert {graph.num_nodes for graph in graphs} == {size}
    assert all(isinstance(graph, Data) for graph in graphs)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_smallest_graph_works_and_a_smaller_one_is_refused(task):
    assert sample(task.name, task.min_nodes, 3, seed=0)[0].num_nodes == task.min_nodes
    with pytest.raises(InputError, match=f"at least {task.min_nodes}, got {task.min_nodes - 1}"):
        sample(task.name, task.min_nodes - 1, 3, seed=0)


BAD = [
    ({"task": "sorting"}, "unknown task 'sorting'; the tasks are bfs, dfs"),
    ({"num_nodes": -3}, "num_nodes of at least 2, got -3"),
    ({"num_nodes": 8.0}, "num_nodes must be a whole number, got 8.0"),
    ({"num_nodes": True}, "num_nodes must be a whole number, got True"),
    ({"num_nodes": "8"}, "num_nodes must be a whole number, got '8'"),
    ({"num_samples": 0}, "num_samples must be at least 1"),
    ({"num_samples": 1.5}, "num_samples must be a whole number"),
    ({"seed": -1}, "seed must lie in 0..4294967295"),
    ({"seed": None}, "seed must be a whole number, got None"),
    ({"edge_prob": 0.0}, r"edge_prob must be one or several probabilities in \(0, 1\], got 0.0"),
    ({"edge_prob": 1.01}, "edge_prob"),
    ({"edge_prob": float("nan")}, "edge_prob"),
    ({"edge_prob": ()}, "edge_prob"),
    ({"edge_prob": (0.5, -0.1)}, "edge_prob"),
    ({"edge_prob": "0.5"}, "edge_prob"),
]


@pytest.mark.usefixtures("types_unchecked")
@pytest.mark.parametrize("draw", [sample, raw_sample])
@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_argument_is_refused(draw, change, message):
    arguments = {"task": "bfs", "num_nodes": 8, "num_samples": 2, "seed": 0} | change
    with pytest.raises(InputError, match=message):
        draw(**arguments)


@pytest.mark.usefixtures("types_unchecked")
def test_numpy_integers_are_taken():
    for plain, numpy in zip(
        sample("bfs", 200, 2, 0), sample("bfs", np.uint8(200), np.int32(2), np.int64(0)), strict=True
    ):
        assert_same(plain, numpy)


def test_unknown_split_is_refused():
    with pytest.raises(InputError, match="unknown split 'dev'; the splits are train, val, test"):
        official("bfs", "dev")


def test_get_task_knows_the_twelve():
    assert len(TASKS) == 12
    assert all(get_task(name).name == name for name in TASKS)
