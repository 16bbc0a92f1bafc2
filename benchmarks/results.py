"""Rebuilds the tables of results in README.md and docs/benchmarks.md from what was measured.

  <!-- results:begin -->  in README.md           trained runs beside published figures, then every run
  <!-- demo:begin -->     in README.md           scores of the demo
  <!-- search:begin -->   in README.md           path search; its figures go to docs/figures
  <!-- bench:begin -->    in docs/benchmarks.md  the reports that the benchmarks wrote with --out

Each ends at the marker with "end" instead of "begin"; everything between the two is replaced. A part whose
source is not there is left as it is, and so is a run that has not been tested yet. What is shown of runs of
path search is also kept in benchmarks/measured/search, from where runs whose folders are gone are shown.

  python -m benchmarks.results                           from runs/results, search, demo, benchmarks/measured
  python -m benchmarks.results runs/a runs/b             from these runs
  python -m benchmarks.results --check                   change nothing; fail if anything would change
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.results import SETTING, is_tested, over_seeds, published, read_results
from benchmarks import mixers, samplers, search, search_results
from benchmarks.common import Column, markdown
from clrs_bridge import TASKS
from graphalgo.errors import InputError
from graphalgo.run import read_run
from graphalgo.store import atomic_write

BENCHMARKS = {
    "samplers": ("samplers", samplers.COLUMNS),
    "search": ("search", search.COLUMNS),
    "search_distribution": ("search --distribution", search.DISTRIBUTION_COLUMNS),
    "mixers": ("mixers", mixers.COLUMNS),
}
"""Command and columns of every report, by its name."""
RUN_COLUMNS = (
    Column("task", "task"),
    Column("width", "width", "d"),
    Column("seed", "seed", "s"),
    Column("set", "set"),
    Column("n", "num_nodes", "d"),
    Column("graphs", "num_graphs", "d"),
    Column("loops", "loops", "d"),
    Column("score", "score", "s"),
    Column("95% interval", "interval", "s"),
    Column("exact graphs", "exact", "s"),
    Column("steps", "steps", ",d"),
    Column("minutes", "minutes", ".1f"),
)
DEMO_COLUMNS = tuple(column for column in RUN_COLUMNS if column.key not in ("width", "seed"))


def results_section(run_dirs: Sequence[Path]) -> str:
    """The comparison at 64 vertices, what to know about it, and the table of runs."""
    rows = in_order(read_results(run_dirs))
    table = published()
    means = over_seeds(rows)
    here = [row for row in means if row["set"] == table["set"]]
    parts = [comparison(here, table), notes(here, table)] if here else []
    return "\n\n".join([*parts, runs_table(rows, means), RUNS_NOTE])


RUNS_NOTE = (
    "Score, interval (bootstrap over graphs) and exact graphs are in percent; ± is the standard deviation "
    "over seeds. Minutes are those of training with its validations, by the clock of the machine as it was."
)


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by task, as everywhere in the project, width and seed; each run's sets in their order."""
    tasks = [*TASKS, *(row["task"] for row in rows)]
    return sorted(rows, key=lambda row: (tasks.index(row["task"]), row["width"] or 0, row["seed"]))


def runs_table(rows: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]]) -> str:
    """A line for every run and set; below those of several seeds their mean."""
    lines = []
    for mean in means:
        own = [row for row in rows if all(row[key] == mean[key] for key in SETTING)]
        lines += [run_line(row) for row in own]
        if len(own) > 1:
            lines.append(mean_line(mean))
    return markdown(lines, RUN_COLUMNS)


def run_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A run and set as shown."""
    interval = f"{100 * row['score_low']:.1f}–{100 * row['score_high']:.1f}"
    shown = {"seed": str(row["seed"]), "interval": interval}
    return without_none(row) | shown | {name: f"{100 * row[name]:.1f}" for name in ("score", "exact")}


def mean_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """The mean over seeds as shown."""
    shown = {name: f"{100 * row[name]:.1f} ± {100 * row[f'{name}_sd']:.1f}" for name in ("score", "exact")}
    return without_none(row) | {"seed": f"mean of {len(row['seeds'])}"} | shown


def without_none(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a run tells: the others are blank in a table."""
    return {key: value for key, value in row.items() if value is not None}


def comparison(means: Sequence[dict[str, Any]], table: Mapping[str, Any]) -> str:
    """A line a setting: its score, the trivial predictor's, and the published ones of its task."""
    trivial = {entry["task"]: f"{entry['score']:.1f}" for entry in table["trivial"]}
    models = {model["name"]: model for model in table["models"]}
    columns = {model["column"]: column_title(model) for model in table["models"]}
    shared = [model["column"] for model in table["models"]]
    lines = []
    for mean in means:
        line = without_none(mean) | {"seeds": len(mean["seeds"]), "trivial": trivial.get(mean["task"], "")}
        several = mean["score_sd"] is not None
        line["score"] = mean_line(mean)["score"] if several else f"{100 * mean['score']:.1f}"
        for entry in table["figures"]:
            if entry["task"] == mean["task"]:
                column = models[entry["model"]]["column"]
                named = f" ({entry['model']})" if shared.count(column) > 1 else ""
                line.setdefault(column, []).append(entry["figure"] + named)
        lines.append(line | {name: "; ".join(line.get(name, [])) for name in columns})
    ours = (
        Column("task", "task"),
        Column("width", "width", "d"),
        Column("loops", "loops", "d"),
        Column("seeds", "seeds", "d"),
        Column("this project (no hints)", "score", "s"),
        Column("trivial", "trivial", "s"),
    )
    return markdown(lines, [*ours, *(Column(title, name) for name, title in columns.items())])


def column_title(model: Mapping[str, Any]) -> str:
    """Where a published model's figures stand."""
    return f"{model['column']} ({'hints' if model['hints'] else 'no hints'})"


def notes(means: Sequence[dict[str, Any]], table: Mapping[str, Any]) -> str:
    """What the numbers of the comparison are, and whose."""
    tasks = {row["task"] for row in means}
    predictors: dict[str, list[str]] = {}
    for entry in table["trivial"]:
        if entry["task"] in tasks:
            predictors.setdefault(entry["predictor"], []).append(entry["task"])
    sources: dict[str, list[str]] = {}
    for model in table["models"]:
        sources.setdefault(model["source"], []).append(model["name"])
    spreads = [
        f"after {model['name']} it is the {model['spread']}" for model in table["models"] if "spread" in model
    ]
    trivial = [f"{what} ({', '.join(of)})" for what, of in predictors.items()]
    lines = [
        f"Numbers are {table['unit']}. Hints are intermediate states of the algorithm, seen in training.",
        f"± after this project's scores is the standard deviation over seeds; {', '.join(spreads)}.",
        f"Trivial: {'; '.join(trivial)}.",
        *(f"{', '.join(names)}: {source}." for source, names in sources.items()),
    ]
    return "\n".join(f"- {line}" for line in lines)


def demo_section(run_dirs: Sequence[Path]) -> str:
    """A line for every task and set of the demo."""
    trivial = {entry["task"]: entry["score"] for entry in published()["trivial"]}
    rows = in_order(read_results(run_dirs))
    tasks = dict.fromkeys(row["task"] for row in rows)
    told = [f"{trivial[task]:.1f} on {task}" for task in tasks if task in trivial]
    below = f"At 64 vertices a trivial predictor has {', '.join(told)}. {RUNS_NOTE}"
    return f"{markdown([run_line(row) for row in rows], DEMO_COLUMNS)}\n\n{below}"


def bench_section(paths: Sequence[Path]) -> str:
    """The tables of the reports, each under the machine that it was measured on."""
    reports = [read_report(path) for path in paths]
    reports.sort(key=lambda report: list(BENCHMARKS).index(report["benchmark"]))
    parts = []
    for report in reports:
        name, machine = report["benchmark"], report["machine"]
        command, columns = BENCHMARKS[name]
        versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
        parts += [
            f"### {name.replace('_', ', ').capitalize()}",
            f"`python -m benchmarks.{command}`, medians of {report['rounds']} rounds. {machine['cpu']}, "
            f"{machine['cores']} cores, {machine['threads']} thread used, load {machine['load']} at the end. "
            f"{versions}.",
            markdown(report["rows"], columns),
        ]
    return "\n\n".join(parts)


def read_report(path: Path) -> dict[str, Any]:
    """A report that a benchmark wrote."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not isinstance(report, dict) or report.get("benchmark") not in BENCHMARKS:
        raise InputError(f"{path} is not a report of {' or '.join(BENCHMARKS)}; write one with --out")
    return report


def replace_between_markers(path: Path, name: str, content: str, check: bool) -> bool:
    """Puts the content between the begin and end markers of a name; tells whether that changes the file."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end) or text.count(begin) > 1 or text.count(end) > 1:
        raise InputError(
            f"{path} must have the lines {begin} and {end} once, in this order, where the table goes"
        )
    new = f"{before}{begin}\n{content}\n{end}{after}"
    if new != text and not check:
        with atomic_write(path) as temporary:
            temporary.write_text(new, encoding="utf-8")
    return new != text


def tested(run_dirs: Sequence[Path]) -> list[Path]:
    """The run folders that have scores; the others are named."""
    for run_dir in run_dirs:
        read_run(run_dir)
        if not is_tested(run_dir):
            print(f"{run_dir} is left out: not tested yet", file=sys.stderr)
    return [run_dir for run_dir in run_dirs if is_tested(run_dir)]


def main(argv: Sequence[str] | None = None) -> int:
    """Rebuilds what there are sources for; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="*", type=Path, help="run folders (default: all in ROOT/runs/results)")
    parser.add_argument("--search", type=Path, help="folder of runs (default: ROOT/runs/search)")
    parser.add_argument("--demo", type=Path, help="the demo's folder (default: ROOT/runs/demo)")
    parser.add_argument("--bench", type=Path, help="folder of reports (default: ROOT/benchmarks/measured)")
    parser.add_argument(
        "--root", type=Path, default=Path(), help="where README.md and docs are (default: here)"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if anything would change"
    )
    args = parser.parse_args(argv)
    demo, bench = args.demo or args.root / "runs/demo", args.bench or args.root / "benchmarks/measured"
    search = args.search or args.root / "runs/search"
    readme, docs = args.root / "README.md", args.root / "docs" / "benchmarks.md"
    try:
        searched = noted_searches(tested(folders(search)), bench / "search", args.check)
        parts = (
            ("results", readme, results_section, tested(args.runs or folders(args.root / "runs/results"))),
            ("demo", readme, demo_section, tested(folders(demo))),
            ("search", readme, search_results.section, searched),
            ("bench", docs, bench_section, sorted(bench.glob("*.json"))),
        )
        changed = [
            f"{path} ({name})"
            for name, path, section, sources in parts
            if sources and replace_between_markers(path, name, section(sources), args.check)
        ]
        if searched and not args.check:
            search_results.draw(searched, args.root / "docs" / "figures")
    except InputError as error:
        print(f"benchmarks.results: {error}", file=sys.stderr)
        return 2
    for name, path, _, sources in parts:
        if not sources:
            print(f"{path} ({name}) is left as it is: nothing to build it from", file=sys.stderr)
    for what in changed:
        print(f"{what} {'is out of date' if args.check else 'rebuilt'}")
    return int(args.check and bool(changed))


def noted_searches(run_dirs: Sequence[Path], kept: Path, check: bool) -> list[dict[str, Any]]:
    """Notes of these runs, which are kept unless this is a check, and those of earlier ones."""
    notes = {run_dir.name: search_results.note(run_dir) for run_dir in run_dirs}
    earlier = [path for path in sorted(kept.glob("*.json")) if path.stem not in notes]
    together = notes | search_results.read_notes(earlier)
    search_results.check_seeds(together)
    for name, noted in notes.items():
        if not check:
            with atomic_write(kept / f"{name}.json") as path:
                path.write_text(json.dumps(noted) + "\n", encoding="utf-8")
    return sorted(together.values(), key=lambda noted: (noted["model"], noted["seed"]))


def folders(path: Path) -> list[Path]:
    """The folders in a folder, if there is one."""
    return sorted(entry for entry in path.glob("*") if entry.is_dir())


if __name__ == "__main__":
    sys.exit(main())
