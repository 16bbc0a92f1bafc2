import multiprocessing
import os
import random
import signal
import time

import pytest
import safetensors.torch
import torch
from torch_geometric.data import Data, HeteroData

from graphalgo import store
from graphalgo.errors import InputError
from graphalgo.store import atomic_write, content_key, load_graphs, save_graphs


def graph(num_nodes: int, num_edges: int, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    return Data(
        num_nodes=num_nodes,
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        edge_weight=torch.rand(num_edges, generator=generator, dtype=torch.float64),
        pos=torch.rand(num_nodes, generator=generator, dtype=torch.float64),
        pi=torch.randint(num_nodes, (num_nodes,), generator=generator),
        is_cut=torch.rand(num_nodes, generator=generator) < 0.5,
    )


@pytest.fixture
def graphs() -> list[Data]:
    return [graph(5, 7, 1), graph(1, 0, 2), graph(9, 0, 3), graph(4, 16, 4)]


def assert_equal(left: list[Data], right: list[Data]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert set(a.keys()) == set(b.keys()) and a.num_nodes == b.num_nodes
        for name in set(a.keys()) - {"num_nodes"}:
            assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape
            assert torch.equal(a[name], b[name]), name


def test_graphs_round_trip_keeps_values_and_dtypes(tmp_path, graphs):
    path = tmp_path / "deep" / "g.safetensors"
    save_graphs(path, graphs, {"task": "bfs", "edge_prob": [0.1, 0.2]})
    loaded, meta = load_graphs(path)
    assert_equal(graphs, loaded)
    assert meta == {"task": "bfs", "edge_prob": [0.1, 0.2]}
    assert loaded[0].edge_index.is_contiguous()
    assert os.listdir(path.parent) == ["g.safetensors"]


def test_one_graph_without_edges_round_trips(tmp_path):
    lone = [Data(num_nodes=1, edge_index=torch.empty(2, 0, dtype=torch.long))]
    save_graphs(tmp_path / "g", lone, {})
    assert_equal(lone, load_graphs(tmp_path / "g")[0])


def test_loaded_graphs_own_their_memory(tmp_path, graphs):
    save_graphs(tmp_path / "g", graphs, {})
    loaded, _ = load_graphs(tmp_path / "g")
    assert loaded[0].pos.untyped_storage().nbytes() == 5 * 8


def test_saving_refuses_what_it_cannot_keep(tmp_path, graphs):
    path = tmp_path / "g"
    cases = [
        ([], "at least one graph"),
        ([graphs[0], Data(num_nodes=1, pos=torch.zeros(1))], "same attributes"),
        ([Data(num_nodes=1, y=3)], "must be a dense tensor"),
        ([Data(num_nodes=1, y=torch.tensor(3))], "at least one dimension"),
        ([Data(num_nodes=1, y=torch.zeros(1)), Data(num_nodes=1, y=torch.zeros(1).long())], "one dtype"),
        ([Data(y=torch.zeros(1))], "num_nodes"),
        ([Data(num_nodes=2, x=torch.zeros(2, width)) for width in (3, 4)], "but for dimension 0, one shape"),
        ([Data(num_nodes=2, x=torch.eye(2).to_sparse())], "must be a dense tensor"),
    ]
    for bad, message in cases:
        with pytest.raises(InputError, match=message):
            save_graphs(path, bad, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("types_unchecked")
@pytest.mark.parametrize(
    ("bad", "message"), [(Data(num_nodes=1), "got one Data"), ([HeteroData()], "graph 0 is a HeteroData")]
)
def test_saving_refuses_what_is_no_list_of_graphs(tmp_path, bad, message):
    with pytest.raises(InputError, match=message):
        save_graphs(tmp_path / "g", bad, {})
    assert os.listdir(tmp_path) == []


def _no_starts(tensors):
    del tensors["slice.pos"]


def _starts_out_of_order(tensors):
    tensors["slice.pos"][1] = 10_000


def _no_sizes(tensors):
    tensors["num_nodes"] = torch.tensor(3)


def _no_dimension(tensors):
    tensors["data.pos"] = torch.tensor(1.0)


@pytest.mark.parametrize("change", [_no_starts, _starts_out_of_order, _no_sizes, _no_dimension])
def test_whole_file_that_holds_no_graphs_is_named(tmp_path, graphs, change, monkeypatch):
    pack = store._pack

    def changed(graphs):
        tensors = pack(graphs)
        change(tensors)
        return tensors

    monkeypatch.setattr(store, "_pack", changed)
    save_graphs(tmp_path / "g", graphs, {})
    with pytest.raises(InputError, match="no list of graphs, though its checksum is right"):
        load_graphs(tmp_path / "g")


@pytest.mark.parametrize(
    "header", [b"[" * 100_000, b'{"__metadata__":{"format":"graphalgo.graphs","version":1}}']
)
def test_header_of_another_form_is_named(tmp_path, header):
    (tmp_path / "g").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="damaged"):
        load_graphs(tmp_path / "g")


def test_any_flipped_byte_is_noticed(tmp_path, graphs):
    path = tmp_path / "g"
    save_graphs(path, graphs, {"seed": 1})
    content = path.read_bytes()
    draws = random.Random(0)
    header_end = 8 + int.from_bytes(content[:8], "little")
    positions = list(range(8)) + draws.sample(range(8, header_end), 150)
    positions += draws.sample(range(header_end, len(content)), 150)
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << draws.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            load_graphs(path)


def test_cut_file_is_noticed(tmp_path, graphs):
    path = tmp_path / "g"
    save_graphs(path, graphs, {})
    content = path.read_bytes()
    for length in [0, 3, 8, 20, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="cut short"):
            load_graphs(path)


def test_foreign_missing_and_newer_files_are_named(tmp_path, graphs):
    with pytest.raises(InputError, match="cannot read"):
        load_graphs(tmp_path / "missing")
    with pytest.raises(InputError, match="cannot read"):
        load_graphs(tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("hello, I am no graph file")
    with pytest.raises(InputError, match="not a graph file"):
        load_graphs(text)
    weights = tmp_path / "weights.safetensors"
    for metadata in [None, {"format": "pt"}]:
        safetensors.torch.save_file({"w": torch.zeros(3)}, weights, metadata)
        with pytest.raises(InputError, match="not a graph file"):
            load_graphs(weights)
    newer = tmp_path / "newer.safetensors"
    save_graphs(newer, graphs, {})
    newer.write_bytes(newer.read_bytes().replace(b'"version":"1"', b'"version":"2"'))
    with pytest.raises(InputError, match="format version 2"):
        load_graphs(newer)


def test_folder_that_cannot_be_written_is_named(tmp_path, graphs):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        save_graphs(tmp_path / "file" / "g", graphs, {})
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="there is a folder of that name"):
        save_graphs(tmp_path / "folder", graphs, {})
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_atomic_write_keeps_the_old_file_when_the_body_fails(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(path) as temporary:
        assert temporary.suffix == ".json" and temporary.parent == tmp_path
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.json"]


def _write_half(path, ready):
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"x" * 1000)
        ready.set()
        time.sleep(60)


@pytest.mark.parametrize("old", [None, "old"])
def test_killed_writer_leaves_nothing_half_written(tmp_path, old):
    path = tmp_path / "a.bin"
    if old:
        path.write_text(old)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    writer = context.Process(target=_write_half, args=(path, ready))
    writer.start()
    assert ready.wait(30)
    writer.kill()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert (path.read_text() if path.exists() else None) == old


def _save_often(path, size):
    for _ in range(30):
        save_graphs(path, [graph(size, size, seed) for seed in range(20)], {"size": size})


def test_reader_beside_two_writers_always_sees_a_whole_file(tmp_path):
    path = tmp_path / "g"
    _save_often(path, 3)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_save_often, args=(path, size)) for size in (5, 50)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        loaded, meta = load_graphs(path)
        assert {g.num_nodes for g in loaded} == {meta["size"]}
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert os.listdir(tmp_path) == ["g"]


def test_content_key_depends_on_every_value_and_not_on_order():
    params = {"task": "bfs", "seed": 1, "edge_prob": [0.5], "random_pos": False}
    assert content_key(params) == content_key(dict(reversed(params.items())))
    assert content_key(params) == content_key({**params, "edge_prob": (0.5,)})
    changed = [{"task": "dfs"}, {"seed": 2}, {"edge_prob": None}, {"random_pos": True}, {"more": 1}]
    assert len({content_key({**params, **change}) for change in changed} | {content_key(params)}) == 6
    assert content_key({"a": 1}) == "015abd7f5cc57a2d"
