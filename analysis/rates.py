"""Shares with their intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

Z95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""


def wilson(right: np.ndarray, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The 95% Wilson score interval of a share.

    With p = right / entries, m = entries, z = 1.96:
    ``(p + z^2/2m -+ z sqrt(p (1-p) / m + z^2/4m^2)) / (1 + z^2/m)``.

    It takes entries as independent. Entries of one graph are not, so it is a lower bound of the uncertainty
    over graphs.

    Args:
        right: counts.
        entries: counts, at least ``right``; NaN is returned where they are 0.

    Returns:
        Lower and upper ends, in [0, 1].

    Source: E. B. Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    right, m = np.asarray(right, np.float64), np.asarray(entries, np.float64)
    m = np.where(m > 0, m, np.nan)
    p = right / m
    centre = p + Z95**2 / (2 * m)
    half = Z95 * np.sqrt(p * (1 - p) / m + Z95**2 / (4 * m**2))
    scale = 1 + Z95**2 / m
    return np.clip((centre - half) / scale, 0, p), np.clip((centre + half) / scale, p, 1)


def with_rates(counts: pd.DataFrame) -> pd.DataFrame:
    """Adds ``accuracy``, ``low`` and ``high`` (Wilson) to a table with counts ``entries`` and ``right``."""
    low, high = wilson(counts["right"].to_numpy(), counts["entries"].to_numpy())
    entries = counts["entries"].to_numpy(np.float64)
    accuracy = counts["right"].to_numpy() / np.where(entries > 0, entries, np.nan)
    return counts.assign(accuracy=accuracy, low=low, high=high)


def rates_by(right: np.ndarray, **keys: np.ndarray) -> pd.DataFrame:
    """Accuracy of the rows in each group.

    Args:
        right: (rows,) whether the answer is right.
        keys: (rows,) what to group by, by column name.

    Returns:
        One row a group that occurs, sorted: the keys, ``entries``, ``right``, ``accuracy``, ``low``,
        ``high``.
    """
    table = pd.DataFrame({**keys, "is_right": right})
    counts = table.groupby(list(keys), sort=True)["is_right"].agg(["size", "sum"]).reset_index()
    counts = counts.rename(columns={"size": "entries", "sum": "right"})
    return with_rates(counts.astype({"entries": np.int64, "right": np.int64}))
