"""The twelve graph tasks of CLRS-30: what goes in, what comes out, and how graphs are drawn by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clrs_bridge import algorithms, random_graphs
from graphalgo.batch import Output, ToPairBatch
from graphalgo.errors import InputError


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: dm-clrs's name.
        outputs: what is asked for, in dm-clrs's order.
        algorithm: labels a graph.
        random_graph: draws an adjacency matrix from (generator, number of vertices, edge probability).
        directed: whether edges have a direction; if not, edges and weights are symmetric.
        acyclic: whether the graph must be a DAG.
        weighted: whether edges carry a weight.
        has_source: whether one vertex is marked as the start.
        edge_prob: default probability p of drawing a pair. An undirected edge is there with p squared.
        min_nodes: smallest graph that dm-clrs can draw.
    """

    name: str
    outputs: tuple[Output, ...]
    algorithm: Callable[[algorithms.Graph], algorithms.Outputs]
    random_graph: Callable[[np.random.RandomState, int, float], np.ndarray]
    directed: bool = False
    acyclic: bool = False
    weighted: bool = False
    has_source: bool = False
    edge_prob: float = 0.5
    min_nodes: int = 2

    def to_pair_batch(self) -> ToPairBatch:
        """The transform (and collate function) from this task's graphs to a ``PairBatch``."""
        return ToPairBatch(
            node_attrs=("pos", "s") if self.has_source else ("pos",),
            edge_attrs=("edge_weight",) if self.weighted else (),
            order_attrs=("pos",),
            outputs=self.outputs,
        )


_PARENT = (Output("pi", "node", "pointer"),)

_ALL = (
    Task("bfs", _PARENT, algorithms.bfs, random_graphs.undirected, has_source=True),
    Task("dfs", _PARENT, algorithms.dfs, random_graphs.directed, directed=True),
    Task(
        "topological_sort",
        (Output("topo", "node", "pointer"), Output("topo_head", "node", "mask_one")),
        algorithms.topological_sort,
        random_graphs.acyclic,
        directed=True,
        acyclic=True,
    ),
    Task(
        "articulation_points",
        (Output("is_cut", "node", "mask"),),
        algorithms.articulation_points,
        random_graphs.undirected,
        edge_prob=0.2,
    ),
    Task(
        "bridges",
        (Output("is_bridge", "edge", "mask"),),
        algorithms.bridges,
        random_graphs.undirected,
        edge_prob=0.2,
    ),
    Task(
        "strongly_connected_components",
        (Output("scc_id", "node", "pointer"),),
        algorithms.strongly_connected_components,
        random_graphs.communities,
        directed=True,
        min_nodes=random_graphs.NUM_COMMUNITIES,
    ),
    Task(
        "mst_kruskal",
        (Output("in_mst", "edge", "mask"),),
        algorithms.mst_kruskal,
        random_graphs.weighted_undirected,
        weighted=True,
        edge_prob=0.2,
    ),
    Task(
        "mst_prim",
        _PARENT,
        algorithms.mst_prim,
        random_graphs.weighted_undirected,
        weighted=True,
        has_source=True,
    ),
    Task(
        "bellman_ford",
        _PARENT,
        algorithms.bellman_ford,
        random_graphs.weighted_undirected,
        weighted=True,
        has_source=True,
    ),
    Task(
        "dijkstra",
        _PARENT,
        algorithms.dijkstra,
        random_graphs.weighted_undirected,
        weighted=True,
        has_source=True,
    ),
    Task(
        "dag_shortest_paths",
        _PARENT,
        algorithms.dag_shortest_paths,
        random_graphs.weighted_acyclic,
        directed=True,
        acyclic=True,
        weighted=True,
        has_source=True,
    ),
    Task(
        "floyd_warshall",
        (Output("Pi", "edge", "pointer"),),
        algorithms.floyd_warshall,
        random_graphs.weighted_undirected,
        weighted=True,
    ),
)

TASKS: dict[str, Task] = {task.name: task for task in _ALL}
"""The twelve tasks by name."""


def get_task(name: str) -> Task:
    """The task of this name.

    Raises:
        InputError: if there is none.
    """
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; the tasks are {', '.join(TASKS)}")
    return TASKS[name]
