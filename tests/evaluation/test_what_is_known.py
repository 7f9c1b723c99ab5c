"""The same decisions, written with every candidate or with the chosen action only: one answer."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op

ARMS = ("Mens E-Mail", "Womens E-Mail", "No E-Mail")
HILLSTROM = Path(os.environ.get("OFFPOLICY_DATA", "")) / "logs/hillstrom/hillstrom.csv.gz"


def campaign() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three arms by lot, spend of which one row in a hundred has any, and who was a customer."""
    rng = np.random.default_rng(0)
    n = 40_000
    action, mens = rng.integers(0, 3, n), rng.integers(0, 2, n)
    rate = 0.006 + 0.006 * (action == 0) + 0.004 * ((action == 1) & (mens == 0))
    spend = np.where(rng.random(n) < rate, rng.lognormal(4.5, 0.7, n), 0.0)
    return action, spend, mens


def hillstrom() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not HILLSTROM.is_file():
        pytest.skip("needs logs/hillstrom in OFFPOLICY_DATA")
    with gzip.open(HILLSTROM, "rt") as file:
        rows = list(csv.DictReader(file))
    action = np.array([ARMS.index(row["segment"]) for row in rows])
    spend, mens = (np.array([float(row[name]) for row in rows]) for name in ("spend", "mens"))
    return action, spend, mens


@pytest.mark.parametrize("data", [campaign, hillstrom])
@pytest.mark.parametrize("sharp", [1.0, 0.8])
def test_one_answer_whatever_is_written(data, sharp):
    action, spend, mens = data()
    n = len(spend)
    policy = np.full((n, 3), (1.0 - sharp) / 2.0)
    policy[np.arange(n), np.where(mens == 1, 0, 1)] = sharp
    chosen, third = policy[np.arange(n), action], np.full(n, 1 / 3)
    logs = {"action": action, "reward": spend}
    answers = [
        op.evaluate(op.BanditLog.from_arrays(**logs, **known), pi).headline
        for known, pi in (
            ({"logging": np.full((n, 3), 1 / 3)}, policy),
            ({"propensity": third, "actions": 3}, policy),
            ({"propensity": third}, chosen),
        )
    ]
    paired = (answers[0].versus_logged[1] - answers[0].versus_logged[0]) / (2 * 1.96)
    for answer in answers[1:]:
        assert abs(answer.value - answers[0].value) < 0.3 * paired
    # And it is what those earned who got what the policy would have sent, weighted.
    matched = (chosen * 3.0 * spend).sum() / (chosen * 3.0).sum()
    assert abs(answers[0].value - matched) < 0.5 * paired
