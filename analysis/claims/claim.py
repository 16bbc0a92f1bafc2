"""What a claim is, and how claims are run and shown.

A claim is a statement that needs no training to be checked. Whether it holds is computed from what was
measured, never typed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.results import published


@dataclass(frozen=True)
class Measurement:
    """What was found.

    Attributes:
        measured: it in a phrase, as the table of claims shows it.
        holds: whether that agrees with the claim and with what is reported; computed.
        detail: the table behind it. Columns are text or whole numbers: a fraction is shown as percent.
        draw: draws it on an axis; None for a claim without a figure.
    """

    measured: str
    holds: bool
    detail: pd.DataFrame
    draw: Callable[[Axes], None] | None = None


@dataclass(frozen=True)
class Claim:
    """A statement and how to check it.

    Attributes:
        name: what the command line knows it by.
        claim: the statement, one line.
        measure: checks it; with True at larger sizes, which may take minutes.
    """

    name: str
    claim: str
    measure: Callable[[bool], Measurement]

    @property
    def reported(self) -> str:
        """What the source reports, from ``published.json``."""
        return published()["claims"][self.name]["reported"]

    @property
    def source(self) -> str:
        """Where it does."""
        return published()["claims"][self.name]["source"]


@dataclass(frozen=True)
class Verdict:
    """A claim that was checked.

    Attributes:
        claim: the claim.
        measurement: what was found.
        seconds: how long that took.
    """

    claim: Claim
    measurement: Measurement
    seconds: float

    @property
    def verdict(self) -> str:
        """``"holds"`` or ``"differs"``."""
        return "holds" if self.measurement.holds else "differs"

    def row(self) -> dict[str, Any]:
        """What the table of claims, and ``--json``, has of it."""
        return {
            "name": self.claim.name,
            "claim": self.claim.claim,
            "reported": self.claim.reported,
            "measured": self.measurement.measured,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 2),
        }


def check(claims: Iterable[Claim], full: bool = False) -> Iterator[Verdict]:
    """Checks claims one after the other.

    Args:
        claims: which.
        full: at larger sizes.

    Yields:
        Each as soon as it has been checked.
    """
    for claim in claims:
        began = time.perf_counter()
        measurement = claim.measure(full)
        yield Verdict(claim, measurement, time.perf_counter() - began)
