"""PairModule: training and evaluation of a PairModel under Lightning; wiring and logging, no mathematics."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from jsonargparse import ArgumentError, ArgumentParser
from torch import Tensor
from torch_geometric.data import Data

from graphalgo.batch import NOT_SCORED, Output, PairBatch, ToPairBatch
from graphalgo.errors import InputError
from graphalgo.loop import LoopedBlock, StackedBlocks
from graphalgo.losses import output_loss
from graphalgo.metrics import OfficialScore, choose, decide, right_entries
from graphalgo.model import Front, PairModel
from graphalgo.run import load_checkpoint, read_config
from graphalgo.transformer import VertexTransformer
from graphalgo.weights import find, load_weights


@dataclass
class StepAnswer:
    """The answers after one iteration: for each output the decision and its probability."""

    loop: int
    decision: dict[str, Tensor]
    confidence: dict[str, Tensor]


class PairModule(pl.LightningModule):
    """Trains a looped pair-state model without hints, from inputs and final outputs only.

    The number of iterations of a training step is drawn from ``train_loops``, and depends on nothing but the
    seed and the step, so that a resumed run draws the same. The model is never told how many steps the
    algorithm took. AdamW, linear warm-up, then a cosine to zero at the trainer's ``max_steps`` (none if that
    is not set).

    For an exponential moving average of the weights, set ``trainer.callbacks`` to
    ``[{class_path: lightning.pytorch.callbacks.EMAWeightAveraging, init_args: {decay: 0.999}}]``. Validation,
    test, predict and :meth:`from_run` then use the average; training and ``--resume true`` go on with the
    trained weights, which checkpoints keep beside it.

    Args:
        loop: the looped block (or stack of blocks, whose number is the number of iterations).
        to_pairs: how the task's graphs become pair features, and what is asked for (set from the data).
        task: name of the task, kept in checkpoints so that they are not mixed up (set from the data).
        train_loops: fewest and most iterations of a training step.
        test_loops: iterations in validation and test.
        log_loops: count ``test_loops`` from ceil(log2 n) on, n the vertices of the largest graph of a batch.
        front: makes the first pair state of a batch; a linear map of the pair features by default.
        learning_rate: highest learning rate.
        weight_decay: AdamW's, on matrices only.
        warmup_steps: steps of linear warm-up.
        compile_block: compile the block once for all graph sizes (``torch.compile``, dynamic shapes). It pays
            on GPUs; on CPUs the plain block is faster.
        seed: of the draw of iterations (set from ``seed_everything``).
    """

    def __init__(
        self,
        loop: LoopedBlock | StackedBlocks | VertexTransformer,
        to_pairs: ToPairBatch,
        task: str,
        train_loops: tuple[int, int] = (4, 8),
        test_loops: int = 8,
        log_loops: bool = False,
        front: Front | None = None,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-2,
        warmup_steps: int = 200,
        compile_block: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        if not 1 <= train_loops[0] <= train_loops[1]:
            raise InputError(
                f"train_loops must be (fewest, most) with 1 <= fewest <= most, got {train_loops}"
            )
        if test_loops < 1:
            raise InputError(f"test_loops must be at least 1, got {test_loops}")
        for name, value in (("weight_decay", weight_decay), ("warmup_steps", warmup_steps)):
            if value < 0:
                raise InputError(f"{name} must not be negative, got {value}")
        if not learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {learning_rate}")
        if bool(to_pairs.vertex_attrs) != (front is not None):
            raise InputError(
                "data that describe vertices (vertex_attrs, as with names: true) go with a model.front that "
                f"reads them: the data have {', '.join(to_pairs.vertex_attrs) or 'none'}, the model has "
                f"{'no front' if front is None else type(front).__name__}"
            )
        self.model = PairModel(loop, to_pairs.num_features, to_pairs.outputs, front)
        self.to_pairs = to_pairs
        self.outputs = to_pairs.outputs
        self.task = task
        self.train_loops = tuple(train_loops)
        self.test_loops = test_loops
        self.log_loops = log_loops
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.warmup_steps = warmup_steps
        self.seed = seed
        if compile_block:
            torch._dynamo.config.fail_on_recompile_limit_hit = True
            self.model.loop.compile_blocks()

    @classmethod
    def from_run(cls, run_dir: str | Path, checkpoint: str = "last") -> PairModule:
        """The trained module of a run folder, ready to answer.

        The folder's ``config.yaml`` names the classes that are made: load runs of people you trust.

        Args:
            run_dir: a run folder of ``graphalgo fit``.
            checkpoint: ``"last"`` or ``"best"``.

        Raises:
            InputError: if the folder holds no run, or its checkpoint cannot be loaded.
        """
        config = Path(run_dir) / "config.yaml"
        settings = read_config(config)
        saved = load_checkpoint(Path(run_dir) / "checkpoints" / f"{checkpoint}.ckpt")
        return cls._trained(settings, saved, config, f"the checkpoint of {run_dir}")

    @classmethod
    def from_pretrained(cls, name: str | Path) -> PairModule:
        """The trained module of weights that come with the package, ready to answer.

        Args:
            name: one of :func:`graphalgo.weights.names`, or a folder that :func:`graphalgo.shipping.ship`
                made; its ``config.yaml`` names the classes that are made: load folders of people you trust.

        Raises:
            InputError: if there are no such weights, or they are damaged or of another model.
        """
        folder = find(name)
        config = folder / "config.yaml"
        return cls._trained(read_config(config), load_weights(folder), config, f"the weights of {folder}")

    @classmethod
    def _trained(
        cls, settings: dict[str, Any], saved: dict[str, Any], config: Path, source: str
    ) -> PairModule:
        """The module of a config's settings with the weights that a checkpoint, or its like, holds."""
        identity = dict(saved.get("graphalgo") or {})
        if "task" not in identity:
            raise InputError(f"{source} does not say which task it is for")
        parser = ArgumentParser(exit_on_error=False)
        parser.add_class_arguments(cls, "model", skip={"to_pairs"}, instantiate=False)
        task = identity.pop("task")
        outputs = [Output(*output) for output in identity.pop("outputs")]
        try:
            parsed = parser.parse_object({"model": {**(settings.get("model") or {}), "task": task}})
            chosen = parser.instantiate(parsed).model
        except (ArgumentError, TypeError) as error:
            raise InputError(f"the config {config} describes no model: {error}") from error
        module = cls(to_pairs=ToPairBatch(outputs=outputs, **identity), **vars(chosen))
        module.check_checkpoint(saved)
        module.load_state_dict(saved["state_dict"])
        return module.eval()

    def answer(self, graphs: Data | Sequence[Data], num_steps: int | None = None) -> list[dict[str, Tensor]]:
        """Answers for graphs as the model's own task describes them.

        Args:
            graphs: one graph or several, with the attributes of ``self.to_pairs``; labels are not needed.
            num_steps: iterations; ``test_loops`` by default.

        Returns:
            For each graph and output the decision: ``(n,)`` for node outputs, ``(n, n)`` for edge outputs,
            one number for a mask_one.
        """
        batch = self.to_pairs(graphs).to(self.device)
        with torch.inference_mode():
            logits = self(batch, num_steps)
        answers: list[dict[str, Tensor]] = []
        for g, n in enumerate(batch.num_nodes.tolist()):
            decisions = {out.name: decide(out, logits[out.name])[g].cpu() for out in self.outputs}
            answers.append({name: value[(slice(n),) * value.dim()] for name, value in decisions.items()})
        return answers

    def forward(self, batch: PairBatch, num_steps: int | None = None) -> dict[str, Tensor]:
        """Logits of every output after ``num_steps`` iterations (as in a test if not given)."""
        return self.model(batch, self.loops_for(batch) if num_steps is None else num_steps)

    def loops_for(self, batch: PairBatch) -> int:
        """Number of iterations of a test."""
        if self.model.loop.depth is not None:
            return self.model.loop.depth
        return self.test_loops + (math.ceil(math.log2(batch.mask.size(1))) if self.log_loops else 0)

    def draw_loops(self, step: int) -> int:
        """Number of iterations of a training step."""
        if self.model.loop.depth is not None:
            return self.model.loop.depth
        return random.Random(f"loops {self.seed} {step}").randint(*self.train_loops)

    def loss(self, logits: dict[str, Tensor], batch: PairBatch) -> Tensor:
        """Mean over outputs of their losses."""
        missing = [output.name for output in self.outputs if output.name not in batch.targets]
        if missing:
            raise InputError(
                f"the graphs are not labelled with {', '.join(missing)}, which {self.task} trains on"
            )
        losses = [
            output_loss(out, logits[out.name], batch.targets[out.name], batch.accepted.get(out.name))
            for out in self.outputs
        ]
        return torch.stack(losses).mean()

    def training_step(self, batch: PairBatch, batch_idx: int) -> dict[str, Tensor]:
        """One step at the number of iterations drawn for it; its loss and the share of right entries."""
        logits = self.model(batch, self.draw_loops(self.global_step))
        loss = self.loss(logits, batch)
        accuracy = self.accuracy(logits, batch)
        self.log("train/loss", loss, prog_bar=True, batch_size=batch.num_graphs)
        self.log("train/accuracy", accuracy, batch_size=batch.num_graphs)
        return {"loss": loss, "accuracy": accuracy}

    @torch.no_grad()
    def accuracy(self, logits: dict[str, Tensor], batch: PairBatch) -> Tensor:
        """Share of scored entries that are right, mean over outputs; any accepted answer counts as right."""
        shares = []
        for out in self.outputs:
            target = batch.targets[out.name]
            prediction = choose(out, logits[out.name])
            right = right_entries(out, prediction, target, batch.accepted.get(out.name))
            scored = target != NOT_SCORED
            shares.append((right & scored).sum() / scored.sum().clamp(min=1))
        return torch.stack(shares).mean()

    def on_validation_epoch_start(self) -> None:
        """Starts a score for every validation set."""
        self.val_scores: dict[int, OfficialScore] = {}

    def validation_step(self, batch: PairBatch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Scores one batch of one validation set."""
        if dataloader_idx not in self.val_scores:
            self.val_scores[dataloader_idx] = OfficialScore(self.outputs).to(self.device)
        logits = self(batch)
        decision = {output.name: decide(output, logits[output.name]) for output in self.outputs}
        self.val_scores[dataloader_idx].update(decision, batch.targets)

    def on_validation_epoch_end(self) -> None:
        """Logs ``val/<set>/score`` for every set, and ``val/score``, their mean."""
        names = getattr(self.trainer.datamodule, "val_set_names", None)
        results = {index: score.compute() for index, score in self.val_scores.items()}
        for index, result in results.items():
            name = names[index] if names else str(index)
            self.log(f"val/{name}/score", result["score"], sync_dist=True)
            self.log(f"val/{name}/exact", result["exact"], sync_dist=True)
        mean = sum(result["score"] for result in results.values()) / len(results)
        self.log("val/score", mean, prog_bar=True, sync_dist=True)

    def test_step(self, batch: PairBatch, batch_idx: int, dataloader_idx: int = 0) -> list[StepAnswer]:
        """Answers after every iteration; :class:`graphalgo.evaluate.TestReport` scores and writes them."""
        return self.answers(batch)

    def predict_step(self, batch: PairBatch, batch_idx: int, dataloader_idx: int = 0) -> StepAnswer:
        """The final answers."""
        return self.answers(batch)[-1]

    def answers(self, batch: PairBatch) -> list[StepAnswer]:
        """Decisions and their probabilities after each iteration of a test."""
        answers = []
        for step, logits in enumerate(self.model.each_step(batch, self.loops_for(batch)), start=1):
            decision = {out.name: decide(out, logits[out.name]) for out in self.outputs}
            confidence = {out.name: probability(out, logits[out.name]) for out in self.outputs}
            answers.append(StepAnswer(step, decision, confidence))
        return answers

    def configure_optimizers(self) -> dict[str, Any]:
        """AdamW with warm-up and cosine."""
        matrices = [p for p in self.parameters() if p.requires_grad and p.dim() >= 2]
        others = [p for p in self.parameters() if p.requires_grad and p.dim() < 2]
        groups = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate)
        total = self.trainer.max_steps

        def factor(step: int) -> float:
            warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
            return warm if total < 1 else warm * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Notes what the weights were trained for."""
        checkpoint["graphalgo"] = self._identity()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses a checkpoint that is not for this module."""
        self.check_checkpoint(checkpoint)

    def check_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses a checkpoint of another task, of other features or of another model.

        Raises:
            InputError: saying what differs.
        """
        theirs, ours = checkpoint.get("graphalgo"), self._identity()
        if not isinstance(theirs, dict):
            raise InputError(
                "the checkpoint was not written by graphalgo: it does not say which task it is for"
            )
        for key, value in ours.items():
            if theirs.get(key) != value:
                raise InputError(
                    f"the checkpoint is for another {key}: it has {theirs.get(key)!r}, this run has {value!r}"
                )
        found, wanted = (
            {name: list(weight.shape) for name, weight in weights.items()}
            for weights in (checkpoint["state_dict"], self.state_dict())
        )
        for name in {**wanted, **found}:
            if found.get(name) != wanted.get(name):
                raise InputError(
                    f"the checkpoint is of another model: it has {name} {found.get(name, 'not at all')}, "
                    f"this run {wanted.get(name, 'not at all')}"
                )

    def _identity(self) -> dict[str, Any]:
        return {"task": self.task, **self.to_pairs.settings()}


def probability(output: Output, logits: Tensor) -> Tensor:
    """Probability that the model gives to its own decision."""
    logits = logits.float()
    return logits.abs().sigmoid() if output.type == "mask" else logits.softmax(dim=-1).amax(dim=-1)
