"""How the checkpoints of a run folder are written: whole, at the right moment, wherever the folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, LambdaCallback, ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from graphalgo.errors import InputError
from graphalgo.store import atomic_write


class WholeCheckpoints(TorchCheckpointIO):
    """Writes checkpoints so that their name always shows the old one or the whole new one.

    Lightning's own way is whole only if the folder for temporary files is on the disk of the run folder.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Writes beside the file, then renames.

        Raises:
            InputError: there is no room; the file that was there stays.
        """
        try:
            with atomic_write(path) as temporary:
                torch.save(checkpoint, temporary)
        except (OSError, RuntimeError) as error:  # torch says the latter, and not why
            reason = " ".join(str(error).split("\n")[0].split())
            raise InputError(
                f"cannot write the checkpoint {path} ({reason}); is the disk full? An earlier checkpoint is "
                "kept: make room, then go on with --resume true"
            ) from error


class LastCheckpoint(Checkpoint):
    """Writes ``last.ckpt`` every so many steps and when training ends.

    A resumed run does not repeat a validation that was due at its checkpoint's step. So where one is due, the
    checkpoint is written after it, and knows the best score so far.

    It must come after :class:`ModelCheckpoint`; see :func:`checkpoint_callbacks`.

    Args:
        folder: the run folder's ``checkpoints``.
        every: training steps between two checkpoints.

    Raises:
        InputError: ``every`` is not positive.
    """

    def __init__(self, folder: Path, every: int):
        super().__init__()
        if every < 1:
            raise InputError(f"checkpoint_every must be at least 1, got {every}")
        self.folder = folder
        self.every = every
        self.saved_at = 0
        self.waiting = False

    def save(self, trainer: pl.Trainer) -> None:
        """Writes it."""
        self.saved_at, self.waiting = trainer.global_step, False
        if not trainer.fast_dev_run:
            trainer.save_checkpoint(self.folder / "last.ckpt", weights_only=False)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """A resumed run need not write what it was resumed from."""
        self.saved_at = trainer.global_step

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Writes it, unless a validation comes first."""
        step, loop = trainer.global_step, trainer.fit_loop
        self.waiting |= step != self.saved_at and step % self.every == 0
        if self.waiting and not loop.epoch_loop._should_check_val_fx(loop._data_fetcher):
            self.save(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Writes it if it has waited for the validation."""
        if self.waiting:
            self.save(trainer)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Without it a run whose folder was moved would forget how good its best checkpoint is."""
        here = str(self.folder.resolve())
        for name, state in checkpoint.get("callbacks", {}).items():
            before = state.get("dirpath") if isinstance(state, dict) else None
            if before and before != here:
                checkpoint["callbacks"][name] = _moved(state, before, here)


def _moved(state: Any, before: str, here: str) -> Any:
    """A callback's state with the folder that it names, in keys too, replaced."""
    if isinstance(state, dict):
        return {_moved(key, before, here): _moved(value, before, here) for key, value in state.items()}
    inside = isinstance(state, str) and f"{state}/".startswith(f"{before}/")
    return here + state.removeprefix(before) if inside else state


def checkpoint_callbacks(folder: Path, every: int) -> tuple[list[Callback], list[Callback]]:
    """The callbacks that keep ``last.ckpt`` and ``best.ckpt``, the one with the best ``val/score``.

    Args:
        folder: where they go.
        every: training steps between two of ``last.ckpt``.

    Returns:
        Those that must come before all other callbacks, and those that must come after. The end of training
        is noted first: weight averaging then puts the mean into the place of the trained weights, with which
        a run that is made longer must go on.
    """
    best = ModelCheckpoint(
        folder, filename="best", monitor="val/score", mode="max", save_top_k=1, enable_version_counter=False
    )
    last = LastCheckpoint(folder, every)
    return [LambdaCallback(on_train_end=lambda trainer, _: last.save(trainer))], [best, last]
