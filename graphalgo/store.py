"""Graphs on disk: one safetensors file a list of PyG graphs, checked when read and never half-written.

The file holds, for every attribute, the tensors of all graphs joined along the dimension in which PyG joins
them (``edge_index`` along dimension 1, everything else along dimension 0) and the positions where each graph
starts:

``data.<attribute>``   the joined tensor, dtype kept
``slice.<attribute>``  (num_graphs + 1,) int64; graph g owns the entries slice[g] .. slice[g + 1] - 1
``num_nodes``          (num_graphs,) int64

The safetensors metadata holds the format name and version, the caller's own ``meta`` as JSON, and the SHA-256
of all of it. Nothing in the file is pickled.
"""

import contextlib
import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch_geometric.data import Data

from graphalgo.errors import InputError

FORMAT = "graphalgo.graphs"
VERSION = 1


def content_key(params: Mapping[str, Any]) -> str:
    """Hash a parameter dictionary, for names of caches.

    Equal parameters give equal keys whatever their order; a tuple equals a list of the same entries.

    Args:
        params: plain values only (str, int, float, bool, None, lists and dictionaries of them).

    Returns:
        16 hexadecimal digits: the head of the SHA-256 of the canonical JSON.

    Raises:
        TypeError: a value has no canonical JSON, for example a function or a tensor.
        ValueError: a value is NaN or infinite.
    """
    return hashlib.sha256(_canonical_json(params).encode()).hexdigest()[:16]


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Write a file so that its final name always shows the old content or the whole new one.

    Yields the path of an empty temporary file in the same folder, with the same suffix; the body writes to
    it. When the body ends, the file is flushed to disk and renamed over ``path``; when it raises, the file is
    removed. A process that is killed leaves at most a hidden temporary file. Missing parent folders are made.

    Args:
        path: the final name.

    Yields:
        The temporary path to write to.

    Raises:
        InputError: the folder cannot be made or written to, or ``path`` is a folder.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; choose a folder that you may write to"
        ) from error
    try:
        yield temporary
        _flush(temporary)
        try:
            os.replace(temporary, path)
        except IsADirectoryError as error:
            raise InputError(f"cannot write {path}: there is a folder of that name") from error
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def save_graphs(path: str | os.PathLike, graphs: Sequence[Data], meta: Mapping[str, Any]) -> None:
    """Save graphs as one safetensors file, atomically.

    Every attribute must be a tensor with at least one dimension, and all graphs must have the same
    attributes, of the same dtypes. ``num_nodes`` is stored for every graph, so isolated vertices survive.

    Args:
        path: the file to write; conventionally ``*.safetensors``.
        graphs: at least one graph.
        meta: what the caller wants to keep with the graphs; plain JSON values.

    Raises:
        InputError: no graphs, graphs that cannot be stored together, or a folder that cannot be written to.
    """
    tensors = _pack(graphs)
    meta_json = _canonical_json(meta)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "meta": meta_json,
        "sha256": _checksum(tensors, meta_json),
    }
    with atomic_write(path) as temporary:
        temporary.write_bytes(safetensors.torch.save(tensors, header))


def load_graphs(path: str | os.PathLike) -> tuple[list[Data], dict[str, Any]]:
    """Load what :func:`save_graphs` wrote, and check it.

    Args:
        path: the file to read.

    Returns:
        The graphs, each owning its memory, and ``meta``.

    Raises:
        InputError: the file is missing, cut short, damaged, of another kind, or of a newer format.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read graphs from {path}: {error.strerror or error}") from error
    header = _read_header(path, content)
    try:
        tensors = safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{path} is damaged or cut short ({error}); make it again") from error
    if _checksum(tensors, header["meta"]) != header["sha256"]:
        raise InputError(f"{path} is damaged: its content does not match its checksum; make it again")
    try:
        return _unpack(tensors), json.loads(header["meta"])
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} holds no list of graphs, though its checksum is right ({error}): it was written by "
            "other software; write it with graphalgo.store.save_graphs"
        ) from error


def _canonical_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_header(path: Path, content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file that is ours, or say what the file is instead."""
    foreign = f"{path} is not a graph file (expected a safetensors file of format {FORMAT!r})"
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])["__metadata__"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{foreign}, or it is damaged or cut short") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(foreign)
    version = str(header.get("version"))
    if not version.isdecimal() or not {"meta", "sha256"} <= header.keys():
        raise InputError(f"{path} is damaged: its header is incomplete; make it again")
    if int(version) > VERSION:
        raise InputError(
            f"{path} has format version {version}, this graphalgo reads up to {VERSION}; update graphalgo"
        )
    return header


def _checksum(tensors: Mapping[str, Tensor], meta_json: str) -> str:
    digest = hashlib.sha256(meta_json.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _pack(graphs: Sequence[Data]) -> dict[str, Tensor]:
    if isinstance(graphs, Data):
        raise InputError("expected a list of graphs to save, got one Data; put it into a list")
    if len(graphs) == 0:
        raise InputError("expected at least one graph to save, got none")
    for g, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            raise InputError(f"expected PyG Data to save, but graph {g} is a {type(graph).__name__}")
    names = _attributes(graphs[0])
    for g, graph in enumerate(graphs):
        if _attributes(graph) != names:
            raise InputError(
                f"all graphs of a file need the same attributes: graph 0 has {names}, graph {g} has "
                f"{_attributes(graph)}"
            )
    tensors = {"num_nodes": torch.tensor([_num_nodes(graph, g) for g, graph in enumerate(graphs)])}
    for name in names:
        values = [graph[name] for graph in graphs]
        dim = graphs[0].__cat_dim__(name, values[0])
        _check_values(name, values, dim)
        sizes = torch.tensor([0] + [value.size(dim) for value in values])
        tensors[f"data.{name}"] = torch.cat(values, dim).contiguous()
        tensors[f"slice.{name}"] = sizes.cumsum(0)
    return tensors


def _unpack(tensors: Mapping[str, Tensor]) -> list[Data]:
    graphs = [Data(num_nodes=n) for n in tensors["num_nodes"].tolist()]
    for key, joined in tensors.items():
        if not key.startswith("data."):
            continue
        name = key.removeprefix("data.")
        dim = graphs[0].__cat_dim__(name, joined)
        sizes = tensors[f"slice.{name}"].diff().tolist()
        for graph, value in zip(graphs, joined.split(sizes, dim), strict=True):
            graph[name] = value.clone(memory_format=torch.contiguous_format)
    return graphs


def _attributes(graph: Data) -> list[str]:
    return sorted(set(graph.keys()) - {"num_nodes"})


def _num_nodes(graph: Data, g: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # PyG warns where it can only guess
        try:
            n = graph.num_nodes
        except UserWarning:
            n = None
    if n is None:
        raise InputError(f"graph {g} does not say how many vertices it has; set num_nodes")
    return n


def _check_values(name: str, values: Sequence[Any], dim: int) -> None:
    first = values[0]
    for g, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dim() == 0 or value.layout != torch.strided:
            raise InputError(
                f"attribute {name!r} of graph {g} must be a dense tensor with at least one dimension, got "
                f"{value!r}"
            )
        if (value.dtype, _width(value, dim)) != (first.dtype, _width(first, dim)):
            raise InputError(
                f"attribute {name!r} must have one dtype and, but for dimension {dim}, one shape in all "
                f"graphs: graph 0 has {first.dtype} {tuple(first.shape)}, graph {g} has {value.dtype} "
                f"{tuple(value.shape)}"
            )


def _width(value: Tensor, dim: int) -> list[int]:
    """The shape of one row: the dimension along which graphs are joined counts as 1."""
    shape = list(value.shape)
    shape[dim] = 1
    return shape
