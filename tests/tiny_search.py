"""Models of path search for a test: one that is set by hand and always right, and runs of a few steps."""

import yaml

from graphalgo.cli import main
from graphalgo.module import PairModule
from graphalgo.weights import save_weights
from search_bench import hand_set_propagator, to_pair_batch
from search_bench.handset import WIDTH
from tests import tiny


def hand_set_module():
    """A PairModule that answers every question right."""
    model = hand_set_propagator()
    module = PairModule(model.loop, to_pair_batch(), "search")
    module.model = model
    return module.eval()


def config(mixer="Propagator", **mixer_settings):
    """Settings of a run of ten steps on questions of size 9."""
    settings = yaml.safe_load(tiny.CONFIG.read_text())
    block = settings["model"]["loop"]["init_args"]["block"]["init_args"]
    block["mixers"] = [{"class_path": f"graphalgo.{mixer}", "init_args": {"width": 8, **mixer_settings}}]
    settings["model"].update(train_loops=[1, 2], test_loops=2)
    settings["data"] = {
        "class_path": "search_bench.SearchDataModule",
        "init_args": {
            "sizes": [9],
            "batch_size": 8,
            "val_sets": [{"size": 9, "per_lookahead": 2}],
            "tests": [{"size": 9, "per_lookahead": 3}],
        },
    }
    return settings


def fit(folder, test=True, **mixer):
    """Trains, and tests unless told otherwise; returns the run folder."""
    folder.mkdir()
    path = folder / "given.yaml"
    path.write_text(yaml.safe_dump(config(**mixer or {"propagators": 2})))
    run = folder / "run"
    assert main(["fit", "--config", str(path), "--run_dir", str(run)]) == 0
    assert not test or main(["test", "--run_dir", str(run)]) == 0
    return run


def hand_set_weights(folder):
    """A folder like those that are shipped, with the weights that are set by hand."""
    module = hand_set_module()
    settings = config(propagators=1)
    blocks = [settings["model"]["loop"]["init_args"]["block"]]
    blocks[0]["init_args"]["width"] = blocks[0]["init_args"]["mixers"][0]["init_args"]["width"] = WIDTH
    settings["model"]["loop"] = {"class_path": "graphalgo.StackedBlocks", "init_args": {"blocks": blocks}}
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "README.md").write_text("# By hand\n\nSet by hand.\n")
    saved = {}
    module.on_save_checkpoint(saved)
    save_weights(folder, module.state_dict(), saved["graphalgo"])
    return folder
