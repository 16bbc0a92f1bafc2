"""Run folders of runs that never ran: the files that tables of results are made from."""

import json

import torch
import yaml
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter


def config(width=32, learning_rate=2e-3, num_mixers=1, seed=0):
    """The parts of a config that are looked at, in its shape."""
    mixer = {"class_path": "graphalgo.OrJoin", "init_args": {"width": width, "channels": width // 2}}
    block = {
        "class_path": "graphalgo.PairBlock",
        "init_args": {"width": width, "mixers": [mixer] * num_mixers},
    }
    return {
        "seed_everything": seed,
        "trainer": {"max_steps": 100, "enable_progress_bar": bool(seed)},
        "model": {
            "loop": {"class_path": "graphalgo.LoopedBlock", "init_args": {"block": block}},
            "train_loops": [4, 8],
            "learning_rate": learning_rate,
        },
        "run_dir": f"runs/seed{seed}",
    }


def scores(task, score, num_nodes=64, name="official-64", loops=8):
    """A row of scores.json."""
    interval = {"score_low": score - 0.01, "score_high": score + 0.01}
    row = {"task": task, "set": name, "num_nodes": num_nodes, "loops": loops, "score": score, **interval}
    return row | {"exact": score / 2, "num_graphs": 32}


def make(folder, rows, seed=0, settings=None, steps=100, starts=((0.0, 60.0, 300.0),)):
    """A tested run; ``starts`` has the times of the events of each start, in seconds."""
    (folder / "test").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    (folder / "test" / "scores.json").write_text(json.dumps(rows))
    (folder / "run.json").write_text(json.dumps({"task": rows[0]["task"], "seed": seed, "resumed": []}))
    (folder / "config.yaml").write_text(yaml.safe_dump(settings or config(seed=seed), sort_keys=False))
    torch.save({"state_dict": {}, "global_step": steps}, folder / "checkpoints" / "last.ckpt")
    for number, times in enumerate(starts):
        events = folder / "logs" / f"version_{number}" / "events.out.tfevents.1.host.2.0"
        events.parent.mkdir(parents=True)
        with events.open("wb") as file:
            writer = RecordWriter(file)
            for step, seconds in enumerate(times):
                writer.write(Event(wall_time=1.7e9 + seconds, step=step).SerializeToString())
    return folder
