import json
import os

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from graphalgo.batch import Output
from graphalgo.errors import InputError
from graphalgo.predictions import LAST, SCHEMA, PredictionsWriter, read_predictions

NODE = Output("pi", "node", "pointer")
EDGE = Output("Pi", "edge", "pointer")
ONE = Output("topo_head", "node", "mask_one")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test" / "predictions.parquet"


def write_tiny(path):
    target = torch.tensor([[1, 0, -1], [2, 2, 0]])
    with PredictionsWriter(path, "bfs", [NODE, ONE]) as writer:
        for loop in (1, 2):
            prediction = torch.tensor([[1, 1, 2], [2, loop, 0]])
            writer.write("fresh-3", 4, loop, NODE, prediction, target, torch.full((2, 3), 0.5))
        one = torch.tensor([2, 0])
        writer.write("fresh-3", 4, 2, ONE, one, one, torch.tensor([0.25, 1.0]))
        writer.write("fresh-9", 0, 1, NODE, target, target, torch.ones(2, 3))


def test_rows_match_known_answer(path):
    write_tiny(path)
    frame = read_predictions(path, set="fresh-3", loop=2)
    expected = pd.DataFrame(
        [
            [4, "pi", 0, -1, 1, 1, 0.5],
            [4, "pi", 1, -1, 0, 1, 0.5],
            [5, "pi", 0, -1, 2, 2, 0.5],
            [5, "pi", 1, -1, 2, 2, 0.5],
            [5, "pi", 2, -1, 0, 0, 0.5],
            [4, "topo_head", -1, -1, 2, 2, 0.25],
            [5, "topo_head", -1, -1, 0, 0, 1.0],
        ],
        columns=["graph", "output", "i", "j", "target", "prediction", "confidence"],
    )
    pd.testing.assert_frame_equal(
        frame.drop(columns=["set", "loop"]).astype({"output": object}),
        expected.astype({"output": object}),
        check_dtype=False,
    )
    assert (frame["set"] == "fresh-3").all() and (frame["loop"] == 2).all()
    assert frame.attrs == {
        "task": "bfs",
        "outputs": [["pi", "node", "pointer"], ["topo_head", "node", "mask_one"]],
    }


def test_last_loop_is_chosen_in_each_set(path):
    write_tiny(path)
    frame = read_predictions(path, loop=LAST)
    assert {(s, int(t)) for s, t in zip(frame["set"], frame["loop"], strict=True)} == {
        ("fresh-3", 2),
        ("fresh-9", 1),
    }
    assert len(read_predictions(path)) == len(frame) + 5


def test_edge_rows_match_reference(path, generator):
    target = torch.randint(-1, 4, (3, 4, 4), generator=generator)
    prediction = torch.randint(4, (3, 4, 4), generator=generator)
    confidence = torch.rand(3, 4, 4, generator=generator)
    with PredictionsWriter(path, "floyd_warshall", [EDGE]) as writer:
        writer.write("official-64", 7, 3, EDGE, prediction, target, confidence)
    rows = [
        (7 + b, 3, i, j, int(target[b, i, j]), int(prediction[b, i, j]), float(confidence[b, i, j]))
        for b in range(3)
        for i in range(4)
        for j in range(4)
        if target[b, i, j] != -1
    ]
    frame = read_predictions(path)
    columns = ["graph", "loop", "i", "j", "target", "prediction", "confidence"]
    assert list(frame[columns].itertuples(index=False, name=None)) == rows


def test_file_has_the_documented_schema(path):
    write_tiny(path)
    schema = pq.read_schema(path)
    assert schema.equals(SCHEMA)
    assert schema.metadata[b"task"] == b"bfs"
    assert json.loads(schema.metadata[b"outputs"])[0] == ["pi", "node", "pointer"]


def test_many_batches_make_few_row_groups(path, monkeypatch):
    monkeypatch.setattr("graphalgo.predictions._ROW_GROUP", 1000)
    ones = torch.ones(5, 10, 10)
    with PredictionsWriter(path, "floyd_warshall", [EDGE]) as writer:
        for step in range(10):
            writer.write(f"fresh-{step % 2}", 5 * step, 1, EDGE, ones.long(), ones.long(), ones)
    assert pq.ParquetFile(path).num_row_groups == 5
    frame = read_predictions(path)
    assert len(frame) == 5000 and frame.groupby("set", observed=True).size().tolist() == [2500, 2500]


def test_table_without_rows_is_readable(path):
    with PredictionsWriter(path, "bfs", [NODE]):
        pass
    assert len(read_predictions(path)) == 0 and len(read_predictions(path, loop=LAST)) == 0


def test_failed_run_keeps_the_earlier_table(path):
    write_tiny(path)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="boom"), PredictionsWriter(path, "bfs", [NODE]) as writer:
        one = torch.zeros(1, 1)
        writer.write("fresh-1", 0, 1, NODE, one.long(), one.long(), one)
        raise RuntimeError("boom")
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_what_is_no_table_is_named(path, tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_predictions(path)
    write_tiny(path)
    content = path.read_bytes()
    for bad in (content[: len(content) // 2], b"", b"hello"):
        path.write_bytes(bad)
        with pytest.raises(InputError, match="cannot read"):
            read_predictions(path)
    pd.DataFrame({"set": ["a"], "output": ["b"]}).to_parquet(path)
    with pytest.raises(InputError, match="no predictions table"):
        read_predictions(path)
    write_tiny(path)
    with pytest.raises(InputError, match="no test set 'x'; it has 'fresh-3', 'fresh-9'"):
        read_predictions(path, set="x")
    with pytest.raises(InputError, match="no loop step 3"):
        read_predictions(path, loop=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        PredictionsWriter(tmp_path / "file" / "p.parquet", "bfs", [NODE])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"outputs", b"{", "does not say which task"),
        (b"outputs", b"[5]", "does not say which task"),
        (b"outputs", b'[["pi", "node"]]', "expected outputs as"),
        (b"task", b"\xff", "does not say which task"),
    ],
)
def test_damaged_description_is_named(path, key, value, message):
    write_tiny(path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {key: value}), path)
    with pytest.raises(InputError, match=message):
        read_predictions(path)


@pytest.mark.parametrize("column", ["set", "loop", "i"])
def test_missing_values_are_named(path, column):
    write_tiny(path)
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    nothing = pa.nulls(len(table), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), nothing), path)
    with pytest.raises(InputError, match=f"values are missing from {column}"):
        read_predictions(path)


@pytest.mark.parametrize("name", ["", "..", "../up", "/root", "a\\b"])
def test_set_that_would_be_written_elsewhere_is_refused(path, name):
    one = torch.zeros(1, 1)
    with pytest.raises(InputError, match="without slashes"), PredictionsWriter(path, "bfs", [NODE]) as writer:
        writer.write(name, 0, 1, NODE, one.long(), one.long(), one)
    assert os.listdir(path.parent) == []
    write_tiny(path)
    table = pq.read_table(path)
    names = pa.array([name] * len(table), table.schema.field("set").type)
    pq.write_table(table.set_column(0, table.schema.field("set"), names), path)
    with pytest.raises(InputError, match="without slashes"):
        read_predictions(path)
