"""When a run has converged, on a model whose accuracy at each batch is written down."""

import csv
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from graphalgo.batch import ToPairBatch
from graphalgo.checkpoints import checkpoint_callbacks
from graphalgo.convergence import Converged
from graphalgo.errors import InputError
from graphalgo.steps import StepBatches, StepLoader
from tests import tiny

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory .* exists and is not empty"),
]

#           checks of 2 steps: 0.45     1.0        0.9        0.8        0.95       1.0        1.0
ACCURACY = [0.0, 0.9, 1.0, 1.0, 1.0, 0.8, 0.7, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0]
SETTINGS = {"accuracy": 0.875, "checks": 2, "every": 2}


class Batches(StepBatches):
    """Batch t says that it is batch t."""

    def __getitem__(self, step):
        return SimpleNamespace(at=step, num_graphs=5)


class Told(pl.LightningModule):
    """Trains on nothing; accuracy at batch t is ``ACCURACY[t]``."""

    def __init__(self, returned=lambda accuracy: {"accuracy": accuracy}):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.returned = returned
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch.at)
        return {"loss": self.weight * 1.0, **self.returned(torch.tensor(ACCURACY[batch.at]))}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(folder, ckpt_path=None, model=None, settings=SETTINGS, max_steps=14, **trainer_settings):
    """Runs to its end, keeping ``last.ckpt`` as ``graphalgo fit`` does; returns callback, model, trainer."""
    before, after = checkpoint_callbacks(folder, 1000)
    converged, model = Converged(**settings), model or Told()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=max_steps,
        callbacks=[*before, converged, after[1]],
        logger=CSVLogger(folder, name="logs"),
        enable_progress_bar=False,
        enable_model_summary=False,
        **trainer_settings,
    )
    length = max_steps * trainer.accumulate_grad_batches
    batches = Batches(lambda slot, round_: [], ToPairBatch(), num_sizes=1, seed=0, length=length)
    progress = trainer.fit_loop.epoch_loop.batch_progress
    loader = StepLoader(batches, lambda: progress.total.processed)
    trainer.fit(model, loader, ckpt_path=ckpt_path, weights_only=True)
    return converged, model, trainer


def logged(folder, name, version=0):
    with (folder / "logs" / f"version_{version}" / "metrics.csv").open() as file:
        return {int(row["step"]): float(row[name]) for row in csv.DictReader(file) if row.get(name)}


def test_run_ends_after_as_many_good_checks_in_a_row(tmp_path, capsys):
    converged, model, trainer = fit(tmp_path)
    assert converged.converged_step == 6 == len(model.seen) == trainer.global_step
    checks = logged(tmp_path, "train/check_accuracy")
    assert checks == pytest.approx({1: 0.45, 3: 1.0, 5: 0.9})
    assert logged(tmp_path, "train/converged_step") == {5: 6}
    printed = capsys.readouterr().out.splitlines()
    reached = "training accuracy at least 87.5% in 2 checks in a row, 90.00% in the last"
    expected = f"converged at step 6 (30 graphs): {reached}"
    assert [line for line in printed if "converged" in line] == [expected]
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 6


def test_bad_check_starts_the_count_anew(tmp_path):
    converged, model, _ = fit(tmp_path, settings={**SETTINGS, "accuracy": 0.92, "checks": 3})
    assert converged.converged_step == 14 == len(model.seen)
    assert fit(tmp_path, settings={**SETTINGS, "accuracy": 0.92, "checks": 4})[0].converged_step is None


def test_run_that_is_not_to_stop_only_notes_it(tmp_path, capsys):
    converged, model, _ = fit(tmp_path, settings={**SETTINGS, "stop": False})
    assert converged.converged_step == 6 and len(model.seen) == len(ACCURACY)
    assert logged(tmp_path, "train/converged_step") == {5: 6}
    assert len(logged(tmp_path, "train/check_accuracy")) == len(ACCURACY) // 2
    assert capsys.readouterr().out.count("converged at") == 1


@pytest.mark.parametrize("stopped_at", range(1, 6))
def test_resumed_run_ends_at_the_same_step(tmp_path, stopped_at):
    fit(tmp_path, max_steps=stopped_at)
    converged, model, _ = fit(tmp_path, tmp_path / "last.ckpt")
    assert converged.converged_step == 6
    assert model.seen == list(range(stopped_at, 6))
    assert converged.state_dict() == fit(tmp_path / "whole")[0].state_dict()


def test_converged_run_is_not_trained_on_unless_asked_otherwise(tmp_path):
    fit(tmp_path)
    (tmp_path / "last.ckpt").rename(tmp_path / "converged.ckpt")
    assert fit(tmp_path, tmp_path / "converged.ckpt")[1].seen == []
    assert fit(tmp_path, tmp_path / "converged.ckpt", settings={**SETTINGS, "stop": False})[1].seen != []
    assert fit(tmp_path, tmp_path / "converged.ckpt", settings={**SETTINGS, "accuracy": 0.99})[1].seen != []


def test_accumulated_batches_are_one_step(tmp_path):
    converged, model, _ = fit(
        tmp_path, settings={**SETTINGS, "every": 1}, max_steps=7, accumulate_grad_batches=2
    )
    assert converged.converged_step == 3 and len(model.seen) == 6
    assert logged(tmp_path, "train/check_accuracy") == pytest.approx({0: 0.45, 1: 1.0, 2: 0.9})


def test_training_step_without_accuracy_is_refused(tmp_path):
    with pytest.raises(InputError, match="Told.training_step returns none"):
        fit(tmp_path, model=Told(lambda accuracy: {}))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"accuracy": 0.0}, "accuracy must be a share"),
        ({"accuracy": 99.5}, "accuracy must be a share"),
        ({"checks": 0}, "checks must be at least 1"),
        ({"every": 0}, "every must be at least 1"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        Converged(**settings)


def test_config_ends_a_run_and_a_resumed_one_at_the_same_step(tmp_path, capsys):
    callback = (
        "[{class_path: graphalgo.convergence.Converged, init_args: {accuracy: 0.01, checks: 2, every: 3}}]"
    )
    options = ["--trainer.callbacks", callback, "--trainer.limit_val_batches", "0"]
    whole = tiny.fit(tmp_path / "whole", *options)
    stopped = tiny.fit(tmp_path / "stopped", *options, "--trainer.max_steps", 4)
    tiny.fit(stopped, *options, "--resume", "true")
    assert capsys.readouterr().out.count("converged at step 6 (24 graphs)") == 2
    ours, theirs = tiny.read_checkpoint(stopped), tiny.read_checkpoint(whole)
    assert ours["global_step"] == theirs["global_step"] == 6
    name = next(key for key in theirs["callbacks"] if key.startswith("Converged"))
    assert ours["callbacks"][name] == theirs["callbacks"][name]
