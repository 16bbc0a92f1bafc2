"""PairModule: loops, loss, optimiser, checkpoints, answers."""

import math
import random
import shutil

import lightning.pytorch as pl
import pytest
import torch
import yaml
from torch.nn import functional as F

from clrs_bridge import TASKS, get_task, sample
from graphalgo import InputError, LoopedBlock, OrJoin, Output, PairBatch, PairBlock, PowerMean, ToPairBatch
from graphalgo.cli import lightning, main
from graphalgo.module import PairModule
from tests import tiny

POINTER, MASK = Output("pi", "node", "pointer"), Output("is_cut", "node", "mask")


def module_for(task="bellman_ford", to_pairs=None, width=8, **settings):
    loop = LoopedBlock(PairBlock(width, [OrJoin(width, 4), PowerMean(width, 4)]))
    return PairModule(loop, to_pairs or get_task(task).to_pair_batch(), task, **settings)


def trainer(max_steps=-1):
    return pl.Trainer(
        accelerator="cpu", max_steps=max_steps, max_epochs=1, logger=False, enable_checkpointing=False
    )


def test_loops_depend_on_seed_and_step_alone_and_cover_the_range():
    module = module_for(train_loops=(4, 8), seed=3)
    drawn = [module.draw_loops(step) for step in range(300)]
    assert set(drawn) == {4, 5, 6, 7, 8}
    counts = [drawn.count(loops) for loops in range(4, 9)]
    assert min(counts) > 35  # 60 expected, standard deviation 7
    random.seed(1)
    torch.manual_seed(1)
    same = module_for("bfs", width=4, train_loops=(4, 8), seed=3, learning_rate=1.0)
    assert [same.draw_loops(step) for step in reversed(range(300))] == drawn[::-1]
    other = module_for(train_loops=(4, 8), seed=4)
    assert [other.draw_loops(step) for step in range(300)] != drawn
    assert {module_for(train_loops=(5, 5)).draw_loops(step) for step in range(20)} == {5}


@pytest.mark.parametrize("loops", [(0, 3), (5, 4), (-2, -1)])
def test_loops_that_are_no_range_are_refused(loops):
    with pytest.raises(InputError, match="train_loops must be"):
        module_for(train_loops=loops)
    with pytest.raises(InputError, match="test_loops must be at least 1"):
        module_for(test_loops=loops[0] if loops[0] < 1 else 0)


def test_loss_has_a_known_answer():
    module = module_for("made up", ToPairBatch(outputs=[POINTER, MASK]))
    logits = {
        # Vertex 0 gives its own parent (1) three quarters, vertex 1 a half; vertex 2 is not scored.
        "pi": torch.tensor([[[0.0, math.log(3.0), -torch.inf], [1.0, 1.0, -torch.inf], [9.0, 0.0, 0.0]]]),
        "is_cut": torch.tensor([[0.0, math.log(3.0), 5.0]]),
    }
    targets = {"pi": torch.tensor([[1, 0, -1]]), "is_cut": torch.tensor([[1, 0, -1]])}
    batch = PairBatch(torch.zeros(1, 3, 3, 3), torch.ones(1, 3, dtype=torch.bool), targets)
    pointer = (math.log(4 / 3) + math.log(2)) / 2
    mask = (math.log(2) + math.log(4)) / 2
    assert module.loss(logits, batch).item() == pytest.approx((pointer + mask) / 2, rel=1e-6)


def test_unlabelled_graphs_are_not_trained_on():
    module = module_for()
    graphs = sample("bellman_ford", 4, 2, 0)
    for graph in graphs:
        del graph.pi
    batch = module.to_pairs(graphs)
    with pytest.raises(InputError, match="not labelled with pi, which bellman_ford trains on"):
        module.loss(module(batch), batch)


def schedule_of(max_steps, warmup_steps):
    module = module_for(warmup_steps=warmup_steps, learning_rate=0.5)
    module.trainer = trainer(max_steps)
    configured = module.configure_optimizers()
    assert configured["lr_scheduler"]["interval"] == "step"
    schedule = configured["lr_scheduler"]["scheduler"]
    assert schedule.base_lrs == [0.5, 0.5]
    return schedule.lr_lambdas[0]


def test_learning_rate_warms_up_linearly_and_falls_as_a_cosine_to_zero():
    factor = schedule_of(max_steps=100, warmup_steps=4)
    for step in (0, 1, 2, 3, 4, 25, 50, 99, 100):
        expected = min(1, (step + 1) / 4) * (1 + math.cos(math.pi * step / 100)) / 2
        assert factor(step) == pytest.approx(expected, abs=1e-12)
    assert factor(50) == pytest.approx(0.5) and factor(100) == pytest.approx(0, abs=1e-12)
    assert factor(150) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("max_steps", [-1, 0])
def test_learning_rate_stays_up_without_a_number_of_steps(max_steps):
    factor = schedule_of(max_steps, warmup_steps=0)
    assert [factor(step) for step in (0, 1, 10**6)] == [1, 1, 1]


def test_weight_decay_is_for_matrices():
    module = module_for(weight_decay=0.1, warmup_steps=0, learning_rate=0.5)
    module.trainer = trainer()
    optimizer = module.configure_optimizers()["optimizer"]
    grouped = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in module.parameters())
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    dims = set()
    for name, p in module.named_parameters():
        dims.add(min(p.dim(), 2))
        expected = before[name] * (1 - 0.5 * 0.1) if p.dim() >= 2 else before[name]
        torch.testing.assert_close(p.detach(), expected)
    assert dims == {1, 2}


def checkpoint_of(module):
    checkpoint = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    return checkpoint


def test_checkpoint_of_the_same_module_is_taken():
    module_for().check_checkpoint(checkpoint_of(module_for()))
    module_for().on_load_checkpoint(checkpoint_of(module_for(seed=1, test_loops=9)))


FEWER = ToPairBatch(["pos"], ["edge_weight"], ["pos"], [POINTER])
NO_ORDER = ToPairBatch(["pos", "s"], ["edge_weight"], [], [POINTER])


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (lambda: module_for("dijkstra"), "another task: it has 'dijkstra', this run has 'bellman_ford'"),
        (lambda: module_for(to_pairs=FEWER), r"another node_attrs: it has \['pos'\]"),
        (lambda: module_for(to_pairs=NO_ORDER), r"another order_attrs: it has \[\], this run has \['pos'\]"),
        (lambda: module_for(width=4), r"another model: it has model.encode.weight \[4, 10\], .* \[8, 10\]"),
    ],
)
def test_checkpoint_of_something_else_is_refused(theirs, message):
    with pytest.raises(InputError, match=message):
        module_for().on_load_checkpoint(checkpoint_of(theirs()))


def test_checkpoint_of_another_architecture_is_refused():
    ours, theirs = module_for(), module_for()
    theirs.model.loop.block.mixers = theirs.model.loop.block.mixers[:1]
    with pytest.raises(InputError, match=r"another model: it has .*mixers.1.* not at all, this run \["):
        ours.check_checkpoint(checkpoint_of(theirs))
    with pytest.raises(InputError, match=r"another model: it has .*mixers.1.* \[.*\], this run not at all"):
        theirs.check_checkpoint(checkpoint_of(ours))


def test_foreign_checkpoint_is_refused():
    with pytest.raises(InputError, match="not written by graphalgo"):
        module_for().on_load_checkpoint({"state_dict": {}})


@pytest.mark.parametrize("task", TASKS)
def test_answers_of_many_graphs_are_those_of_each(task):
    module = module_for(task, test_loops=3).eval()
    graphs = [graph for n in (4, 7, 5) for graph in sample(task, n, 2, n)]
    together = module.answer(graphs)
    alone = [answers for graph in graphs for answers in module.answer(graph)]
    assert len(together) == len(alone) == 6
    for graph, left, right in zip(graphs, together, alone, strict=True):
        n = graph.num_nodes
        assert list(left) == [output.name for output in get_task(task).outputs]
        for output in get_task(task).outputs:
            shape = () if output.type == "mask_one" else (n,) if output.location == "node" else (n, n)
            assert left[output.name].shape == shape
            assert torch.equal(left[output.name], right[output.name])
            assert 0 <= left[output.name].min() and left[output.name].max() < (
                2 if output.type == "mask" else n
            )


def test_answers_need_no_labels_and_take_a_number_of_steps():
    module = module_for(test_loops=2)
    graph = sample("bellman_ford", 6, 1, 0)[0]
    whole = module.answer(graph)
    del graph.pi
    assert torch.equal(module.answer(graph)[0]["pi"], whole[0]["pi"])
    logits = module.model(module.to_pairs(graph), 5)["pi"]
    assert torch.equal(module.answer(graph, num_steps=5)[0]["pi"], logits[0].argmax(dim=-1))


def test_confidence_is_the_probability_of_the_answer():
    module = module_for("articulation_points", test_loops=2)
    batch = module.to_pairs(sample("articulation_points", 6, 3, 0))
    answers = module.answers(batch)
    assert [answer.loop for answer in answers] == [1, 2]
    logits = module(batch)["is_cut"].detach()
    probability = torch.stack([torch.sigmoid(-logits), torch.sigmoid(logits)], dim=-1)
    chosen = probability.gather(-1, answers[-1].decision["is_cut"].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(answers[-1].confidence["is_cut"].detach(), chosen)
    assert (chosen >= 0.5).all()
    module = module_for(test_loops=1)
    batch = module.to_pairs(sample("bellman_ford", 6, 3, 0))
    last = module.predict_step(batch, 0)
    assert torch.equal(last.confidence["pi"], F.softmax(module(batch)["pi"], dim=-1).amax(dim=-1))


def test_block_is_compiled_once_for_all_sizes_if_asked_for(monkeypatch):
    """That what is compiled is equal, and compiled once, is tested with the block."""
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **how: compiled.append((self, how)))
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", False)
    module_for()
    assert compiled == []
    module = module_for(compile_block=True)
    assert compiled == [(module.model.loop.block, {"dynamic": True})]
    assert torch._dynamo.config.fail_on_recompile_limit_hit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny.fit(tmp_path_factory.mktemp("module") / "run")


@pytest.mark.parametrize("checkpoint", ["last", "best"])
def test_module_of_a_run_is_the_trained_one(run, checkpoint):
    trained = lightning("validate", ["--run_dir", str(run), "--checkpoint", checkpoint]).model
    made = PairModule.from_run(run, checkpoint)
    assert not made.training
    assert made.to_pairs.settings() == trained.to_pairs.settings()
    for name in ("task", "train_loops", "test_loops", "learning_rate", "weight_decay", "warmup_steps"):
        assert getattr(made, name) == getattr(trained, name), name
    batch = made.to_pairs(sample("bellman_ford", 9, 2, 0))
    assert torch.equal(made(batch)["pi"], trained(batch)["pi"])
    weights = tiny.read_checkpoint(run, checkpoint)["state_dict"]
    assert tiny.differences(dict(made.state_dict()), dict(weights)) == []


def test_module_of_a_folder_that_holds_no_run_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="cannot read the config .*missing/config.yaml: No such file"):
        PairModule.from_run(tmp_path / "missing")
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    with pytest.raises(InputError, match="there is no checkpoint .*/other.ckpt"):
        PairModule.from_run(folder, "other")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for settings, message in (
        (None, "describes no model"),
        ([1, 2], "describes no model"),
        ({**config["model"], "depth": 3}, "describes no model"),
        ({**config["model"], "test_loops": "many"}, "describes no model"),
    ):
        (folder / "config.yaml").write_text(yaml.safe_dump({**config, "model": settings}))
        with pytest.raises(InputError, match=message):
            PairModule.from_run(folder)
    (folder / "config.yaml").write_text("{")
    with pytest.raises(InputError, match="config.yaml is damaged"):
        PairModule.from_run(folder)
    wide = (run / "config.yaml").read_text().replace("width: 8", "width: 16")
    (folder / "config.yaml").write_text(wide)
    with pytest.raises(InputError, match="another model"):
        PairModule.from_run(folder)
    torch.save({"state_dict": {}}, folder / "checkpoints" / "last.ckpt")
    with pytest.raises(InputError, match="does not say which task"):
        PairModule.from_run(folder)


@pytest.fixture
def trained_weights(monkeypatch):
    """The weights after every training step of a module in this process."""
    seen = {}

    def note(module, *_):
        seen[module.trainer.global_step] = {
            name: w.detach().clone() for name, w in module.state_dict().items()
        }

    monkeypatch.setattr(PairModule, "on_train_batch_end", note)
    return seen


def test_averaged_weights_are_kept_resumed_and_tested(tmp_path, trained_weights, monkeypatch):
    """The way that PairModule's docstring recommends: EMAWeightAveraging in trainer.callbacks."""
    config = yaml.safe_load(tiny.CONFIG.read_text())
    averaging = {"class_path": "lightning.pytorch.callbacks.EMAWeightAveraging", "init_args": {"decay": 0.75}}
    config["trainer"]["callbacks"] = [averaging]
    path = tmp_path / "averaged.yaml"
    path.write_text(yaml.safe_dump(config))
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert main(["fit", "--config", str(path), "--run_dir", str(whole)]) == 0

    average = trained_weights[1]
    for step in range(2, 11):
        average = {name: 0.75 * w + 0.25 * trained_weights[step][name] for name, w in average.items()}
    saved = tiny.read_checkpoint(whole)
    assert tiny.differences(dict(saved["current_model_state"]), trained_weights[10]) == []
    for name, weight in saved["state_dict"].items():
        torch.testing.assert_close(weight, average[name])
    assert not torch.equal(
        saved["state_dict"]["model.encode.weight"], trained_weights[10]["model.encode.weight"]
    )

    def stop(module, batch, batch_idx):
        if module.global_step == 7:
            raise RuntimeError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(PairModule, "on_train_batch_start", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            main(["fit", "--config", str(path), "--run_dir", str(stopped)])
    assert tiny.read_checkpoint(stopped)["global_step"] == 6
    assert main(["fit", "--run_dir", str(stopped), "--resume", "true"]) == 0
    resumed = tiny.read_checkpoint(stopped)
    for part in ("state_dict", "current_model_state", "averaging_state", "optimizer_states"):
        assert tiny.differences(resumed[part], saved[part]) == [], part

    tested = lightning("test", ["--run_dir", str(stopped)])
    assert tiny.differences(dict(tested.model.state_dict()), dict(saved["state_dict"])) == []
    assert tiny.differences(dict(PairModule.from_run(stopped).state_dict()), dict(saved["state_dict"])) == []
