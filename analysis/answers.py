"""What is analysed: the answers of one test set, with the graphs they are about.

Per-entry values (a depth, a margin, a component) are computed graph by graph as flat arrays: one value for an
output with one answer a graph (a mask_one, a graph's pointer), one value a vertex for any other node output,
one value an ordered pair, row by row, for an edge output. :func:`lookup` brings them to the rows of the
predictions table.

Axes: g graph, i row or source, j column or target, t loop step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from graphalgo.batch import NOT_SCORED, Output
from graphalgo.errors import InputError
from graphalgo.predictions import read_predictions
from graphalgo.store import load_graphs


@dataclass(frozen=True)
class Answers:
    """The answers of one test set.

    Attributes:
        task: name of the task.
        set: name of the test set.
        outputs: what the task asks for.
        graphs: the graphs of the set; ``rows["graph"]`` counts them.
        rows: the predictions table of this set, all outputs and loops (columns as in
            ``graphalgo.predictions``).
    """

    task: str
    set: str
    outputs: tuple[Output, ...]
    graphs: list[Data]
    rows: pd.DataFrame

    @property
    def num_loops(self) -> int:
        """Loop iterations of the final answers."""
        return int(self.rows["loop"].max())

    @property
    def sizes(self) -> str:
        """Number of vertices: ``"64"``, or ``"16-64"`` if the graphs differ."""
        sizes = sorted({graph.num_nodes for graph in self.graphs})
        return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"

    def of(self, output: Output) -> pd.DataFrame:
        """All rows of one output."""
        return self.rows[(self.rows["output"] == output.name).to_numpy()]

    def final(self, output: Output) -> pd.DataFrame:
        """The final answers of one output: its rows at the last loop."""
        rows = self.of(output)
        return rows[(rows["loop"] == self.num_loops).to_numpy()]


def read_answers(run_dir: str | Path) -> Iterator[Answers]:
    """Reads the test sets of a run folder, in the order in which they were tested.

    Args:
        run_dir: a run folder with ``test/predictions.parquet`` and ``test/graphs/<set>.safetensors``.

    Yields:
        The answers of each set.

    Raises:
        InputError: there is no run folder, it has not been tested, a file is damaged, or the predictions are
            not about these graphs.
    """
    run_dir = Path(run_dir)
    path = run_dir / "test" / "predictions.parquet"
    if not run_dir.is_dir():
        raise InputError(f"expected a run folder, but there is no folder {run_dir}")
    if not path.is_file():
        raise InputError(f"{run_dir} has no predictions ({path}); run `graphalgo test` on it first")
    table = read_predictions(path)
    if table.empty:
        raise InputError(f"{path} holds no answers; run `graphalgo test` again")
    outputs = tuple(Output(*described) for described in table.attrs["outputs"])
    for name, rows in table.groupby("set", observed=True, sort=False):
        graphs_path = run_dir / "test" / "graphs" / f"{name}.safetensors"
        if not graphs_path.is_file():
            raise InputError(
                f"the graphs of set {name!r} are missing ({graphs_path}); run `graphalgo test` again"
            )
        graphs, meta = load_graphs(graphs_path)
        answers = Answers(table.attrs["task"], str(name), outputs, graphs, carried(rows))
        if meta.get("task", answers.task) != answers.task:
            raise InputError(
                f"{path} is of {answers.task!r}, but the graphs of set {name!r} are of {meta['task']!r}; run "
                "`graphalgo test` again"
            )
        check_answers(answers)
        yield answers


def carried(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with every graph answered after every loop: one that took fewer keeps its final answers.

    Batches of one set may differ in their number of loops, where that goes by the size of their graphs.

    Args:
        rows: the predictions table of one set.
    """
    loops, final = rows["loop"], rows.groupby("graph")["loop"].transform("max")
    missing = range(int(final.min()) + 1, int(loops.max()) + 1)
    later = [rows[(loops == final) & (final < loop)].assign(loop=loops.dtype.type(loop)) for loop in missing]
    return pd.concat([rows, *later], ignore_index=True) if later else rows


def check_answers(answers: Answers) -> None:
    """Refuses answers that are not about these graphs.

    Every row must name an output, a loop, a graph and an entry that exist, with the target that the graph
    gives there.

    Raises:
        InputError: naming the set and what does not fit.
    """
    again = "run `graphalgo test` again"
    unknown = set(answers.rows["output"]) - {output.name for output in answers.outputs}
    if unknown or answers.rows["loop"].min() < 1:
        named = f"outputs {', '.join(sorted(unknown))}" if unknown else f"loop {answers.rows['loop'].min()}"
        raise InputError(
            f"set {answers.set!r}: there are predictions of {named}, which do not exist; {again}"
        )
    for output in answers.outputs:
        rows = answers.of(output)
        misfit = f"set {answers.set!r}: the predictions of {output.name!r} do not belong to its graphs"
        if not all(output.name in graph for graph in answers.graphs):
            raise InputError(f"{misfit}, which have no attribute {output.name!r}; {again}")
        if rows.empty:
            continue
        sizes = np.array([graph.num_nodes for graph in answers.graphs])
        graph = rows["graph"].to_numpy()
        stray = graph[(graph < 0) | (graph >= len(sizes))]
        if stray.size:
            raise InputError(f"{misfit}: there are {len(sizes)}, and graph {stray[0]} is named; {again}")
        limit = sizes[graph]
        outside = np.zeros(len(rows), dtype=bool)
        for axis, column in enumerate(("i", "j")):
            has_axis = axis < output.rank  # without one the column holds -1
            outside |= (rows[column] < (0 if has_axis else -1)) | (rows[column] >= (limit if has_axis else 0))
        if output.type != "mask":
            outside |= (rows["prediction"] < 0) | (rows["prediction"] >= limit)
        if outside.any():
            raise InputError(f"{misfit}: {int(outside.sum())} name a vertex that does not exist; {again}")
        wrong = lookup([true_answers(g, output) for g in answers.graphs], rows) != rows["target"].to_numpy()
        if wrong.any():
            raise InputError(f"{misfit}: {int(wrong.sum())} targets differ; {again}")


def true_answers(graph: Data, output: Output) -> np.ndarray:
    """The flat targets of one graph: (n,) node, (n*n,) edge, (1,) graph or mask_one (the marked vertex)."""
    target = graph[output.name].numpy().reshape(-1)
    if output.type == "mask_one":
        return np.array([NOT_SCORED if (target == NOT_SCORED).any() else target.argmax()])
    return target


def lookup(values: Sequence[np.ndarray], rows: pd.DataFrame) -> np.ndarray:
    """Brings per-entry values to the rows of a predictions table.

    ``out[r] = values[graph_r][i_r]`` for a node output, ``values[graph_r][i_r n + j_r]`` for an edge output,
    ``values[graph_r][0]`` for an output with one answer a graph.

    Args:
        values: for each graph its flat values: (n,), (n*n,) or (1,).
        rows: rows of one output.
    """
    i, j = rows["i"].to_numpy(np.int64), rows["j"].to_numpy(np.int64)
    graph = rows["graph"].to_numpy()
    lengths = np.array([len(value) for value in values])
    starts = np.cumsum(lengths) - lengths
    sides = np.sqrt(lengths).round().astype(np.int64)
    inside = np.where(j >= 0, i * sides[graph] + j, np.maximum(i, 0))
    return np.concatenate(values)[starts[graph] + inside]


def lookup_vertex(values: Sequence[np.ndarray], rows: pd.DataFrame, column: str) -> np.ndarray:
    """Brings per-vertex values to the vertex that a column names: ``out[r] = values[graph_r][column_r]``.

    Args:
        values: for each graph (n,).
        rows: rows of one output.
        column: ``"i"``, ``"j"``, ``"target"`` or ``"prediction"``, holding vertices.
    """
    lengths = np.array([len(value) for value in values])
    starts = np.cumsum(lengths) - lengths
    return np.concatenate(values)[starts[rows["graph"].to_numpy()] + rows[column].to_numpy(np.int64)]


def dense_weights(graph: Data) -> np.ndarray:
    """(n, n) weight of edge i -> j, self-loops included; inf where there is no edge.

    An edge is there if ``edge_index`` names it, whatever its weight.
    """
    weights = np.full((graph.num_nodes, graph.num_nodes), np.inf)
    i, j = graph.edge_index.numpy()
    weights[i, j] = graph.edge_weight.numpy()
    return weights
