"""PairBatch: dense pair features of a batch of graphs, and the one way from PyG ``Data`` into it.

Axes, here and in every tensor file: b graph, i row or source, j column or target, k middle, c channel,
h head, t loop step, q class, f input feature, n vertices of the largest graph of the batch.

Values are checked here and nowhere else: what a :class:`PairBatch` holds can be used without further checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field
from numbers import Integral
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData
from torch_geometric.transforms import BaseTransform

from graphalgo.errors import InputError

KINDS = (
    ("node", "pointer"),
    ("node", "mask"),
    ("node", "mask_one"),
    ("edge", "pointer"),
    ("edge", "mask"),
    ("graph", "pointer"),
)
"""Every (location, type) of an output."""

NOT_SCORED = -1
"""Target value of an entry that is neither trained on nor scored (padding, and dm-clrs's masked entries)."""


@dataclass(frozen=True)
class Output:
    """One thing a task asks for, in dm-clrs's words.

    Attributes:
        name: attribute of the ``Data`` that holds the truth.
        location: ``"node"`` (one answer a vertex), ``"edge"`` (one answer an ordered pair), or ``"graph"``
            (one answer a graph).
        type: ``"pointer"`` (a vertex), ``"mask"`` (0 or 1), or ``"mask_one"`` (one vertex of the graph).

    A node's mask_one and a graph's pointer both are one vertex of the graph. The former is labelled one-hot
    and read from each vertex's own pairs; the latter is labelled with the vertex and read, as a pointer is,
    from the row of one vertex, which the graph's ``row_attr`` marks (see :class:`ToPairBatch`).

    Raises:
        InputError: if there is no such kind of output.
    """

    name: str
    location: Literal["node", "edge", "graph"]
    type: Literal["pointer", "mask", "mask_one"]

    def __post_init__(self):
        if (self.location, self.type) not in KINDS:
            kinds = ", ".join(f"{location} {type}" for location, type in KINDS)
            raise InputError(
                f"the output {self.name!r} is a {self.location} {self.type}; expected one of {kinds}"
            )

    @property
    def rank(self) -> int:
        """Axes of an answer beside the batch: 0 for one answer a graph, 1 a vertex, 2 an ordered pair."""
        return 0 if self.type == "mask_one" else ("graph", "node", "edge").index(self.location)


@dataclass
class PairBatch:
    """A batch of graphs as dense pair features; the only thing a model takes.

    Attributes:
        x: features of every ordered pair (u, v); exactly 0 where u or v is padding.
        mask: True at real vertices.
        targets: truth by output name. Node pointer and node mask ``(b, n)``, edge pointer and edge mask
            ``(b, n, n)``, mask_one and graph pointer ``(b,)`` (the vertex). Entries that are not scored
            hold -1.
        accepted: by name of a graph pointer, True at every vertex that is a right answer, where there may be
            several; the target is one of them.
        row: of each graph the vertex whose row graph pointers are read from; None if there are none.
        vertices: features of vertices that are not spread over pairs; 0 at padding.
    """

    x: Float[Tensor, "b n n f"]
    mask: Bool[Tensor, "b n"]
    targets: dict[str, Int[Tensor, b * rest]] = field(default_factory=dict)
    accepted: dict[str, Bool[Tensor, "b n"]] = field(default_factory=dict)
    row: Int[Tensor, " b"] | None = None
    vertices: Float[Tensor, "b n v"] | None = None

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.mask.size(0)

    @property
    def num_nodes(self) -> Int[Tensor, " b"]:
        """Number of real vertices of each graph."""
        return self.mask.sum(dim=1)

    def _map(self, fn: Callable[[Tensor], Tensor]) -> PairBatch:
        return PairBatch(
            fn(self.x),
            fn(self.mask),
            {name: fn(target) for name, target in self.targets.items()},
            {name: fn(accepted) for name, accepted in self.accepted.items()},
            None if self.row is None else fn(self.row),
            None if self.vertices is None else fn(self.vertices),
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PairBatch:
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> PairBatch:
        """The same batch in page-locked memory (called by ``DataLoader(pin_memory=True)``)."""
        return self._map(Tensor.pin_memory)


class ToPairBatch(BaseTransform):
    r"""Turns PyG graphs into a :class:`PairBatch`; a transform for one graph, a ``collate_fn`` for many.

    The features of the pair (u, v) are, in this order (see :attr:`feature_names`):
    ``identity`` [u = v]; ``edge`` [(u, v) is an edge]; ``reversed edge`` [(v, u) is an edge]; each edge
    attribute at (u, v), then at (v, u), 0 where there is no edge; each node attribute of u, then of v;
    and for each order attribute a the comparison [a_u < a_v]. Self-loops stand on the diagonal. Vertex
    attributes are not spread over pairs: they go to ``PairBatch.vertices``, one after another.

    Edges are read as directed: an undirected graph holds both directions, as everywhere in PyG. The number
    of vertices must be known: set ``num_nodes`` or a node attribute, since isolated vertices count.

    Args:
        node_attrs: names of node attributes, ``(n,)`` or ``(n, d)``, finite.
        edge_attrs: names of edge attributes, ``(E,)`` or ``(E, d)``, finite. One named ``edge_weight`` must
            not be negative.
        order_attrs: names of node attributes ``(n,)`` whose order is a feature of the pair.
        outputs: what the graphs are labelled with: ``(n,)`` for node outputs, ``(n, n)`` or ``(n*n,)`` for
            edge outputs, ``(1,)`` for graph outputs. Either all graphs of a batch carry an output or none
            does. Where a graph pointer called ``next`` has several right answers, ``next_ok`` ``(n,)`` marks
            them all with 1.
        row_attr: name of the node attribute that is not 0 at the one vertex whose row graph pointers are read
            from.
        vertex_attrs: names of node attributes ``(n, d)`` that are for the vertices alone.
        edges: whether the two edge features are given.

    Raises:
        InputError: if a graph has no vertices or no known number of them, edges out of range or twice,
            attributes that are missing, of the wrong size or not finite, targets out of range, or if tensors
            lie on several devices.

    Cost: O(b n² f) time and memory, no loop over vertices.

    Example:
        >>> to_pairs = ToPairBatch(node_attrs=["s"], edge_attrs=["edge_weight"],
        ...                        outputs=[Output("pi", "node", "pointer")])
        >>> batch = to_pairs(data)                                           # one graph
        >>> loader = torch.utils.data.DataLoader(dataset, batch_size=32, collate_fn=to_pairs)
    """

    def __init__(
        self,
        node_attrs: Sequence[str] = (),
        edge_attrs: Sequence[str] = (),
        order_attrs: Sequence[str] = (),
        outputs: Sequence[Output] = (),
        row_attr: str | None = None,
        vertex_attrs: Sequence[str] = (),
        edges: bool = True,
    ):
        self.node_attrs = tuple(node_attrs)
        self.edge_attrs = tuple(edge_attrs)
        self.order_attrs = tuple(order_attrs)
        self.outputs = tuple(outputs)
        self.row_attr = row_attr
        self.vertex_attrs = tuple(vertex_attrs)
        self.edges = edges
        if row_attr is None and any(output.location == "graph" for output in self.outputs):
            raise InputError("a graph pointer is read from the row of one vertex; say which with row_attr")

    @property
    def feature_names(self) -> list[str]:
        """Name of each feature, in order, for attributes of one column each."""
        return (
            ["identity"]
            + ["edge", "reversed edge"] * self.edges
            + self.edge_attrs_named("(u, v)")
            + self.edge_attrs_named("(v, u)")
            + [f"{name} of u" for name in self.node_attrs]
            + [f"{name} of v" for name in self.node_attrs]
            + [f"{name} of u < {name} of v" for name in self.order_attrs]
        )

    def settings(self) -> dict[str, Any]:
        """What it was made with, as plain values; what is as by default and newer than files is left out."""
        settings: dict[str, Any] = {
            "node_attrs": list(self.node_attrs),
            "edge_attrs": list(self.edge_attrs),
            "order_attrs": list(self.order_attrs),
            "outputs": [list(astuple(output)) for output in self.outputs],
        }
        later = {"row_attr": self.row_attr, "vertex_attrs": list(self.vertex_attrs), "edges": self.edges}
        default = {"row_attr": None, "vertex_attrs": [], "edges": True}
        return settings | {name: value for name, value in later.items() if value != default[name]}

    @property
    def num_features(self) -> int:
        """Number of features of a pair, for attributes of one column each."""
        return len(self.feature_names)

    def edge_attrs_named(self, pair: str) -> list[str]:
        """Edge attributes with the pair they are read at."""
        return [f"{name} of {pair}" for name in self.edge_attrs]

    def __call__(self, data: Data | Batch | Sequence[Data]) -> PairBatch:
        """See the class. PyG's own ``__call__`` copies its argument; nothing is changed here."""
        return self.forward(data)

    def forward(self, data: Data | Batch | Sequence[Data]) -> PairBatch:
        """See the class."""
        graphs = _as_list(data)
        known = [*self.node_attrs, *self.order_attrs, *self.vertex_attrs]
        sizes = [_num_nodes(graph, g, known) for g, graph in enumerate(graphs)]
        _check_devices(graphs)
        at, (i, j) = _edges(graphs, sizes)
        device = i.device
        n = max(sizes)
        num_nodes = torch.tensor(sizes, device=device)
        mask = torch.arange(n, device=device) < num_nodes[:, None]

        def on_edges(values: Tensor) -> Tensor:
            dense = torch.zeros(len(graphs), n, n, values.size(-1), device=device)
            dense[at, i, j] = values
            return dense

        features = [torch.diag_embed(mask.float()).unsqueeze(-1)]
        if self.edges:
            edge = on_edges(torch.ones(i.numel(), 1, device=device))
            features += [edge, edge.transpose(1, 2)]
        counts = [graph.edge_index.size(1) for graph in graphs]
        values = [on_edges(_attribute(graphs, name, counts, "edge")) for name in self.edge_attrs]
        features += values + [value.transpose(1, 2) for value in values]

        def on_nodes(name: str) -> Tensor:
            value = _attribute(graphs, name, sizes, "node")
            dense = torch.zeros(len(graphs), n, value.size(-1), device=device, dtype=value.dtype)
            dense[mask] = value
            return dense

        real = (mask[:, :, None] & mask[:, None, :]).unsqueeze(-1)
        nodes = [on_nodes(name).float() for name in self.node_attrs]
        features += [node[:, :, None] * real for node in nodes] + [node[:, None, :] * real for node in nodes]
        for name in self.order_attrs:
            value = on_nodes(name)
            if value.size(-1) != 1:
                raise InputError(f"an order attribute has one value a vertex; {name!r} has {value.size(-1)}")
            features.append(((value[:, :, None] < value[:, None, :]) & real).float())
        present = self._present(graphs)
        return PairBatch(
            torch.cat(features, dim=-1),
            mask,
            {output.name: _target(graphs, output, sizes, mask) for output in present},
            {
                output.name: _accepted(graphs, output, sizes, mask)
                for output in present
                if output.location == "graph"
                and _in_all(graphs, f"{output.name}_ok", "the marks of right answers")
            },
            None if self.row_attr is None else _row(on_nodes(self.row_attr), self.row_attr),
            torch.cat([on_nodes(name).float() for name in self.vertex_attrs], dim=-1)
            if self.vertex_attrs
            else None,
        )

    def _present(self, graphs: list[Data]) -> list[Output]:
        return [output for output in self.outputs if _in_all(graphs, output.name, "the target")]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(node_attrs={list(self.node_attrs)}, edge_attrs={list(self.edge_attrs)}, "
            f"order_attrs={list(self.order_attrs)}, outputs={[output.name for output in self.outputs]})"
        )


def _in_all(graphs: Sequence[Data], name: str, what: str) -> bool:
    """Whether the graphs have an attribute, which all of them or none must have."""
    count = sum(name in graph for graph in graphs)
    if 0 < count < len(graphs):
        raise InputError(
            f"{what} {name!r}: missing from {len(graphs) - count} of {len(graphs)} graphs; give it to all "
            "of them or to none"
        )
    return count > 0


def _as_list(data: Data | Batch | Sequence[Data]) -> list[Data]:
    if isinstance(data, Batch):
        try:
            graphs = data.to_data_list()
        except RuntimeError as error:
            raise InputError(
                "the Batch was not made by torch_geometric.data.Batch.from_data_list(graphs)"
            ) from error
    elif isinstance(data, Data):
        if "batch" in data:
            raise InputError(
                "a Data with a batch vector is not one graph; pass the list of graphs, or "
                "torch_geometric.data.Batch.from_data_list(graphs)"
            )
        graphs = [data]
    elif isinstance(data, BaseData) or not isinstance(data, Iterable):
        raise InputError(f"expected PyG Data or a list of them, got a {type(data).__name__}")
    else:
        graphs = list(data)
    if not graphs:
        raise InputError("expected at least one graph, got none")
    for g, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            raise InputError(f"expected PyG Data, but graph {g} is a {type(graph).__name__}")
    return graphs


def _num_nodes(graph: Data, g: int, node_attrs: Sequence[str]) -> int:
    given = [graph[name] for name in (*node_attrs, "x") if name in graph]
    given = [value.size(0) for value in given if isinstance(value, Tensor) and value.dim() > 0]
    if "num_nodes" in graph:
        n = graph.num_nodes
    elif given:
        n = given[0]
    else:
        raise InputError(
            f"graph {g}: the number of vertices is not known (isolated vertices do not show in edge_index); "
            "set data.num_nodes"
        )
    if not isinstance(n, Integral) or n < 1:
        raise InputError(
            f"graph {g}: expected at least one vertex, a whole number, got num_nodes = {n!r}; "
            "set data.num_nodes"
        )
    return int(n)


def _is_plain(value: Any) -> bool:
    """Whether it is a dense tensor of real numbers: a complex one would lose its imaginary part unseen."""
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex()


def _check_devices(graphs: list[Data]) -> None:
    devices = {
        value.device for graph in graphs for value in graph.to_dict().values() if isinstance(value, Tensor)
    }
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise InputError(f"tensors of one batch lie on several devices ({names}); move the graphs to one")


def _edges(graphs: list[Data], sizes: list[int]) -> tuple[Int[Tensor, " e"], Int[Tensor, "2 e"]]:
    """All edges, one graph after another, checked: the graph that each belongs to, and its ends."""
    for g, graph in enumerate(graphs):
        edge_index = graph.edge_index
        if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
            shape = list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
            raise InputError(f"graph {g}: expected an edge_index of shape [2, E], got {shape}")
        if edge_index.dtype != torch.int64:
            raise InputError(f"graph {g}: expected an edge_index of dtype int64, got {edge_index.dtype}")
    edges = torch.cat([graph.edge_index for graph in graphs], dim=1)
    counts = torch.tensor([graph.edge_index.size(1) for graph in graphs], device=edges.device)
    at = torch.arange(len(graphs), device=edges.device).repeat_interleave(counts)
    size = torch.tensor(sizes, device=edges.device)[at]
    outside = (edges < 0) | (edges >= size)
    if bool(outside.any()):
        end, e = (int(place[0]) for place in outside.nonzero(as_tuple=True))
        raise InputError(
            f"graph {int(at[e])}: edge_index names vertex {int(edges[end, e])}, outside 0..{int(size[e]) - 1}"
        )
    code = (at * max(sizes) + edges[0]) * max(sizes) + edges[1]
    if code.unique().numel() != code.numel():
        different, times = code.unique(return_counts=True)
        g = int(different[times > 1][0]) // max(sizes) ** 2
        twice = int((times - 1)[different // max(sizes) ** 2 == g].sum())
        raise InputError(
            f"graph {g}: {twice} edges are given more than once; "
            "merge them first (torch_geometric.utils.coalesce)"
        )
    return at, edges


def _attribute(graphs: list[Data], name: str, counts: list[int], location: str) -> Tensor:
    """One attribute of all graphs as ``(sum of counts, d)``, checked."""
    values = []
    for g, (graph, count) in enumerate(zip(graphs, counts, strict=True)):
        if name not in graph or not _is_plain(graph[name]):
            raise InputError(
                f"graph {g}: the {location} attribute {name!r} is missing or no dense tensor of real numbers"
            )
        value = graph[name]
        value = value.unsqueeze(-1) if value.dim() == 1 else value
        if value.dim() != 2 or value.size(0) != count:
            raise InputError(
                f"graph {g}: expected one row of {name!r} for each of {count} {location}s, "
                f"got the shape {list(graph[name].shape)}"
            )
        values.append(value)
    if len({value.size(1) for value in values}) > 1:
        raise InputError(f"{name!r} has different widths in different graphs")
    value = torch.cat(values)
    # An order is compared before it is rounded, and float32 rounds whole numbers from 2^24 on.
    value = value if value.is_floating_point() else value.double()
    if not bool(torch.isfinite(value.float()).all()):
        raise InputError(
            f"{name!r} holds values that are not finite (NaN, infinite, or too large for float32)"
        )
    if name == "edge_weight":
        if bool((value < 0).any()):
            raise InputError(
                f"edge_weight must not be negative (smallest: {value.min():g}); "
                "put signed features under another name"
            )
        return value.float()
    return value if location == "node" else value.float()


def _target(graphs: list[Data], output: Output, sizes: list[int], mask: Tensor) -> Tensor:
    """One output's truth, padded with -1; see :class:`PairBatch` for its shape."""
    b, n = mask.shape
    values = [graph[output.name] for graph in graphs]
    power = {"graph": 0, "node": 1, "edge": 2}[output.location]
    for g, (value, size) in enumerate(zip(values, sizes, strict=True)):
        if not _is_plain(value) or value.numel() != size**power:
            got = f"{list(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"graph {g}: expected a dense tensor of {size**power} entries as the target "
                f"{output.name!r}, got {got}"
            )
    size = torch.tensor(sizes, device=mask.device)
    at = torch.arange(b, device=mask.device).repeat_interleave(size**power)
    value = torch.cat([value.reshape(-1) for value in values])
    whole = value.long()
    if value.is_floating_point() and bool((whole != value).any()):
        g = int(at[whole != value][0])
        raise InputError(f"graph {g}: the target {output.name!r} holds values that are not whole numbers")
    top = size[at] - 1 if output.type == "pointer" else torch.ones_like(whole)
    outside = (whole < NOT_SCORED) | (whole > top)
    if bool(outside.any()):
        g = int(at[outside][0])
        raise InputError(
            f"graph {g}: the target {output.name!r} must lie in -1..{int(top[at == g][0])}, "
            f"got {int(whole[at == g].min())}..{int(whole[at == g].max())}"
        )
    if power == 0:
        return whole
    dense = torch.full((b,) + (n,) * power, NOT_SCORED, device=mask.device)
    dense[mask if power == 1 else mask[:, :, None] & mask[:, None, :]] = whole
    return _marked_vertex(dense, mask, output) if output.type == "mask_one" else dense


def _accepted(
    graphs: list[Data], output: Output, sizes: list[int], mask: Bool[Tensor, "b n"]
) -> Bool[Tensor, "b n"]:
    """Every right answer of a graph pointer, of which the target is one."""
    name = f"{output.name}_ok"
    marks = _target(graphs, Output(name, "node", "mask"), sizes, mask)
    target = _target(graphs, output, sizes, mask)
    wrong = (target != NOT_SCORED) & (marks.gather(1, target.clamp(min=0)[:, None]).squeeze(1) != 1)
    if bool(wrong.any()):
        raise InputError(
            f"graph {int(wrong.nonzero()[0])}: the target {output.name!r} is not marked as right by {name!r}"
        )
    return marks == 1


def _row(marks: Float[Tensor, "b n 1"], name: str) -> Int[Tensor, " b"]:
    """The vertex of each graph that an attribute marks."""
    marked = marks.squeeze(-1) != 0
    for g, count in enumerate(marked.sum(dim=1).tolist()):
        if count != 1:
            raise InputError(f"graph {g}: {name!r} must mark one vertex, it marks {count}")
    return marked.int().argmax(dim=1)


def _marked_vertex(
    one_hot: Int[Tensor, "b n"], mask: Bool[Tensor, "b n"], output: Output
) -> Int[Tensor, " b"]:
    """The vertex with the 1; -1 where any real vertex holds -1, as dm-clrs leaves such graphs out."""
    scored = ((one_hot != NOT_SCORED) | ~mask).all(dim=1)
    for count in (one_hot == 1).sum(dim=1)[scored].tolist():
        if count != 1:
            raise InputError(
                f"the target {output.name!r} marks {count or 'no'} vertices of one graph, not one; "
                "fill it with -1 where there is nothing to score"
            )
    return torch.where(scored, (one_hot == 1).int().argmax(dim=1), NOT_SCORED)
