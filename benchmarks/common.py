"""What the benchmarks share: turns, the table of a report, and a report that names its machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from graphalgo.run import versions
from graphalgo.store import atomic_write


def measure_in_turns(sides: Mapping[str, Callable[[int], float]], rounds: int) -> dict[str, float]:
    """Medians of what each side measures of itself when the sides take turns.

    Whatever else the machine does in the meantime then falls on all sides alike.

    Args:
        sides: for each side a function of the round's number that returns one measurement.
        rounds: turns of each.
    """
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name, side in sides.items():
            measured[name].append(side(turn))
    return {name: statistics.median(values) for name, values in measured.items()}


@dataclass(frozen=True)
class Column:
    """A column of a report's table: the row's entry ``key`` under a title, in a format.

    A column without a format is text and stands on the left. A row may lack the entry.
    """

    title: str
    key: str
    format: str = ""


def markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
    """The rows as a Markdown table."""
    cells = [
        [column.title for column in columns],
        ["---:" if column.format else ":---" for column in columns],
    ]
    cells += [
        [format(row[column.key], column.format) if column.key in row else "" for column in columns]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def make_parser(module: str, description: str) -> argparse.ArgumentParser:
    """A benchmark's parser with the options that all of them have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a smoke test: one turn of the smallest case")
    parser.add_argument("--out", type=Path, help="also write figures, settings and machine here, as JSON")
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options; a benchmark runs on one thread from here on, so that process time is that of its work."""
    args = parser.parse_args(argv)
    if args.quick:
        args.rounds = 1
    torch.set_num_threads(1)
    return args


def finish(
    name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], args: argparse.Namespace
) -> None:
    """Prints the table and, if asked to, writes the report that :mod:`benchmarks.results` reads."""
    print(markdown(rows, columns))
    if args.out:
        report = {"benchmark": name, "rounds": args.rounds, "machine": describe_machine(), "rows": list(rows)}
        with atomic_write(args.out) as path:
            path.write_text(json.dumps(report, indent=2) + "\n")


def describe_machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores, threads used, how busy it was, versions."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "versions": {package: version for package, version in versions().items() if version},
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name where the system tells it, its architecture elsewhere."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()
