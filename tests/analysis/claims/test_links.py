"""Links: the claims hold, and what they measure is what a pocket calculator says."""

import math

import pytest

from analysis.claims import check, links


def test_link_claims_hold():
    verdicts = {verdict.claim.name: verdict for verdict in check(links.CLAIMS)}
    assert {name: verdict.verdict for name, verdict in verdicts.items()} == {
        "noisy_or": "holds",
        "soft_minimum": "holds",
        "crowd": "holds",
    }
    assert "8 children" in verdicts["crowd"].measurement.measured


def test_soft_minimum_matches_its_formula():
    for beta in (0.5, 1.0, 10.0):
        direct = -math.log(sum(math.exp(-beta * cost) for cost in (3, 5, 6))) / beta
        assert links._soft_minimum(beta) == pytest.approx(direct, abs=1e-12)


def test_share_of_the_children_matches_its_formula():
    assert links._share(8, 40) == pytest.approx(8 * math.e**3 / (8 * math.e**3 + 40))


def test_a_claim_that_does_not_hold_is_told(monkeypatch):
    monkeypatch.setattr(links, "SOFT_MINIMA", ((1.0, 2.9),))
    [verdict] = check(claim for claim in links.CLAIMS if claim.name == "soft_minimum")
    assert verdict.row()["verdict"] == "differs" and verdict.row()["reported"].startswith("2.83")
