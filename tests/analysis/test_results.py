import statistics
from collections import Counter

import pytest
import torch

from analysis.results import over_seeds, published, read_results, training_minutes
from clrs_bridge import TASKS, official
from graphalgo.errors import InputError
from graphalgo.metrics import OfficialScore
from tests import fake_runs


def test_rows_tell_what_the_run_was(tmp_path):
    rows = [fake_runs.scores("dfs", 0.5), fake_runs.scores("dfs", 0.25, 128, "fresh-128")]
    run = fake_runs.make(tmp_path / "run", rows, seed=3, steps=700)
    about = {"run": str(run), "seed": 3, "width": 32, "train_loops": [4, 8], "steps": 700, "minutes": 5.0}
    assert read_results([run]) == [about | row for row in rows]


def test_what_a_run_did_not_keep_is_none(tmp_path):
    settings = fake_runs.config() | {"model": {"loop": "something else"}}
    run = fake_runs.make(tmp_path / "run", [fake_runs.scores("dfs", 0.5)], settings=settings, starts=())
    (run / "checkpoints" / "last.ckpt").unlink()
    (row,) = read_results([run])
    assert {row[name] for name in ("width", "train_loops", "steps", "minutes")} == {None}


def test_minutes_are_of_every_start_and_of_none_in_between(tmp_path):
    starts = ((0.0, 50.0, 120.0), (9000.0, 9030.0, 9060.0), ())
    run = fake_runs.make(tmp_path / "run", [fake_runs.scores("dfs", 0.5)], starts=starts)
    assert training_minutes(run) == pytest.approx(3.0)
    events = run / "logs" / "version_1" / "events.out.tfevents.1.host.2.0"
    events.write_bytes(events.read_bytes()[:-3])  # killed while it wrote
    assert training_minutes(run) == pytest.approx(2.5)


def test_untested_and_damaged_runs_are_refused(tmp_path):
    run = fake_runs.make(tmp_path / "run", [fake_runs.scores("dfs", 0.5)])
    for name, text, reason in (
        ("config.yaml", "[", "cannot read"),
        ("config.yaml", "1", "not the config"),
        ("test/scores.json", "{", "damaged"),
    ):
        kept = (run / name).read_text()
        (run / name).write_text(text)
        with pytest.raises(InputError, match=reason):
            read_results([run])
        (run / name).write_text(kept)
    (run / "test" / "scores.json").unlink()
    with pytest.raises(InputError, match="not tested; run `graphalgo test"):
        read_results([run])
    with pytest.raises(InputError, match="holds no run"):
        read_results([tmp_path])


def test_seeds_are_averaged_set_by_set(tmp_path):
    scores = {0: 0.90, 1: 0.94, 2: 0.98}
    runs = [
        fake_runs.make(
            tmp_path / str(seed),
            [fake_runs.scores("bfs", score), fake_runs.scores("bfs", score - 0.5, 128, "fresh-128")],
            seed=seed,
            starts=((0.0, 60.0 * (seed + 1)),),
        )
        for seed, score in scores.items()
    ]
    runs.append(fake_runs.make(tmp_path / "dfs", [fake_runs.scores("dfs", 0.7)]))
    here, larger, alone = over_seeds(read_results(runs))
    assert (here["set"], here["seeds"], here["minutes"]) == ("official-64", (0, 1, 2), 2.0)
    assert (larger["set"], larger["num_nodes"]) == ("fresh-128", 128)
    assert here["score"] == pytest.approx(0.94) and larger["score"] == pytest.approx(0.44)
    assert here["score_sd"] == pytest.approx(0.04)
    assert here["exact_sd"] == pytest.approx(statistics.stdev([0.45, 0.47, 0.49]))
    assert (alone["task"], alone["score"], alone["score_sd"], alone["exact_sd"]) == ("dfs", 0.7, None, None)


def test_other_widths_steps_and_loops_are_kept_apart(tmp_path):
    row = fake_runs.scores("bfs", 0.5)
    runs = [
        fake_runs.make(tmp_path / "a", [row]),
        fake_runs.make(tmp_path / "b", [row], settings=fake_runs.config(width=128)),
        fake_runs.make(tmp_path / "c", [row], steps=99),
        fake_runs.make(tmp_path / "d", [row | {"loops": 34}]),
    ]
    assert [mean["seeds"] for mean in over_seeds(read_results(runs))] == [(0,)] * 4


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({}, "runs of one setting and seed"),
        ({"seed": 1, "learning_rate": 1e-3}, "model.learning_rate is 0.002 in one, 0.001 in the other"),
        ({"seed": 1, "num_mixers": 2}, "mixers.length is 1 in one, 2 in the other"),
    ],
)
def test_runs_that_are_no_seeds_of_one_setting_are_not_averaged(tmp_path, other, reason):
    row = fake_runs.scores("bfs", 0.5)
    settings = fake_runs.config(**other)
    runs = [
        fake_runs.make(tmp_path / "a", [row]),
        fake_runs.make(tmp_path / "b", [row], seed=other.get("seed", 0), settings=settings),
    ]
    with pytest.raises(InputError, match=reason):
        over_seeds(read_results(runs))


def test_a_setting_that_is_new_does_not_part_the_seeds(tmp_path):
    row = fake_runs.scores("bfs", 0.5)
    newer = fake_runs.config(seed=1)
    newer["model"]["new_setting"] = "its default"
    runs = [fake_runs.make(tmp_path / "a", [row]), fake_runs.make(tmp_path / "b", [row], 1, newer)]
    assert over_seeds(read_results(runs))[0]["seeds"] == (0, 1)


def test_published_figures_fit_together():
    table = published()
    names = [model["name"] for model in table["models"]]
    assert len(set(names)) == len(names) and all(model["source"] for model in table["models"])
    assert {model["name"] for model in table["models"] if model["hints"]} == {"MPNN", "Triplet-GMPNN"}
    assert {figure["model"] for figure in table["figures"]} == set(names)
    assert {figure["task"] for figure in table["figures"]} <= set(TASKS)
    assert max(Counter((figure["task"], figure["model"]) for figure in table["figures"]).values()) == 1
    assert [entry["task"] for entry in table["trivial"]] == list(TASKS)


def trivial_answers(task, graphs):
    """What the packaged table calls the trivial predictor, for the official set, and the truth."""
    n, decisions, targets = graphs[0].num_nodes, {}, {}
    for output in task.outputs:
        target = torch.stack([graph[output.name] for graph in graphs])
        if output.type == "mask_one":
            target = target.argmax(dim=1)
            decision = torch.zeros_like(target)
        elif output.type == "pointer":
            row = torch.arange(n)
            decision = (row if output.location == "node" else row.repeat_interleave(n)).expand_as(target)
        elif task.name == "mst_kruskal":
            decision = torch.zeros_like(target)
            for answer, graph in zip(decision, graphs, strict=True):
                answer[graph.edge_index[0] * n + graph.edge_index[1]] = 1
        else:
            decision = torch.ones_like(target)
        decisions[output.name], targets[output.name] = decision, target
    return decisions, targets


@pytest.mark.parametrize("entry", published()["trivial"], ids=lambda entry: entry["task"])
def test_trivial_predictors_have_the_scores_that_are_printed(entry):
    task = TASKS[entry["task"]]
    score = OfficialScore(task.outputs)
    score.update(*trivial_answers(task, official(task.name, "test")))
    assert 100 * score.compute()["score"] == pytest.approx(entry["score"], abs=0.0501)
