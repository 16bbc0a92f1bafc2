"""StepDataModule: training by steps, and named validation and test sets, for any source of graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities import rank_zero_warn
from torch.utils.data import DataLoader, DistributedSampler
from torch_geometric.data import Data

from graphalgo.batch import Output, ToPairBatch
from graphalgo.errors import InputError
from graphalgo.predictions import check_set_name
from graphalgo.steps import Source, StepBatches, StepLoader
from graphalgo.store import load_graphs

_TO_DEFINE = ("train_source", "validation_graphs", "test_graphs")


class StepDataModule(pl.LightningDataModule):
    """The base of data modules: a source of training graphs, named sets to validate and to test on.

    Training goes by steps: the batch of step t depends on the seed and t alone, whatever the number of
    workers and however often the run was stopped and resumed (see :mod:`graphalgo.steps`). On several devices
    each takes its own share of the training batch and all of the validation graphs.

    A subclass hands its description to ``super().__init__`` and defines :meth:`train_source`,
    :meth:`validation_graphs` and :meth:`test_graphs`. Its own arguments are what a config can set; one of
    them must be ``seed``, which ``seed_everything`` sets.

    Args:
        task: Name of the task, kept in checkpoints so that they are not mixed up.
        to_pairs: How graphs become pair features, and what is asked of them.
        val_set_names: Names of the validation sets; each set has a score of its own.
        test_set_names: Names of the test sets, which their files are called after.
        num_sizes: Number of sizes that training batches can have, each batch having one.
        batch_size: Training graphs a step and device.
        seed: Of the training graphs and of the order of sizes.
        test_batch_size: Validation and test graphs a batch.
        predict_graphs: File of graphs to answer (written by ``graphalgo.store.save_graphs``).
        num_workers: Processes that load training batches; 0 loads them in the main process.

    Raises:
        InputError: if a method is not defined, the task has no name, a name of a set comes twice or is no
            file name, or a number is too small.

    Example:
        A task of one's own, of which ``chain(size, seed)`` draws a labelled graph::

            class Chains(StepDataModule):
                def __init__(self, batch_size: int = 32, seed: int = 0):
                    to_pairs = ToPairBatch(node_attrs=("s",), outputs=(Output("pi", "node", "pointer"),))
                    super().__init__(
                        "chains", to_pairs, ["chains-16"], ["chains-64"], batch_size=batch_size, seed=seed
                    )

                def train_source(self, rank, world_size):
                    def source(slot, round_):
                        first = (round_ * world_size + rank) * self.batch_size
                        return [chain(16, derive_seed(self.seed, first + g)) for g in range(self.batch_size)]

                    return source

                def validation_graphs(self, name):
                    return [chain(16, derive_seed("val", g)) for g in range(32)]

                def test_graphs(self, name):
                    return [chain(64, derive_seed("test", g)) for g in range(32)]

        In a config it is ``class_path: my_package.Chains``.
    """

    training_settings: tuple[str, ...] = ("task", "batch_size", "seed")
    """Attributes that decide the training batches. They are kept in checkpoints, and a run that is resumed
    with others says so."""

    epoch_graphs: int | None = None
    """Training graphs of an epoch over all devices; None where an epoch is the whole run."""

    def __init__(
        self,
        task: str,
        to_pairs: ToPairBatch,
        val_set_names: Sequence[str],
        test_set_names: Sequence[str],
        num_sizes: int = 1,
        batch_size: int = 32,
        seed: int = 0,
        test_batch_size: int = 8,
        predict_graphs: str | None = None,
        num_workers: int = 0,
    ):
        super().__init__()
        self.task = task
        self.to_pairs = to_pairs
        self.val_set_names = list(val_set_names)
        self.test_set_names = list(test_set_names)
        self.num_sizes = num_sizes
        self.batch_size = batch_size
        self.seed = seed
        self.test_batch_size = test_batch_size
        self.predict_graphs = predict_graphs
        self.num_workers = num_workers
        undefined = [
            name for name in _TO_DEFINE if getattr(type(self), name) is getattr(StepDataModule, name)
        ]
        if undefined:
            raise InputError(
                f"the data module {type(self).__name__} does not define {', '.join(undefined)}; "
                "graphalgo.datamodule.StepDataModule says what they are"
            )
        if not task:
            raise InputError("the task of a data module needs a name; its checkpoints are known by it")
        if num_sizes < 1:
            raise InputError("expected at least one size to train on, got none")
        self.check_at_least(batch_size=1, test_batch_size=1, num_workers=0)
        for kind, names in (("validation", self.val_set_names), ("test", self.test_set_names)):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise InputError(
                    f"two {kind} sets are called {', '.join(sorted(twice))}; give them different seeds"
                )
            for name in names:
                check_set_name(name)

    def train_source(self, rank: int, world_size: int) -> Source:
        """The training graphs of one process.

        Args:
            rank: index of this process among those that train together.
            world_size: number of those processes; each draws ``batch_size`` graphs of its own a step.

        Returns:
            See :data:`graphalgo.steps.Source`.
        """
        raise NotImplementedError

    def validation_graphs(self, name: str) -> list[Data]:
        """The graphs of a validation set: one of ``val_set_names``."""
        raise NotImplementedError

    def test_graphs(self, name: str) -> list[Data]:
        """The graphs of a test set: one of ``test_set_names``."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What the task asks for."""
        return self.to_pairs.outputs

    @property
    def num_features(self) -> int:
        """Number of features of a pair of vertices."""
        return len(self.to_pairs.feature_names)

    def setup(self, stage: str) -> None:
        """Draws or reads the graphs of a stage, so that anything wrong with them shows at once."""
        if stage in ("fit", "validate"):
            for name in self.val_set_names:
                self.validation_graphs(name)
        if stage == "test":
            for name in self.test_set_names:
                self.test_graphs(name)

    def train_dataloader(self) -> StepLoader:
        """Batches from the first step that the trainer has not done."""
        rank, world_size = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        source = self.train_source(rank, world_size)
        length = self._epoch_length(world_size)
        return StepLoader(
            StepBatches(source, self.to_pairs, self.num_sizes, self.seed, length),
            self._trained,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=self._on_gpu(),
        )

    def val_dataloader(self) -> list[DataLoader]:
        """One loader a validation set, graphs in order."""
        return [self._eval_loader(self.validation_graphs(name)) for name in self.val_set_names]

    def test_dataloader(self) -> list[DataLoader]:
        """One loader a test set, graphs in order."""
        return [self._eval_loader(self.test_graphs(name)) for name in self.test_set_names]

    def predict_dataloader(self) -> DataLoader:
        """The graphs of ``predict_graphs``, in order."""
        if self.predict_graphs is None:
            raise InputError("there is nothing to predict: set predict_graphs to a file of graphs")
        return self._eval_loader(load_graphs(self.predict_graphs)[0])

    def state_dict(self) -> dict[str, Any]:
        """What decides the training batches; kept in checkpoints."""
        return {name: getattr(self, name) for name in self.training_settings}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Warns when training is resumed on other batches than it was started on."""
        ours = self.state_dict()
        changed = [
            f"{name} {state_dict.get(name)} -> {ours[name]}"
            for name in ours
            if state_dict.get(name) != ours[name]
        ]
        if changed and self.trainer is not None and self.trainer.state.fn == "fit":
            rank_zero_warn(f"the run goes on with other training batches than before: {', '.join(changed)}")

    def check_at_least(self, **lowest: int) -> None:
        """Refuses settings that are lower than given here.

        Raises:
            InputError: naming the first one.
        """
        for name, least in lowest.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def _eval_loader(self, graphs: list[Data]) -> DataLoader:
        # One replica of one; else Lightning deals the graphs out to the devices and repeats some to even out.
        in_order = DistributedSampler(graphs, num_replicas=1, rank=0, shuffle=False)
        return DataLoader(
            graphs,
            batch_size=self.test_batch_size,
            sampler=in_order,
            collate_fn=self.to_pairs,
            pin_memory=self._on_gpu(),
        )

    def _epoch_length(self, world_size: int) -> int | None:
        """Batches of an epoch: whole training steps, so that none is cut short at its end."""
        per_step = self.trainer.accumulate_grad_batches if self.trainer else 1
        if self.epoch_graphs is not None:
            return per_step * math.ceil(self.epoch_graphs / (self.batch_size * world_size * per_step))
        if self.trainer is None or self.trainer.max_steps < 1:
            return None
        return self.trainer.max_steps * per_step

    def _trained(self) -> int:
        """Batches trained on so far; a checkpoint brings the number back before the first one is loaded."""
        return self.trainer.fit_loop.epoch_loop.batch_progress.total.processed if self.trainer else 0

    def _on_gpu(self) -> bool:
        return self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
