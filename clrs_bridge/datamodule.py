"""CLRSDataModule: a CLRS task's training, validation and test graphs for Lightning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from torch_geometric.data import Data

from clrs_bridge.dataset import CLRSDataset
from clrs_bridge.samplers import OFFICIAL_SPLITS
from clrs_bridge.stream import Stream
from clrs_bridge.tasks import get_task
from graphalgo.datamodule import StepDataModule
from graphalgo.errors import InputError
from graphalgo.steps import Pool, Source, derive_seed

_OFFICIAL = OFFICIAL_SPLITS["test"]
_FRESH_SEED = 1000


@dataclass(frozen=True)
class TestSet:
    """A set of test graphs.

    Attributes:
        num_nodes: vertices of each graph.
        num_graphs: number of graphs.
        edge_prob: probability of drawing a pair of vertices, so that density can be moved apart from size;
            null for the task's own.
        seed: of the draw.
        official: CLRS-30's own test set of 32 graphs of 64 vertices; leave everything else out.

    Raises:
        InputError: if an official set is given a size, number or density of its own.
    """

    __test__ = False  # not a test class for pytest

    num_nodes: int = _OFFICIAL["num_nodes"]
    num_graphs: int = _OFFICIAL["num_samples"]
    edge_prob: float | None = None
    seed: int = _FRESH_SEED
    official: bool = False

    def __post_init__(self):
        given = [field.name for field in fields(self)[:-1] if getattr(self, field.name) != field.default]
        if self.official and given:
            raise InputError(f"the official test set is as it is; leave out {', '.join(given)}, or official")

    @property
    def name(self) -> str:
        """Such as ``official-64`` and ``fresh-128``, and ``fresh-64-p0.25-s7`` with a density and a seed."""
        if self.official:
            return f"official-{self.num_nodes}"
        density = "" if self.edge_prob is None else f"-p{self.edge_prob:g}"
        seed = "" if self.seed == _FRESH_SEED else f"-s{self.seed}"
        return f"fresh-{self.num_nodes}{density}{seed}"


class CLRSDataModule(StepDataModule):
    """Graphs of one CLRS task: small ones to train on, fresh ones to validate on, larger ones to test on.

    Training goes by steps: the batch of step t depends on the seed and t alone, whatever the number of
    workers and however often the run was stopped and resumed (see :mod:`graphalgo.steps`). With a pool, an
    epoch is one pass over it; with a stream, an epoch is the whole run. On several devices each takes its own
    share of the training batch and all of the validation graphs.

    Args:
        task: Name of the task, for example bellman_ford.
        train_graphs: Number of training graphs over all sizes together; null draws new ones at every step.
        sizes: Vertices of the training graphs. A batch has one size; each size comes equally often.
        edge_probs: Probabilities of drawing a pair of vertices, of which each training graph draws one; null
            for the task's own.
        random_pos: Train with sorted random vertex positions in place of i / n.
        batch_size: Training graphs a step and device.
        seed: Of the training graphs and of their order.
        data_dir: Folder that keeps drawn graphs; null draws them anew in each run.
        val_graphs: Number of validation graphs of each size (trainer.limit_val_batches 0 leaves them out).
        val_num_nodes: Vertices of the validation graphs, which are the same for every seed and never those of
            a test set.
        tests: Test sets; null for the official one and 32 fresh graphs of 128 vertices.
        test_batch_size: Validation and test graphs a batch.
        predict_graphs: File of your own graphs to answer (written by graphalgo.store.save_graphs).
        num_workers: Processes that load training batches; 0 loads them in the main process.
        force_reload: Draw graphs anew even if data_dir has them, for example after a file was damaged.

    Raises:
        InputError: if the task is unknown, a size is too small for it, or there is nothing to train on.
    """

    training_settings = ("task", "train_graphs", "sizes", "edge_probs", "random_pos", "batch_size", "seed")

    def __init__(
        self,
        task: str,
        train_graphs: int | None = 10000,
        sizes: Sequence[int] = (16,),
        edge_probs: Sequence[float] | None = None,
        random_pos: bool = False,
        batch_size: int = 32,
        seed: int = 0,
        data_dir: str | None = None,
        val_graphs: int = 32,
        val_num_nodes: Sequence[int] = (16,),
        tests: Sequence[TestSet] | None = None,
        test_batch_size: int = 8,
        predict_graphs: str | None = None,
        num_workers: int = 0,
        force_reload: bool = False,
    ):
        self.train_graphs = train_graphs
        self.sizes = list(sizes)
        self.edge_probs = None if edge_probs is None else list(edge_probs)
        self.random_pos = random_pos
        self.data_dir = data_dir
        self.val_graphs = val_graphs
        self.val_num_nodes = list(val_num_nodes)
        self.tests = [TestSet(official=True), TestSet(num_nodes=128)] if tests is None else list(tests)
        self.force_reload = force_reload
        self._loaded: dict[str, list[Data]] = {}
        super().__init__(
            get_task(task).name,
            get_task(task).to_pair_batch(),
            val_set_names=[f"fresh-{size}" for size in self.val_num_nodes],
            test_set_names=[test.name for test in self.tests],
            num_sizes=len(self.sizes),
            batch_size=batch_size,
            seed=seed,
            test_batch_size=test_batch_size,
            predict_graphs=predict_graphs,
            num_workers=num_workers,
        )
        self._check()

    @property
    def epoch_graphs(self) -> int | None:
        """A pass over the pool."""
        return self.train_graphs

    def train_source(self, rank: int, world_size: int) -> Source:
        """See the base: the pool, or a stream."""
        if self.train_graphs is not None:
            return Pool(self._pools(), self.batch_size, self.seed, rank, world_size)
        return Stream(
            self.task, self.sizes, self.batch_size, self.seed, self.edge_probs, self.random_pos, rank
        )

    def validation_graphs(self, name: str) -> list[Data]:
        """See the base."""
        return self._val_sets()[self.val_set_names.index(name)]

    def test_graphs(self, name: str) -> list[Data]:
        """The graphs of a test set.

        Args:
            name: one of ``test_set_names``.

        Raises:
            InputError: there is no such set.
        """
        for test in self.tests:
            if test.name == name:
                seed = _OFFICIAL["seed"] if test.official else test.seed
                return self._graphs(test.num_nodes, test.num_graphs, seed, test.edge_prob)
        raise InputError(f"there is no test set {name!r}; there are {', '.join(self.test_set_names)}")

    def setup(self, stage: str) -> None:
        """See the base."""
        if stage == "fit" and self.train_graphs is not None:
            self._pools()
        super().setup(stage)

    def _check(self) -> None:
        smallest = get_task(self.task).min_nodes
        tested = [test.num_nodes for test in self.tests]
        for what, sizes in (("sizes", self.sizes), ("val_num_nodes", self.val_num_nodes), ("tests", tested)):
            if any(size < smallest for size in sizes):
                raise InputError(
                    f"{self.task} needs graphs of at least {smallest} vertices; {what} has {sizes}"
                )
        if self.train_graphs is not None and self.train_graphs < len(self.sizes):
            raise InputError(
                f"expected at least one training graph for each of {len(self.sizes)} sizes, got "
                f"{self.train_graphs} (null draws new graphs at every step)"
            )
        self.check_at_least(val_graphs=1)
        if self.edge_probs is not None and not all(0 < p <= 1 for p in self.edge_probs or [0]):
            raise InputError(
                f"edge_probs must be probabilities in (0, 1], at least one, got {self.edge_probs}"
            )

    def _graphs(
        self,
        num_nodes: int,
        num_graphs: int,
        seed: int,
        edge_prob: float | Sequence[float] | None = None,
        random_pos: bool = False,
    ) -> list[Data]:
        key = repr((num_nodes, num_graphs, seed, edge_prob, random_pos))
        if key not in self._loaded:
            dataset = CLRSDataset(
                self.data_dir,
                self.task,
                num_nodes,
                num_graphs,
                seed,
                edge_prob,
                random_pos,
                force_reload=self.force_reload,
            )
            self._loaded[key] = list(dataset)
        return self._loaded[key]

    def _pools(self) -> list[list[Data]]:
        """The training graphs of each size; the first sizes have one more where they do not divide evenly."""
        share, rest = divmod(self.train_graphs, len(self.sizes))
        return [
            self._graphs(
                size,
                share + (slot < rest),
                derive_seed(self.seed, "pool", slot),
                self.edge_probs,
                self.random_pos,
            )
            for slot, size in enumerate(self.sizes)
        ]

    def _val_sets(self) -> list[list[Data]]:
        return [self._graphs(size, self.val_graphs, derive_seed("val", size)) for size in self.val_num_nodes]
