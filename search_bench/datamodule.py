"""SearchDataModule: endless training questions, validation and test questions by lookahead, for Lightning."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from graphalgo.datamodule import StepDataModule
from graphalgo.errors import InputError
from graphalgo.store import content_key, load_graphs, save_graphs
from search_bench.features import to_pair_batch
from search_bench.generate import BLOCK, STREAM_VERSION, Split, at_lookahead, random_graphs
from search_bench.lookahead import lookahead, max_lookahead
from search_bench.names import ToNames
from search_bench.stream import Stream

DATA_VERSION = 2
"""Part of every cache's name; raise it when equal sets no longer give the same graphs or attributes."""

VAL_SEED = 2**32
"""Added to the seeds of validation sets: those of training questions are below it."""


@dataclass(frozen=True)
class SearchTestSet:
    """A set of questions to test or to validate on.

    Every question has one right next vertex, which is scored: the current vertex has several children, of
    which exactly one reaches the goal. (Of the questions about random graphs, a part; the others are left
    out.)

    Attributes:
        size: ids go up to it, and a graph has at most so many vertices and edges.
        per_lookahead: number of questions at each lookahead.
        lookaheads: which ones; null for all of them, 1 to floor((size - 1) / 2).
        random: questions about random graphs, at whatever lookaheads they have.
        num_questions: how many of those.
        seed: of the draw.

    Raises:
        InputError: if a number is out of range, or is set for the other kind of questions.
    """

    size: int
    per_lookahead: int = 20
    lookaheads: list[int] | None = None
    random: bool = False
    num_questions: int = 1000
    seed: int = 0

    def __post_init__(self):
        least = {"size": 4 if self.random else 3, "per_lookahead": 1, "num_questions": 1, "seed": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise InputError(f"{name} of a set must be at least {lowest}, got {getattr(self, name)}")
        if self.seed >= VAL_SEED:
            raise InputError(f"seed of a set must be below {VAL_SEED}, got {self.seed}")
        unused = ("per_lookahead", "lookaheads") if self.random else ("num_questions",)
        given = [
            f.name
            for f in dataclasses.fields(self)
            if f.name in unused and getattr(self, f.name) != f.default
        ]
        if given:
            kind = "random graphs" if self.random else "wanted lookaheads"
            raise InputError(
                f"{', '.join(given)} of a set does not apply to questions of {kind}; leave it out"
            )
        wanted, most = self.wanted_lookaheads, max_lookahead(self.size)
        if not wanted or len(set(wanted)) < len(wanted) or min(wanted) < 1 or max(wanted) > most:
            raise InputError(
                f"lookaheads of a set of size {self.size} must be different numbers in 1..{most}, at least "
                f"one, got {wanted}"
            )

    @property
    def wanted_lookaheads(self) -> list[int]:
        """The lookaheads, all of them if none were named."""
        return list(range(1, max_lookahead(self.size) + 1)) if self.lookaheads is None else self.lookaheads

    @property
    def name(self) -> str:
        """``lookahead-250`` or ``random-250``; ``lookahead-250-L1.2.4-s7`` with lookaheads and a seed.

        More than eight lookaheads are told by their range and number, as in ``-L1to96x24``.
        """
        chosen = ""
        if self.lookaheads is not None:
            many = f"{min(self.lookaheads)}to{max(self.lookaheads)}x{len(self.lookaheads)}"
            chosen = "-L" + (many if len(self.lookaheads) > 8 else ".".join(map(str, self.lookaheads)))
        seed = f"-s{self.seed}" if self.seed else ""
        return f"{'random' if self.random else 'lookahead'}-{self.size}{chosen}{seed}"


def draw_questions(test: SearchTestSet, split: Split, seed: int) -> list[Data]:
    """The questions of a set as graphs, those at wanted lookaheads in the order of lookaheads.

    Args:
        test: the set.
        split: ``"test"`` or ``"train"``.
        seed: of the draw, in place of the set's own.

    Returns:
        ``Data`` as :func:`search_bench.to_data` makes them, with ``next``, ``next_ok`` and the ``lookahead``
        of the step to ``next``.

    Raises:
        InputError: if the size is too small for any question of the split.

    Cost: O(size) a question.
    """
    if not test.random:
        parts = (
            at_lookahead(test.size, ahead, test.per_lookahead, seed, split=split).data_list()
            for ahead in test.wanted_lookaheads
        )
        return list(itertools.chain.from_iterable(parts))
    blocks = (random_graphs(test.size, BLOCK, seed, first, split) for first in itertools.count(0, BLOCK))
    drawn = (_with_lookahead(graph) for block in blocks for graph in block.data_list())
    return list(itertools.islice((graph for graph in drawn if graph is not None), test.num_questions))


def _with_lookahead(graph: Data) -> Data | None:
    """The question with its lookahead; None unless it has several choices and one right answer."""
    current, goal = (int(graph[name].argmax()) for name in ("current", "goal"))
    if int(graph.next_ok.sum()) != 1 or int((graph.edge_index[0] == current).sum()) < 2:
        return None
    ahead = lookahead(graph.edge_index.numpy(), graph.num_nodes, current, int(graph.next), goal)
    graph.lookahead = torch.tensor([ahead])
    return graph


class SearchDataModule(StepDataModule):
    """The path-search benchmark: which vertex comes next on the way to the goal.

    Training questions are fresh at every step and balanced over lookaheads; an epoch is the whole run. The
    batch of step t depends on the seed and t alone (see :mod:`graphalgo.steps`), and several devices share
    out one stream. Any child that reaches the goal counts as right in training; a validation or test question
    has one right answer (see :class:`SearchTestSet`). No question of a test set is ever trained or validated
    on: :func:`search_bench.tokens.is_test_question` tells them apart, whatever the seeds and sizes.

    Args:
        sizes: Sizes of the training questions. A batch has one size; each size comes equally often.
        batch_size: Training questions a step and device; multiples of 32 are drawn without waste.
        seed: Of the training questions.
        val_sets: Validation sets, the same for every seed of the training; null for 4 questions of size 49 at
            each lookahead.
        names: Show the model the tokens alone, as one vector for each vertex, in place of edge features (see
            :mod:`search_bench.names`; the model's front must then be search_bench.Names).
        tests: Test sets; null for 20 questions at each lookahead, of each training size.
        test_batch_size: Validation and test questions a batch.
        predict_graphs: File of your own questions to answer (written by graphalgo.store.save_graphs).
        num_workers: Processes that load training batches; 0 loads them in the main process.
        data_dir: Folder that keeps validation and test questions; null draws them anew in each run.
        force_reload: Draw questions anew even if data_dir has them, for example after a file was damaged.

    Raises:
        InputError: if there is nothing to train on, a size is too small, or two sets have one name.
    """

    training_settings = ("task", "sizes", "batch_size", "seed")

    def __init__(
        self,
        sizes: Sequence[int] = (49,),
        batch_size: int = 64,
        seed: int = 0,
        val_sets: Sequence[SearchTestSet] | None = None,
        names: bool = False,
        tests: Sequence[SearchTestSet] | None = None,
        test_batch_size: int = 16,
        predict_graphs: str | None = None,
        num_workers: int = 0,
        data_dir: str | None = None,
        force_reload: bool = False,
    ):
        self.sizes = list(sizes)
        if any(size < 3 for size in self.sizes):
            raise InputError(f"questions have a size of at least 3; sizes has {self.sizes}")
        self.val_sets = [SearchTestSet(49, per_lookahead=4)] if val_sets is None else list(val_sets)
        self.tests = [SearchTestSet(size) for size in sorted(set(sizes))] if tests is None else list(tests)
        self.data_dir = data_dir
        self.force_reload = force_reload
        self._loaded: dict[tuple[Split, str], list[Data]] = {}
        super().__init__(
            "search",
            ToNames() if names else to_pair_batch(),
            val_set_names=[chosen.name for chosen in self.val_sets],
            test_set_names=[chosen.name for chosen in self.tests],
            num_sizes=len(self.sizes),
            batch_size=batch_size,
            seed=seed,
            test_batch_size=test_batch_size,
            predict_graphs=predict_graphs,
            num_workers=num_workers,
        )

    def train_source(self, rank: int, world_size: int) -> Stream:
        """See the base: an endless stream."""
        return Stream(self.sizes, self.batch_size, self.seed, rank, world_size)

    def validation_graphs(self, name: str) -> list[Data]:
        """The questions of a validation set, none of which is a test question.

        Args:
            name: one of ``val_set_names``.

        Raises:
            InputError: there is no such set.
        """
        return self._questions("train", name)

    def test_graphs(self, name: str) -> list[Data]:
        """The questions of a test set.

        Args:
            name: one of ``test_set_names``.

        Raises:
            InputError: there is no such set.
        """
        return self._questions("test", name)

    def _questions(self, split: Split, name: str) -> list[Data]:
        sets = {chosen.name: chosen for chosen in (self.tests if split == "test" else self.val_sets)}
        if name not in sets:
            kind = "test" if split == "test" else "validation"
            raise InputError(f"there is no {kind} set {name!r}; there are {', '.join(sets)}")
        if (split, name) not in self._loaded:
            chosen = sets[name]
            seed = chosen.seed + (0 if split == "test" else VAL_SEED)
            meta = {
                **dataclasses.asdict(chosen),
                "lookaheads": None if chosen.random else chosen.wanted_lookaheads,
                "split": split,
                "seed": seed,
                "stream_version": STREAM_VERSION,
                "data_version": DATA_VERSION,
            }
            graphs = self._kept(name, meta, lambda: draw_questions(chosen, split, seed))
            self._loaded[split, name] = graphs
        return self._loaded[split, name]

    def _kept(self, name: str, meta: dict[str, Any], draw: Callable[[], list[Data]]) -> list[Data]:
        """The graphs of the cache file that ``meta`` names, drawn and written first if it is not there."""
        if self.data_dir is None:
            return draw()
        path = Path(self.data_dir) / f"search-{name}-{content_key(meta)}.safetensors"
        if self.force_reload or not path.exists():
            save_graphs(path, draw(), meta)
        try:
            graphs, found = load_graphs(path)
        except InputError as error:
            raise InputError(f"{error} (force_reload replaces this cache file)") from error
        if found != meta:
            raise InputError(f"{path} holds other questions than its name says; force_reload replaces it")
        return graphs
