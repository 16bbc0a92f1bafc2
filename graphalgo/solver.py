"""PathSolver: a model of the path-search task asked about graphs with any vertices, one step or a whole way.

Axes: b graph (one), i row or source, j column or target, c channel, r chosen row.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphalgo.batch import PairBatch
from graphalgo.errors import InputError
from graphalgo.metrics import decide
from graphalgo.mixers import Propagator
from graphalgo.module import PairModule

DEFAULT = "search_propagator"
"""The weights that are taken if none are named."""

ASKED = ("start", "goal", "current")
"""The marks of a question, which the model reads as node attributes."""


@dataclass(frozen=True)
class Candidate:
    """A child of the current vertex, as the model sees it.

    Attributes:
        vertex: its label.
        probability: that the model gives it, among all vertices of the graph.
        log_walk_weight: of each propagator channel log X at (current, child) in the last iteration: how much
            walks of every length weigh, -667.7 standing for no walk. Which walks a channel follows, and how
            it is read, the model has learned. None if the model has no propagator.
    """

    vertex: Hashable
    probability: float
    log_walk_weight: tuple[float, ...] | None


@dataclass(frozen=True)
class NextVertex:
    """The answer to one question.

    Attributes:
        vertex: the child of the current vertex that the model prefers.
        candidates: all children, the preferred one first; of equals, the first in the graph's order.
        model_choice: what the model itself prefers among all vertices; another one than ``vertex`` only if it
            is no child of the current vertex.
    """

    vertex: Hashable
    candidates: tuple[Candidate, ...]
    model_choice: Hashable


@dataclass(frozen=True)
class Route:
    """A way found by repeated asking.

    Attributes:
        vertices: from the start on.
        reached: whether the last one is the goal.
        note: why it ends there.
    """

    vertices: tuple[Hashable, ...]
    reached: bool
    note: str


class PathSolver:
    """Asks a model of the search task for the next vertex on the way to a goal.

    A graph is a networkx graph of any kind with any labels, or a PyG ``Data``, whose vertices are whole
    numbers. Parallel edges count once; an undirected graph has each edge both ways; weights are not looked
    at. Loops at a vertex, and vertices without any edge, are left out: they are on no way.

    Models are trained on directed graphs without cycles. Others, undirected ones among them, get an answer
    too, but nothing in the training vouches for it. A model cannot tell for sure whether the goal can be
    reached, and names a child in any case; so that is checked exactly beforehand (``check``).

    Args:
        module: a trained module of the search task.

    Raises:
        InputError: if the module is of another task.

    Cost: a question takes O(n²) memory and, with a propagator or a sum over a middle vertex, O(n³) time.

    Example:
        >>> solver = PathSolver.from_pretrained()
        >>> answer = solver.next_vertex(nx.DiGraph([("a", "b"), ("b", "d"), ("a", "c")]), "a", "d")
        >>> answer.vertex
        'b'
    """

    def __init__(self, module: PairModule):
        if not isinstance(module, PairModule):
            raise InputError(f"expected a PairModule, got a {type(module).__name__}")
        asked = module.to_pairs
        if asked.vertex_attrs:
            raise InputError(
                "the model reads questions as tokens, over names of vertices (as search/*_names do); a "
                "PathSolver needs one over pair features, such as search/propagator"
            )
        others = {*asked.node_attrs, *asked.edge_attrs, *asked.order_attrs} - {*ASKED}
        kinds = [(output.location, output.type) for output in module.outputs]
        if others or kinds != [("graph", "pointer")] or asked.row_attr != "current":
            outputs = ", ".join(f"{out.name} ({out.location} {out.type})" for out in module.outputs)
            also = f" and reads {', '.join(sorted(others))}" if others else ""
            raise InputError(
                f"the model is for the task {module.task!r}: it answers {outputs}{also}; a PathSolver needs "
                "one of the path-search task, which answers the next vertex by start, goal and current alone"
            )
        self.module = module
        self.output = module.outputs[0]

    @classmethod
    def from_pretrained(cls, name: str | Path = DEFAULT) -> PathSolver:
        """The solver of weights that come with the package; see :meth:`PairModule.from_pretrained`."""
        return cls(PairModule.from_pretrained(name))

    @classmethod
    def from_run(cls, run_dir: str | Path, checkpoint: str = "last") -> PathSolver:
        """The solver of a run of one's own; see :meth:`PairModule.from_run`."""
        return cls(PairModule.from_run(run_dir, checkpoint))

    def next_vertex(
        self,
        graph: nx.Graph | Data,
        start: Hashable,
        goal: Hashable,
        current: Hashable | None = None,
        check: bool = True,
    ) -> NextVertex:
        """The next vertex on the way from the current vertex to the goal.

        Args:
            graph: see the class.
            start: where the way began.
            goal: where it is to end.
            current: where it is now; at the start if not given. The model does not see the way so far.
            check: refuse questions that have no answer: the goal cannot be reached from the current vertex,
                or that not from the start.

        Raises:
            InputError: if the graph has no vertices, a vertex is not one of them, the current vertex is the
                goal or has no child, or what ``check`` says.
        """
        children = _children(graph)
        current = start if current is None else current
        for name, vertex in (("start", start), ("goal", goal), ("current vertex", current)):
            _check_known(name, vertex, children)
        if current == goal:
            raise InputError(f"already there: the current vertex {current!r} is the goal")
        if not children[current]:
            raise InputError(f"there is no next vertex: no edge leads from {current!r} to another vertex")
        if check and goal not in _reached(children, current):
            raise InputError(
                f"no way leads from {current!r} to the goal {goal!r}; the model would name a child all the "
                "same"
            )
        if check and current not in _reached(children, start):
            raise InputError(
                f"no way leads from the start {start!r} to the current vertex {current!r}, as if it had been "
                "taken so far"
            )
        return self._ask(children, start, goal, current)

    def route(
        self,
        graph: nx.Graph | Data,
        start: Hashable,
        goal: Hashable,
        max_steps: int | None = None,
        check: bool = True,
    ) -> Route:
        """The way that asking again and again for the next vertex leads.

        It ends at the goal, at a vertex without children, or at a vertex that it had passed before, which is
        then listed twice.

        Args:
            graph: see the class.
            start: where it begins.
            goal: where it is to end.
            max_steps: end after so many steps; any number if not given.
            check: end as well where the goal cannot be reached any more.

        Raises:
            InputError: if the graph has no vertices, or start or goal are not among them.
        """
        children = _children(graph)
        for name, vertex in (("start", start), ("goal", goal)):
            _check_known(name, vertex, children)
        if max_steps is not None and max_steps < 0:
            raise InputError(f"max_steps must not be negative, got {max_steps}")
        way = [start]
        while (note := _end(children, way, goal, max_steps, check)) is None:
            way.append(self._ask(children, start, goal, way[-1]).vertex)
        return Route(tuple(way), way[-1] == goal, note)

    def _ask(self, children: _Children, start: Hashable, goal: Hashable, current: Hashable) -> NextVertex:
        named = {start, goal, current}
        heads = {child for of_one in children.values() for child in of_one}
        vertices = [vertex for vertex, own in children.items() if own or vertex in heads or vertex in named]
        at = {vertex: place for place, vertex in enumerate(vertices)}
        edges = [(at[vertex], at[child]) for vertex in vertices for child in children[vertex]]
        data = Data(edge_index=torch.tensor(edges).reshape(-1, 2).T, num_nodes=len(vertices))
        for name, vertex in zip(ASKED, (start, goal, current), strict=True):
            data[name] = torch.zeros(len(vertices))
            data[name][at[vertex]] = 1
        batch = self.module.to_pairs(data).to(self.module.device)
        logits, log_x = self._run(batch)
        choice = int(decide(self.output, logits)[0])
        probability = logits[0].double().softmax(dim=-1).tolist()
        order = sorted(children[current], key=lambda child: -float(logits[0, at[child]]))
        candidates = [
            Candidate(
                child,
                probability[at[child]],
                None if log_x is None else tuple(log_x[at[child]].tolist()),
            )
            for child in order
        ]
        return NextVertex(order[0], tuple(candidates), vertices[choice])

    def _run(self, batch: PairBatch) -> tuple[Tensor, Tensor | None]:
        """Logits (1, n), and log X (n, channels) of the row of the current vertex in the last iteration."""
        with torch.inference_mode(), _walk_weights(self.module, int(batch.row[0])) as seen:
            logits = self.module(batch)[self.output.name]
        return logits.cpu(), torch.cat(seen, dim=-1).cpu() if seen else None


_Children = dict[Hashable, list[Hashable]]
"""Every vertex of a graph with its children, each once and never itself, in the graph's order."""


def _children(graph: nx.Graph | Data) -> _Children:
    if isinstance(graph, Data):
        children = _children_of_data(graph)
    elif isinstance(graph, nx.Graph):
        children = {vertex: [child for child in graph.adj[vertex] if child != vertex] for vertex in graph}
    else:
        raise InputError(f"expected a networkx graph or a PyG Data, got a {type(graph).__name__}")
    if not children:
        raise InputError("the graph has no vertices")
    return children


def _children_of_data(graph: Data) -> _Children:
    edges, n = graph.edge_index, graph.num_nodes if "num_nodes" in graph or "x" in graph else None
    if not isinstance(n, int):
        raise InputError(
            "the number of vertices is not known (isolated ones do not show in edge_index); set num_nodes"
        )
    if not isinstance(edges, Tensor) or edges.dtype != torch.int64 or edges.dim() != 2 or edges.size(0) != 2:
        raise InputError("expected an edge_index of shape [2, E] and dtype int64")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < n:
        raise InputError(
            f"edge_index names vertices {int(edges.min())}..{int(edges.max())}, there are 0..{n - 1}"
        )
    children: dict[Hashable, dict[Hashable, None]] = {vertex: {} for vertex in range(n)}
    for vertex, child in edges.T.tolist():
        if child != vertex:
            children[vertex][child] = None
    return {vertex: list(own) for vertex, own in children.items()}


def _check_known(name: str, vertex: Any, children: _Children) -> None:
    try:
        if vertex in children:
            return
    except TypeError as error:
        raise InputError(f"the {name} must be a vertex, which is hashable, got {vertex!r}") from error
    labels = {str(label): label for label in children}
    close = difflib.get_close_matches(str(vertex), labels, n=3)
    hint = ", ".join(repr(labels[label]) for label in close)
    few = ", ".join(repr(label) for label in list(children)[:5])
    raise InputError(
        f"the {name} {vertex!r} is no vertex of the graph; "
        + (
            f"did you mean {hint}?"
            if close
            else f"it has {len(children)}: {few}{', …' * (len(children) > 5)}"
        )
    )


def _reached(children: _Children, vertex: Hashable) -> set[Hashable]:
    """What can be reached from a vertex, itself included."""
    reached, waiting = {vertex}, [vertex]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in reached]
        reached.update(new)
        waiting += new
    return reached


def _end(
    children: _Children, way: Sequence[Hashable], goal: Hashable, max_steps: int | None, check: bool
) -> str | None:
    """Why a way ends where it is; None if it goes on."""
    at, steps = way[-1], len(way) - 1
    if at == goal:
        return "the start is the goal" if steps == 0 else f"reached the goal in {_count(steps)}"
    if at in way[:-1]:
        return f"went in a circle: {at!r} was passed before"
    if check and goal not in _reached(children, at):
        if steps == 0:
            return f"no way leads from the start {at!r} to the goal {goal!r}"
        return f"took a wrong turn after {way[-2]!r}: no way leads from {at!r} to the goal {goal!r}"
    if not children[at]:
        return f"came to a dead end: no edge leads on from {at!r}"
    if max_steps is not None and steps >= max_steps:
        return f"stopped after {_count(steps)}, as max_steps says"
    return None


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


@contextlib.contextmanager
def _walk_weights(module: PairModule, row: int) -> Iterator[list[Tensor]]:
    """Collects log X (n, channels) of a row from each propagator's last call, when the body has ended."""
    last: dict[torch.nn.Module, Tensor] = {}

    def note(mixer: torch.nn.Module, _: Any, output: Tensor) -> None:
        of_row = output[0, 0 if output.size(1) == 1 else row]
        last[mixer] = of_row[:, : mixer.channels // 2]

    found: list[Tensor] = []
    mixers = [mixer for mixer in module.modules() if isinstance(mixer, Propagator)]
    hooks = [mixer.register_forward_hook(note) for mixer in mixers]
    try:
        with torch.compiler.set_stance("force_eager"):  # a compiled block would not call the hooks
            yield found
    finally:
        for hook in hooks:
            hook.remove()
    found += [last[mixer] for mixer in mixers if mixer in last]
