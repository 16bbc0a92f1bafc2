"""CLRSDataset: labelled graphs of one task as a PyG dataset, kept on disk under a hash of what made them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data, InMemoryDataset

from clrs_bridge.samplers import OFFICIAL_SPLITS, checked_counts, checked_probs, sample
from clrs_bridge.tasks import get_task
from graphalgo.errors import InputError
from graphalgo.store import content_key, load_graphs, save_graphs

SAMPLER_VERSION = 1
"""Part of every cache's name; raise it when a seed no longer gives the same graphs, labels or attributes."""


class CLRSDataset(InMemoryDataset):
    """Graphs of a CLRS task, drawn once and read back afterwards.

    The file is ``root/processed/<task>-<num_nodes>-<key>.safetensors``; ``key`` hashes every argument that
    decides the graphs, and the version of the samplers, so other arguments never meet an old file. It is
    written atomically (several processes may make it at once) and checked when read.

    Args:
        root: folder of the cache; None draws the graphs anew each time and writes nothing.
        task: name of the task.
        num_nodes: vertices of each graph.
        num_samples: number of graphs.
        seed: whole number in 0..2**32 - 1; equal seeds give equal graphs.
        edge_prob: see :func:`clrs_bridge.sample`.
        random_pos: see :func:`clrs_bridge.sample`.
        transform: applied to a graph at each access, as everywhere in PyG.
        force_reload: draw and write the graphs even if the file is there.

    Raises:
        InputError: if an argument is out of range, the folder cannot be written to, or the file is damaged
            or not what its name says. Nothing is deleted; ``force_reload=True`` replaces the file.

    Example:
        >>> dataset = CLRSDataset("data/clrs", "bfs", num_nodes=16, num_samples=1000, seed=5)
        >>> dataset[0]
        Data(num_nodes=16, edge_index=[2, 60], pos=[16], s=[16], pi=[16])
    """

    def __init__(
        self,
        root: str | os.PathLike | None,
        task: str,
        num_nodes: int,
        num_samples: int,
        seed: int,
        edge_prob: float | Sequence[float] | None = None,
        random_pos: bool = False,
        transform: Callable[[Data], Any] | None = None,
        force_reload: bool = False,
    ):
        self.task = get_task(task)
        self._on_disk = root is not None
        num_nodes, num_samples, seed = checked_counts(self.task, num_nodes, num_samples, seed)
        if edge_prob is not None:
            probs = checked_probs(self.task, edge_prob)
            edge_prob = probs[0] if np.ndim(edge_prob) == 0 else list(probs)
        self.params: dict[str, Any] = {
            "task": task,
            "num_nodes": num_nodes,
            "num_samples": num_samples,
            "seed": seed,
            "edge_prob": edge_prob,
            "random_pos": bool(random_pos),
        }
        super().__init__(os.fspath(root) if self._on_disk else None, transform, force_reload=force_reload)
        graphs = self._read() if self._on_disk else self._draw()
        self.data, self.slices = self.collate(graphs)

    @classmethod
    def official(
        cls,
        root: str | os.PathLike | None,
        task: str,
        split: str,
        transform: Callable[[Data], Any] | None = None,
        force_reload: bool = False,
    ) -> CLRSDataset:
        """A split of CLRS-30: train (1000 graphs of 16 vertices), val (32 of 16) or test (32 of 64).

        Args:
            root: see the class.
            task: name of the task.
            split: ``"train"``, ``"val"`` or ``"test"``.
            transform: see the class.
            force_reload: see the class.

        Raises:
            InputError: see the class; or the split is unknown.
        """
        if split not in OFFICIAL_SPLITS:
            raise InputError(f"unknown split {split!r}; the splits are {', '.join(OFFICIAL_SPLITS)}")
        return cls(root, task, **OFFICIAL_SPLITS[split], transform=transform, force_reload=force_reload)

    @property
    def processed_file_names(self) -> str:
        """Name of the cache file."""
        key = content_key(self._meta())
        return f"{self.params['task']}-{self.params['num_nodes']}-{key}.safetensors"

    def process(self) -> None:
        """Draws the graphs and writes the cache file."""
        save_graphs(self.processed_paths[0], self._draw(), self._meta())

    def _process(self) -> None:
        """Does what PyG does, without PyG's files ``pre_transform.pt`` and ``pre_filter.pt`` beside ours.

        They are written in place and unpickled by the next process; we have neither a pre_transform nor a
        pre_filter, and a name that holds everything else.
        """
        if self._on_disk and (self.force_reload or not os.path.exists(self.processed_paths[0])):
            self.process()

    def _meta(self) -> dict[str, Any]:
        outputs = [list(dataclasses.astuple(output)) for output in self.task.outputs]
        return {**self.params, "outputs": outputs, "sampler_version": SAMPLER_VERSION}

    def _draw(self) -> list[Data]:
        return sample(**self.params)

    def _read(self) -> list[Data]:
        path = self.processed_paths[0]
        try:
            graphs, meta = load_graphs(path)
        except InputError as error:
            raise InputError(f"{error} (pass force_reload=True to replace this cache file)") from error
        if meta != self._meta():
            raise InputError(
                f"{path} holds other graphs than its name says; pass force_reload=True to replace it"
            )
        return graphs
