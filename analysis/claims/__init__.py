"""The ledger: every statement of the theory that can be checked without training, and its check.

A module a subject, each with its ``CLAIMS``. What the source reports stands in ``published.json``, with where
it does.
"""

from analysis.claims import links
from analysis.claims.claim import Claim, Measurement, Verdict, check

CLAIMS: tuple[Claim, ...] = (*links.CLAIMS,)
"""All claims, in the order of the tutorial."""

__all__ = ["CLAIMS", "Claim", "Measurement", "Verdict", "check"]
