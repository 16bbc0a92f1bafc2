"""The predictions table: one parquet file a run, one row per scored entry and loop step.

========== ======== =====================================================================================
column     type     meaning
========== ======== =====================================================================================
set        string   test set, for example "official-64"
graph      int32    index of the graph in that set's file of graphs
output     string   name of the task's output, for example "pi"
loop       int16    loop step t, counted from 1
i          int32    vertex (node outputs) or row (edge outputs); -1 for mask_one
j          int32    column (edge outputs); -1 for node outputs
target     int32    truth: a vertex (pointer, mask_one), or 0 or 1 (mask)
prediction int32    answer, of the same kind
confidence float32  probability the model gave to its answer
========== ======== =====================================================================================

A target of -1 is not known (``graphalgo predict``). ``set`` and ``output`` are dictionary-encoded. The
schema's metadata holds ``task`` and, as JSON, ``outputs``: a list of [name, location, type]. The final
answers of a set are the rows of its largest ``loop``.
"""

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from graphalgo.batch import NOT_SCORED, Output
from graphalgo.errors import InputError
from graphalgo.store import atomic_write

LAST = -1
"""As ``loop`` of :func:`read_predictions`: the last loop step of each set, the final answers."""

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("set", _NAME),
        ("graph", pa.int32()),
        ("output", _NAME),
        ("loop", pa.int16()),
        ("i", pa.int32()),
        ("j", pa.int32()),
        ("target", pa.int32()),
        ("prediction", pa.int32()),
        ("confidence", pa.float32()),
    ]
)

_ROW_GROUP = 1 << 18


class PredictionsWriter:
    """Writes a predictions table batch by batch, in bounded memory.

    The file appears under its name when :meth:`close` has written all of it; a run that stops before leaves
    an earlier file as it was. Use it in a ``with`` block, which closes it, or abandons it on an error.

    Args:
        path: the file to write; its folder is made.
        task: name of the task, kept in the metadata.
        outputs: what the task asks for, kept in the metadata.

    Raises:
        InputError: the folder cannot be written to.
    """

    def __init__(self, path: str | os.PathLike, task: str, outputs: Sequence[Output]):
        described = json.dumps([[output.name, output.location, output.type] for output in outputs])
        self._schema = SCHEMA.with_metadata({"task": task, "outputs": described})
        self._waiting: list[pa.RecordBatch] = []
        self._open = contextlib.ExitStack()
        temporary = self._open.enter_context(atomic_write(path))
        self._parquet = pq.ParquetWriter(temporary, self._schema, compression="zstd")

    def write(
        self,
        set_name: str,
        first_graph: int,
        loop: int,
        output: Output,
        prediction: Tensor,
        target: Tensor,
        confidence: Tensor,
        where: Tensor | None = None,
    ) -> None:
        """Add the answers of one batch to one output after one loop step.

        All three tensors have the shape of the targets in a :class:`~graphalgo.batch.PairBatch`: (b,) for
        mask_one, (b, n) for other node outputs, (b, n, n) for edge outputs. Entries whose target is -1
        (padding included) are left out, unless ``where`` says otherwise.

        Args:
            set_name: the test set.
            first_graph: index, in that set, of the batch's first graph.
            loop: loop step t >= 1.
            output: which output was answered.
            prediction: answers.
            target: truth.
            confidence: probability of each answer, in [0, 1].
            where: True at the entries to write, if not at those with a target.

        Raises:
            InputError: the name of the set is no file name.
        """
        check_set_name(set_name)
        at = (target != NOT_SCORED if where is None else where).nonzero(as_tuple=True)
        axes = [axis.cpu().numpy().astype(np.int32) for axis in at]
        nowhere = np.full(len(axes[0]), -1, np.int32)
        b, i, j = (axes + [nowhere, nowhere])[:3]
        columns = [
            _repeated(set_name, len(b)),
            b + np.int32(first_graph),
            _repeated(output.name, len(b)),
            np.full(len(b), loop, np.int16),
            i,
            j,
            target[at].cpu().numpy().astype(np.int32),
            prediction[at].cpu().numpy().astype(np.int32),
            confidence[at].float().cpu().numpy(),
        ]
        self._waiting.append(pa.record_batch(columns, schema=self._schema))
        if sum(batch.num_rows for batch in self._waiting) >= _ROW_GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left and give the file its name."""
        self._flush()
        self._parquet.close()
        self._open.close()

    def abandon(self) -> None:
        """Remove what was written; an earlier file stays."""
        self._parquet.close()
        error = RuntimeError("predictions abandoned")
        with contextlib.suppress(RuntimeError):
            self._open.__exit__(type(error), error, None)

    def __enter__(self) -> "PredictionsWriter":
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, or abandon if the block raised."""
        if error is None:
            self.close()
        else:
            self.abandon()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema).unify_dictionaries()
            self._parquet.write_table(table)
            self._waiting = []


def check_set_name(name: str) -> None:
    """Refuses a name of a test set that is no file name: files of the run folder are called after it.

    Raises:
        InputError: the name is empty, holds a slash, or names a folder.
    """
    if name in ("", ".", "..") or set(name) & set("/\\\0"):
        raise InputError(
            f"a test set is called {name!r}; expected a name that a file can have, without slashes"
        )


def read_predictions(
    path: str | os.PathLike, set: str | None = None, loop: int | None = None
) -> pd.DataFrame:
    """Read a predictions table, or a part of it.

    Args:
        path: the parquet file.
        set: only this test set.
        loop: only this loop step; :data:`LAST` (-1) for the last one of each set.

    Returns:
        The columns of the module's table, ``set`` and ``output`` categorical. ``attrs["task"]`` is the task
        and ``attrs["outputs"]`` its list of [name, location, type].

    Raises:
        InputError: the file is missing or no predictions table, holds no such set or loop step, or a
            set whose name is no file name.
    """
    path = Path(path)
    table = _read_table(path)
    task, outputs = _read_metadata(path, table)
    for name in table["set"].unique().to_pylist():
        check_set_name(name)
    if set is not None:
        sets = table["set"].unique().to_pylist()
        if set not in sets:
            raise InputError(f"{path} has no test set {set!r}; it has {', '.join(map(repr, sets))}")
        table = table.filter(pc.equal(table["set"].cast(pa.string()), set))
    frame = table.to_pandas()
    if loop is not None:
        last = frame.groupby("set", observed=True)["loop"].transform("max")
        chosen = frame[frame["loop"] == (last if loop == LAST else loop)]
        if len(chosen) == 0 and len(frame) > 0:
            raise InputError(
                f"{path} has no loop step {loop}; it has 1 to {frame['loop'].max()}, and {LAST} for the last"
            )
        frame = chosen.reset_index(drop=True)
    frame.attrs = {"task": task, "outputs": outputs}
    return frame


def _read_table(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path, read_dictionary=["set", "output"])
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read predictions from {path}: {error}") from error
    has_metadata = {b"task", b"outputs"} <= (table.schema.metadata or {}).keys()
    if not has_metadata or not table.schema.equals(SCHEMA):
        raise InputError(f"{path} is no predictions table: its columns are {', '.join(table.column_names)}")
    empty = [name for name in table.column_names if table[name].null_count]
    if empty:
        raise InputError(f"{path} is no predictions table: values are missing from {', '.join(empty)}")
    return table


def _read_metadata(path: Path, table: pa.Table) -> tuple[str, list[list[str]]]:
    """The task and its outputs, [name, location, type] each."""
    try:
        task, described = (table.schema.metadata[key].decode() for key in (b"task", b"outputs"))
        outputs = [[str(word) for word in output] for output in json.loads(described)]
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} does not say which task it is for: {error}") from error
    if any(len(output) != 3 for output in outputs):
        raise InputError(f"{path}: expected outputs as [name, location, type], got {described}")
    return task, outputs


def _repeated(name: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([name]))
