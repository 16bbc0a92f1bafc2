"""Figures: each function draws one table on one axis; :func:`render` gives the axis and the one style.

Colours are those of Okabe and Ito, told apart by colour-blind readers; series differ in marker or dash too.
Nothing here touches pyplot or its global state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from analysis.gates import PAIRS, REVERSED
from analysis.pointers import FIRST_PASS, KINDS, SMALLEST
from graphalgo.store import atomic_write

BLUE, RED, GREEN, ORANGE, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#7F7F7F"
SERIES = ((BLUE, "o"), (RED, "s"), (GREEN, "^"), (ORANGE, "D"), (PURPLE, "v"))
"""Colour and marker of each series in turn."""

DASHED = {"linestyle": (0, (4, 2)), "linewidth": 1.3}
"""Of what is drawn beside the main lines."""

WIDTH, HEIGHT, DPI = 6.4, 3.8, 160
"""Inches, and pixels an inch of the PNG."""

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.hashsalt": "graphalgo",
    "text.parse_math": False,  # a name may hold dollar signs
}


def render(draw: Callable[[Axes], None], stem: Path, title: str, subtitle: str) -> list[Path]:
    """Draws one figure and writes it as PNG and SVG, equal bytes for equal tables.

    Args:
        draw: draws on the axis it is given.
        stem: path without suffix.
        title: what is shown.
        subtitle: task, set, sizes and loops.

    Returns:
        The two files.
    """
    files = [stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.subplots()
        draw(ax)
        ax.set_title(title, loc="left", fontsize=11.5, fontweight="bold", pad=25)
        above = {"xy": (0, 1), "xycoords": "axes fraction", "xytext": (0, 10), "textcoords": "offset points"}
        ax.annotate(subtitle, **above, fontsize=9.5, color="#404040")
        for file in files:
            with atomic_write(file) as temporary:
                figure.savefig(temporary, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def draw_scores(table: pd.DataFrame, ax: Axes, series: str, trained: tuple[int, int] | None = None) -> None:
    """Score against loop with its interval, a line a series.

    Args:
        table: columns ``loop``, ``score``, ``low``, ``high`` and the one named by ``series``.
        ax: where.
        series: column that tells the lines apart.
        trained: fewest and most loops of a training step, shaded.
    """
    names = list(dict.fromkeys(table[series]))
    for position, name in enumerate(names):
        _line(ax, table[table[series] == name], "score", *SERIES[position % len(SERIES)], str(name))
    _share_axis(ax, "score", table["low"].min())
    _loop_axis(ax, table["loop"], trained)
    if len(names) > 1:
        ax.legend(loc="best")


def draw_depths(table: pd.DataFrame, ax: Axes, meaning: str) -> None:
    """Accuracy in each bin of depth with its Wilson interval; the number of entries below each.

    Args:
        table: of :func:`analysis.depth.bin_depths`, one loop.
        ax: where.
        meaning: what depth is.
    """
    place = np.arange(len(table))
    numbered = table["depth"].str[:1].str.isdigit().to_numpy()
    for chosen, style in ((numbered, "o-"), (~numbered, "s")):
        if chosen.any():
            _intervals(ax, place[chosen], table[chosen], BLUE if style == "o-" else GREY, style)
    _counted_ticks(ax, table["depth"].tolist(), table["entries"].tolist())
    ax.set_xlabel(f"{meaning}, and number of entries")
    _share_axis(ax, "accuracy", table["low"].min())


def draw_depth_loops(table: pd.DataFrame, ax: Axes, meaning: str) -> None:
    """Accuracy at each depth (down) after each loop (across), as colours.

    Args:
        table: of :func:`analysis.depth.bin_depths`, all loops.
        ax: where.
        meaning: what depth is.
    """
    depths = list(dict.fromkeys(table["depth"]))
    grid = table.pivot(index="depth", columns="loop", values="accuracy").loc[depths]
    loops = grid.columns.to_numpy()
    ax.grid(False)
    shares = grid.to_numpy()
    image = ax.imshow(
        shares,
        cmap="cividis",
        vmin=min(np.floor(np.nanmin(shares) * 10) / 10, 0.9),
        vmax=1,
        aspect="auto",
        extent=(loops[0] - 0.5, loops[-1] + 0.5, len(depths) - 0.5, -0.5),
    )
    if len(loops) <= 12:
        for (row, column), share in np.ndenumerate(shares):
            colour = "black" if image.norm(share) > 0.5 else "white"
            text = "" if np.isnan(share) else f"{100 * share:.1f}"
            ax.text(loops[column], row, text, ha="center", va="center", fontsize=7.5, color=colour)
    ax.spines[:].set_visible(False)
    ax.set_yticks(np.arange(len(depths)), depths)
    ax.set_ylabel(meaning)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("loop iterations")
    ax.tick_params(length=0)
    bar = ax.figure.colorbar(image, ax=ax, label="accuracy", pad=0.02)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(_percent))
    bar.outline.set_visible(False)


def draw_lookahead(table: pd.DataFrame, bins: pd.DataFrame, ax: Axes, joins: Sequence[int] = ()) -> None:
    """Accuracy against lookahead, a line a set: bins with their Wilson intervals, single lookaheads as dots.

    Args:
        table: columns ``set``, ``lookahead``, ``accuracy``: every lookahead of every set.
        bins: of :func:`analysis.lookahead.bin_lookaheads`, with ``set``.
        ax: where; the x axis is logarithmic, and a lookahead of 0 stands left of 1. Intervals are cut off
            below the lowest accuracy.
        joins: numbers L of loops or layers whose reach 2^L is marked where it lies among the lookaheads.
    """
    names = list(dict.fromkeys(bins["set"]))
    for position, name in enumerate(names):
        colour, marker = SERIES[position % len(SERIES)]
        single, own = table[table["set"] == name], bins[bins["set"] == name]
        if len(single) > len(own):
            dots = _lookahead_place(single["lookahead"])
            ax.scatter(dots, single["accuracy"], s=9, color=colour, alpha=0.3, linewidth=0, clip_on=False)
        own = own.assign(place=_lookahead_place(own["at"])).sort_values("place")
        many = len(own) > 16  # then markers of several sets take turns, and hide each other less
        marked = (position, len(names)) if many else 1
        _line(ax, own, "accuracy", colour, marker, name, "place", marked)
    _lookahead_axis(ax, table["lookahead"], joins)
    _share_axis(ax, "accuracy", min(bins["accuracy"].min(), table["accuracy"].min()))
    if len(names) > 1:
        ax.legend(loc="best")


def _lookahead_place(ahead: pd.Series) -> np.ndarray:
    return np.where(ahead > 0, ahead, 0.5)


def _lookahead_axis(ax: Axes, ahead: pd.Series, joins: Sequence[int]) -> None:
    """Powers of two across, 0 left of them; the reach of loops or layers as labelled lines."""
    first, last = (0.5 if (ahead == 0).any() else 1), max(int(ahead.max()), 2)
    ticks = [2**power for power in range(int(np.log2(last * 1.15)) + 1)]
    ax.set_xscale("log", base=2)
    ax.set_xlim(first / 1.15, last * 1.15)
    ax.set_xticks([0.5] * (first < 1) + ticks, ["0"] * (first < 1) + [str(tick) for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("lookahead")
    within = [number for number in sorted(set(joins)) if 1 < 2**number <= last]
    for number in within:
        ax.axvline(2**number, color=GREY, zorder=1, **DASHED)
        note = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "bottom"}
        ax.annotate(f"2^{number}", (2**number, 0.02), xytext=(4, 0), fontsize=8.5, color="#404040", **note)
    if within:
        ax.set_xlabel("lookahead (dashed: 2^L for L loops or layers)")


def draw_gates(values: pd.DataFrame, hand_set: pd.DataFrame, ax: Axes) -> None:
    """How large the gates of one channel are on each kind of pair, beside the roads of the hand-set layer.

    Args:
        values: columns ``pair`` and ``gate`` of :func:`analysis.gates.gate_values`, one channel.
        hand_set: the same of the layer set by hand, whose gates on other pairs are 0.
        ax: where; gates across on a logarithmic scale, those below its left end counted in the first bin.
    """
    smallest = 10.0 ** np.floor(np.log10(max(values["gate"].min(), 1e-12)))
    edges = np.geomspace(smallest, 1, 61)
    for (colour, _), kind in zip(SERIES, PAIRS, strict=False):
        of_kind = values[values["pair"] == kind]
        share = np.histogram(of_kind["gate"].clip(lower=smallest), bins=edges)[0] / len(of_kind)
        ax.stairs(share, edges, color=colour, fill=True, alpha=0.25)
        ax.stairs(share, edges, color=colour, linewidth=1.6, label=kind)
    roads = hand_set.loc[hand_set["pair"] == REVERSED, "gate"]
    share = np.histogram(roads, bins=edges)[0] / len(roads)
    ax.stairs(share, edges, color="black", label=f"{REVERSED}, set by hand (0 elsewhere)", **DASHED)
    ax.set_xscale("log")
    ax.set_xlim(smallest, 1)
    decades = range(round(np.log10(smallest)), 1)
    ax.set_xticks([10.0**decade for decade in decades], [f"1e{decade}" for decade in decades[:-1]] + ["1"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(0, 1)
    ax.set_xlabel("gate after the row cap")
    ax.set_ylabel("share of pairs")
    ax.yaxis.set_major_formatter(FuncFormatter(_percent))
    ax.legend(loc="center right", bbox_to_anchor=(0.96, 0.5))


def draw_margins(table: pd.DataFrame, ax: Axes, summary: pd.DataFrame) -> None:
    """Distributions of the margin of all and of wrong decisions, medians marked.

    Args:
        table: of :func:`analysis.margin.margin_histogram`.
        ax: where; the x axis is logarithmic.
        summary: of :func:`analysis.margin.summarise_margins` for the same decisions.
    """
    ax.set_xscale("log")
    edges = np.append(table["from"].to_numpy(), table["to"].to_numpy()[-1])
    medians = summary.set_index("answers")["median"]
    for name, colour, fill, dash in (("all", BLUE, 0.25, "-"), ("wrong", RED, 0.25, (0, (4, 2)))):
        count = table[name].sum()
        if count == 0:
            continue
        share = table[name].to_numpy() / count
        ax.stairs(share, edges, color=colour, fill=True, alpha=fill)
        label = f"{name} decisions ({count:,}), median {_percent(medians[name])}"
        ax.stairs(share, edges, color=colour, linewidth=1.5, label=label)
        ax.axvline(medians[name], color=colour, ymax=1 / 1.3, linestyle=dash, linewidth=1.5)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(0, ax.get_ylim()[1] * 1.3)  # room for the legend
    ax.set_xlabel("relative margin: how much worse the best alternative is")
    ax.set_ylabel("share of decisions in a bin")
    ax.xaxis.set_major_formatter(FuncFormatter(_percent))
    ax.yaxis.set_major_formatter(FuncFormatter(_percent))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.legend(loc="upper left")


def draw_margin_bins(table: pd.DataFrame, ax: Axes) -> None:
    """Accuracy in each bin of the margin with its Wilson interval; the number of decisions below each.

    Args:
        table: of :func:`analysis.margin.accuracy_by_margin`.
        ax: where.
    """
    _intervals(ax, np.arange(len(table)), table, BLUE, "o-")
    _counted_ticks(ax, margin_bin_names(table), table["entries"].tolist())
    ax.set_xlabel("relative margin, and number of decisions")
    _share_axis(ax, "accuracy", table["low"].min())


def margin_bin_names(table: pd.DataFrame) -> list[str]:
    """Names of margin bins: ``"< 0.1%"``, ``"0.1-0.3%"``, ..., ``">= 100%"``."""
    names = []
    for low, high in zip(table["from"], table["to"], strict=True):
        if low == 0:
            names.append(f"< {_percent(high)}")
        elif np.isinf(high):
            names.append(f"≥ {_percent(low)}")
        else:
            names.append(f"{100 * low:g}-{_percent(high)}")
    return names


def draw_scc(table: pd.DataFrame, ax: Axes, trained: tuple[int, int] | None = None) -> None:
    """SCC accuracy by kind of representative after each loop, and pointers inside the right component.

    Args:
        table: of :func:`analysis.pointers.scc_errors`.
        ax: where.
        trained: fewest and most loops of a training step, shaded.
    """
    for name, colour, marker in ((SMALLEST, BLUE, "o"), (FIRST_PASS, RED, "s")):
        own = table[table["representative"] == name]
        if len(own):
            _line(ax, own, "accuracy", colour, marker, f"representative: {name}")
    everything = table[table["representative"] == "all"]
    inside = (everything["right"] + everything["wrong_inside"]) / everything["entries"]
    label = "any member of the right component"
    ax.plot(everything["loop"], inside, color=GREY, label=label, **DASHED)
    _share_axis(ax, "share of pointers", min(table["low"].min(), inside.min()))
    _loop_axis(ax, table["loop"], trained)
    ax.legend(loc="best")


def draw_tree_errors(table: pd.DataFrame, ax: Axes, meaning: str) -> None:
    """Share of wrong pointers at each depth, stacked by where they point.

    Args:
        table: ``depth`` (text), ``entries`` and a count for each of :data:`analysis.pointers.KINDS`.
        ax: where.
        meaning: what depth is.
    """
    below = np.zeros(len(table))
    for kind, colour, hatch in zip(KINDS, (RED, ORANGE, GREY, BLUE), ("", "///", "...", ""), strict=True):
        share = table[kind].to_numpy() / table["entries"].to_numpy()
        place = np.arange(len(table))
        ax.bar(place, share, 0.75, bottom=below, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        below = below + share
    colours = zip(KINDS, (RED, ORANGE, GREY, BLUE), ("", "///", "...", ""), strict=True)
    handles = [Patch(facecolor=c, hatch=h, edgecolor="white", label=kind) for kind, c, h in colours]
    ax.legend(handles=handles, loc="upper left", ncols=4, title="wrong pointers at", alignment="left")
    ax.set_ylim(0, max(below.max() * 1.3, 0.01))  # room for the legend
    _counted_ticks(ax, table["depth"].tolist(), table["entries"].tolist())
    ax.set_xlabel(f"{meaning}, and number of vertices")
    ax.set_ylabel("share of vertices")
    ax.yaxis.set_major_formatter(FuncFormatter(_percent))


def _line(
    ax: Axes,
    table: pd.DataFrame,
    column: str,
    colour: str,
    marker: str,
    label: str,
    across: str = "loop",
    every: int | tuple[int, int] | None = None,
) -> None:
    """A line with its interval shaded, and at most some 17 markers, or one at ``every`` so many points."""
    ax.fill_between(table[across], table["low"], table["high"], color=colour, alpha=0.12, linewidth=0)
    ax.plot(
        table[across],
        table[column],
        color=colour,
        marker=marker,
        markevery=every or len(table) // 17 + 1,
        label=label,
        clip_on=False,
        zorder=3,
    )


def _intervals(
    ax: Axes, place: np.ndarray, table: pd.DataFrame, colour: str, style: str, label: str | None = None
) -> None:
    accuracy = table["accuracy"].to_numpy()
    spread = np.stack([accuracy - table["low"].to_numpy(), table["high"].to_numpy() - accuracy])
    bars = ax.errorbar(
        place,
        accuracy,
        yerr=spread,
        fmt=style,
        color=colour,
        elinewidth=1.2,
        capsize=2.5,
        zorder=3,
        label=label,
    )
    for artist in bars.get_children():
        artist.set_clip_on(False)


def _counted_ticks(ax: Axes, names: Sequence[str], counts: Sequence[int]) -> None:
    """Ticks 0, 1, 2, ... with a name and a count each, smaller where there are many."""
    labels = [f"{name}\n{_short(count)}" for name, count in zip(names, counts, strict=True)]
    size = 9 if len(labels) <= 10 else 7.5 if len(labels) <= 13 else 6.5
    ax.set_xticks(np.arange(len(labels)), labels, fontsize=size)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.grid(axis="x", visible=False)


def _loop_axis(ax: Axes, loops: pd.Series, trained: tuple[int, int] | None) -> None:
    """Whole loops across, those of training shaded."""
    last = max(int(loops.max()), trained[1] if trained else 0)
    ax.set_xlim(0.5, last + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True) if last > 1 else FixedLocator([1]))
    ax.set_xlabel("loop iterations")
    if trained is not None:
        ax.axvspan(trained[0] - 0.5, trained[1] + 0.5, color="#F0F0F0", zorder=0)
        ax.set_xlabel(f"loop iterations (in training {trained[0]} to {trained[1]}, shaded)")


def _share_axis(ax: Axes, name: str, lowest: float) -> None:
    """From a whole tenth below the lowest value (0 if there is none) to 100%."""
    bottom = np.floor(lowest * 10) / 10 if np.isfinite(lowest) else 0.0
    bottom = float(np.clip(bottom, 0, 0.9))
    ax.set_ylim(bottom - 0.02 * (1 - bottom), 1 + 0.02 * (1 - bottom))
    ax.set_ylabel(name)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(_percent))


def _percent(share: float, _position: int | None = None) -> str:
    """0.0012 -> 0.12%, three digits at most."""
    return f"{float(f'{100 * share:.3g}'):,g}%"


def _short(count: int) -> str:
    """1234 -> 1.2k."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)
