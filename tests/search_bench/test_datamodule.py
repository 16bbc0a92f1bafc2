"""The data module of the search benchmark: which questions train, validate and test."""

import os
from collections import Counter

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.cli import LightningArgumentParser

from graphalgo.errors import InputError
from graphalgo.store import save_graphs
from search_bench import SearchDataModule, SearchTestSet, from_data, lookahead, max_lookahead, right_next
from search_bench.datamodule import draw_questions
from search_bench.tokens import is_test_question, question_key

BOTH = [SearchTestSet(9, 5), SearchTestSet(9, random=True, num_questions=40)]


def data(**changes):
    small = {"sizes": [7, 9], "batch_size": 32, "val_sets": BOTH, "tests": BOTH}
    return SearchDataModule(**{**small, **changes})


def trained(made, batches):
    source = made.train_source(0, 1)
    return [
        (made.sizes[slot], graph)
        for slot in range(len(made.sizes))
        for round_ in range(batches)
        for graph in source(slot, round_)
    ]


def keys(graphs, size):
    return {question_key(from_data(graph, size)) for graph in graphs}


def same(left, right):
    return len(left) == len(right) and all(
        set(a.keys()) == set(b.keys())
        and all(torch.equal(a[name], b[name]) for name in set(a.keys()) - {"num_nodes"})
        for a, b in zip(left, right, strict=True)
    )


def test_no_test_question_is_trained_or_validated_on():
    """Among so few ids questions do come again, so that seeds alone would not keep the sets apart."""
    made = data()
    training = trained(made, 20)
    assert not any(is_test_question(from_data(graph, size)) for size, graph in training)
    seen = {question_key(from_data(graph, size)) for size, graph in training}
    assert len(seen) < len(training)
    for name in made.test_set_names:
        tests, validation = made.test_graphs(name), made.validation_graphs(name)
        assert all(is_test_question(from_data(graph, 9)) for graph in tests)
        assert not any(is_test_question(from_data(graph, 9)) for graph in validation)
        assert not keys(tests, 9) & (seen | keys(validation, 9))


def test_questions_at_lookaheads_are_as_many_as_asked_for():
    graphs = data().test_graphs("lookahead-9")
    assert [int(graph.lookahead) for graph in graphs] == [1] * 5 + [2] * 5 + [3] * 5 + [4] * 5
    for graph in graphs:
        road = graph.edge_index.numpy(), graph.num_nodes, int(graph.current.argmax())
        right = right_next(*road, int(graph.goal.argmax()))
        assert [right] == graph.next.tolist() == graph.next_ok.nonzero().flatten().tolist()
        assert lookahead(*road, right, int(graph.goal.argmax())) == int(graph.lookahead)


def distance(edges, start, goal):
    """Edges of a shortest path, by layers; None without a path."""
    layer, steps, seen = {start}, 0, set()
    while layer:
        if goal in layer:
            return steps
        seen |= layer
        layer, steps = {v for u, v in edges if u in layer} - seen, steps + 1
    return None


def test_answers_about_random_graphs_are_the_only_right_ones():
    graphs = draw_questions(SearchTestSet(30, random=True, num_questions=300), "test", 0)
    assert len(graphs) == 300
    for graph in graphs:
        edges, goal = graph.edge_index.T.tolist(), int(graph.goal.argmax())
        children = [v for u, v in edges if u == int(graph.current.argmax())]
        far = {child: distance(edges, child, goal) for child in children}
        reach = {child: steps for child, steps in far.items() if steps is not None}
        assert sorted(reach) == graph.next_ok.nonzero().flatten().tolist()
        answer = int(graph.next)
        assert len(children) > 1 and list(reach) == [answer]
        road = graph.edge_index.numpy(), graph.num_nodes, int(graph.current.argmax())
        assert int(graph.lookahead) == lookahead(*road, answer, goal)
    assert len({int(graph.lookahead) for graph in graphs}) > 2


def test_random_set_is_a_prefix_of_a_larger_one():
    small, large = (
        draw_questions(SearchTestSet(9, random=True, num_questions=n), "test", 3) for n in (10, 50)
    )
    assert same(small, large[:10])


def test_seeds_decide_training_and_not_the_sets():
    first, again, other = data(seed=0), data(seed=0), data(seed=1)
    assert same([g for _, g in trained(first, 1)], [g for _, g in trained(again, 1)])
    assert not same([g for _, g in trained(first, 1)], [g for _, g in trained(other, 1)])
    for name in first.test_set_names:
        assert same(first.test_graphs(name), other.test_graphs(name))
        assert same(first.validation_graphs(name), other.validation_graphs(name))
    seeded = data(tests=[SearchTestSet(9, 5, seed=1)])
    assert not same(first.test_graphs("lookahead-9"), seeded.test_graphs("lookahead-9-s1"))


def test_defaults_are_few_questions_to_validate_and_every_lookahead_to_test():
    made = SearchDataModule(sizes=[49, 25, 49])
    assert made.val_set_names == ["lookahead-49"] and made.test_set_names == ["lookahead-25", "lookahead-49"]
    count = Counter(int(graph.lookahead) for graph in made.validation_graphs("lookahead-49"))
    assert count == dict.fromkeys(range(1, 25), 4)
    assert made.state_dict() == {"task": "search", "sizes": [49, 25, 49], "batch_size": 64, "seed": 0}


def test_sets_are_named_by_what_differs():
    sets = [
        SearchTestSet(250),
        SearchTestSet(250, random=True),
        SearchTestSet(250, lookaheads=[1, 2, 64], seed=7),
        SearchTestSet(250, lookaheads=list(range(4, 125, 4))),
    ]
    names = ["lookahead-250", "random-250", "lookahead-250-L1.2.64-s7", "lookahead-250-L4to124x31"]
    assert data(tests=sets).test_set_names == names


def test_batches_hold_questions_in_order(tmp_path):
    made = data(test_batch_size=6)
    for loader, name in zip(made.test_dataloader(), made.test_set_names, strict=True):
        targets = torch.cat([batch.targets["next"] for batch in loader])
        assert targets.tolist() == [int(graph.next) for graph in made.test_graphs(name)]
    batch = next(iter(made.train_dataloader()))
    assert batch.x.shape[0] == 32 and batch.x.shape[-1] == made.num_features
    assert (batch.accepted["next"].sum(dim=1) > 0).all()
    own = tmp_path / "own.safetensors"
    save_graphs(own, made.test_graphs("random-9")[:3], {})
    assert [batch.num_graphs for batch in data(predict_graphs=str(own)).predict_dataloader()] == [3]


class Seen(pl.LightningModule):
    """Notes what it is trained on."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append((batch.x.shape[1], batch.targets["next"].tolist()))
        return self.layer(batch.x[..., :1]).mean()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")
def test_resumed_run_sees_the_rest_of_the_questions(tmp_path):
    def fit(max_steps, ckpt_path=None):
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = pl.Trainer(
            accelerator="cpu", max_steps=max_steps, enable_checkpointing=False, limit_val_batches=0, **quiet
        )
        model = Seen()
        trainer.fit(model, datamodule=data(batch_size=3), ckpt_path=ckpt_path, weights_only=True)
        trainer.save_checkpoint(tmp_path / f"{max_steps}.ckpt")
        return model.seen

    whole = fit(5)
    assert len(whole) == 5
    assert fit(2) + fit(5, tmp_path / "2.ckpt") == whole


def test_questions_come_from_the_cache_the_second_time(tmp_path, monkeypatch):
    def graphs(**changes):
        made = data(data_dir=str(tmp_path), **changes)
        for stage in ("fit", "test"):
            made.setup(stage)
        return [
            graph
            for name in made.test_set_names
            for graph in made.test_graphs(name) + made.validation_graphs(name)
        ]

    first = graphs()
    drawn = data()
    assert same(first[:25], drawn.test_graphs("lookahead-9") + drawn.validation_graphs("lookahead-9")[:5])
    names = sorted(os.listdir(tmp_path))
    assert len(names) == 4
    with monkeypatch.context() as patch:
        patch.setattr("search_bench.datamodule.draw_questions", None)
        assert same(graphs(), first)
    (tmp_path / names[0]).write_bytes((tmp_path / names[1]).read_bytes())
    with pytest.raises(InputError, match="other questions than its name says; force_reload"):
        graphs()
    (tmp_path / names[0]).write_bytes(b"rubbish")
    with pytest.raises(InputError, match="force_reload replaces"):
        graphs()
    assert same(graphs(force_reload=True), first) and same(graphs(), first)


def test_every_setting_of_a_set_is_in_the_name_of_its_cache(tmp_path):
    sets = [
        SearchTestSet(9),
        SearchTestSet(9, 5),
        SearchTestSet(9, lookaheads=[1, 2, 3]),
        SearchTestSet(9, seed=2),
        SearchTestSet(11),
        SearchTestSet(9, random=True, num_questions=8),
        SearchTestSet(9, random=True, num_questions=9),
    ]
    for chosen in sets:
        data(data_dir=str(tmp_path), tests=[chosen], val_sets=[chosen]).setup("test")
        data(data_dir=str(tmp_path), tests=[chosen], val_sets=[chosen]).setup("validate")
    assert len(os.listdir(tmp_path)) == 2 * len(sets)
    data(data_dir=str(tmp_path), tests=[SearchTestSet(9, lookaheads=[1, 2, 3, 4])]).setup("test")
    assert len(os.listdir(tmp_path)) == 2 * len(sets) + 1  # the same questions under another name


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"sizes": []}, "at least one size"),
        ({"sizes": [2, 9]}, "size of at least 3; sizes has"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"tests": [SearchTestSet(9), SearchTestSet(9, 5)]}, "two test sets are called lookahead-9"),
        ({"val_sets": [SearchTestSet(9), SearchTestSet(9)]}, "two validation sets are called lookahead-9"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        data(**changes)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"size": 2}, "size of a set must be at least 3"),
        ({"size": 3, "random": True}, "size of a set must be at least 4"),
        ({"size": 9, "seed": -1}, "seed of a set must be at least 0"),
        ({"size": 9, "seed": 2**32}, "seed of a set must be below 4294967296"),
        ({"size": 9, "per_lookahead": 0}, "per_lookahead of a set must be at least 1"),
        ({"size": 9, "num_questions": 10}, "num_questions of a set does not apply to questions of wanted"),
        (
            {"size": 9, "random": True, "lookaheads": [1]},
            "lookaheads of a set does not apply to questions of ra",
        ),
        ({"size": 9, "lookaheads": []}, "at least one, got"),
        ({"size": 9, "lookaheads": [1, 1]}, "different numbers in 1..4"),
        ({"size": 9, "lookaheads": [0]}, "different numbers in 1..4"),
        ({"size": 9, "lookaheads": [max_lookahead(9) + 1]}, "different numbers in 1..4"),
    ],
)
def test_bad_sets_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        SearchTestSet(**settings)


def test_unknown_sets_are_named():
    with pytest.raises(InputError, match="no test set 'lookahead-8'; there are lookahead-9, random-9"):
        data().test_graphs("lookahead-8")
    with pytest.raises(InputError, match="no validation set"):
        data().validation_graphs("nope")


@pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")
def test_yaml_gives_the_data_module():
    parser = LightningArgumentParser()
    parser.add_lightning_class_args(SearchDataModule, "data")
    config = parser.parse_string(
        """
        data:
          sizes: [7, 9]
          tests: [{size: 9, lookaheads: [1, 4]}, {size: 20, random: true, num_questions: 7}]
        """
    )
    made = parser.instantiate_classes(config).data
    assert made.sizes == [7, 9] and made.test_set_names == ["lookahead-9-L1.4", "random-20"]
    again = parser.instantiate_classes(parser.parse_string(parser.dump(config))).data
    assert again.tests == made.tests
    assert "A batch has one size" in parser.format_help()
