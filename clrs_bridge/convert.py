"""From arrays to PyG ``Data``; the one place that decides what a CLRS graph looks like there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch_geometric.data import Data

from clrs_bridge.algorithms import Graph, one_hot
from clrs_bridge.tasks import Task


def to_data(
    task: Task, graph: Graph, pos: Float[np.ndarray, " n"], outputs: Mapping[str, np.ndarray]
) -> Data:
    """One labelled graph.

    ``edge_index`` holds every edge i -> j in row-major order, self-loops included (both directions of an
    undirected edge), and ``edge_weight`` (float64) its weight where the task has weights. ``pos`` (float64)
    is the position of each vertex, ``s`` (float64) marks the source where the task has one. Targets are int64
    under dm-clrs's names; those of pairs are flattened, entry i * n + j, so that graphs of any size batch.

    Cost: O(n^2).
    """
    i, j = np.nonzero(graph.edge)
    data = Data(edge_index=torch.from_numpy(np.stack([i, j])), num_nodes=graph.num_nodes)
    if task.weighted:
        data.edge_weight = torch.from_numpy(graph.weight[i, j])
    data.pos = torch.tensor(pos, dtype=torch.float64)
    if task.has_source:
        data.s = torch.from_numpy(one_hot(graph.source, graph.num_nodes))
    for output in task.outputs:
        data[output.name] = torch.tensor(outputs[output.name], dtype=torch.int64).flatten()
    return data


def default_positions(num_nodes: int) -> Float[np.ndarray, " n"]:
    """dm-clrs's positions i / n."""
    return np.arange(num_nodes) / num_nodes
