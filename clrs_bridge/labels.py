"""Labels for a user's own graphs."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch_geometric.data import Batch, Data

from clrs_bridge.algorithms import Graph, find_cycle_vertices
from clrs_bridge.convert import default_positions, to_data
from clrs_bridge.tasks import Task, get_task
from graphalgo.batch import ToPairBatch
from graphalgo.errors import InputError


def label(data: Data, task: str) -> Data:
    """Labels one graph of your own, so that a model trained on the task can be tested on it.

    Vertices are taken in the order of their index, which decides ties; ``pos`` tells the model that order.

    Args:
        data: a graph, for example from ``torch_geometric.utils.from_networkx``. Read are ``edge_index`` (an
            undirected graph holds both directions of every edge) and ``num_nodes``; for weighted tasks
            ``edge_weight`` or else networkx's ``weight`` (finite, not negative; 0 is a weight); for tasks
            with a source ``s`` (one-hot, ``(n,)``) or else ``source`` (a vertex); and ``pos`` (``(n,)``,
            increasing; by default i / n).
        task: name of the task.

    Returns:
        A new ``Data`` with the attributes that :func:`clrs_bridge.sample` gives, and no others.

    Raises:
        InputError: if edges are out of range or given twice; weights are missing, negative or not finite;
            the task is undirected and a reverse edge is missing or weighs differently; the task needs a DAG
            and there is a cycle; the source is missing; or ``pos`` does not increase.

    Cost: that of the task's algorithm, and O(n^2) for checks.
    """
    chosen = get_task(task)
    if not isinstance(data, Data) or isinstance(data, Batch):
        raise InputError(f"expected one PyG Data, got {type(data).__name__}; label the graphs one by one")
    graph = _graph(chosen, data)
    _check_structure(chosen, graph)
    return to_data(chosen, graph, _positions(data, graph.num_nodes), chosen.algorithm(graph))


def _graph(task: Task, data: Data) -> Graph:
    plain = Data(edge_index=data.edge_index, num_nodes=_num_nodes(data))
    if task.weighted:
        plain.edge_weight = _weights(task, data)
    ToPairBatch(edge_attrs=("edge_weight",) if task.weighted else ())(
        plain
    )  # refuses what is wrong with these
    n = plain.num_nodes
    i, j = plain.edge_index.cpu().numpy()
    edge = np.zeros((n, n), dtype=bool)
    edge[i, j] = True
    weight = None
    if task.weighted:
        weight = np.zeros((n, n))
        weight[i, j] = plain.edge_weight.cpu().numpy()
    return Graph(edge, weight, _source(task, data, n) if task.has_source else None)


def _num_nodes(data: Data) -> int | None:
    if "num_nodes" in data:
        return data.num_nodes
    given = (_numbers(data, name) for name in ("x", "pos", "s") if name in data)
    return next((value.size(0) for value in given if value.dim() > 0), None)


def _numbers(data: Data, name: str) -> Tensor:
    """An attribute as float64, be it a tensor, an array, a list or a number."""
    try:
        # By way of numpy: torch would read a list of numbers in single precision.
        value = data[name] if isinstance(data[name], Tensor) else torch.tensor(np.asarray(data[name]))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"expected numbers in data.{name}, got {data[name]!r}") from error
    if value.is_complex() or value.layout != torch.strided:
        raise InputError(f"expected dense real numbers in data.{name}, got {value.dtype} {value.layout}")
    return value.double()


def _weights(task: Task, data: Data) -> Tensor:
    name = next((name for name in ("edge_weight", "weight") if name in data), None)
    if name is None:
        if data.edge_index is not None and data.edge_index.numel() == 0:
            return torch.zeros(0, dtype=torch.float64)
        raise InputError(f"{task.name} needs weights: set data.edge_weight, one value an edge")
    weight = _numbers(data, name)
    if weight.dim() == 2 and weight.size(1) == 1:
        weight = weight.squeeze(1)
    if weight.dim() != 1:
        raise InputError(f"expected one weight an edge in data.{name}, got the shape {list(weight.shape)}")
    return weight


def _source(task: Task, data: Data, num_nodes: int) -> int:
    if "s" in data:
        marks = _numbers(data, "s")
        if marks.shape != (num_nodes,) or not ((marks == 0) | (marks == 1)).all() or marks.sum() != 1:
            raise InputError(
                f"data.s must mark exactly one of {num_nodes} vertices as the source, with a 1 among zeros; "
                f"it has the shape {list(marks.shape)} and marks {int((marks != 0).sum())}"
            )
        return int(marks.argmax())
    if "source" not in data:
        raise InputError(f"{task.name} needs a source: set data.source to a vertex, or data.s to its one-hot")
    vertex = _numbers(data, "source")
    if vertex.numel() != 1 or not vertex.item().is_integer():
        raise InputError(f"data.source must be one vertex, a whole number, got {data.source!r}")
    source = int(vertex.item())
    if not 0 <= source < num_nodes:
        raise InputError(f"the source is vertex {source}, outside 0..{num_nodes - 1}")
    return source


def _positions(data: Data, num_nodes: int) -> Float[np.ndarray, " n"]:
    if "pos" not in data:
        return default_positions(num_nodes)
    pos = _numbers(data, "pos").cpu().numpy()
    if pos.shape != (num_nodes,) or not (np.isfinite(pos).all() and (np.diff(pos) > 0).all()):
        raise InputError(
            f"data.pos must hold one number a vertex, increasing with its index, which decides ties; got the "
            f"shape {list(pos.shape)}. Delete it to get i / {num_nodes}"
        )
    return pos


def _check_structure(task: Task, graph: Graph) -> None:
    if not task.directed:
        one_way = np.argwhere(graph.edge & ~graph.edge.T)
        if one_way.size:
            i, j = one_way[0]
            raise InputError(
                f"{task.name} needs an undirected graph, but {len(one_way)} edges lack their reverse "
                f"(the first: {i} -> {j}); add it (torch_geometric.utils.to_undirected)"
            )
        if task.weighted and (graph.weight != graph.weight.T).any():
            i, j = np.argwhere(graph.weight != graph.weight.T)[0]
            raise InputError(
                f"{task.name} needs equal weights in both directions, but {i} -> {j} weighs "
                f"{graph.weight[i, j]:g} and {j} -> {i} weighs {graph.weight[j, i]:g}"
            )
    if task.acyclic:
        stuck = find_cycle_vertices(graph.edge)
        if stuck.size:
            raise InputError(
                f"{task.name} needs a graph without cycles, but vertices {stuck[:8].tolist()} lie on a "
                "cycle or behind one (a self-loop is a cycle)"
            )
