"""Labelled graphs a second: clrs_bridge against dm-clrs, in one process and in turns.

Takes about a minute, and dm-clrs (the extra ``clrs``). Both sides draw and label graphs of the same streams:
dm-clrs up to its Feedback, clrs_bridge up to PyG ``Data``. Each round times a sample of either, one after the
other; rates are medians over the rounds, of process time. Compilation and imports are not timed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

from clrs_bridge import TASKS, sample
from clrs_bridge.upstream import feedback_sample

SECONDS_A_TURN = 0.15


def rate(draw, task, num_nodes, num_samples, seed):
    """Graphs a second of process time."""
    start = time.process_time()
    draw(task, num_nodes, num_samples, seed)
    return num_samples / (time.process_time() - start)


def measure(task, num_nodes, rounds):
    """Median rates of both, measured in turns, and their ratio."""
    counts = {}
    for draw in (sample, feedback_sample):
        draw(task, num_nodes, 1, 0)  # compiles
        counts[draw] = max(1, round(SECONDS_A_TURN * rate(draw, task, num_nodes, 2, 0)))
    rates = {sample: [], feedback_sample: []}
    for seed in range(rounds):
        for draw, count in counts.items():
            rates[draw].append(rate(draw, task, num_nodes, count, seed))
    ours, theirs = (statistics.median(rates[draw]) for draw in (sample, feedback_sample))
    return {"task": task, "num_nodes": num_nodes, "ours": ours, "dm_clrs": theirs, "ratio": ours / theirs}


def markdown(rows):
    """The rows as a table."""
    lines = ["| task | n | clrs_bridge /s | dm-clrs /s | ratio |", "|---|---:|---:|---:|---:|"]
    lines += [
        "| {task} | {num_nodes} | {ours:.0f} | {dm_clrs:.4g} | {ratio:.3g} |".format(**row) for row in rows
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), metavar="TASK")
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[16, 64], metavar="N", help="vertices of a graph"
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--quick", action="store_true", help="one turn of each side: a smoke test")
    parser.add_argument("--out", type=Path, help="also write the table here, as .md or .json")
    args = parser.parse_args()
    rounds = 1 if args.quick else args.rounds
    rows = [measure(task, num_nodes, rounds) for num_nodes in args.sizes for task in args.tasks]
    print(markdown(rows))
    if args.out:
        report = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "rounds": rounds,
            "rows": rows,
        }
        text = json.dumps(report, indent=2) if args.out.suffix == ".json" else markdown(rows)
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
