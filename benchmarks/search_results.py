"""The part of README.md about path search: tables and figures of trained runs.

What is shown of a run is kept in a small JSON file of its own, so that a table can be built again when the
run folders are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import figures
from analysis.gates import gate_values, summarise_gates
from analysis.lookahead import COUNTS, with_shares
from analysis.rates import with_rates
from analysis.results import check_same_settings, published
from analysis.search_results import over_lookaheads, over_sets, read_search_runs
from benchmarks.common import Column, markdown
from graphalgo.errors import InputError
from graphalgo.module import PairModule
from graphalgo.run import read_run
from search_bench import at_lookahead, hand_set_propagator

RUN_COLUMNS = (
    Column("model", "model"),
    Column("parameters", "parameters", ",d"),
    Column("seeds", "seeds", "d"),
    Column("steps", "steps", ",d"),
    Column("minutes", "minutes", ".1f"),
    Column("converged after", "converged", "s"),
)
SET_COLUMNS = (
    Column("model", "model"),
    Column("set", "set"),
    Column("seeds", "seeds", "d"),
    Column("questions a seed", "questions", ",d"),
    Column("lookaheads", "lookaheads", "d"),
    Column("accuracy", "accuracy", "s"),
    Column("lowest", "lowest", "s"),
    Column("the tutorial's", "theirs", "s"),
)
DEPTH = "summed_{depth}_layers{front}"
DEPTHS = (2, 3, 4, 5)
FRONTS = {"": "pair features", "_names": "names"}
FAR = ("or_join", "triangle", "summed", "transformer")
"""Models drawn beside each other at the size they were trained on and at larger ones."""
GATES_SIZE, GATES_LOOKAHEAD, GATES_QUESTIONS = 250, 100, 8


ABOUT = ("model", "seed", "parameters", "steps", "minutes", "converged")
SHIPPED = "search_propagator"
"""The weights whose gates are drawn."""


def note(run_dir: Path) -> dict[str, Any]:
    """What is shown of a tested run: training, counts by set and lookahead, gates if it has a propagator.

    It also tells the code's git revision, the versions of the packages and the config.
    """
    runs, answered = read_search_runs([run_dir])
    about = runs.iloc[0].to_dict()
    made = read_run(run_dir)
    noted = {name: None if pd.isna(about[name]) else about[name] for name in ABOUT}
    noted |= {"git": made.get("git"), "versions": made.get("versions")}
    config = yaml.safe_load((run_dir / "config.yaml").read_text(encoding="utf-8"))
    noted["config"] = {name: value for name, value in config.items() if name != "run_dir"}
    noted["sets"] = [
        {"set": name, "num_nodes": int(own["num_nodes"].iloc[0])}
        | {column: own[column].tolist() for column in ("lookahead", *COUNTS)}
        for name, own in answered.groupby("set", sort=False)
    ]
    if about["model"] == "propagator":
        module = PairModule.from_run(run_dir)
        gates = summarise_gates(module.model, module.to_pairs, gate_questions())
        noted["gates"] = gates.to_dict("records")
    return json.loads(json.dumps(noted, default=lambda number: number.item()))


def read_notes(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Notes that were kept as JSON, by the name of the run.

    Raises:
        InputError: one cannot be read, or says what cannot be.
    """
    notes = {}
    for path in paths:
        try:
            noted = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        if (fault := _fault(noted)) is not None:
            raise InputError(
                f"{path} is no note of a run of path search ({fault}); remove it, or write it again"
            )
        notes[path.stem] = noted
    return notes


def _fault(noted: Any) -> str | None:
    """What is wrong with a note; None if nothing is."""
    if not isinstance(noted, dict) or not {*ABOUT, "config", "sets"} <= noted.keys():
        return f"expected {', '.join(ABOUT)}, config and sets"
    whole = (noted["seed"], noted["parameters"], noted["steps"])
    if not isinstance(noted["model"], str) or not all(_is_whole(number) for number in whole):
        return "model must be text; seed, parameters and steps whole numbers"
    if not (noted["minutes"] is None or isinstance(noted["minutes"], float | int)):
        return "minutes must be a number or null"
    if not (noted["converged"] is None or isinstance(noted["converged"], float | int)):
        return "converged must be a number or null"
    if not isinstance(noted["config"], dict) or not isinstance(noted["sets"], list) or not noted["sets"]:
        return "config must be settings, sets a list that is not empty"
    for counts in noted["sets"]:
        columns = (
            [counts.get(name) for name in ("lookahead", *COUNTS)] if isinstance(counts, dict) else [None]
        )
        if not all(isinstance(column, list) for column in columns) or len({*map(len, columns)}) != 1:
            return f"each set needs lookahead, {', '.join(COUNTS)}, equally many of each"
        if not isinstance(counts.get("set"), str) or not _is_whole(counts.get("num_nodes")) or not columns[0]:
            return "each set needs a name, num_nodes and a lookahead"
        for ahead, questions, right, accepted in zip(*columns, strict=True):
            numbers = (ahead, questions, right, accepted)
            if not all(map(_is_whole, numbers)) or not right <= accepted <= questions or questions == 0:
                return f"in {counts['set']}, expected 0 <= right <= accepted <= questions, got {numbers}"
    return None


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def check_seeds(notes: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses to average runs of one model that are no seeds of one setting.

    Args:
        notes: by the name of the run.

    Raises:
        InputError: two runs of a model have one seed, or differ in more than that.
    """
    first: dict[str, str] = {}
    seen: dict[tuple[str, int], str] = {}
    for name, noted in notes.items():
        twin = seen.setdefault((noted["model"], noted["seed"]), name)
        if twin != name:
            raise InputError(f"{twin} and {name} are runs of one setting and seed; keep one of them")
        leader = first.setdefault(noted["model"], name)
        check_same_settings(leader, notes[leader]["config"], name, noted["config"])


def tables(notes: Sequence[Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of :func:`analysis.search_results.read_search_runs`, from notes."""
    runs = pd.DataFrame([{name: noted[name] for name in ABOUT} for noted in notes])
    answered = [
        pd.DataFrame(counts).assign(model=noted["model"], seed=noted["seed"])
        for noted in notes
        for counts in noted["sets"]
    ]
    return runs, with_shares(pd.concat(answered, ignore_index=True))


def section(notes: Sequence[Mapping[str, Any]]) -> str:
    """All tables, each with what to know about it."""
    runs, answered = tables(notes)
    parts = [runs_table(runs), RUNS_NOTE, sets_table(answered), SETS_NOTE, *depth_tables(answered)]
    if trained := [noted for noted in notes if "gates" in noted]:
        parts += ["**What the propagator learned**", gates_table(trained), GATES_NOTE]
    return "\n\n".join(parts)


RUNS_NOTE = (
    "Means over seeds. Minutes are those of training with its validations, by the clock of a machine "
    "that did other work too, on one of its two cores. Converged: training accuracy of at least 99.5% "
    "in two checks of 100 steps in a row; the questions seen by then, seed by seed."
)
SETS_NOTE = (
    "Accuracy in percent, mean ± standard deviation over seeds: the one right next vertex is asked "
    "for. Lowest: at any single lookahead, in any seed. A set `lookahead-n` has questions of at most "
    "n vertices at each of its lookaheads; `random-n` has questions about random graphs as the benchmark "
    "draws them, of at most n edges and therefore of fewer vertices. The tutorial's "
    "figures are those of *Attention Is Only as Good as Its Witnesses: A Tutorial*, chapters 3 and 5, "
    "for its own models of these kinds, over names and not pair features, with more parameters and "
    "about a million training questions."
)
GATES_NOTE = (
    f"First layer, after the row cap, on {GATES_QUESTIONS} questions of {GATES_SIZE} vertices at "
    f"lookahead {GATES_LOOKAHEAD}: medians over pairs (u, v), and the largest gate of any pair without "
    "a road. Source: median of S[current, goal], and the largest elsewhere in that row. A channel a "
    "line, the one that carries the answer first; roads that share a row share out its 0.99."
)


def runs_table(runs: pd.DataFrame) -> str:
    """A line a model."""
    lines = []
    for model, own in runs.groupby("model", sort=False):
        known = own["converged"].notna()
        seen = [
            f"{int(count):,}" if ok else "never" for count, ok in zip(own["converged"], known, strict=True)
        ]
        line = {"model": f"`search/{model}`", "seeds": len(own), "converged": "; ".join(seen)}
        line |= {name: int(own[name].iloc[0]) for name in ("parameters", "steps")}
        if own["minutes"].notna().all():
            line["minutes"] = own["minutes"].mean()
        lines.append(line)
    return markdown(lines, RUN_COLUMNS)


def sets_table(answered: pd.DataFrame) -> str:
    """A line a model and set, those of the depth law left out."""
    theirs = {(entry["model"], entry["set"]): entry["figure"] for entry in published()["search"]}
    depths = {DEPTH.format(depth=depth, front=front) for depth in DEPTHS for front in FRONTS}
    lines = []
    for row in over_sets(answered).to_dict("records"):
        if row["model"] in depths:
            continue
        spread = "" if pd.isna(row["accuracy_sd"]) else f" ± {100 * row['accuracy_sd']:.1f}"
        row["accuracy"] = f"{percent(row['accuracy'])}{spread}"
        row["lowest"] = percent(row["lowest"])
        row["theirs"] = theirs.get((row["model"], row["set"]), "")
        row["model"] = f"`{row['model']}`"
        lines.append(row)
    return markdown(lines, SET_COLUMNS)


def percent(share: float) -> str:
    """One decimal, and 100.0 only for all of them."""
    return f"{min(100 * share, 99.9) if share < 1 else 100.0:.1f}"


def depth_tables(answered: pd.DataFrame) -> list[str]:
    """Accuracy of stacks of summed layers by lookahead, a table a front end."""
    parts = []
    for front, name in FRONTS.items():
        models = {DEPTH.format(depth=depth, front=front): depth for depth in DEPTHS}
        own = answered[answered["model"].isin(models)]
        if own.empty:
            continue
        binned = over_lookaheads(own)
        bins = list(dict.fromkeys(binned.sort_values("at")["lookahead"]))
        columns = (
            Column("layers L", "depth", "d"),
            Column("2^L", "reach", "d"),
            Column("seeds", "seeds", "d"),
            *(Column(which, which, "s") for which in bins),
        )
        lines = []
        for model, depth in models.items():
            rows = binned[binned["model"] == model]
            if len(rows):
                seeds = own.loc[own["model"] == model, "seed"].nunique()
                shares = dict(zip(rows["lookahead"], map(percent, rows["accuracy"]), strict=True))
                lines.append({"depth": depth, "reach": 2**depth, "seeds": seeds} | shares)
        parts += [
            f"**Depth law, {name}**: accuracy in percent by lookahead, 49 vertices",
            markdown(lines, columns),
        ]
    return parts


def gates_table(notes: Sequence[Mapping[str, Any]]) -> str:
    """The channels of each trained propagator, then that of the layer set by hand."""
    lines = [{"layer": f"seed {noted['seed']}"} | row for noted in notes for row in noted["gates"]]
    to_pairs = PairModule.from_pretrained(SHIPPED).to_pairs
    hand_set = summarise_gates(hand_set_propagator(), to_pairs, gate_questions())
    lines += hand_set.assign(layer="set by hand").to_dict("records")
    named = [name for name in hand_set.columns if name != "channel"]
    columns = (
        Column("layer", "layer"),
        Column("channel", "channel", "d"),
        *(Column(n, n, ".2g") for n in named),
    )
    return markdown(lines, columns)


def gate_questions() -> list:
    """Questions on which gates are looked at; none of a test set."""
    drawn = at_lookahead(GATES_SIZE, GATES_LOOKAHEAD, GATES_QUESTIONS, seed=0, split="train")
    return drawn.data_list()


def draw(notes: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Writes the figures; returns their PNGs."""
    _, answered = tables(notes)
    written = []
    for name, own, series, title, subtitle, layers, bins in _curves(answered):
        own = own.assign(set=series)
        counts = own.groupby(["set", "lookahead"], sort=False)[["right", "questions"]].sum().reset_index()
        single = with_rates(counts.rename(columns={"questions": "entries"}))
        binned = over_lookaheads(own, ["set"]) if bins else single.assign(at=single["lookahead"])
        written += figures.render(
            lambda ax, single=single, binned=binned, layers=layers: figures.draw_lookahead(
                single, binned, ax, layers
            ),
            folder / name,
            title,
            subtitle,
        )
    if any("gates" in noted for noted in notes):
        module, graphs = PairModule.from_pretrained(SHIPPED), gate_questions()
        values = gate_values(module.model, module.to_pairs, graphs)
        channel = summarise_gates(module.model, module.to_pairs, graphs)["channel"].iloc[0]
        hand_set = gate_values(hand_set_propagator(), module.to_pairs, graphs)
        written += figures.render(
            lambda ax: figures.draw_gates(values[values["channel"] == channel], hand_set, ax),
            folder / "search_gates",
            "Gates of a trained propagator",
            f"answer channel of {SHIPPED}, {GATES_QUESTIONS} questions of {GATES_SIZE} vertices",
        )
    return [path for path in written if path.suffix == ".png"]


def _curves(answered: pd.DataFrame):
    """Of each figure: name, answers, series, title, subtitle, marked layers, whether to bin."""
    near = answered["set"].isin(["lookahead-75", "lookahead-100"])  # as lookahead-125, and in its place
    far = answered["set"].str.startswith("lookahead") & ~near
    own = answered[(answered["model"] == "propagator") & far]
    if len(own):
        yield (
            "search_propagator",
            own,
            "at most " + own["set"].str.split("-").str[1] + " vertices",
            "One propagator layer, trained on at most 49 vertices",
            f"{own['seed'].nunique()} seeds together; shaded: 95% intervals",
            (),
            True,
        )
    for size in (49, 125):
        own = answered[answered["model"].isin(FAR) & (answered["set"] == f"lookahead-{size}")]
        if len(own):
            yield (
                f"search_looped_{size}",
                own,
                own["model"].str.replace("_", " "),
                f"Trained on at most 49 vertices, tested on {size}",
                "looped blocks, and the control Transformer; all seeds together; shaded: 95% intervals",
                (),
                True,
            )
    for front, name in FRONTS.items():
        models = {DEPTH.format(depth=depth, front=front): f"{depth} layers" for depth in DEPTHS}
        own = answered[answered["model"].isin(models)].sort_values("model", kind="stable")
        if len(own):
            yield (
                f"search_depth{front}",
                own,
                own["model"].map(models),
                f"How far L summed layers see, {name}",
                "at most 49 vertices; all seeds together; shaded: 95% intervals",
                DEPTHS,
                False,
            )
