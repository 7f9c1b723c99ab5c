"""Bias and variance of every estimator over M on rankings, against slow references."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from offpolicy.estimators._named import parse
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.ranking.accuracy import (
    AGAIN,
    ESTIMATORS,
    METRICS,
    Case,
    averaged,
    held_out,
    measured,
)
from offpolicy.experiments.ranking.rank_sums import GRID, rank_sums, weight_table
from offpolicy.experiments.ranking.setup import prepare, shuffled
from offpolicy.ranking.data._ranks import ranks
from offpolicy.ranking.evaluation._evaluate import evaluate
from tests.support.data_sets import queries

CASE = Case("a set", 1, 0.1, 1.0, 1)


@pytest.fixture(scope="module")
def prepared():
    parts = shuffled(queries(120), 1)
    return prepare(parts.train, parts.test, 0.1, 1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sums_by_rank_are_evaluations_of_the_log(prepared, name):
    log, scores = prepared.draw(2.5, 3)
    top = int(np.diff(prepared.test.offsets).max())
    sums = rank_sums(log, ranks(scores, log.offsets), log.prediction, top)
    values = sums.values(weight_table(name, top))
    grid = GRID.of(name)
    for at in {0, 1, len(grid) // 3, len(grid) // 2, len(grid) - 1} & set(range(len(grid))):
        if name == "CIPS" and at == 0:
            assert values["sum of ranks"][0] == 0.0
            continue
        kind = type(parse(name))
        member = kind() if math.isnan(grid[at]) else kind(float(grid[at]))
        for metric in METRICS:
            found = evaluate(log, scores, [member], metric)
            assert values[metric][at] == pytest.approx(found[str(member)].value, rel=1e-12)


def test_at_0_cips_is_what_it_is_up_to_1(prepared):
    log, scores = prepared.draw(1.0, 3)
    top = int(np.diff(prepared.test.offsets).max())
    sums = rank_sums(log, ranks(scores, log.offsets), log.prediction, top)
    ratio = sums.values(weight_table("CIPS", top))["average rank"]
    assert_allclose(ratio[GRID.M <= 1.0], ratio[0])
    assert not math.isclose(ratio[-1], ratio[0])


def test_repeats_come_to_the_exact_bias_and_variance(prepared):
    """Clicks are independent, and every query is shown once: both are sums over documents."""
    repeats = 400
    found = measured(prepared, CASE, repeats, 1, [5]).curves["sum of ranks"]
    test, n = prepared.test, len(prepared.test.qid)
    p = 1.0 / ranks(prepared.logger, test.offsets)
    lam = ranks(prepared.ranker, test.offsets).astype(float)
    truth = prepared.truth("sum of ranks")
    for name, M in (("CAB", 3.0), ("CIPS", 3.0), ("SWITCH", 3.0), ("CAB", math.inf)):
        at = int(np.argmin(np.abs(GRID.M - M))) if math.inf > M else len(GRID.M) - 1
        M = float(GRID.M[at])
        b = {"SWITCH": (1 / p <= M) / p}.get(name, np.minimum(1 / p, M))
        a = {"CIPS": 0.0 * p, "SWITCH": (1 / p > M).astype(float)}.get(name, 1 - b * p)
        mean = float((lam * (a * prepared.prediction + b * p * test.relevance)).sum()) / n
        variance = float((lam**2 * b**2 * p * (1 - p) * test.relevance).sum()) / n**2
        spread = math.sqrt(variance / repeats) / truth
        assert abs(found.bias[name][at] - (mean / truth - 1)) < 4 * spread, name
        # The variance of a variance, were the estimates normal: √(2/400) = 7% of it.
        assert found.variance[name][at] == pytest.approx(variance / truth**2, rel=0.3), name


def test_held_out_takes_the_best_of_the_other_half():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(9, 5)) * [3, 1, 2, 1, 5]
    errors[0, 1] = np.nan  # never chosen for the others
    total = 0.0
    for k in range(9):
        others = [j for j in range(9) if j % 2 != k % 2]
        mse = [np.mean(errors[others, g] ** 2) for g in range(5)]
        best = min(range(5), key=lambda g: math.inf if math.isnan(mse[g]) else mse[g])
        total += errors[k, best] ** 2
    assert held_out(errors) == pytest.approx(total / 9)


def test_what_is_chosen_from_a_log_is_what_the_library_chooses(prepared):
    found = measured(prepared, CASE, 3, 2, [9])
    headlines, cabs = [], []
    for k in range(2):
        log, scores = prepared.draw(1.0, np.random.default_rng([9, k]))
        result = evaluate(log, scores, ["CAB"], "average rank")
        truth = prepared.truth("average rank")
        headlines.append((result.headline.value / truth - 1) ** 2)
        cabs.append((result["CAB"].value / truth - 1) ** 2)
        assert found.parameters["average rank"]["CAB"][k] == pytest.approx(result["CAB"].M)
    assert found.chosen["average rank"][f"CAB{AGAIN}"] == pytest.approx(np.mean(headlines))
    assert found.chosen["average rank"]["CAB"] == pytest.approx(np.mean(cabs))


def test_over_splits_squared_biases_and_variances_are_averaged():
    def split(bias: float, variance: float) -> Accuracy:
        return Accuracy(*({name: np.full(len(GRID.of(name)), value) for name in ESTIMATORS}
                          for value in (bias, variance)), GRID.M)  # fmt: skip

    found = averaged([split(3.0, 1.0), split(-4.0, 2.0)])
    for name in ESTIMATORS:
        assert found.mse(name) == pytest.approx(np.full(len(GRID.of(name)), 12.5 + 1.5))
