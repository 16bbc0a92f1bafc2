"""The command ``graphalgo claims``: the table of claims, one of them in detail, or all as JSON."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from analysis import figures
from analysis.claims import CLAIMS, Claim, Verdict, check
from analysis.tables import as_text
from graphalgo.errors import InputError

DESCRIPTION = """\
Checks what the theory of these layers says and what needs no training: a line a claim, with what the
tutorial "Attention Is Only as Good as Its Witnesses" reports, what was measured here and now, and whether
the two agree.
"""


def claims(args: Sequence[str]) -> None:
    """Runs the command with its arguments."""
    parser = argparse.ArgumentParser(
        prog="graphalgo claims",
        description=DESCRIPTION,
        epilog="claims: " + ", ".join(claim.name for claim in CLAIMS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, in detail (default: all)")
    parser.add_argument("--full", action="store_true", help="larger sizes; takes many times as long")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="also draw, those claims that have a figure"
    )
    options = parser.parse_args(args)
    chosen = find(options.names) if options.names else list(CLAIMS)
    verdicts = _checked(chosen, options.full)
    if options.json:
        print(json.dumps([verdict.row() for verdict in verdicts], indent=2, ensure_ascii=False))
    else:
        for verdict in verdicts if options.names else []:
            print(
                f"\n{verdict.claim.claim}\n{verdict.claim.source}\n\n{as_text(verdict.measurement.detail)}\n"
            )
        console = Console()
        Console(width=max(console.width, 110)).print(_table(verdicts))
    if options.figures is not None:
        for path in draw(verdicts, options.figures):
            print(path, file=sys.stderr)


def find(names: Sequence[str]) -> list[Claim]:
    """The claims of these names.

    Raises:
        InputError: if there is no such claim.
    """
    known = {claim.name: claim for claim in CLAIMS}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3)
            hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known)}"
            raise InputError(f"there is no claim {name!r}; {hint}")
    return [known[name] for name in names]


def draw(verdicts: Sequence[Verdict], folder: Path) -> list[Path]:
    """Writes the figures of the claims that have one; returns their files."""
    written = []
    for verdict in verdicts:
        if verdict.measurement.draw is not None:
            stem = folder / f"claim_{verdict.claim.name}"
            written += figures.render(
                verdict.measurement.draw, stem, verdict.claim.claim, verdict.measurement.measured
            )
    return written


def _checked(chosen: Sequence[Claim], full: bool) -> list[Verdict]:
    """Checks them, and tells on the terminal which one is being checked."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed}/{task.total} {task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(chosen[0].name, total=len(chosen))
        verdicts = []
        for claim in chosen:
            progress.update(task, description=claim.name)
            verdicts += check([claim], full)
            progress.advance(task)
    return verdicts


def _table(verdicts: Sequence[Verdict]) -> Table:
    held = sum(verdict.measurement.holds for verdict in verdicts)
    table = Table(title=f"{held} of {len(verdicts)} claims hold", show_lines=True)
    for column in ("name", "claim", "reported", "measured", "verdict"):
        table.add_column(column, overflow="fold")
    table.add_column("seconds", justify="right")
    for verdict in verdicts:
        row = verdict.row()
        cells = [escape(row[name]) for name in ("name", "claim", "reported", "measured")]
        colour = "green" if verdict.measurement.holds else "red"
        table.add_row(*cells, f"[{colour}]{row['verdict']}[/]", f"{row['seconds']:.1f}")
    return table
