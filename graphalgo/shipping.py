"""From a tested run to weights to give away; :mod:`graphalgo.weights` says what their folder holds."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from graphalgo import weights
from graphalgo.errors import InputError
from graphalgo.module import PairModule
from graphalgo.predictions import LAST, read_predictions
from graphalgo.run import load_checkpoint, read_config, read_run
from graphalgo.store import load_graphs

COMPARED = 4
"""Graphs of each test set that are answered once more."""
AGREEMENT = 0.9
"""Least share of their answers that must be the test's: on another device, rounding may turn near ties."""


def ship(run_dir: str | Path, name: str, folder: str | Path | None = None, about: str = "") -> Path:
    """Make the folder ``folder/name`` of a tested run's last checkpoint.

    Args:
        run_dir: a run folder on which ``graphalgo test`` has run.
        name: lower-case letters, digits and underscores.
        folder: where; by default among the weights that come with the package.
        about: a sentence on what the model does, for the card.

    Returns:
        The folder.

    Raises:
        InputError: if the run is not whole or not tested; if the scores are not of the last checkpoint; if a
            setting names a path of this machine; if there is such a folder already.
    """
    run_dir, parent = Path(run_dir), Path(weights.FOLDER if folder is None else folder)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InputError(f"a name has lower-case letters, digits and underscores alone, got {name!r}")
    if (parent / name).exists():
        raise InputError(f"{parent / name} is there already; remove it first, or choose another name")
    run = read_run(run_dir)
    config = read_config(run_dir / "config.yaml")
    trained_on = str((config.get("trainer") or {}).get("accelerator"))
    settings = _anywhere(config, name)
    saved = load_checkpoint(run_dir / "checkpoints" / "last.ckpt")
    if not isinstance(saved.get("graphalgo"), dict):
        raise InputError(f"the checkpoint of {run_dir} does not say which task it is for")
    scores = _scores(run_dir)
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".") as made:
        whole = Path(made) / name
        whole.mkdir()
        head = f"# graphalgo test --pretrained {name}\n"
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        (whole / "config.yaml").write_text(head + text, encoding="utf-8")
        weights.save_weights(whole, saved["state_dict"], saved["graphalgo"])
        module = PairModule.from_pretrained(whole)
        _check_answers(module, run_dir, scores)
        card = _card(name, about, module, run, trained_on, settings, scores, saved.get("global_step", 0))
        (whole / "README.md").write_text(card, encoding="utf-8")
        shutil.move(whole, parent / name)
    return parent / name


def _anywhere(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings without what holds on one machine alone; none of it changes an answer."""
    config = json.loads(json.dumps(config))
    data = (config.get("data") or {}).get("init_args") or {}
    anywhere = {"accelerator": "auto", "strategy": "auto", "devices": 1, "num_nodes": 1}
    for settings, values in (
        (config, {"resume": False, "checkpoint": "last"}),
        (data, {"data_dir": None, "predict_graphs": None, "force_reload": False, "num_workers": 0}),
        (config.get("model") or {}, {"compile_block": False}),
        (config.get("trainer") or {}, {**anywhere, "default_root_dir": None, "enable_progress_bar": None}),
        (config.get("trainer") or {}, {"logger": None}),
    ):
        settings.update({key: value for key, value in values.items() if key in settings})
    config["run_dir"] = f"runs/pretrained/{name}"
    for where, value in _strings(config):
        if _is_absolute(value):
            raise InputError(f"the setting {where} is {value!r}, which is a place on this machine alone")
    return config


def _strings(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every string in nested settings, with its place."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _strings(inner, f"{where}[{at}]")


def _is_absolute(text: str) -> bool:
    return bool(re.match(r"/|~|[A-Za-z]:[\\/]|file:", text))


def _scores(run_dir: Path) -> list[dict[str, Any]]:
    path = run_dir / "test" / "scores.json"
    try:
        rows = json.loads(path.read_text())
    except OSError as error:
        raise InputError(
            f"{run_dir} has no scores ({path}); run `graphalgo test --run_dir {run_dir}` first"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not rows:
        raise InputError(f"{path} holds no scores")
    return rows


def _check_answers(module: PairModule, run_dir: Path, scores: Sequence[Mapping[str, Any]]) -> None:
    """Refuses scores of other weights, by the answers to the first graphs of each set."""
    predictions = read_predictions(run_dir / "test" / "predictions.parquet", loop=LAST)
    predictions = predictions[predictions["graph"] < COMPARED]
    for row in scores:
        graphs, _ = load_graphs(run_dir / "test" / "graphs" / f"{row['set']}.safetensors")
        rows = predictions[predictions["set"] == row["set"]]
        same: list[bool] = []
        for g, of_graph in rows.groupby("graph"):
            (answer,) = module.answer(graphs[g], num_steps=int(of_graph["loop"].max()))
            for output, entries in of_graph.groupby("output", observed=True):
                places = [entries[axis].to_numpy() for axis in ("i", "j")][: answer[output].dim()]
                ours = answer[output].numpy()[tuple(places)]
                same += (ours == entries["prediction"].to_numpy()).tolist()
        share = float(np.mean(same))
        if not share >= AGREEMENT:
            raise InputError(
                f"the last checkpoint of {run_dir} answers {100 * share:.0f}% of {row['set']} as the test "
                f"did: the scores are of other weights; run `graphalgo test --run_dir {run_dir}` once more"
            )


def _command(command: Sequence[str], name: str) -> str:
    """A command as one would type it anywhere."""
    words, out = list(command[1:]), ["graphalgo"]
    configs = "graphalgo/configs/"
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option.startswith("-") and not equals and words and not words[0].startswith("--"):
            value, equals = words.pop(0), " "
        if option == "--run_dir":
            value = f"runs/{name}"
        elif option in ("--config", "-c") and configs in value:
            value = value.rpartition(configs)[2].removesuffix(".yaml")
        elif option in ("--config", "-c") and value.endswith((".yaml", ".yml")):
            value = "config.yaml"
        elif option.endswith("data_dir"):
            continue
        if _is_absolute(value):
            raise InputError(f"the run was started with {option} {value}, a place on this machine alone")
        words_out = [option, value] if equals == " " else [f"{option}{equals}{value}"]
        out += [shlex.quote(part) for part in words_out]
    return " ".join(out)


def _card(
    name: str,
    about: str,
    module: PairModule,
    run: Mapping[str, Any],
    trained_on: str,
    settings: Mapping[str, Any],
    scores: Sequence[Mapping[str, Any]],
    steps: int,
) -> str:
    starts = [run, *run["resumed"]]
    commands = "\n".join(_command(start.get("command", ["graphalgo"]), name) for start in starts)
    size = sum(parameter.numel() for parameter in module.parameters())
    trained = (
        f"{size:,} weights for the task `{module.task}`, trained for {steps:,} steps with seed {run['seed']}."
    )
    data = yaml.safe_dump(settings.get("data"), sort_keys=False, allow_unicode=True)
    versions = ", ".join(f"{package} {v}" for package, v in (run.get("versions") or {}).items() if v)
    lines = [
        "| set | n | graphs | loops | score | 95% interval | exact graphs |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['set']} | {row['num_nodes']} | {row['num_graphs']} | {row['loops']} | "
        f"{100 * row['score']:.2f} | {100 * row['score_low']:.1f}–{100 * row['score_high']:.1f} | "
        f"{100 * row['exact']:.1f} |"
        for row in scores
    ]
    table = "\n".join(lines)
    return f"""# {name}

{f"{about.strip()} {trained}".strip()}

```
graphalgo test --pretrained {name}      # scores it on the test sets below
```

```python
from graphalgo import PairModule

model = PairModule.from_pretrained("{name}")
```

## Scores

{table}

Score, interval (bootstrap over graphs) and exact graphs are in percent.

## Data

```yaml
{data.strip()}
```

## Training

```
{commands}
```

On: {trained_on}. Revision: {_revision(run.get("git"))}. Versions: {versions}.

The checkpoint is the last one. `config.yaml` holds every setting of the run but for paths and devices.
"""


def _revision(git: Mapping[str, Any] | None) -> str:
    if not git:
        return "unknown (not run from a git checkout)"
    return f"`{git['revision']}`" + (", with changes that were not committed" if git["dirty"] else "")
