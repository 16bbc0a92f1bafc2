"""GraphalgoCLI: LightningCLI on run folders."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import tensorboard.compat
from jsonargparse import ArgumentError
from lightning.pytorch.callbacks import ProgressBar, TQDMProgressBar
from lightning.pytorch.cli import LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins.io import CheckpointIO
from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException

from graphalgo.batch import ToPairBatch
from graphalgo.checkpoints import WholeCheckpoints, checkpoint_callbacks
from graphalgo.cli import resolve_arguments
from graphalgo.errors import InputError
from graphalgo.evaluate import PredictReport, TestReport
from graphalgo.module import PairModule
from graphalgo.parser_errors import shortened
from graphalgo.run import (
    claimed_run_folder,
    describe_run,
    keep_earlier_config,
    load_checkpoint,
    prepare_run_folder,
)
from graphalgo.store import atomic_write
from graphalgo.weights import find, load_weights

# TensorBoard imports all of TensorFlow where it is installed (seconds, notices) unless it finds this module.
sys.modules["tensorboard.compat.notf"] = tensorboard.compat


def _input_error(error: BaseException | None) -> InputError | None:
    """The InputError among the causes of an error."""
    while error is not None and not isinstance(error, InputError):
        error = error.__cause__ or error.__context__
    return error


def _as_list(value: Any) -> list:
    return value if isinstance(value, list) else [] if value is None else [value]


def _seed(value: Any) -> int:
    """The setting ``seed_everything`` as the seed of model and data."""
    if isinstance(value, bool) or not 0 <= value < 2**32:
        raise InputError(f"seed_everything must be a whole number from 0 to {2**32 - 1}, got {value}")
    return value


_DATA_NEEDS = ("task", "to_pairs", "val_set_names", "test_set_names", "test_graphs")


def _to_pairs(data: pl.LightningDataModule) -> ToPairBatch:
    """The transform that the model is built from, of a data module that has all that a run needs."""
    missing = [name for name in _DATA_NEEDS if not hasattr(data, name)]
    if missing:
        raise InputError(
            f"the data module {type(data).__name__} has no {', '.join(missing)}; "
            "graphalgo.datamodule.StepDataModule, as its base, says what it must define"
        )
    return data.to_pairs


def _task(data: pl.LightningDataModule) -> str:
    _to_pairs(data)
    return data.task


class SaveRun(SaveConfigCallback):
    """Writes run.json and config.yaml into the run folder when training starts.

    A run that goes on with other settings has those in config.yaml, and the earlier ones in config-1.yaml.
    """

    def __init__(self, parser: Any, config: Any, made_by: str | None = None, **_: Any):
        super().__init__(parser, config, save_to_log_dir=False)
        self.made_by = made_by

    def save_config(self, trainer: pl.Trainer, pl_module: PairModule, stage: str) -> None:
        """See the class; other stages leave the folder's config as it is."""
        if stage != "fit":
            return
        seed = self.config.seed_everything
        describe_run(self.config.run_dir, task=pl_module.task, seed=seed, made_by=self.made_by)
        config = Path(self.config.run_dir) / "config.yaml"
        settings = self.config.clone()
        settings.resume = False
        with atomic_write(config) as path:
            self.parser.save(settings, path, skip_none=False, overwrite=True, multifile=False)
            if config.exists():
                keep_earlier_config(config, path)


class GraphalgoCLI(LightningCLI):
    """LightningCLI whose every command works on one run folder; see :mod:`graphalgo.run`."""

    @classmethod
    def run_command(cls, command: str, args: list[str], made_by: str | None = None) -> GraphalgoCLI:
        """Runs one command with its command-line arguments."""
        # The program's own name stays: Lightning starts it once more for every further device.
        program, sys.argv = sys.argv, [sys.argv[0], command, *args]
        raising = {"exit_on_error": False}
        try:
            return cls(
                PairModule,
                pl.LightningDataModule,
                subclass_mode_data=True,
                save_config_callback=SaveRun,
                save_config_kwargs={"made_by": made_by},
                seed_everything_default=0,
                auto_configure_optimizers=False,
                parser_kwargs=raising | {"prog": "graphalgo"} | {name: raising for name in cls.subcommands()},
            )
        except ArgumentError as error:
            reason = _input_error(error) or InputError(f"{error}\nsee `graphalgo {command} --help`")
            raise reason from error
        except ValueError as error:  # jsonargparse wraps what a class refuses
            if (reason := _input_error(error)) is None:
                if "Does not validate against" not in str(error):
                    raise
                reason = InputError(f"{shortened(str(error), ())}\nsee `graphalgo {command} --help`")
            raise reason from error
        except MisconfigurationException as error:
            hint = "; --trainer.accelerator cpu needs no GPU" if "gpu" in str(error).lower() else ""
            raise InputError(f"the trainer refuses its settings: {str(error).rstrip('.!')}{hint}") from error
        except SystemExit as error:
            if isinstance(error, SIGTERMException):  # it would pass for success
                error.code = 128 + signal.SIGTERM
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise
        finally:
            sys.argv = program

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Lightning's four, without the arguments that the run folder settles."""
        settled = {"ckpt_path", "weights_only", "verbose", "return_predictions"}
        return {name: skipped | settled for name, skipped in LightningCLI.subcommands().items()}

    def add_arguments_to_parser(self, parser: Any) -> None:
        """Adds the run folder and ties the model to the data."""
        parser.add_argument("--run_dir", type=str, required=True, help="Run folder: all of a run is in it.")
        parser.add_argument(
            "--resume",
            type=bool,
            default=False,
            help="fit: go on from the last checkpoint of the run folder.",
        )
        parser.add_argument(
            "--checkpoint",
            type=str,
            default="last",
            help="validate, test, predict: 'last', 'best' (by validation score), or a checkpoint file.",
        )
        parser.add_argument(
            "--pretrained",
            type=str | None,
            default=None,
            help="validate, test, predict: weights that come with the package instead of those of a run; see "
            "`graphalgo pretrained`. The run folder, runs/pretrained/NAME by default, gets the results. A "
            "folder of such weights will do too, of people you trust: its config names the code that runs.",
        )
        parser.add_argument(
            "--checkpoint_every", type=int, default=1000, help="fit: training steps between two checkpoints."
        )
        parser.link_arguments("data", "model.to_pairs", compute_fn=_to_pairs, apply_on="instantiate")
        parser.link_arguments("data", "model.task", compute_fn=_task, apply_on="instantiate")
        parser.link_arguments("seed_everything", "model.seed", compute_fn=_seed)
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=_seed)

    def parse_arguments(self, parser: Any, args: Any) -> None:
        """Parses the command line with its configs found; ``sys.argv`` stays as it was given."""
        given = sys.argv
        if any(arg.partition("=")[0] in ("--data.seed", "--data.init_args.seed") for arg in given):
            raise InputError("the data's seed is that of the run: --seed_everything")
        sys.argv = [*given[:2], *resolve_arguments(given[1], given[2:])]
        try:
            super().parse_arguments(parser, args)
        except ArgumentError as error:
            if _input_error(error) is not None:
                raise
            actions = self._subcommand_parsers[given[1]]._actions
            options = [option.lstrip("-") for action in actions for option in action.option_strings]
            raise ArgumentError(None, shortened(str(error), options)) from error
        finally:
            sys.argv = given

    @property
    def settings(self) -> Any:
        """The parsed settings of the command that runs."""
        return self.config[self.subcommand]

    def before_instantiate_classes(self) -> None:
        """Refuses a run folder that cannot be used before anything costs time."""
        if not str(self.settings.run_dir):
            raise InputError("the run folder has no name; name one: --run_dir runs/NAME")
        if self.settings.pretrained is not None:
            self._check_pretrained()
        if self.subcommand == "fit":
            if self.settings.trainer.max_steps == 0:
                raise InputError("trainer.max_steps must be at least 1, or -1 for no end, got 0")
            if self.settings.trainer.val_check_interval == 0:
                raise InputError("trainer.val_check_interval must be at least 1, got 0")
            prepare_run_folder(self.settings.run_dir, resume=self.settings.resume)

    def _check_pretrained(self) -> None:
        if self.subcommand == "fit":
            raise InputError("--pretrained is for validate, test and predict; fit trains weights of its own")
        if self.settings.checkpoint != "last":
            raise InputError("with --pretrained there is no checkpoint to choose; leave out --checkpoint")
        run_dir = Path(self.settings.run_dir)
        if any((run_dir / name).exists() for name in ("run.json", "checkpoints", "config.yaml")):
            raise InputError(
                f"{run_dir} holds a run of its own; choose another folder for what the weights "
                f"{self.settings.pretrained!r} leave"
            )

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        """The trainer with the run folder's loggers, checkpoints and report."""
        run_dir = Path(self.settings.run_dir)
        kwargs["default_root_dir"] = str(run_dir)
        trainer_config = dict(self._get(self.config_init, "trainer", default={}))
        given = _as_list(trainer_config.get("callbacks"))
        first: list[pl.Callback] = []
        callbacks: list[pl.Callback] = []
        if self.subcommand == "fit":
            first, callbacks = checkpoint_callbacks(run_dir / "checkpoints", self.settings.checkpoint_every)
            plugins = _as_list(trainer_config.get("plugins"))
            if not any(isinstance(plugin, CheckpointIO) for plugin in plugins):
                kwargs["plugins"] = [*plugins, WholeCheckpoints()]
            if trainer_config.get("logger") in (None, True):
                csv = CSVLogger(str(run_dir), name="logs")
                kwargs["logger"] = [csv, TensorBoardLogger(str(run_dir), name="logs", version=csv.version)]
        else:
            kwargs["logger"] = False
        if self.subcommand == "test":
            callbacks.append(TestReport(run_dir))
        if self.subcommand == "predict":
            callbacks.append(PredictReport(run_dir))
        has_bar = any(isinstance(callback, ProgressBar) for callback in given)
        if not has_bar and trainer_config.get("enable_progress_bar") is not False:
            # In a file every refresh is a line. (Rich's bar counts epochs, of which there is no number here.)
            first.append(TQDMProgressBar(refresh_rate=10 if sys.stdout.isatty() else 500))
        kwargs["callbacks"] = [*first, *given, *callbacks]
        try:
            return super().instantiate_trainer(**kwargs)
        except TypeError as error:
            raise InputError(f"the trainer refuses its settings: {str(error).rstrip('.')}") from error

    def checkpoint_path(self) -> str | None:
        """The checkpoint that the settings name, checked; None once the model holds pretrained weights."""
        if self.settings.pretrained is not None:
            saved = load_weights(find(self.settings.pretrained))
            self.model.check_checkpoint(saved)
            self.model.load_state_dict(saved["state_dict"])
            return None
        name = self.settings.checkpoint
        path = self.last_checkpoint.with_stem(name) if name in ("last", "best") else Path(name)
        self.model.check_checkpoint(load_checkpoint(path))
        return str(path)

    @property
    def last_checkpoint(self) -> Path:
        """Where the last checkpoint of the run is, or will be."""
        return Path(self.settings.run_dir) / "checkpoints" / "last.ckpt"

    def fit(self, model: PairModule, datamodule: pl.LightningDataModule, **kwargs: Any) -> None:
        """Trains, from the last checkpoint if asked to, while no other process may train in the folder."""
        run_dir, resume = self.settings.run_dir, self.settings.resume
        with contextlib.ExitStack() as stack:
            if self.trainer.is_global_zero:  # on several devices its process starts the others
                stack.enter_context(claimed_run_folder(run_dir))
                prepare_run_folder(run_dir, resume)  # once more: it may have got a run since
            ckpt_path = None
            if (
                resume
                and not self.last_checkpoint.exists()
                and any(self.last_checkpoint.parent.glob("*.ckpt"))
            ):
                raise InputError(
                    f"{run_dir} has lost its last checkpoint, {self.last_checkpoint.name}, and would start "
                    "anew; to go on from another one, copy it there"
                )
            if resume and self.last_checkpoint.exists():
                model.check_checkpoint(load_checkpoint(self.last_checkpoint))
                ckpt_path = str(self.last_checkpoint)
            self.trainer.fit(model, datamodule=datamodule, ckpt_path=ckpt_path, weights_only=True)
        if self.trainer.is_global_zero:
            print(self.trained())

    def trained(self) -> str:
        """The line at the end of a training."""
        score = self.trainer.callback_metrics.get("val/score")
        scored = "" if score is None else f", last validation score {100 * score:.2f}"
        run_dir = self.settings.run_dir
        done = f"\n{run_dir}: trained {self.trainer.global_step} steps{scored}"
        return f"{done}; next: graphalgo test --run_dir {shlex.quote(str(run_dir))}"

    def validate(self, model: PairModule, datamodule: pl.LightningDataModule, **kwargs: Any) -> None:
        """Scores the validation sets."""
        self.trainer.validate(
            model, datamodule=datamodule, ckpt_path=self.checkpoint_path(), weights_only=True
        )

    def test(self, model: PairModule, datamodule: pl.LightningDataModule, **kwargs: Any) -> None:
        """Scores the test sets and writes the predictions."""
        if not datamodule.test_set_names:
            raise InputError("there is nothing to test: data.tests is empty")
        self.trainer.test(
            model, datamodule=datamodule, ckpt_path=self.checkpoint_path(), weights_only=True, verbose=False
        )
        self.rows = next(
            callback.rows for callback in self.trainer.callbacks if isinstance(callback, TestReport)
        )

    def predict(self, model: PairModule, datamodule: pl.LightningDataModule, **kwargs: Any) -> None:
        """Answers for the user's own graphs."""
        self.trainer.predict(
            model,
            datamodule=datamodule,
            ckpt_path=self.checkpoint_path(),
            weights_only=True,
            return_predictions=False,
        )
