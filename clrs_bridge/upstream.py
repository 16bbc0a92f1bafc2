"""dm-clrs itself: its Feedback as PyG ``Data``, and fresh Feedback to compare with.

The only file that imports dm-clrs, and only inside functions: the import takes seconds and hundreds of
megabytes, because it brings TensorFlow and JAX.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from torch_geometric.data import Data

from clrs_bridge.algorithms import Graph
from clrs_bridge.convert import to_data
from clrs_bridge.tasks import Task, get_task
from graphalgo.errors import InputError


def from_feedback(feedback: Any, task: str) -> list[Data]:
    """The graphs of a dm-clrs ``Feedback``, as :func:`clrs_bridge.sample` would give them.

    Reads inputs and outputs, whatever their number of graphs, positions, edge probabilities, truncation and
    array library (numpy or JAX); hints and lengths are left out. dm-clrs is not imported.

    Args:
        feedback: what a dm-clrs sampler's ``next`` or dataset iterator returns; not a chunked one.
        task: name of the task.

    Returns:
        One ``Data`` a graph; :func:`clrs_bridge.convert.to_data` says what it holds.

    Raises:
        InputError: if the Feedback is chunked over time, is of another task, or has inconsistent shapes.

    Cost: O(n^2) a graph.
    """
    chosen = get_task(task)
    if hasattr(feedback.features, "is_first"):
        raise InputError(
            "expected a whole Feedback, got one chunked over time; use the sampler without chunkify"
        )
    inputs = _arrays(feedback.features.inputs)
    outputs = _arrays(feedback.outputs)
    _check_feedback(chosen, inputs, outputs)
    graphs = []
    for b, matrix in enumerate(inputs["A"]):
        edge = matrix != 0
        weight = matrix.astype(np.float64) if chosen.weighted else None
        source = int(inputs["s"][b].argmax()) if chosen.has_source else None
        labels = {output.name: outputs[output.name][b] for output in chosen.outputs}
        graphs.append(to_data(chosen, Graph(edge, weight, source), inputs["pos"][b], labels))
    return graphs


def feedback_sample(
    task: str,
    num_nodes: int,
    num_samples: int,
    seed: int,
    edge_prob: float | Sequence[float] | None = None,
    random_pos: np.random.RandomState | None = None,
) -> Any:
    """A Feedback of all graphs of a fresh dm-clrs sampler; what :func:`clrs_bridge.sample` must equal.

    Args:
        task: name of the task.
        num_nodes: vertices of each graph.
        num_samples: number of graphs.
        seed: seed of the sampler.
        edge_prob: dm-clrs's p, one or several; by default the sampler's own.
        random_pos: generator of dm-clrs's ``process_random_pos``; by default positions are i / n.

    Raises:
        ImportError: if dm-clrs is not installed.
    """
    clrs = import_clrs()
    kwargs = {} if edge_prob is None else {"p": tuple(np.atleast_1d(edge_prob))}
    sampler, _ = clrs.build_sampler(task, num_samples=num_samples, seed=seed, length=num_nodes, **kwargs)
    feedback = sampler.next()
    if random_pos is not None:
        feedback = next(clrs.process_random_pos(iter([feedback]), random_pos))
    return feedback


def import_clrs() -> ModuleType:
    """The module ``clrs``, imported without its start-up warnings and TensorFlow's notices.

    Raises:
        ImportError: if dm-clrs is not installed.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read by TensorFlow while it is imported
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import clrs
    except ModuleNotFoundError as error:
        raise ImportError(
            f"dm-clrs could not be imported ({error}); install it with: pip install 'graphalgo[clrs]'"
        ) from error
    return clrs


def _arrays(points: Sequence[Any]) -> dict[str, np.ndarray]:
    return {point.name: np.asarray(point.data) for point in points}


def _check_feedback(task: Task, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    expected = {"pos": "bn", "A": "bnn"} | ({"s": "bn"} if task.has_source else {})
    expected |= {output.name: "bn" if output.location == "node" else "bnn" for output in task.outputs}
    missing = [name for name in expected if name not in inputs | outputs]
    if missing:
        raise InputError(
            f"this Feedback is not of {task.name}: it lacks {', '.join(missing)} "
            f"(inputs {', '.join(inputs)}; outputs {', '.join(outputs)})"
        )
    b, n = inputs["pos"].shape[0], inputs["pos"].shape[-1]
    for name, axes in expected.items():
        array = (inputs | outputs)[name]
        wanted = (b, n) if axes == "bn" else (b, n, n)
        if array.shape != wanted:
            raise InputError(f"{name} of {task.name}: expected the shape {wanted}, got {array.shape}")
    for output in task.outputs:
        if (outputs[output.name] != np.rint(outputs[output.name])).any():
            raise InputError(f"{output.name} of {task.name} holds values that are not whole numbers")
    if task.has_source and ((inputs["s"] != 0).sum(axis=1) != 1).any():
        raise InputError(f"s of {task.name} must mark exactly one vertex of each graph")
