"""Everything there is to say about a run: tables on the terminal, files in ``RUN/figures``, one report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes

from analysis import depth, figures, gates, lookahead, margin, pointers, scores
from analysis.answers import Answers, read_answers
from analysis.rates import with_rates
from analysis.tables import as_markdown, as_text
from graphalgo.errors import InputError
from graphalgo.module import PairModule
from graphalgo.store import atomic_write
from search_bench import hand_set_propagator, to_pair_batch

GATE_QUESTIONS = 4
"""The last questions of a set, those of the largest lookaheads, on which gates are looked at."""

WORST_GRAPHS = 5
"""Rows of the table of single graphs that are shown; its CSV has all."""

NEEDS = {
    "bfs": {"pi", "s"},
    "dfs": {"pi"},
    "strongly_connected_components": {"scc_id"},
    "mst_kruskal": {"in_mst", "edge_weight"},
    "mst_prim": {"pi", "s", "edge_weight"},
    "bellman_ford": {"pi", "s", "edge_weight"},
    "dijkstra": {"pi", "s", "edge_weight"},
    "dag_shortest_paths": {"pi", "s", "edge_weight"},
    "floyd_warshall": {"Pi", "edge_weight"},
    "search": {"next", "lookahead"},
}
"""Attributes of the graphs that the analyses of a task read, beside ``edge_index``."""


@dataclass(frozen=True)
class Finding:
    """One analysis of one set, ready to be written.

    Attributes:
        name: stem of its files.
        title: heading.
        subtitle: task, set, sizes and loops.
        text: how to read it, in a sentence or two.
        table: all of it, as written to CSV.
        shown: what is printed and put in the report.
        draw: draws it on an axis; None for a table without a figure.
    """

    name: str
    title: str
    subtitle: str
    text: str
    table: pd.DataFrame
    shown: pd.DataFrame
    draw: Callable[[Axes], None] | None = None


def analyze(run_dir: str | Path, show: Callable[[str], object] = print) -> list[Path]:
    """Computes all analyses that apply to a run's task, shows the tables and writes tables and figures.

    Args:
        run_dir: a run folder that ``graphalgo test`` has filled. Files go to its folder ``figures``: each
            table as CSV (shares and margins as fractions), each figure as PNG and SVG, and ``report.md``.
        show: called with each piece of text.

    Returns:
        The paths of the files written, ``report.md`` last.

    Raises:
        InputError: the run has not been tested, or its files are damaged or do not belong together.
    """
    run_dir = Path(run_dir)
    folder = run_dir / "figures"
    trained = read_train_loops(run_dir)
    written: list[Path] = []
    sections: list[str] = []
    overview: list[pd.DataFrame] = []
    searches: list[Answers] = []
    task = ""
    for answers in read_answers(run_dir):
        task = answers.task
        searches += [answers] if task == "search" else []
        by_loop = scores.score_by_loop(answers.rows, answers.outputs, len(answers.graphs))
        overview.append(_official_scores(answers, by_loop))
        sections.append(f"## {answers.set}\n")
        show(f"\n=== {_describe(answers)}")
        for finding in (find_scores(answers, by_loop, trained), *find(answers, trained)):
            written += _write(finding, folder, show, sections)
    first = _overview(task, pd.concat(overview, ignore_index=True), trained)
    opening = [f"# Where {run_dir.resolve().name} errs\n"]
    show("\n=== all sets")
    written += _write(first, folder, show, opening)
    if len(searches) > 1:
        written += _write(compare_lookaheads(searches), folder, show, opening)
    for finding in find_gates(run_dir, searches):
        written += _write(finding, folder, show, opening)
    with atomic_write(folder / "report.md") as temporary:
        temporary.write_text("\n".join(opening + sections), encoding="utf-8")
    return [*written, folder / "report.md"]


def analyze_lookahead(run_dir: str | Path, show: Callable[[str], object] = print) -> list[Path]:
    """The part of :func:`analyze` that is about lookahead, for a run of the task ``search``.

    Args:
        run_dir: see :func:`analyze`.
        show: see :func:`analyze`.

    Returns:
        The paths of the files written.

    Raises:
        InputError: see :func:`analyze`.
    """
    folder = Path(run_dir) / "figures"
    searches = list(read_answers(run_dir))
    written: list[Path] = []
    for answers in searches:
        show(f"\n=== {_describe(answers)}")
        for finding in find_lookahead(answers):
            written += _write(finding, folder, show, [])
    if len(searches) > 1:
        written += _write(compare_lookaheads(searches), folder, show, [])
    return written


def read_train_loops(run_dir: Path) -> tuple[int, int] | None:
    """The fewest and most loops of a training step, from ``config.yaml``; None if it does not say.

    Only a looped block has loops.
    """
    path = run_dir / "config.yaml"
    if not path.is_file():
        return None
    try:
        waiting = [yaml.safe_load(path.read_text(encoding="utf-8"))]
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            loop = node.get("loop")
            if isinstance(loop, dict) and not str(loop.get("class_path")).endswith("LoopedBlock"):
                return None
            loops = node.get("train_loops")
            if isinstance(loops, list) and len(loops) == 2 and all(isinstance(loop, int) for loop in loops):
                return loops[0], loops[1]
            waiting += node.values()
    return None


def find(answers: Answers, trained: tuple[int, int] | None = None) -> Iterator[Finding]:
    """All analyses that apply to one set, beside its scores: those of its task, and single graphs.

    Args:
        answers: the answers of one set.
        trained: fewest and most loops of a training step, if known.

    Raises:
        InputError: the graphs lack an attribute that the analyses of this task need.
    """
    needed = NEEDS.get(answers.task, set())
    missing = sorted({name for graph in answers.graphs for name in needed if name not in graph})
    if missing:
        raise InputError(
            f"set {answers.set!r}: the analyses of {answers.task!r} need graphs with "
            f"{', '.join(sorted(needed))}, and there is no {', '.join(missing)}; "
            "give a task of your own a name of its own"
        )
    if answers.task in depth.MEANING:
        yield from find_depths(answers)
    for definition in margin.MARGINS.get(answers.task, ()):
        yield from find_margins(answers, definition)
    if answers.task == "strongly_connected_components":
        yield find_scc(answers, trained)
    if answers.task == "mst_prim":
        yield find_tree_errors(answers)
    if answers.task == "search":
        yield from find_lookahead(answers)
    yield find_graphs(answers)


def find_scores(answers: Answers, table: pd.DataFrame, trained: tuple[int, int] | None) -> Finding:
    """The official score after each loop; the table is that of ``scores.score_by_loop``."""
    return Finding(
        name=f"{answers.set}_loops",
        title="Score by loop iteration",
        subtitle=_describe(answers),
        text="The score had the model been stopped after each loop, its 95% bootstrap interval over "
        "graphs, and the share of graphs with every entry right. The CSV has every loop.",
        table=table,
        shown=_some_loops(table),
        draw=lambda ax: figures.draw_scores(table, ax, "output", trained),
    )


def find_depths(answers: Answers) -> Iterator[Finding]:
    """Accuracy by depth of the final answers, then after each loop."""
    output, meaning = answers.outputs[0], depth.MEANING[answers.task]
    depths = [depth.entry_depths(answers.task, graph) for graph in answers.graphs]
    table = depth.accuracy_by_depth(answers.of(output), depths)
    binned = with_rates(depth.bin_depths(table[["loop", "depth", "entries", "right"]], ["loop"]))
    final = binned[binned["loop"] == answers.num_loops].drop(columns="loop").reset_index(drop=True)
    yield Finding(
        name=f"{answers.set}_depth",
        title="Accuracy by depth",
        subtitle=_describe(answers),
        text=f"Depth: {meaning}, in the true answer. 95% Wilson intervals over entries. The CSV has every "
        f"single depth ({depth.UNREACHED}: no path, {depth.DIAGONAL}: diagonal).",
        table=table[table["loop"] == answers.num_loops].drop(columns="loop"),
        shown=final,
        draw=lambda ax: figures.draw_depths(final, ax, meaning),
    )
    if answers.num_loops > 1:
        grid = binned.pivot(index="loop", columns="depth", values="accuracy")[list(final["depth"])]
        grid = grid.reset_index().rename_axis(columns=None)
        yield Finding(
            name=f"{answers.set}_depth_loops",
            title="Accuracy by depth after each loop",
            subtitle=_describe(answers),
            text="How deep the answers are right after each loop. The CSV has every loop and depth.",
            table=table,
            shown=_some_loops(grid),
            draw=lambda ax: figures.draw_depth_loops(binned, ax, meaning),
        )


def find_lookahead(answers: Answers) -> Iterator[Finding]:
    """Accuracy by lookahead of the final answers, then after each loop."""
    output = answers.outputs[0]
    table = lookahead.accuracy_by_lookahead(answers.of(output), output, answers.graphs)
    binned = lookahead.bin_lookaheads(table, ["loop"])
    final, last = (
        part[part["loop"] == answers.num_loops].drop(columns="loop").assign(set=answers.set)
        for part in (table, binned)
    )
    yield Finding(
        name=f"{answers.set}_lookahead",
        title="Accuracy by lookahead",
        subtitle=_describe(answers),
        text="The one right next vertex is asked for; valid: any child from which the goal can be reached. "
        "95% Wilson intervals over questions. Dots, and the CSV: every single lookahead.",
        table=final.drop(columns="set"),
        shown=_without_counts(last).drop(columns="set"),
        draw=lambda ax: figures.draw_lookahead(final, last, ax, _reach([answers])),
    )
    if answers.num_loops > 1:
        depths = binned.rename(columns={"lookahead": "depth"})
        grid = depths.pivot(index="loop", columns="depth", values="accuracy")[list(last["lookahead"])]
        yield Finding(
            name=f"{answers.set}_lookahead_loops",
            title="Accuracy by lookahead after each loop",
            subtitle=_describe(answers),
            text="How far ahead the answers look after each loop. The CSV has every loop and lookahead.",
            table=table,
            shown=_some_loops(grid.reset_index().rename_axis(columns=None)),
            draw=lambda ax: figures.draw_depth_loops(depths, ax, "lookahead"),
        )


def compare_lookaheads(searches: Sequence[Answers]) -> Finding:
    """Accuracy by lookahead of the final answers, all sets side by side."""
    parts = []
    for answers in searches:
        output = answers.outputs[0]
        table = lookahead.accuracy_by_lookahead(answers.final(output), output, answers.graphs)
        parts.append(table.drop(columns="loop").assign(set=answers.set))
    table = pd.concat(parts, ignore_index=True)
    binned = lookahead.bin_lookaheads(table, ["set"])
    loops = _reach(searches)
    grid = binned.pivot(index="lookahead", columns="set", values="accuracy")
    order = binned.sort_values("at")["lookahead"].unique()
    return Finding(
        name="lookahead",
        title="Accuracy by lookahead, all sets",
        subtitle=f"{searches[0].task}, {len(searches)} test sets",
        text="Of the final answers. Dots, and the CSV: every single lookahead.",
        table=table[["set", *table.columns.drop("set")]],
        shown=grid.loc[order, list(dict.fromkeys(table["set"]))].reset_index().rename_axis(columns=None),
        draw=lambda ax: figures.draw_lookahead(table, binned, ax, loops),
    )


def find_gates(run_dir: Path, searches: Sequence[Answers]) -> Iterator[Finding]:
    """Gates and sources of a run whose first block has a propagator, on questions of its largest set."""
    if not searches or not (run_dir / "checkpoints" / "last.ckpt").is_file():
        return
    module = PairModule.from_run(run_dir)
    if not gates.has_propagator(module.model) or module.to_pairs.vertex_attrs:
        return
    largest = max(searches, key=lambda answers: max(graph.num_nodes for graph in answers.graphs))
    graphs = largest.graphs[-GATE_QUESTIONS:]
    table = gates.summarise_gates(module.model, module.to_pairs, graphs)
    values = gates.gate_values(module.model, module.to_pairs, graphs)
    channel = table["channel"].iloc[0]
    values = values[values["channel"] == channel]
    by_hand = gates.gate_values(hand_set_propagator(), to_pair_batch(), graphs)
    yield Finding(
        name="gates",
        title="Gates of the propagator",
        subtitle=f"channel {channel} of the first layer, {len(graphs)} questions of {largest.set}",
        text="Medians over pairs (u, v) of the gates after the row cap, by what there is between u and v, "
        "and the source in the row of the current vertex. The channel that carries the answer stands first, "
        "and is drawn; roads that share a row share out its 0.99.",
        table=table,
        shown=table,
        draw=lambda ax: figures.draw_gates(values, by_hand, ax),
    )


def _reach(searches: Sequence[Answers]) -> list[int]:
    """Numbers of loops whose reach 2^L is marked; one layer may see all the way, as a propagator does."""
    return [answers.num_loops for answers in searches if answers.num_loops > 1]


def _without_counts(table: pd.DataFrame) -> pd.DataFrame:
    """What is shown of bins of lookahead."""
    return table.drop(columns=["at", "accepted"]).reset_index(drop=True)


def find_margins(answers: Answers, definition: margin.Definition) -> Iterator[Finding]:
    """Margins of wrong decisions and of all, then accuracy by margin; nothing if a weight is not positive."""
    if any((graph.edge_weight <= 0).any() for graph in answers.graphs):
        return
    margins = [definition.of(graph) for graph in answers.graphs]
    rows = answers.final(answers.outputs[0])
    summary = margin.summarise_margins(rows, margins)
    histogram = margin.margin_histogram(rows, margins)
    bins = margin.accuracy_by_margin(rows, margins)
    single, none = summary.set_index("answers").loc[["one candidate", "no decision"], "entries"]
    decided = len(histogram) > 0
    yield Finding(
        name=f"{answers.set}_{definition.name}",
        title=f"Relative margin of wrong decisions{definition.note}",
        subtitle=_describe(answers),
        text="How much worse the best alternative is than the true choice, 0% being a tie. Compared: "
        f"{definition.meaning}. Left out: {single:,} entries with one candidate, {none:,} without a choice.",
        table=summary,
        shown=summary,
        draw=(lambda ax: figures.draw_margins(histogram, ax, summary)) if decided else None,
    )
    named = bins.drop(columns=["from", "to"])
    named.insert(0, "margin", figures.margin_bin_names(bins))
    yield Finding(
        name=f"{answers.set}_{definition.name}_bins",
        title=f"Accuracy by relative margin{definition.note}",
        subtitle=_describe(answers),
        text=f"Compared: {definition.meaning}. 95% Wilson intervals over decisions.",
        table=bins,
        shown=named,
        draw=(lambda ax: figures.draw_margin_bins(bins, ax)) if decided else None,
    )


def find_scc(answers: Answers, trained: tuple[int, int] | None) -> Finding:
    """SCC pointers by kind of representative."""
    table = pointers.scc_errors(answers.of(answers.outputs[0]), answers.graphs)
    return Finding(
        name=f"{answers.set}_scc",
        title="Components and their representatives",
        subtitle=_describe(answers),
        text="Accuracy where the representative is the smallest index of its component, and where the first "
        "depth-first pass fixes it; and how many wrong pointers stay inside the right component. The CSV has "
        "every loop. 95% Wilson intervals.",
        table=table,
        shown=table[table["loop"] == answers.num_loops].drop(columns="loop"),
        draw=lambda ax: figures.draw_scc(table, ax, trained),
    )


def find_tree_errors(answers: Answers) -> Finding:
    """Where Prim's wrong pointers point."""
    meaning = depth.MEANING[answers.task]
    depths = [depth.entry_depths(answers.task, graph) for graph in answers.graphs]
    table = pointers.tree_errors(answers.final(answers.outputs[0]), answers.graphs, depths)
    binned = depth.bin_depths(table)
    return Finding(
        name=f"{answers.set}_tree",
        title="Where wrong tree pointers point",
        subtitle=_describe(answers),
        text="A pointer at the vertex's own child is the right tree edge in the wrong direction. The CSV has "
        "the counts at every depth.",
        table=table,
        shown=pointers.sum_tree_errors(table),
        draw=(lambda ax: figures.draw_tree_errors(binned, ax, meaning)) if table["wrong"].any() else None,
    )


def find_graphs(answers: Answers) -> Finding:
    """Single graphs, the worst first."""
    table = scores.score_by_graph(answers.rows, answers.outputs, answers.graphs)
    return Finding(
        name=f"{answers.set}_graphs",
        title="Graphs with most wrong entries",
        subtitle=_describe(answers),
        text=f"The worst {min(WORST_GRAPHS, len(table))} of {len(table)} graphs, of which "
        f"{int((table['wrong'] == 0).sum())} have no wrong entry. The CSV has all.",
        table=table,
        shown=table.head(WORST_GRAPHS),
    )


def _official_scores(answers: Answers, by_loop: pd.DataFrame) -> pd.DataFrame:
    """The task's score after each loop, with the set and its size."""
    table = scores.official(by_loop).drop(columns=["output", "entries"])
    size = {"set": answers.set, "num_nodes": answers.sizes, "num_graphs": len(answers.graphs)}
    return table.assign(**size)[[*size, *table.columns]]


def _overview(task: str, table: pd.DataFrame, trained: tuple[int, int] | None) -> Finding:
    """All sets side by side."""
    sets = list(dict.fromkeys(table["set"]))
    return Finding(
        name="overview",
        title="Score by loop iteration, all sets",
        subtitle=f"{task}, {len(sets)} test sets",
        text="The score of the final answers, its 95% bootstrap interval over graphs, and the share "
        "of graphs with every entry right. The CSV has every loop.",
        table=table,
        shown=table.groupby("set", sort=False).tail(1),
        draw=(lambda ax: figures.draw_scores(table, ax, "set", trained)) if len(sets) > 1 else None,
    )


def _some_loops(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of loops 1, 2, 3, 4, 6, 8, 12, 16, 24, ... and of the last."""
    loops = table["loop"].to_numpy()
    kept = {2**power for power in range(16)} | {3 * 2**power for power in range(15)} | {int(loops.max())}
    return table[np.isin(loops, list(kept))]


def _write(finding: Finding, folder: Path, show: Callable[[str], object], report: list[str]) -> list[Path]:
    """Shows a finding, writes its files and adds it to the report."""
    show(f"\n{finding.title}\n{as_text(finding.shown)}")
    files = [folder / f"{finding.name}.csv"]
    with atomic_write(files[0]) as temporary:
        finding.table.to_csv(temporary, index=False)
    report += [f"### {finding.title}\n", f"{finding.subtitle}. {finding.text}\n", as_markdown(finding.shown)]
    if finding.draw is not None:
        files += figures.render(finding.draw, folder / finding.name, finding.title, finding.subtitle)
        report.append(f"![{finding.title}, {finding.subtitle}]({finding.name}.png)\n")
    report.append(f"[{finding.name}.csv]({finding.name}.csv)\n")
    return files


def _describe(answers: Answers) -> str:
    graphs, loops = len(answers.graphs), answers.num_loops
    return (
        f"{answers.task}, {answers.set}: n = {answers.sizes}, {graphs} graph{'s' * (graphs != 1)}, "
        f"{loops} loop{'s' * (loops != 1)}"
    )
