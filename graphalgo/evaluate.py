"""What a test and a prediction leave in the run folder: scores, predictions, graphs; and a printed table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from rich.console import Console
from rich.table import Table

from graphalgo.batch import NOT_SCORED, PairBatch
from graphalgo.errors import InputError
from graphalgo.metrics import OfficialScore
from graphalgo.module import PairModule, StepAnswer
from graphalgo.predictions import PredictionsWriter
from graphalgo.store import atomic_write, save_graphs


class TestReport(pl.Callback):
    """Writes what a test leaves behind into ``RUN/test`` and prints one line a test set.

    ``scores.json`` the table, ``predictions.parquet`` every scored entry after every iteration,
    ``graphs/<set>.safetensors`` the graphs. An earlier test of the run is replaced once the new one is whole,
    and ``RUN/figures`` removed if it holds the analysis of the earlier one.

    The data module must have ``test_set_names`` and ``test_graphs(name)``.

    Args:
        run_dir: the run folder.
    """

    __test__ = False  # not a test class for pytest

    def __init__(self, run_dir: str | Path):
        super().__init__()
        self.folder = Path(run_dir) / "test"
        self.rows: list[dict[str, Any]] = []

    def on_test_start(self, trainer: pl.Trainer, pl_module: PairModule) -> None:
        """Opens the predictions table."""
        if trainer.world_size > 1:
            raise InputError("test on one device: with several, samples would be scored twice")
        self.names = list(trainer.datamodule.test_set_names)
        self.partial = self.folder.with_name(".test.partial")
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        self.writer = PredictionsWriter(
            self.partial / "predictions.parquet", task=pl_module.task, outputs=pl_module.outputs
        )
        self.scores = [OfficialScore(pl_module.outputs) for _ in self.names]
        self.seen = [0 for _ in self.names]
        self.loops = [0 for _ in self.names]

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: PairModule,
        outputs: list[StepAnswer],
        batch: PairBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Scores and writes one batch."""
        batch = batch.to("cpu")
        for answer in outputs:
            for output in pl_module.outputs:
                self.writer.write(
                    set_name=self.names[dataloader_idx],
                    first_graph=self.seen[dataloader_idx],
                    loop=answer.loop,
                    output=output,
                    prediction=answer.decision[output.name].cpu(),
                    target=batch.targets[output.name],
                    confidence=answer.confidence[output.name].cpu(),
                )
        self.loops[dataloader_idx] = max(self.loops[dataloader_idx], outputs[-1].loop)
        final = {name: decision.cpu() for name, decision in outputs[-1].decision.items()}
        self.scores[dataloader_idx].update(final, batch.targets)
        self.seen[dataloader_idx] += batch.num_graphs

    def on_test_end(self, trainer: pl.Trainer, pl_module: PairModule) -> None:
        """Closes the table, writes the scores and the graphs, prints."""
        self.writer.close()
        self.rows = []
        for name, score, seen, loops in zip(self.names, self.scores, self.seen, self.loops, strict=True):
            graphs = trainer.datamodule.test_graphs(name)[:seen]
            save_graphs(
                self.partial / "graphs" / f"{name}.safetensors", graphs, {"set": name, "task": pl_module.task}
            )
            row = {"task": pl_module.task, "set": name, "num_nodes": max(graph.num_nodes for graph in graphs)}
            self.rows.append(row | {"loops": loops} | score.compute())
        with atomic_write(self.partial / "scores.json") as path:
            path.write_text(json.dumps(self.rows, indent=2) + "\n")
        replaced = self.folder.with_name(".test.replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        if self.folder.exists():
            self.folder.rename(replaced)
        self.partial.rename(self.folder)
        shutil.rmtree(replaced, ignore_errors=True)
        figures = self.folder.with_name("figures")
        if (figures / "report.md").is_file():  # an analysis, of the earlier test
            shutil.rmtree(figures, ignore_errors=True)
        print_scores(self.rows)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leaves the earlier test as it was."""
        if hasattr(self, "writer"):
            self.writer.abandon()
            shutil.rmtree(self.partial, ignore_errors=True)


class PredictReport(pl.Callback):
    """Writes the final answers for a user's own graphs to ``RUN/predict/predictions.parquet``.

    The table is that of :mod:`graphalgo.predictions`; the set is called ``predict``, graphs count from 0 in
    the order of the file, and the target is -1 where a graph is not labelled.

    Args:
        run_dir: the run folder.
    """

    SET = "predict"

    def __init__(self, run_dir: str | Path):
        super().__init__()
        self.path = Path(run_dir) / "predict" / "predictions.parquet"

    def on_predict_start(self, trainer: pl.Trainer, pl_module: PairModule) -> None:
        """Opens the table."""
        self.writer = PredictionsWriter(self.path, task=pl_module.task, outputs=pl_module.outputs)
        self.seen = 0

    def on_predict_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: PairModule,
        outputs: StepAnswer,
        batch: PairBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Writes one batch."""
        batch = batch.to("cpu")
        pairs = batch.mask[:, :, None] & batch.mask[:, None, :]
        for output in pl_module.outputs:
            decision = outputs.decision[output.name].cpu()
            real = {1: torch.ones_like(batch.mask[:, 0]), 2: batch.mask, 3: pairs}[decision.dim()]
            unknown = torch.full_like(decision, NOT_SCORED)
            self.writer.write(
                set_name=self.SET,
                first_graph=self.seen,
                loop=outputs.loop,
                output=output,
                prediction=decision,
                target=batch.targets.get(output.name, unknown),
                confidence=outputs.confidence[output.name].cpu(),
                where=real,
            )
        self.seen += batch.num_graphs

    def on_predict_end(self, trainer: pl.Trainer, pl_module: PairModule) -> None:
        """Closes the table and says where it is."""
        self.writer.close()
        print(f"answers for {self.seen} graphs: {self.path}")

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leaves an earlier table as it was."""
        if hasattr(self, "writer"):
            self.writer.abandon()


def print_scores(rows: list[dict[str, Any]]) -> None:
    """Prints rows of ``scores.json``; scores in percent."""
    table = Table(title="Scores in percent; 95% interval over graphs")
    table.add_column("task")
    table.add_column("set")
    for column in ("n", "graphs", "loops", "score", "interval", "exact graphs"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["task"],
            row["set"],
            str(row["num_nodes"]),
            str(row["num_graphs"]),
            str(row["loops"]),
            f"{100 * row['score']:.2f}",
            f"{100 * row['score_low']:.1f}–{100 * row['score_high']:.1f}",
            f"{100 * row['exact']:.1f}",
        )
    console = Console()
    Console(width=max(console.width, 110)).print(table)
