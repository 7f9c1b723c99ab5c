"""The rule for verdicts: intervals, parts, margins, ties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from offpolicy.experiments.claims import (
    FAILS,
    HOLDS,
    OPEN,
    counted,
    judge,
    judge_one,
    log_ratios,
)


def around(mean, runs=10, spread=0.1):
    """Values with just this mean and standard deviation."""
    x = np.arange(runs) - (runs - 1) / 2
    return mean + spread * x / x.std(ddof=1)


def test_the_interval_is_student_s():
    values = np.random.default_rng(0).standard_normal(7)
    found = judge({"a": values})
    low, high = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.mean, found.runs, found.part) == (pytest.approx(values.mean()), 7, "a")


@pytest.mark.parametrize(
    ("mean", "margin", "verdict"),
    [(-0.2, 0.0, HOLDS), (0.2, 0.0, FAILS), (0.02, 0.0, OPEN), (-0.02, 0.0, OPEN),
     (0.0, 0.1, HOLDS), (0.1, 0.1, OPEN), (-0.2, -0.1, HOLDS), (0.0, -0.1, FAILS)],
)  # fmt: skip
def test_the_interval_against_the_margin(mean, margin, verdict):
    assert judge({"a": around(mean)}, margin).verdict == verdict


def test_one_run_cannot_tell():
    found = judge({"a": [-5.0]})
    assert found.verdict == OPEN
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert str(found) == "cannot be told: a 0.00674"


def test_what_is_exactly_equal():
    """No better is right then, better is wrong; and both can be told."""
    same = {"a": [0.0, 0.0, 0.0]}
    assert judge(same).verdict == HOLDS
    assert judge(same, strict=True).verdict == FAILS
    assert judge({"a": [0.1] * 3}, 0.1).verdict == HOLDS
    assert judge({"a": [-0.1] * 2}, strict=True).verdict == HOLDS


def test_a_claim_must_hold_of_all_its_parts():
    good, bad, unsure = around(-0.5), around(0.5), around(0.0)
    assert judge({"a": good, "b": good}).verdict == HOLDS
    found = judge({"a": good, "b": bad})
    assert (found.verdict, found.part) == (FAILS, "b")
    assert judge({"a": good, "b": unsure}).verdict == OPEN
    assert judge({"b": bad, "a": unsure}).verdict == FAILS


def test_one_bad_part_of_many_may_be_chance():
    """Alone it fails; among fifty it is what chance gives."""
    slightly = around(0.08)
    assert judge({"a": slightly}).verdict == FAILS
    many = {str(k): around(-0.5) for k in range(49)} | {"a": slightly}
    assert judge(many).verdict == OPEN


def test_how_often_a_true_claim_fails():
    """A claim of six parts that are all just true fails in at most 2.5% of the experiments."""
    rng = np.random.default_rng(0)
    verdicts = [
        judge(dict(zip("abcdef", rng.standard_normal((6, 5)), strict=True))).verdict
        for _ in range(1000)
    ]
    assert verdicts.count(FAILS) <= 40
    assert verdicts.count(HOLDS) <= 10


def test_ratios_and_counts():
    errors = {"A": np.array([0.1, 0.2]), "B": np.array([0.2, 0.2])}
    parts = log_ratios(errors, "A", ["A", "B"])
    assert list(parts) == ["A/B"]
    assert np.exp(parts["A/B"]) == pytest.approx([0.5, 1.0])
    assert counted([judge({"a": [1.0, 1.0]}), judge({"a": [0.0, 0.0]})]) == "1/1/0"
    assert str(judge({"a": [0.0, 0.0]})) == "holds: a 1 [1, 1]"


def test_the_mean_of_a_ratio_is_of_its_logarithm():
    """One split in which the other is far ahead does not hide what all the others say."""
    ratios = [0.5, 0.4, 0.6, 0.5, 1e-9]
    found = judge_one("a/b", ratios, 1.0, of_ratio=True)
    assert found.verdict == OPEN
    assert math.exp(found.mean) == pytest.approx(np.prod(ratios) ** 0.2)
    assert judge_one("a/b", ratios, 1.0, of_ratio=False).verdict == HOLDS
    huge = judge_one("a/b", [2.0, 3.0, 1e30], 1.0, of_ratio=True)
    assert huge.mean == pytest.approx(np.log([2.0, 3.0, 1e30]).mean())
    assert judge_one("share", [0.2, 0.3], 0.5, of_ratio=False).numbers == "0.25 [-0.385, 0.885]"
