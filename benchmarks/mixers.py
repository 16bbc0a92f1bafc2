"""Time and memory of every mixer against its formula laid out in full, forward and backward.

Takes about a minute on one thread. Both sides get the same legs, already projected; the naive side
(benchmarks/naive.py) is vectorised torch too, but holds every product over (i, k, j), n³ times the channels,
or inverts the propagator's matrix.
Values and gradients of both are compared first. A batch has as many graphs as hold 64³ triples together, one
at n = 64, so that no row is about the overhead of a call.

Times are of the process's CPU on one thread: medians over rounds in which the two take turns. Memory is the
most that torch's allocator held at once beyond the legs, in one forward and backward pass. It is added up
from torch's own record of allocations (torch.profiler), so it includes temporary copies inside an operation,
but not what the matrix library keeps for itself, and does not vary between runs.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read by torch's profiler: two lines a profile otherwise

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks import naive
from benchmarks.common import Column, finish, make_parser, measure_in_turns, parse
from graphalgo.mixers import or_join, power_mean, propagator, summed, triangle_attention
from graphalgo.mixers.or_join import EVERY_DIRECTION, STRAIGHT

SECONDS_A_TURN = 0.03
TRIPLES = 64**3
"""What a batch holds together, if a single graph holds less."""
NUM_HEADS = 4
CHUNK = 16
"""Rows at a time, as :class:`graphalgo.TriangleAttention` has it unless told otherwise."""

COLUMNS = (
    Column("mixer", "mixer"),
    Column("channels", "channels", "d"),
    Column("n", "num_nodes", "d"),
    Column("graphs", "num_graphs", "d"),
    Column("forward, ms", "forward_ms", ".3g"),
    Column("naive, ms", "naive_forward_ms", ".3g"),
    Column("times as fast", "forward_ratio", ".3g"),
    Column("with backward, ms", "training_ms", ".3g"),
    Column("naive, ms", "naive_training_ms", ".3g"),
    Column("times as fast", "training_ratio", ".3g"),
    Column("memory, MB", "memory_mb", ".3g"),
    Column("naive, MB", "naive_memory_mb", ".3g"),
    Column("share of memory", "memory_share", ".1%"),
)


@dataclass(frozen=True)
class Pair:
    """A mixer and its naive form.

    Attributes:
        ours: function of the legs and the vertex mask.
        naive: function of the legs.
        legs: makes the legs from the numbers of graphs, vertices and channels.
        more_than: the mixer differs from the row before only in graphs of more vertices than this.
    """

    ours: Callable[..., Tensor]
    naive: Callable[..., Tensor]
    legs: Callable[[int, int, int], list[Tensor]]
    more_than: int = 0


def real_legs(graphs, n, channels):
    """Two legs of any real numbers."""
    return [torch.randn(graphs, n, n, channels) for _ in range(2)]


def gate_legs(graphs, n, channels, terms=1):
    """Two legs of gates, some tens of them in a sum of order 1."""
    return [(leg - 2).sigmoid() for leg in real_legs(graphs, n, terms * channels)]


def log_gate_legs(graphs, n, channels):
    """Logarithms of two legs of gates, and an exponent for each channel."""
    return [*(leg.log() for leg in gate_legs(graphs, n, channels)), torch.linspace(1, 8, channels)]


def head_legs(graphs, n, channels):
    """Queries, keys and both factors of the values."""
    return [torch.randn(graphs, n, n, NUM_HEADS, channels // NUM_HEADS) for _ in range(4)]


def first_row(gate, source, mask):
    """A propagator of which one row is read."""
    return propagator(gate, source, mask, torch.zeros(len(mask), 1, dtype=torch.long))


PAIRS = {
    "summed": Pair(summed, naive.summed, real_legs),
    "OR join": Pair(or_join, partial(naive.or_join, flip=[STRAIGHT]), gate_legs),
    "OR join, four directions": Pair(
        partial(or_join, flip=EVERY_DIRECTION),
        partial(naive.or_join, flip=EVERY_DIRECTION),
        partial(gate_legs, terms=len(EVERY_DIRECTION)),
    ),
    "power mean": Pair(power_mean, naive.power_mean, log_gate_legs),
    "propagator": Pair(propagator, naive.propagator, gate_legs),
    "propagator, one row": Pair(first_row, naive.propagator_row, gate_legs),
    "triangle attention": Pair(triangle_attention, naive.triangle_attention, head_legs),
    f"triangle attention, {CHUNK} rows at a time": Pair(
        partial(triangle_attention, chunk=CHUNK), naive.triangle_attention, head_legs, more_than=CHUNK
    ),
}


def measure(name, num_nodes, channels, rounds, triples=TRIPLES):
    """One row of the table: both sides checked, timed in turns, and their memory."""
    torch.manual_seed(0)
    pair = PAIRS[name]
    num_graphs = max(1, triples // num_nodes**3)
    legs = [leg.requires_grad_() for leg in pair.legs(num_graphs, num_nodes, channels)]
    mask = torch.ones(num_graphs, num_nodes, dtype=torch.bool)
    sides = {"ours": lambda: pair.ours(*legs, mask=mask), "naive": lambda: pair.naive(*legs)}
    direction = torch.randn_like(sides["ours"]().detach())

    def with_backward(side):
        value = side()
        return value.detach(), *torch.autograd.grad(value, legs, direction)

    training = {key: partial(with_backward, side) for key, side in sides.items()}
    check(name, training["ours"](), training["naive"]())
    with torch.no_grad():
        forward_ms = time_in_turns(sides, rounds)
    training_ms = time_in_turns(training, rounds)
    memory = {key: peak_bytes(side) / 1e6 for key, side in training.items()}
    row = {"mixer": name, "channels": channels, "num_nodes": num_nodes, "num_graphs": num_graphs}
    for key, ms in (("forward", forward_ms), ("training", training_ms)):
        row |= {
            f"{key}_ms": ms["ours"],
            f"naive_{key}_ms": ms["naive"],
            f"{key}_ratio": ms["naive"] / ms["ours"],
        }
    share = memory["ours"] / memory["naive"]
    return row | {"memory_mb": memory["ours"], "naive_memory_mb": memory["naive"], "memory_share": share}


def check(name, ours, theirs):
    """Refuses to time two things that are not the same: values and gradients, to float32's accuracy."""
    for at, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        what = f"gradient {at}" if at else "value"
        scale = y.abs().max().item()
        torch.testing.assert_close(
            x, y, rtol=1e-4, atol=1e-5 * scale, msg=lambda text, what=what: f"{name}: {what} differs. {text}"
        )


def time_in_turns(sides, rounds):
    """Milliseconds of CPU time a call."""

    def timed(side, calls):
        start = time.process_time()
        for _ in range(calls):
            side()
        return 1e3 * (time.process_time() - start) / calls

    def turns(side):
        calls = max(1, round(1e3 * SECONDS_A_TURN / max(timed(side, 1), 1e-3)))
        return lambda turn: timed(side, calls)

    return measure_in_turns({name: turns(side) for name, side in sides.items()}, rounds)


def peak_bytes(function):
    """The most bytes that torch's allocator held at once during a call, of those it gave out in the call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = function()
    del result
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        record.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    events = [event for event in events if event.get("name") == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak


def main(argv=None):
    parser = make_parser("benchmarks.mixers", __doc__)
    parser.add_argument(
        "--sizes", nargs="+", type=int, metavar="N", help="vertices (default: 16 32 64; 16 with --quick)"
    )
    parser.add_argument(
        "--channels",
        nargs="+",
        type=int,
        default=[32],
        metavar="C",
        help="channels, for example 32 128 (default: 32)",
    )
    args = parse(parser, argv)
    if any(channels % NUM_HEADS for channels in args.channels):
        parser.error(f"--channels must be multiples of {NUM_HEADS}, the heads of triangle attention")
    sizes = args.sizes or ([16] if args.quick else [16, 32, 64])
    triples = 0 if args.quick else TRIPLES
    rows = [
        measure(name, num_nodes, channels, args.rounds, triples)
        for channels in args.channels
        for name, pair in PAIRS.items()
        for num_nodes in sizes
        if num_nodes > pair.more_than
    ]
    finish("mixers", rows, COLUMNS, args)


if __name__ == "__main__":
    main()
