"""Weights that come with the package: a folder a model, with its config, its weights and its card.

``config.yaml``         the settings of the run that trained it, without paths and devices of one machine
``weights.safetensors`` the weights; the metadata says what they were trained for, as checkpoints do, and
                        holds the SHA-256 of all of it. Nothing is pickled.
``README.md``           the card: data, command, revision, scores

:func:`graphalgo.shipping.ship` makes such a folder from a run.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from graphalgo.batch import Output, ToPairBatch
from graphalgo.errors import InputError
from graphalgo.store import atomic_write

FOLDER = Path(__file__).parent / "pretrained"
FILE = "weights.safetensors"
FORMAT = "graphalgo.weights"
VERSION = 1


def names() -> list[str]:
    """Names of the weights that come with the package."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE}"))


def find(name: str | Path) -> Path:
    """The folder of weights that come with the package, or a folder of one's own.

    Args:
        name: one of :func:`names`, or the path of such a folder.

    Raises:
        InputError: if it is neither.
    """
    there = names()
    if str(name) in there:
        return FOLDER / str(name)
    if (Path(name) / FILE).is_file():
        return Path(name)
    close = difflib.get_close_matches(str(name), there, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError(
        f"there are no weights {str(name)!r}: neither a folder with {FILE} nor one of those that come with "
        f"the package, {', '.join(there) or 'of which there are none'}{hint}"
    )


def describe(name: str) -> str:
    """The first paragraph of a card, below its title."""
    try:
        text = (find(name) / "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the card of {name}: {error}") from error
    paragraphs = [part.strip() for part in text.split("\n\n")]
    return next((part for part in paragraphs if part and not part.startswith("#")), "")


def save_weights(folder: Path, weights: Mapping[str, Tensor], identity: Mapping[str, Any]) -> None:
    """Write ``weights.safetensors``.

    Args:
        folder: where.
        weights: a ``state_dict``.
        identity: what they are for, the entry ``graphalgo`` of a checkpoint.

    Raises:
        InputError: the folder cannot be written to.
    """
    # Each owns its memory and stands in order: safetensors refuses anything else.
    tensors = {
        name: weight.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, weight in weights.items()
    }
    about = json.dumps(identity, sort_keys=True)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "graphalgo": about,
        "sha256": _checksum(tensors, about),
    }
    with atomic_write(folder / FILE) as path:
        path.write_bytes(safetensors.torch.save(tensors, header))


def load_weights(folder: Path) -> dict[str, Any]:
    """Load what :func:`save_weights` wrote, and check it.

    Returns:
        The entries ``state_dict`` and ``graphalgo`` of a checkpoint.

    Raises:
        InputError: the file is missing, cut short, damaged, of another kind or of a newer format, or holds
            values that no model has.
    """
    path = Path(folder) / FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read weights from {path}: {error.strerror or error}") from error
    try:
        tensors = safetensors.torch.load(content)
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size]).get("__metadata__") or {}
    except (SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"{path} is damaged, cut short or no safetensors file: {error}") from error
    version = header.get("version", "")
    if (
        header.get("format") != FORMAT
        or not (version.isdecimal() and len(version) < 10)
        or not {"graphalgo", "sha256"} <= header.keys()
    ):
        raise InputError(f"{path} holds no weights of graphalgo (expected the format {FORMAT!r})")
    if int(version) > VERSION:
        raise InputError(
            f"{path} has format version {version}, this graphalgo reads up to {VERSION}; update graphalgo"
        )
    if _checksum(tensors, header["graphalgo"]) != header["sha256"]:
        raise InputError(f"{path} is damaged: its content does not match its checksum")
    for name, weight in tensors.items():
        if not weight.is_floating_point() or not bool(weight.double().isfinite().all()):
            raise InputError(f"{path}: the weight {name} holds values that are not finite real numbers")
    return {"state_dict": tensors, "graphalgo": _identity(path, header["graphalgo"])}


def _identity(path: Path, about: str) -> dict[str, Any]:
    """What the weights are for, if a module can be made for it."""
    try:
        identity = json.loads(about)
        features = {key: value for key, value in identity.items() if key not in ("task", "outputs")}
        ToPairBatch(outputs=[Output(*output) for output in identity["outputs"]], **features)
        if not isinstance(identity["task"], str):
            raise TypeError("the task has no name")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} does not say in a known way what its weights are for ({error!r}); it was written by "
            "other software, or by another graphalgo"
        ) from error
    return identity


def _checksum(tensors: Mapping[str, Tensor], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
