import multiprocessing
import os

import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import to_networkx

from clrs_bridge import dataset as dataset_module
from clrs_bridge import official, sample
from clrs_bridge.dataset import CLRSDataset
from graphalgo.errors import InputError
from graphalgo.store import save_graphs


def assert_equal(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert set(a.keys()) == set(b.keys()) and a.num_nodes == b.num_nodes
        for name in set(a.keys()) - {"num_nodes"}:
            assert a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]), name


def files(root):
    return sorted(
        os.path.relpath(os.path.join(at, name), root) for at, _, names in os.walk(root) for name in names
    )


@pytest.mark.parametrize("task", ["bfs", "floyd_warshall", "topological_sort", "articulation_points"])
def test_dataset_holds_the_sampled_graphs_first_and_second_time(tmp_path, task):
    expected = sample(task, 9, 6, 4, [0.3, 0.8], True)
    for root in (tmp_path, str(tmp_path), None):
        dataset = CLRSDataset(root, task, 9, 6, 4, edge_prob=(0.3, 0.8), random_pos=True)
        assert_equal(list(dataset), expected)
    assert len(files(tmp_path)) == 1 and files(tmp_path)[0].startswith(f"processed/{task}-9-")


def test_single_graph_without_edges_survives(tmp_path):
    for _ in range(2):
        dataset = CLRSDataset(tmp_path, "bfs", 2, 1, 3, edge_prob=1e-9)
        assert len(dataset) == 1 and dataset[0].num_nodes == 2 and dataset[0].edge_index.shape == (2, 0)


@pytest.mark.parametrize("split, num_graphs, num_nodes", [("val", 32, 16), ("test", 32, 64)])
def test_official_split_is_the_official_one(tmp_path, split, num_graphs, num_nodes):
    dataset = CLRSDataset.official(tmp_path, "dijkstra", split)
    assert len(dataset) == num_graphs and dataset[0].num_nodes == num_nodes
    assert_equal(list(dataset), official("dijkstra", split))


def test_every_argument_has_a_file_of_its_own(tmp_path, monkeypatch):
    base = {"task": "bfs", "num_nodes": 5, "num_samples": 2, "seed": 1}
    changes = [{}, {"task": "dfs"}, {"num_nodes": 6}, {"num_samples": 3}, {"seed": 2}, {"edge_prob": 0.5}]
    changes += [{"edge_prob": [0.5, 0.6]}, {"random_pos": True}]
    for count, change in enumerate(changes, start=1):
        CLRSDataset(tmp_path, **{**base, **change})
        assert len(files(tmp_path)) == count
    monkeypatch.setattr(dataset_module, "SAMPLER_VERSION", dataset_module.SAMPLER_VERSION + 1)
    CLRSDataset(tmp_path, **base)
    assert len(files(tmp_path)) == len(changes) + 1


@pytest.mark.usefixtures("types_unchecked")
def test_numbers_of_numpy_and_torch_find_the_same_file(tmp_path):
    plain = CLRSDataset(tmp_path, "bfs", 5, 2, 1, edge_prob=0.5)
    for half in (np.float32(0.5), torch.tensor(0.5)):
        assert_equal(CLRSDataset(tmp_path, "bfs", np.int64(5), np.int32(2), np.uint8(1), half), plain)
    CLRSDataset(tmp_path, "bfs", 5, 2, 1, edge_prob=[0.5, 0.75])
    CLRSDataset(tmp_path, "bfs", 5, 2, 1, edge_prob=np.array([0.5, 0.75]))
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize("change", [{"edge_prob": float("nan")}, {"seed": 1.0}, {"num_samples": 0}])
@pytest.mark.usefixtures("types_unchecked")
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, change):
    with pytest.raises(InputError):
        CLRSDataset(tmp_path, **({"task": "bfs", "num_nodes": 5, "num_samples": 2, "seed": 1} | change))
    assert files(tmp_path) == []


def test_dataset_follows_pyg_conventions(tmp_path):
    dataset = CLRSDataset(tmp_path, "mst_prim", 6, 5, 1, transform=lambda data: (data, "seen"))
    assert dataset[1][1] == "seen" and len(dataset[2:]) == 3
    dataset.transform = None
    assert dataset.processed_dir == os.path.join(str(tmp_path), "processed")
    assert next(iter(DataLoader(dataset, batch_size=5))).num_nodes == 30
    assert to_networkx(dataset[0]).number_of_nodes() == 6
    assert repr(dataset) == "CLRSDataset(5)"


def test_damaged_cache_is_named_kept_and_replaced_on_demand(tmp_path):
    arguments = (tmp_path, "bfs", 5, 2, 1)
    CLRSDataset(*arguments)
    path = tmp_path / files(tmp_path)[0]
    whole = path.read_bytes()
    for bad in (whole[:-9], b"hello", whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(bad)
        with pytest.raises(InputError, match="force_reload=True"):
            CLRSDataset(*arguments)
        assert path.read_bytes() == bad
    save_graphs(path, sample("bfs", 5, 2, 2), {"seed": 2})
    with pytest.raises(InputError, match="other graphs than its name says"):
        CLRSDataset(*arguments)
    CLRSDataset(*arguments, force_reload=True)
    assert_equal(list(CLRSDataset(*arguments)), sample("bfs", 5, 2, 1))
    assert len(files(tmp_path)) == 1


def test_what_cannot_be_drawn_or_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    cases = [
        ((tmp_path / "file" / "sub", "bfs", 5, 2, 1), "cannot write"),
        ((tmp_path, "bfs", 5, 0, 1), "at least 1"),
        ((tmp_path, "strongly_connected_components", 3, 2, 1), "at least 4"),
        ((tmp_path, "sorting", 5, 2, 1), "unknown task"),
        ((tmp_path, "bfs", 5, 2, 1, 1.5), "edge_prob"),
        ((tmp_path, "bfs", 5, 2, -1), "seed"),
    ]
    for arguments, message in cases:
        with pytest.raises(InputError, match=message):
            CLRSDataset(*arguments)
    with pytest.raises(InputError, match="unknown split"):
        CLRSDataset.official(tmp_path, "bfs", "dev")
    assert files(tmp_path) == ["file"]


def _make(root, barrier, queue):
    barrier.wait()
    queue.put([data.pi.tolist() for data in CLRSDataset(root, "bfs", 16, 200, 7)])


def test_processes_racing_for_one_cache_all_read_it_whole(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(3), context.Queue()
    makers = [context.Process(target=_make, args=(tmp_path, barrier, queue)) for _ in range(3)]
    for maker in makers:
        maker.start()
    results = [queue.get(timeout=60) for _ in makers]
    for maker in makers:
        maker.join()
    assert results == [[data.pi.tolist() for data in sample("bfs", 16, 200, 7)]] * 3
    assert len(files(tmp_path)) == 1
