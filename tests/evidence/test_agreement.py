"""How far an estimate is from the headline, against the rows; and the guard."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import offpolicy as op
from offpolicy.estimators import GRID
from offpolicy.evidence import _agreement as agreement
from offpolicy.evidence._agreement import FALSE_ALARM, Apart
from offpolicy.evidence._blocks import contributions, whole_block
from offpolicy.evidence._plan import make_plan, range_of_rewards
from offpolicy.evidence._recalibration import constant
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.evidence._sources import InMemory
from offpolicy.evidence._walk import scan
from offpolicy.intervals import Interval, t_quantile
from offpolicy.policies._policies import resolve
from tests.support.cases import bandit_log, make_case
from tests.support.limits import limit
from tests.support.slow_headline import size_of

NAMES = ["IPS", "SNIPS", "DR", "SNDR", "DM", "CAB(M=2)"]


@pytest.mark.parametrize("kind", ["plain", "weighted", "clustered", "chosen"])
def test_the_distance_is_that_of_paired_rows(kind):
    n, rng = 300, np.random.default_rng(4)
    case = make_case(rng, n, drawn=True, weighted=kind == "weighted")
    # Rows of a cluster have like rewards.
    cluster = np.argsort(np.argsort(case.reward)) // 3 if kind == "clustered" else None
    log, pi, model, names = case.log_with(cluster=cluster), case.pi, case.delta_hat, NAMES
    if kind == "chosen":
        log, pi, model, names = case.narrow, case.pi[log.chosen_index], None, NAMES[:2]
    result = op.evaluate(log, pi, prediction=model, estimators=names)
    row, source = result.headline, InMemory(log, [resolve(log, pi)], model)
    block = whole_block(log, source.targets[0], model)
    members = [op.estimators.parse(name) for name in names]
    plan = make_plan(block, n, range_of_rewards(source), members)
    (scanned,) = scan(source, [plan])
    bins, prediction = scanned.path.bins, plan.recalibration.predict(log, block.target.flat, model)
    omega, c, k = log.weights, block.c, row.grid.index(row.M)
    x = prediction.modelled + np.minimum(c, row.M) * (log.reward - prediction.chosen)
    undrawn, alone = 0.0, omega * (x - np.average(x, weights=omega))
    if cluster is not None:
        together = np.bincount(cluster, alone)
        spread = len(together) / (len(together) - 1) * (together**2).sum()
        design = max(spread / (n / (n - 1) * (alone**2).sum()), 1.0)
        assert design > 1.2
    else:
        design = 1.0
    if kind != "chosen":
        ratio = np.where(case.pi0 > 0, case.pi / case.pi0, 0.0)
        decision = np.repeat(omega, np.diff(log.offsets))
        could = (decision * case.pi0 * np.maximum(ratio - row.M, 0.0) ** 2).sum()
        undrawn = max((could - (omega * np.maximum(c - row.M, 0.0) ** 2).sum()) / omega.sum(), 0.0)
    for j, estimate in enumerate(result):
        (part,) = contributions(block, [members[j]])
        z, off = part.value, log.reward if not members[j].uses_model else (
            log.reward - model[log.chosen_index])  # fmt: skip
        if members[j].self_normalised:
            mean = np.average(off, weights=omega * c)
            z = part.modelled + c * (off - mean) / np.average(c, weights=omega)
        y = z - x
        y = omega * (y - np.average(y, weights=omega))
        units = y if cluster is None else np.bincount(cluster, y)
        expected = len(units) / (len(units) - 1) * (units**2).sum() / omega.sum() ** 2
        tail = names[j] not in ("DM", "CAB(M=2)") or part.observed.max() > row.M
        if tail and bins.mass[k] > 0.0:
            size = RiskCurve.of(scanned.path, exact=kind != "chosen").size[k]
            if not members[j].self_normalised:
                size = max(size, size_of(log, model if members[j].uses_model else None))
            expected += design * undrawn * size**2 * (omega**2).sum() / omega.sum() ** 2
        ratio = (estimate.value - row.value) / estimate.from_headline
        assert ratio**2 == pytest.approx(expected, rel=1e-8)


def test_when_two_disagree():
    def apart(value: float, stderr: float, degrees: float = 5.0) -> Apart:
        return Apart(*np.array([[value], [stderr], [degrees]]))

    ratios = [apart(*pair).ratio[0] for pair in ((0.0, 0.0), (-1e-12, 1.0), (1.0, 0.0))]
    assert ratios == [0.0, 0.0, math.inf]
    assert apart(-1.0, 0.0).disagrees(0)
    assert not apart(1e9, math.inf).disagrees(0)
    for degrees in (1.0, 5.0, 1e6):
        edge = t_quantile(1.0 - FALSE_ALARM, degrees)
        assert not apart(0.5 * edge * (1 - 1e-9), 0.5, degrees).disagrees(0)
        assert apart(-0.5 * edge * (1 + 1e-9), 0.5, degrees).disagrees(0)


def world(seed: int, n: int = 2000) -> tuple[op.BanditLog, np.ndarray]:
    rng = np.random.default_rng(seed)
    pi0, pi = rng.dirichlet(np.full(4, 2.0), n), rng.dirichlet(np.full(4, 0.5), n)
    action = (rng.random((n, 1)) > pi0.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    return bandit_log(action, (rng.random(n) < 0.2).astype(float), pi0), pi


def test_a_walk_that_went_wrong_is_told_and_the_interval_holds_both(monkeypatch):
    """All is left to a model that says 0.95 where rewards are 0.2, and nothing is taken off."""

    def wrong(sample, rewards):
        return replace(constant(sample, rewards), coefficients=np.full((5, 1), 3.0))

    log, pi = world(0)
    honest = op.evaluate(log, pi, estimators=["SNIPS"])
    assert "disagreement" not in [one.code for one in honest.findings]
    limit(monkeypatch, "offpolicy.evidence._recalibration.regression", wrong)
    limit(monkeypatch, "offpolicy.evidence._recalibration.constant", wrong)
    limit(monkeypatch, "offpolicy.evidence._plausible_bias.mean_residual",
          lambda bins: np.zeros(len(GRID)))  # fmt: skip
    limit(monkeypatch, "offpolicy.evidence._plausible_bias.typical_error", lambda bins: 1e-3)
    for name in ("at_value", "at_interval"):
        monkeypatch.setattr(RiskCurve, name, property(lambda curve: 0))
    for members in (["IPS"], ["SNIPS", "IPS"]):
        result = op.evaluate(log, pi, estimators=members)
        row = result.headline
        assert row.value == pytest.approx(0.9526, abs=1e-4)
        (found,) = [one for one in result.findings if one.code == "disagreement"]
        assert found.severity == "warning"
        assert row.interval.low == pytest.approx(honest["SNIPS"].value)
        assert row.value in row.interval
        assert honest["SNIPS"].value - result.logged.value in row.versus_logged
        assert {*result.policies} == {"policy"}
        assert len(result.estimates) == len(members)
    compared = op.compare(log, {"new": pi})
    assert "disagreement" in [one.code for one in compared.findings]
    assert compared.headlines[0].interval == row.interval
    assert compared["new", "logged"].interval == row.versus_logged
    both = op.compare(log, {"new": pi, "old": pi[::-1]}, multiplicity="none")["new", "old"]
    assert both.interval.low < -0.7 < 0.7 < both.interval.high, "either may be right"


def test_a_guard_that_overflows_is_no_refusal():
    log = bandit_log([1, 0, 1], [1e140, 0.0, 1.0], [[1.0, 1e-290], [0.5, 0.5], [0.5, 0.5]])
    result = op.evaluate(log, [[0.5, 0.5]] * 3, estimators=["CIPS(M=10)"])
    assert result.headline.value in result.headline.interval
    assert op.compare(log, {"new": [[0.5, 0.5]] * 3}).headlines[0].value == result.headline.value


def test_honest_logs_are_no_alarms():
    """300 logs of 100 decisions, whose weights are heavy and whose models are noise; of the level,
    1e-3, three would be too many."""
    assert FALSE_ALARM == 1e-3
    alarms = 0
    for seed in range(300):
        case = make_case(np.random.default_rng(seed), 100, drawn=True)
        model = case.delta_hat if seed % 2 else None
        result = op.evaluate(case.log, case.pi, prediction=model, estimators=["IPS"])
        alarms += any(one.code == "disagreement" for one in result.findings)
        assert isinstance(result.headline.interval, Interval)
    assert alarms <= 2
    assert agreement.GUARDS == ("SNIPS", "DR")
