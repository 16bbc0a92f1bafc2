"""Search questions a second beside the rate of the benchmark's own generator, and whether they look alike.

Takes half a minute; with --distribution, a minute. Rates are medians over the rounds, of process time, on one
thread: questions as rows of tokens with their answers; then as PyG Data, drawing included; then as PairBatch
of 32, all included. The authors' rates are of their C++ generator, for tokens, measured on another machine.
With --distribution the table compares our questions with samples of theirs (tests/data/search): means,
standard deviations, and Kolmogorov-Smirnov's two-sample test. Questions about random graphs come several to a
graph; of these, one a graph is compared.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.common import Column, finish, make_parser, measure_in_turns, parse
from search_bench import at_lookahead, balanced, join, random_graphs, read_questions, to_pair_batch
from search_bench.statistics import compare, statistics

SAMPLES = Path(__file__).parents[1] / "tests" / "data" / "search"
AUTHORS = {49: 15_600, 125: 2_900, 250: 740}
"""Balanced training questions a second of the authors' generator on one thread."""
SECONDS_A_TURN = 0.15
BATCH_SIZE = 32
DRAWN = {49: 4000, 125: 2000, 250: 1000}
"""Balanced questions drawn for the comparison; half as many about random graphs."""
DRAWN_AT_LOOKAHEAD = 64

COLUMNS = (
    Column("kind", "kind"),
    Column("size", "size", "d"),
    Column("questions/s", "tokens", ",.0f"),
    Column("authors', questions/s", "authors", ",.0f"),
    Column("times as fast", "ratio", ".3g"),
    Column("Data/s", "data", ",.0f"),
    Column("PairBatch, questions/s", "pairs", ",.0f"),
)
DISTRIBUTION_COLUMNS = (
    Column("questions", "set"),
    Column("statistic", "statistic"),
    Column("ours, mean", "our_mean", ".2f"),
    Column("authors', mean", "their_mean", ".2f"),
    Column("ours, s.d.", "our_sd", ".2f"),
    Column("authors', s.d.", "their_sd", ".2f"),
    Column("KS distance", "distance", ".3f"),
    Column("p", "p", ".2g"),
)


def rate(work, count):
    """Questions a second of process time."""
    start = time.process_time()
    work(count)
    return count / (time.process_time() - start)


def measure(kind, size, rounds):
    """Median rates of the three forms."""
    to_pairs = to_pair_batch()

    def draw(count, turn):
        if kind == "test":
            return at_lookahead(size, (size - 1) // 4, count, seed=turn)
        return {"balanced": balanced, "random": random_graphs}[kind](size, count, seed=turn)

    def side(finish_up):
        finish_up(draw(BATCH_SIZE, 0))  # compiles
        quick = rate(lambda count: finish_up(draw(count, 0)), BATCH_SIZE)
        batches = max(1, round(SECONDS_A_TURN * quick / BATCH_SIZE))
        return lambda turn: rate(lambda count: finish_up(draw(count, turn)), batches * BATCH_SIZE)

    def pairs(questions):
        for first in range(0, len(questions), BATCH_SIZE):
            to_pairs([questions.data(at) for at in range(first, first + BATCH_SIZE)])

    sides = {"tokens": side(lambda _: None), "data": side(lambda q: q.data_list()), "pairs": side(pairs)}
    row = {"kind": kind, "size": size, **measure_in_turns(sides, rounds)}
    if kind == "balanced" and size in AUTHORS:
        row |= {"authors": AUTHORS[size], "ratio": row["tokens"] / AUTHORS[size]}
    return row


def drawn_like(name):
    """Our questions of the kind and sizes of a file of the authors' questions, and theirs."""
    theirs = read_questions(SAMPLES / f"{name}.npz")
    size = theirs.size
    if name.startswith("test"):
        asked = np.unique(theirs.lookahead).tolist()
        ours = join([at_lookahead(size, lookahead, DRAWN_AT_LOOKAHEAD, seed=1) for lookahead in asked])
    elif name.startswith("random"):
        ours = random_graphs(size, DRAWN[size] // 2, seed=1)
    else:
        ours = balanced(size, DRAWN[size], seed=1)
    return ours, theirs


def distribution(name):
    """Rows of the comparison with a file of the authors' questions."""
    one_a_graph = name.startswith("random")
    ours, theirs = (statistics(questions, one_a_graph) for questions in drawn_like(name))
    return [{"set": name, **row} for row in compare(ours, theirs)]


def main(argv=None):
    parser = make_parser("benchmarks.search", __doc__)
    parser.add_argument(
        "--sizes", nargs="+", type=int, metavar="N", help="default: 49 125 250; 49 with --quick"
    )
    parser.add_argument(
        "--distribution", action="store_true", help="compare statistics instead of measuring rates"
    )
    args = parse(parser, argv)
    if args.distribution:
        names = sorted(path.stem for path in SAMPLES.glob("*.npz"))
        rows = [row for name in (names[:1] if args.quick else names) for row in distribution(name)]
        finish("search_distribution", rows, DISTRIBUTION_COLUMNS, args)
        return
    kinds = ["balanced"] if args.quick else ["balanced", "test", "random"]
    sizes = args.sizes or ([49] if args.quick else [49, 125, 250])
    finish("search", [measure(kind, size, args.rounds) for kind in kinds for size in sizes], COLUMNS, args)


if __name__ == "__main__":
    main()
