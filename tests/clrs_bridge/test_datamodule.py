import os

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser

from clrs_bridge import TASKS, official, sample
from clrs_bridge.datamodule import CLRSDataModule, TestSet
from graphalgo.errors import InputError
from graphalgo.store import save_graphs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint"),
]


class Tiny(pl.LightningModule):
    """Learns something from each batch, and notes what it saw."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []
        self.evaluated = []

    def training_step(self, batch, batch_idx):
        self.seen.append((batch.mask.size(1), batch.targets["pi"].tolist()))
        return self.layer(batch.x[..., 3:4]).square().mean()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.evaluated.append((dataloader_idx, tuple(batch.mask.shape)))
        self.log("loss", self.layer(batch.x[..., 3:4]).mean(), batch_size=batch.num_graphs)

    test_step = validation_step

    def predict_step(self, batch, batch_idx):
        return batch.num_nodes.tolist()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.1)


def trainer(folder=None, **settings):
    callbacks = []
    if folder is not None:
        every = {"dirpath": folder, "save_top_k": -1}
        callbacks.append(ModelCheckpoint(**every, every_n_train_steps=1, filename="train-{step}"))
        callbacks.append(ModelCheckpoint(**every, monitor="loss", filename="val-{step}"))
    return pl.Trainer(
        accelerator="cpu",
        num_sanity_val_steps=0,
        callbacks=callbacks,
        enable_checkpointing=folder is not None,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def data(**changes):
    small = {"task": "bellman_ford", "sizes": [4, 6], "batch_size": 3, "val_num_nodes": [4], "val_graphs": 2}
    small["train_graphs"] = 20
    return CLRSDataModule(**{**small, **changes})


def fit(ckpt_path=None, folder=None, changes=None, **settings):
    model = Tiny()
    datamodule = data(**(changes or {}))
    trainer(folder, **settings).fit(model, datamodule=datamodule, ckpt_path=ckpt_path, weights_only=True)
    return model


STEPS = {"max_steps": 6, "val_check_interval": 2, "check_val_every_n_epoch": None}


@pytest.mark.parametrize(
    "changes, settings",
    [
        ({"train_graphs": None}, STEPS),
        ({"train_graphs": 8}, STEPS),
        ({"train_graphs": 8}, {"max_epochs": 2}),
        ({"train_graphs": 8}, {**STEPS, "max_steps": 4, "accumulate_grad_batches": 2}),
        ({"train_graphs": None, "num_workers": 2}, {**STEPS, "max_steps": 3}),
    ],
    ids=["stream", "pool", "epochs", "accumulated", "workers"],
)
def test_run_resumed_anywhere_equals_the_uninterrupted_one(tmp_path, changes, settings):
    whole = fit(None, tmp_path, changes, **settings)
    names = os.listdir(tmp_path)
    assert len(names) >= 4
    for name in names:
        resumed = fit(tmp_path / name, None, changes, **settings)
        assert resumed.seen == whole.seen[len(whole.seen) - len(resumed.seen) :], name
        assert torch.equal(resumed.layer.weight, whole.layer.weight), name


def test_run_can_be_made_longer(tmp_path):
    fit(None, tmp_path, None, **STEPS)
    whole = fit(None, None, None, **{**STEPS, "max_steps": 10})
    resumed = fit(tmp_path / "train-step=6.ckpt", None, None, **{**STEPS, "max_steps": 10})
    assert resumed.seen == whole.seen[6:] and torch.equal(resumed.layer.weight, whole.layer.weight)


def test_resuming_on_other_data_warns(tmp_path):
    fit(None, tmp_path, None, **STEPS)
    with pytest.warns(UserWarning, match="other training batches than before: batch_size 3 -> 2, seed 0"):
        fit(tmp_path / "train-step=2.ckpt", None, {"batch_size": 2, "seed": 1}, **STEPS)


def test_seed_decides_training_and_not_validation():
    def graphs(seed):
        made = data(train_graphs=20, seed=seed)
        return [[d.pi.tolist() for pool in sets for d in pool] for sets in (made._pools(), made._val_sets())]

    first, again, other = graphs(0), graphs(0), graphs(1)
    assert first == again
    assert first[0] != other[0] and first[1] == other[1]


def test_pool_is_shared_out_over_sizes():
    made = data(train_graphs=11, sizes=[4, 5, 6], edge_probs=[0.2, 0.9], random_pos=True)
    pools = made._pools()
    assert [(len(pool), pool[0].num_nodes) for pool in pools] == [(4, 4), (4, 5), (3, 6)]
    assert not torch.equal(pools[0][0].pos, pools[0][1].pos)
    assert torch.equal(made._val_sets()[0][0].pos, torch.arange(4) / 4)


def test_default_test_sets_are_the_official_one_and_a_larger_fresh_one():
    made = data(task="bfs")
    assert made.test_set_names == ["official-64", "fresh-128"]
    for left, right in zip(made.test_graphs("official-64"), official("bfs", "test"), strict=True):
        assert torch.equal(left.edge_index, right.edge_index) and torch.equal(left.pi, right.pi)


def test_test_sets_are_named_by_what_differs():
    tests = [
        TestSet(official=True),
        TestSet(),
        TestSet(num_nodes=128, num_graphs=4),
        TestSet(edge_prob=0.25),
        TestSet(num_nodes=9, num_graphs=5, seed=7),
    ]
    made = data(tests=tests)
    assert made.test_set_names == ["official-64", "fresh-64", "fresh-128", "fresh-64-p0.25", "fresh-9-s7"]
    left, right = made.test_graphs("fresh-9-s7"), sample("bellman_ford", 9, 5, 7)
    assert [d.edge_weight.tolist() for d in left] == [d.edge_weight.tolist() for d in right]
    with pytest.raises(InputError, match="no test set 'fresh-7'"):
        made.test_graphs("fresh-7")


def test_evaluation_sees_every_graph_once_in_order(tmp_path):
    tests = [TestSet(num_nodes=5, num_graphs=5), TestSet(num_nodes=7, num_graphs=2)]
    made = data(tests=tests, test_batch_size=2, val_num_nodes=[4, 5], val_graphs=3)
    assert made.val_set_names == ["fresh-4", "fresh-5"]
    model = Tiny()
    trainer().test(model, datamodule=made, verbose=False)
    assert model.evaluated == [(0, (2, 5)), (0, (2, 5)), (0, (1, 5)), (1, (2, 7))]
    targets = torch.cat([batch.targets["pi"] for batch in made.test_dataloader()[0]])
    assert targets.tolist() == [d.pi.tolist() for d in made.test_graphs("fresh-5")]
    model.evaluated = []
    trainer().validate(model, datamodule=made, verbose=False)
    assert model.evaluated == [(0, (2, 4)), (0, (1, 4)), (1, (2, 5)), (1, (1, 5))]
    own = tmp_path / "own.safetensors"
    save_graphs(own, sample("bellman_ford", 3, 1, 1) + sample("bellman_ford", 9, 1, 1), {})
    assert trainer().predict(Tiny(), data(predict_graphs=str(own))) == [[3, 9]]


def test_training_without_validation_works():
    model = fit(None, None, None, max_steps=2, limit_val_batches=0)
    assert len(model.seen) == 2 and model.evaluated == []


@pytest.mark.parametrize("task", TASKS)
def test_features_and_outputs_are_those_of_the_batches(task):
    made = data(task=task, train_graphs=4)
    batch = next(iter(made.train_dataloader()))
    assert batch.x.size(-1) == made.num_features
    assert list(batch.targets) == [output.name for output in made.outputs]


def test_graphs_come_from_the_cache_the_second_time(tmp_path, monkeypatch):
    def graphs():
        made = data(data_dir=str(tmp_path), train_graphs=4, tests=[TestSet(5, 2)])
        for stage in ("fit", "test"):
            made.setup(stage)
        sets = [*made._pools(), *made._val_sets(), made.test_graphs("fresh-5")]
        return [d.pi.tolist() for graphs in sets for d in graphs]

    first = graphs()
    monkeypatch.setattr("clrs_bridge.dataset.sample", None)
    assert graphs() == first
    cache = tmp_path / "processed"
    damaged = cache / sorted(os.listdir(cache))[0]
    damaged.write_bytes(b"rubbish")
    with pytest.raises(InputError, match="force_reload=True"):
        graphs()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"task": "sorting"}, "unknown task 'sorting'"),
        ({"train_graphs": 0}, "at least one training graph"),
        ({"train_graphs": 1}, "at least one training graph"),
        ({"sizes": []}, "at least one size"),
        ({"task": "strongly_connected_components", "sizes": [3]}, "at least 4 vertices; sizes has"),
        ({"val_num_nodes": [1]}, "val_num_nodes has"),
        ({"tests": [TestSet(1)]}, "tests has"),
        ({"tests": [TestSet(8), TestSet(8, 5)]}, "two test sets are called fresh-8"),
        ({"edge_probs": []}, "edge_probs"),
        ({"edge_probs": [0.5, 0.0]}, "edge_probs"),
        ({"val_graphs": 0}, "val_graphs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"num_workers": -1}, "num_workers must be at least 0"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        data(**changes)


def test_bad_sets_are_named(tmp_path):
    with pytest.raises(InputError, match="leave out num_nodes, edge_prob"):
        TestSet(num_nodes=32, edge_prob=0.1, official=True)
    with pytest.raises(InputError, match="set predict_graphs"):
        data().predict_dataloader()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        data(data_dir=str(tmp_path / "file")).setup("fit")


@pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")
def test_yaml_gives_the_data_module():
    parser = LightningArgumentParser()
    parser.add_lightning_class_args(CLRSDataModule, "data")
    config = parser.parse_string(
        """
        data:
          task: bfs
          train_graphs: null
          sizes: [4, 7]
          edge_probs: [0.1, 0.5]
          tests: [{official: true}, {num_nodes: 128, edge_prob: 0.25}]
        """
    )
    made = parser.instantiate_classes(config).data
    assert made.sizes == [4, 7] and made.test_set_names == ["official-64", "fresh-128-p0.25"]
    again = parser.instantiate_classes(parser.parse_string(parser.dump(config))).data
    assert again.tests == made.tests
    assert "Name of the task" in parser.format_help()
