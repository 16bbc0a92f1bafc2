"""Random labelled graphs of the twelve tasks, identical to dm-clrs's for equal seeds and far cheaper."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from torch_geometric.data import Data

from clrs_bridge.algorithms import Graph, Outputs, one_hot
from clrs_bridge.convert import default_positions, to_data
from clrs_bridge.tasks import Task, get_task
from graphalgo.errors import InputError

OFFICIAL_SPLITS: dict[str, dict[str, int]] = {
    "train": {"num_nodes": 16, "num_samples": 1000, "seed": 1},
    "val": {"num_nodes": 16, "num_samples": 32, "seed": 2},
    "test": {"num_nodes": 64, "num_samples": 32, "seed": 3},
}
"""The splits of CLRS-30."""

_MAX_SEED = 2**32 - 1
_POSITION_STREAM = 1


def sample(
    task: str,
    num_nodes: int,
    num_samples: int,
    seed: int,
    edge_prob: float | Sequence[float] | None = None,
    random_pos: bool = False,
) -> list[Data]:
    """Draws labelled graphs.

    The graphs and labels are those of ``clrs.build_sampler(task, num_samples=num_samples, seed=seed,
    length=num_nodes)``, entry by entry; ``edge_prob`` is what dm-clrs calls p. The first graphs of a longer
    sample are the shorter sample.

    Args:
        task: name of the task.
        num_nodes: vertices of each graph, at least 2 (strongly_connected_components: 4) as in dm-clrs.
        num_samples: number of graphs, at least 1.
        seed: whole number in 0..2**32 - 1.
        edge_prob: probability in (0, 1] of drawing a pair of vertices, or several of which each graph draws
            one. An undirected edge needs both of its directions, hence has the probability squared. By
            default the task's own.
        random_pos: replaces the positions i / n by sorted draws from U[0, 1). They come from a generator of
            their own, ``RandomState([seed, 1])``, so that the graphs stay as they are; they equal those of
            dm-clrs's ``process_random_pos`` with that generator and the whole sample as one batch.

    Returns:
        One ``Data`` a graph; :func:`clrs_bridge.convert.to_data` says what it holds.

    Raises:
        InputError: if an argument is out of range.
    """
    chosen = get_task(task)
    num_nodes, num_samples, seed = checked_counts(chosen, num_nodes, num_samples, seed)
    drawn = _draw(chosen, num_nodes, num_samples, seed, edge_prob)
    positions = _positions(num_nodes, num_samples, seed, random_pos)
    return [
        to_data(chosen, graph, pos, outputs)
        for (_, graph, outputs), pos in zip(drawn, positions, strict=True)
    ]


def official(task: str, split: str) -> list[Data]:
    """The graphs of a CLRS-30 split: train (1000 of 16 vertices), val (32 of 16) or test (32 of 64).

    Raises:
        InputError: if the task or the split is unknown.
    """
    if split not in OFFICIAL_SPLITS:
        raise InputError(f"unknown split {split!r}; the splits are {', '.join(OFFICIAL_SPLITS)}")
    return sample(task, **OFFICIAL_SPLITS[split])


def raw_sample(
    task: str,
    num_nodes: int,
    num_samples: int,
    seed: int,
    edge_prob: float | Sequence[float] | None = None,
    random_pos: bool = False,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The same graphs as :func:`sample`, as dm-clrs's arrays: inputs and outputs by name.

    Order, shapes and dtypes are dm-clrs's. Every array has the graph as its first axis; ``adj`` is 1.0 on
    edges and on the whole diagonal.

    Args:
        task: see :func:`sample`.
        num_nodes: see :func:`sample`.
        num_samples: see :func:`sample`.
        seed: see :func:`sample`.
        edge_prob: see :func:`sample`.
        random_pos: see :func:`sample`.

    Raises:
        InputError: if an argument is out of range.
    """
    chosen = get_task(task)
    num_nodes, num_samples, seed = checked_counts(chosen, num_nodes, num_samples, seed)
    drawn = list(_draw(chosen, num_nodes, num_samples, seed, edge_prob))
    matrices = np.stack([matrix for matrix, _, _ in drawn])
    inputs = {"pos": _positions(num_nodes, num_samples, seed, random_pos)}
    if chosen.has_source:
        inputs["s"] = np.stack([one_hot(graph.source, num_nodes) for _, graph, _ in drawn])
    inputs["A"] = matrices
    inputs["adj"] = ((matrices != 0) | np.eye(num_nodes, dtype=bool)).astype(float)
    outputs = {
        output.name: np.stack([labels[output.name] for _, _, labels in drawn]) for output in chosen.outputs
    }
    return inputs, outputs


def _draw(
    task: Task, num_nodes: int, num_samples: int, seed: int, edge_prob: float | Sequence[float] | None
) -> Iterator[tuple[np.ndarray, Graph, Outputs]]:
    """Adjacency matrix as drawn, graph and outputs, one graph after the other."""
    probs = checked_probs(task, edge_prob)
    rng = np.random.RandomState(seed)
    for _ in range(num_samples):
        matrix = task.random_graph(rng, num_nodes, rng.choice(probs))
        source = int(rng.choice(num_nodes)) if task.has_source else None
        graph = Graph(matrix != 0, matrix if task.weighted else None, source)
        yield matrix, graph, task.algorithm(graph)


def _positions(num_nodes: int, num_samples: int, seed: int, random_pos: bool) -> Float[np.ndarray, "b n"]:
    if random_pos:
        rng = np.random.RandomState([seed, _POSITION_STREAM])
        return np.sort(rng.uniform(size=(num_samples, num_nodes)), axis=1)
    return np.tile(default_positions(num_nodes), (num_samples, 1))


def checked_probs(task: Task, edge_prob: float | Sequence[float] | None) -> tuple[float, ...]:
    """The probabilities that each graph draws one of, as plain numbers.

    Raises:
        InputError: if there is none, or one out of range.
    """
    if edge_prob is None:
        return (task.edge_prob,)
    probs = tuple(np.atleast_1d(edge_prob).tolist())
    if not probs or not all(isinstance(p, numbers.Real) and 0 < p <= 1 for p in probs):
        raise InputError(f"edge_prob must be one or several probabilities in (0, 1], got {edge_prob!r}")
    return tuple(float(p) for p in probs)


def checked_counts(task: Task, num_nodes: int, num_samples: int, seed: int) -> tuple[int, int, int]:
    """Number of vertices, number of graphs and seed, as plain whole numbers.

    Raises:
        InputError: if one is no whole number, or out of range.
    """
    for name, value in (("num_nodes", num_nodes), ("num_samples", num_samples), ("seed", seed)):
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise InputError(f"{name} must be a whole number, got {value!r}")
    if num_nodes < task.min_nodes:
        raise InputError(f"{task.name} needs num_nodes of at least {task.min_nodes}, got {num_nodes}")
    if num_samples < 1:
        raise InputError(f"num_samples must be at least 1 (no graphs were asked for), got {num_samples}")
    if not 0 <= seed <= _MAX_SEED:
        raise InputError(f"seed must lie in 0..{_MAX_SEED}, got {seed}")
    return int(num_nodes), int(num_samples), int(seed)
