"""The base of data modules, on the task of its own docstring: paths, whose vertices point back one step.

Resumption, epochs and workers are tested on ``CLRSDataModule``, which has both kinds of sources.
"""

import lightning.pytorch as pl
import pytest
import torch
import yaml
from torch_geometric.data import Data

from graphalgo.batch import Output, ToPairBatch
from graphalgo.cli import main
from graphalgo.datamodule import StepDataModule
from graphalgo.errors import InputError
from graphalgo.steps import derive_seed
from tests import tiny

NAMES = {"val_set_names": ["chains-4"], "test_set_names": ["chains-6"]}


def chain(size, seed):
    """A path over vertices in random order; each but the source points at the one before it."""
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    graph = Data(num_nodes=size, edge_index=torch.stack([order[:-1], order[1:]]))
    graph.s = torch.zeros(size).index_fill_(0, order[:1], 1)
    graph.pi = torch.empty(size, dtype=torch.long).index_copy_(0, order, torch.cat([order[:1], order[:-1]]))
    return graph


class Chains(StepDataModule):
    def __init__(self, batch_size: int = 4, seed: int = 0, task: str = "chains", **settings):
        to_pairs = ToPairBatch(node_attrs=("s",), outputs=(Output("pi", "node", "pointer"),))
        super().__init__(task, to_pairs, **{**NAMES, **settings}, batch_size=batch_size, seed=seed)

    def train_source(self, rank, world_size):
        def source(slot, round_):
            first = (round_ * world_size + rank) * self.batch_size
            return [chain(4, derive_seed(self.seed, first + g)) for g in range(self.batch_size)]

        return source

    def validation_graphs(self, name):
        return [chain(4, derive_seed("val", g)) for g in range(3)]

    def test_graphs(self, name):
        return [chain(6, derive_seed("test", g)) for g in range(3)]


class Bare(pl.LightningDataModule):
    def __init__(self, seed: int = 0):
        super().__init__()


def config(tmp_path, class_name):
    settings = yaml.safe_load(tiny.CONFIG.read_text())
    settings["data"] = {"class_path": f"{__name__}.{class_name}", "init_args": {}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return ["--config", str(path), "--run_dir", str(tmp_path / "run")]


def test_own_task_is_trained_and_tested(tmp_path, capsys):
    assert main(["fit", *config(tmp_path, "Chains"), "--trainer.max_steps", "2"]) == 0
    assert main(["test", "--run_dir", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "chains" in printed and "chains-6" in printed


def test_data_module_without_what_a_run_needs_is_refused(tmp_path, capsys):
    assert main(["fit", *config(tmp_path, "Bare")]) == 2
    assert "Bare has no task, to_pairs, val_set_names, test_set_names" in capsys.readouterr().err


def test_batches_are_those_of_the_source_and_sets_those_of_their_names():
    made = Chains(seed=3, test_batch_size=2)
    batch = next(iter(made.train_dataloader()))
    expected = made.to_pairs(made.train_source(0, 1)(0, 0))
    assert torch.equal(batch.x, expected.x) and torch.equal(batch.targets["pi"], expected.targets["pi"])
    sizes = [[batch.num_nodes.tolist() for batch in loader] for loader in made.test_dataloader()]
    assert sizes == [[[6, 6], [6]]]
    assert made.num_features == len(made.to_pairs.feature_names) and made.outputs == made.to_pairs.outputs
    assert made.state_dict() == {"task": "chains", "batch_size": 4, "seed": 3}


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"task": ""}, "needs a name"),
        ({"num_sizes": 0}, "at least one size"),
        ({"val_set_names": ["a", "b", "a"]}, "two validation sets are called a"),
        ({"test_set_names": ["a", "a"]}, "two test sets are called a"),
        ({"test_set_names": ["a/b"]}, "without slashes"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"test_batch_size": 0}, "test_batch_size must be at least 1"),
        ({"num_workers": -1}, "num_workers must be at least 0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        Chains(**settings)


def test_undefined_methods_are_named():
    class Half(StepDataModule):
        def test_graphs(self, name):
            return []

    with pytest.raises(InputError, match="Half does not define train_source, validation_graphs;"):
        Half("half", Chains().to_pairs, **NAMES)
