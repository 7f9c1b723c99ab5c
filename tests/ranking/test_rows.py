"""Rows about a ranker: their plausible bias, distance from the headline and chosen parameters,
document by document."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from offpolicy import intervals
from offpolicy.estimators import GRID, parse
from offpolicy.intervals import Interval
from offpolicy.ranking.data._weights import weights_at
from offpolicy.ranking.evaluation._estimates import apart, estimate, guarded
from offpolicy.ranking.evaluation._headline import what_is_known
from offpolicy.ranking.evaluation._tuning import tuned
from tests.ranking.test_click_path import question

MEMBERS = ["DM", "IPS", "CIPS(M=2)", "SB(tau=0.3)", "SWITCH(M=2)", "CAB(M=2)"]


def documents(asked, name: str, g) -> list[tuple]:
    """Of each: query, g, what is imputed, weight of a click, p, click."""
    log, member = asked.log, parse(name)
    alpha, beta = weights_at(member, log.propensity)
    model = log.prediction if member.uses_model else np.zeros(log.documents)
    columns = (log.cluster[log.impression], g, alpha * model, beta, log.propensity, log.click)
    return list(zip(*columns, strict=True))


def linearised(asked, rows) -> list[float]:
    """g of each document, about the estimator's own value."""
    counts = [imputed + weight * click for _, _, imputed, weight, _, click in rows]
    if not asked.metric.is_ratio:
        return list(asked.lam)
    top = sum(lam * x for lam, x in zip(asked.lam, counts, strict=True))
    scale = sum(counts) / len(asked.log)
    return [(lam - top / sum(counts)) / scale for lam in asked.lam]


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("metric", ["sum of ranks", "average rank"])
@pytest.mark.parametrize("top", [99, 3])
def test_a_row_equals_a_loop(name, metric, top):
    asked, _ = question(8, metric, top=top)
    known, n, log = what_is_known(asked), len(asked.log), asked.log
    row = estimate(asked, parse(name), known)
    rows = documents(asked, name, asked.lam)
    g = linearised(asked, rows)
    left = sum(abs(x) * max(1 - weight * p, 0)
               for x, (_, _, _, weight, p, _) in zip(g, rows, strict=True))  # fmt: skip
    model = log.prediction if parse(name).uses_model else np.zeros(log.documents)
    squares = examined = 0.0
    for x, d, p, click in zip(g, model, log.propensity, log.click, strict=True):
        squares += abs(x) * (click * (1 - 2 * d) + p * d * d)
        examined += abs(x) * p
    bias = left / n * math.sqrt(min(max(squares / examined, 0), 1))
    assert row.imputed_mass == pytest.approx(left / sum(map(abs, g)), abs=1e-12)
    assert row.plausible_bias == pytest.approx(bias, rel=1e-9, abs=1e-12)
    assert row.bias_bound == pytest.approx(left / n, abs=1e-12)
    half = intervals.bias_aware(row.stderr, row.plausible_bias, 0.95, log.queries - 1)
    least, most = asked.metric.limits(asked.lam, len(asked.log))
    assert row.interval.low == pytest.approx(max(row.value - half, least))
    assert row.interval.high == pytest.approx(min(row.value + half, max(most, row.value)))
    assert row.from_headline == pytest.approx(slow_ratio(known, rows, g), rel=1e-7, abs=1e-9)


def slow_ratio(known, rows, g) -> float:
    """An estimate less the headline, in standard errors of the difference."""
    asked, M, n = (
        known.path.asked,
        float(GRID[known.path.curve.at_value]),
        len(known.path.asked.log),
    )
    mean = extra = value = 0.0
    totals = dict.fromkeys(range(asked.log.queries), 0.0)
    for x, h, d, (label, _, imputed, weight, p, click) in zip(
        g, known.path.g, known.path.d, rows, strict=True
    ):
        w = min(1 / p, M) if p > 0 else 0.0
        difference = x * (imputed + weight * click) - h * (d + w * (click - p * d))
        totals[label] += difference
        mean += difference / n
        extra += (x * weight - h * w) ** 2 * (p * d * (1 - p * d) - (click - p * d) ** 2)
    counts = [imputed + weight * click for _, _, imputed, weight, _, click in rows]
    value = float(np.dot(asked.lam, counts))
    value /= sum(counts) if asked.metric.is_ratio else n
    Q, cluster = asked.log.queries, asked.log.cluster
    variance = sum((totals[q] - mean * (cluster == q).sum()) ** 2 for q in totals) * Q / (Q - 1)
    return (value - known.value) / (math.sqrt(variance + max(extra, 0.0)) / n)


@pytest.mark.parametrize("metric", ["sum of ranks", "recall@2"])
@pytest.mark.parametrize("independent", [True, False])
def test_the_table_of_a_parameter_equals_a_loop(metric, independent):
    asked, _ = question(4, metric, top=4, independent=independent)
    known, log, n = what_is_known(asked), asked.log, len(asked.log)
    size = known.path.curve.kappa * known.path.curve.size[-1]
    base = mean_of(asked, known.path.d)
    for name in ("CAB", "SB"):
        choice = tuned(known, parse(name), log.prediction)
        for j in range(0, len(choice.grid), 5):
            at = str(parse(name).at(float(choice.grid[j])))
            rows = documents(asked, at, asked.lam)
            expected = np.array([
                imputed + weight * p * d
                for (_, _, imputed, weight, p, _), d in zip(rows, known.path.d, strict=True)
            ])  # fmt: skip
            row = estimate(asked, parse(at), known)
            mean = mean_of(asked, expected)
            g = asked.lam if not asked.metric.is_ratio else (asked.lam - mean) / expected.sum() * n
            left = noise = 0.0
            for x, d, (_, _, _, weight, p, _) in zip(g, known.path.d, rows, strict=True):
                left += abs(x) * max(1 - weight * p, 0)
                noise += (x * weight) ** 2 * p * d * (1 - p * d) / n**2
            mass = left / np.abs(g).sum()
            assert choice.value[j] == pytest.approx(row.value)
            assert choice.stderr[j] == pytest.approx(row.stderr)
            assert choice.bias[j] == pytest.approx(mean - base, abs=1e-12)
            assert choice.imputed_mass[j] == pytest.approx(mass, abs=1e-12)
            assert choice.bias_stderr[j] == pytest.approx(size * mass, abs=1e-12)
            if independent:
                assert choice.variance[j] >= noise
            else:
                assert_allclose(choice.variance[j], row.stderr**2)


def mean_of(asked, x) -> float:
    return float((asked.lam * x).sum() / (x.sum() if asked.metric.is_ratio else len(asked.log)))


def test_ips_that_disagrees_widens_the_interval_and_is_told():
    asked, _ = question(8, "sum of ranks")
    known = what_is_known(asked)
    ips = estimate(asked, parse("IPS"), known).value
    near, found = guarded(known)
    assert found == []
    assert near is known
    curve = replace(known.path.curve, value=known.path.curve.value + 40.0 * ips)
    far = known._replace(
        path=known.path._replace(curve=curve), interval=Interval(30.0 * ips, 60.0 * ips)
    )
    assert apart(far, parse("IPS")).disagrees
    wide, found = guarded(far)
    assert [one.code for one in found] == ["disagreement"]
    assert wide.interval.low == pytest.approx(ips)
    assert wide.interval.high == far.interval.high
