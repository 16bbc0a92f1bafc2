"""Labelled graphs a second: clrs_bridge against dm-clrs, in one process and in turns.

Takes about a minute, and dm-clrs (the extra "clrs"). Both sides draw and label graphs of the same streams:
dm-clrs up to its Feedback, clrs_bridge up to PyG Data. Each round times a sample of either, one after the
other; rates are medians over the rounds, of process time. Compilation and imports are not timed.
"""

from __future__ import annotations

import time

from benchmarks.common import Column, finish, make_parser, measure_in_turns, parse
from clrs_bridge import TASKS, sample
from clrs_bridge.upstream import feedback_sample

SECONDS_A_TURN = 0.15

COLUMNS = (
    Column("task", "task"),
    Column("n", "num_nodes", "d"),
    Column("clrs_bridge, graphs/s", "ours", ".0f"),
    Column("dm-clrs, graphs/s", "dm_clrs", ".4g"),
    Column("times as fast", "ratio", ".3g"),
)


def rate(draw, task, num_nodes, num_samples, seed):
    """Graphs a second of process time."""
    start = time.process_time()
    draw(task, num_nodes, num_samples, seed)
    return num_samples / (time.process_time() - start)


def measure(task, num_nodes, rounds):
    """Median rates of both, measured in turns, and their ratio."""

    def side(draw):
        draw(task, num_nodes, 1, 0)  # compiles
        count = max(1, round(SECONDS_A_TURN * rate(draw, task, num_nodes, 2, 0)))
        return lambda turn: rate(draw, task, num_nodes, count, seed=turn)

    rates = measure_in_turns({"ours": side(sample), "dm_clrs": side(feedback_sample)}, rounds)
    return {"task": task, "num_nodes": num_nodes, **rates, "ratio": rates["ours"] / rates["dm_clrs"]}


def main(argv=None):
    parser = make_parser("benchmarks.samplers", __doc__)
    parser.add_argument(
        "--tasks", nargs="+", choices=list(TASKS), metavar="TASK", help="default: all; bfs with --quick"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        metavar="N",
        help="vertices of a graph (default: 16 64; 16 with --quick)",
    )
    args = parse(parser, argv)
    tasks = args.tasks or (["bfs"] if args.quick else list(TASKS))
    sizes = args.sizes or ([16] if args.quick else [16, 64])
    rows = [measure(task, num_nodes, args.rounds) for num_nodes in sizes for task in tasks]
    finish("samplers", rows, COLUMNS, args)


if __name__ == "__main__":
    main()
