"""Converged: says when a run has learnt its training graphs, and ends it there."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from torch import Tensor

from graphalgo.errors import InputError


class Converged(pl.Callback):
    """Ends training once the training accuracy has been high for several checks in a row.

    A check is the mean accuracy of the last ``every`` steps, as ``training_step`` returns it under
    ``"accuracy"``; any accepted answer counts as right. Where graphs are drawn anew at every step, that is an
    accuracy on graphs never seen before. A run that is resumed, wherever it was stopped, ends at the same
    step as an uninterrupted one (on several devices only if checkpoints are written at checks). One that has
    converged and is resumed with the same settings ends at once.

    Loggers get ``train/check_accuracy`` at every check, and once ``train/converged_step``, the number of
    steps trained when the last of the good checks was made.

    Args:
        accuracy: Lowest accuracy of a check, in (0, 1].
        checks: Number of checks in a row that must reach it.
        every: Training steps between two checks.
        stop: End the training then; if false, only note it.

    Raises:
        InputError: if an argument is out of range, or ``training_step`` returns no accuracy.
    """

    def __init__(self, accuracy: float = 0.995, checks: int = 2, every: int = 100, stop: bool = True):
        super().__init__()
        if not 0 < accuracy <= 1:
            raise InputError(f"accuracy must be a share in (0, 1], got {accuracy}")
        for name, value in (("checks", checks), ("every", every)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        self.accuracy = accuracy
        self.checks = checks
        self.every = every
        self.stop = stop
        self.converged_step: int | None = None
        self._sum: Tensor | float = 0.0
        self._batches = 0
        self._graphs = 0
        self._checked_at = 0
        self._in_a_row = 0

    @property
    def state_key(self) -> str:
        """The settings: with others, nothing of what was found so far holds."""
        return self._generate_state_key(accuracy=self.accuracy, checks=self.checks, every=self.every)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """A run that had converged when it was saved has no more to learn."""
        if self.stop and self.converged_step is not None:
            trainer.should_stop = True

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Adds a batch, and checks where one is due."""
        if not isinstance(outputs, dict) or "accuracy" not in outputs:
            raise InputError(
                f"Converged goes by the training accuracy, but {type(pl_module).__name__}.training_step "
                "returns none; let it return {'loss': ..., 'accuracy': ...}"
            )
        self._sum = self._sum + outputs["accuracy"].detach().float()  # no wait for the device in every step
        self._batches += 1
        self._graphs += getattr(batch, "num_graphs", 0) * trainer.world_size
        step = trainer.global_step
        if step % self.every == 0 and step != self._checked_at:
            self._checked_at = step
            self._check(trainer, self._sum / self._batches)
            self._sum, self._batches = 0.0, 0

    def _check(self, trainer: pl.Trainer, own: Tensor) -> None:
        mean = float(trainer.strategy.reduce(own, reduce_op="mean"))
        noted = {"train/check_accuracy": mean}
        self._in_a_row = self._in_a_row + 1 if mean >= self.accuracy else 0
        if self._in_a_row >= self.checks and self.converged_step is None:
            self.converged_step = trainer.global_step
            noted["train/converged_step"] = self.converged_step
            if trainer.is_global_zero:
                print(self._describe(mean))
        for logger in trainer.loggers:
            logger.log_metrics(noted, step=trainer.global_step - 1)  # where Lightning puts what a step logs
        if self.stop and self.converged_step is not None:
            trainer.should_stop = True

    def _describe(self, mean: float) -> str:
        examples = f" ({self._graphs:,} graphs)" if self._graphs else ""
        return (
            f"converged at step {self.converged_step:,}{examples}: training accuracy at least "
            f"{100 * self.accuracy:g}% in {self.checks} check{'s' * (self.checks > 1)} in a row, "
            f"{100 * mean:.2f}% in the last"
        )

    def state_dict(self) -> dict[str, Any]:
        """What was found so far; kept in checkpoints."""
        return {
            "sum": float(self._sum),
            "batches": self._batches,
            "graphs": self._graphs,
            "checked_at": self._checked_at,
            "in_a_row": self._in_a_row,
            "converged_step": self.converged_step,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there."""
        self._sum = state_dict["sum"]
        self._batches = state_dict["batches"]
        self._graphs = state_dict["graphs"]
        self._checked_at = state_dict["checked_at"]
        self._in_a_row = state_dict["in_a_row"]
        self.converged_step = state_dict["converged_step"]
