"""Tables as text: aligned for a terminal, Markdown for a report.

Fractions (all float columns) are shown as percentages, missing values as ``-``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

HEADERS = {"low": "95% low", "high": "95% high", "q25": "lower quartile", "q75": "upper quartile"}
"""Names of columns that are shown differently; elsewhere ``_`` becomes a space."""


def percent(share: float) -> str:
    """0.97571 -> 97.57%; below 0.1% two significant digits; NaN -> ``-``."""
    if np.isnan(share):
        return "-"
    value = 100 * share
    return f"{value:.2f}%" if value >= 0.1 or value == 0 else f"{value:.2g}%"


def as_text(table: pd.DataFrame) -> str:
    """The table with aligned columns: names left, numbers right, two spaces between."""
    columns = _cells(table)
    lines = []
    for row in zip(*columns.values(), strict=True):
        cells = []
        for cell, (name, column) in zip(row, columns.items(), strict=True):
            width = max(map(len, column))
            cells.append(cell.ljust(width) if _is_text(table[name]) else cell.rjust(width))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_markdown(table: pd.DataFrame) -> str:
    """The table in Markdown, with an empty line after it."""
    columns = _cells(table)
    header, *rows = zip(*columns.values(), strict=True)
    rule = [":--" if _is_text(table[name]) else "--:" for name in columns]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows]) + "\n"


def _cells(table: pd.DataFrame) -> dict[str, list[str]]:
    """Header and formatted values of each column."""
    return {
        name: [HEADERS.get(name, str(name).replace("_", " ")), *map(_cell, column)]
        for name, column in table.items()
    }


def _cell(value: object) -> str:
    if isinstance(value, float | np.floating):
        return percent(float(value))
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def _is_text(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column)
