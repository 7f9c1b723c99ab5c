"""Intervals asked for by name: each is what its function gives on the contributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import ParameterError
from offpolicy.estimators._named import parse
from offpolicy.evaluation._interval_kinds import KINDS, contribution_range
from offpolicy.evidence._plan import RewardRange
from offpolicy.intervals import _closed_form as intervals
from offpolicy.intervals import betting, bootstrap
from tests.support.members import TYPICAL
from tests.support.refusals import refuses

RNG = np.random.default_rng(3)
N, K = 300, 4
LOGGING, POLICY = RNG.dirichlet(np.ones(K), N), RNG.dirichlet(np.ones(K), N)
LOGGING = 0.8 * LOGGING + 0.2 / K
ACTION = np.array([RNG.choice(K, p=p) for p in LOGGING])
REWARD = (RNG.random(N) < 0.4).astype(float)
MODEL = RNG.random((N, K))
ROWS = np.arange(N)
C = POLICY[ROWS, ACTION] / LOGGING[ROWS, ACTION]
CAB_DR = (POLICY * MODEL).sum(axis=1) + np.minimum(C, 3.0) * (REWARD - MODEL[ROWS, ACTION])
LOW, HIGH = (
    MODEL.min() - 3.0 * MODEL.max(),
    MODEL.max() + 3.0 * (1.0 - MODEL.min()),
)


def log(**more):
    return op.BanditLog.from_arrays(action=ACTION, reward=REWARD, logging=LOGGING, **more)


def row(estimator, kind, **more):
    result = op.evaluate(
        log(), POLICY, prediction=MODEL, estimators=[estimator], interval=kind, **more
    )
    return result[estimator]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("normal", lambda x: intervals.normal(x.mean(), x.std(ddof=1) / N**0.5, 0.9)),
        ("t", lambda x: intervals.student_t(x.mean(), x.std(ddof=1) / N**0.5, 0.9, N - 1)),
        ("bootstrap", lambda x: bootstrap.bootstrap(x, 0.9)),
        ("bca", lambda x: bootstrap.bootstrap(x, 0.9, kind="bca")),
        ("empirical-likelihood", lambda x: bootstrap.empirical_likelihood(x, 0.9)),
        ("hoeffding", lambda x: intervals.hoeffding(x.mean(), N, LOW, HIGH, 0.9)),
        (
            "empirical-bernstein",
            lambda x: intervals.empirical_bernstein(x.mean(), N, x.var(ddof=1), LOW, HIGH, 0.9),
        ),
        ("betting", lambda x: betting.betting_bounded(x, LOW, HIGH, 0.9)),
        (
            "sequence",
            lambda x: [e[-1] for e in betting.confidence_sequence(x, LOW, HIGH, 0.9, [N])[1:]],
        ),
    ],
)
def test_an_interval_by_name_is_that_of_the_contributions(kind, expected):
    found = row("CAB-DR(M=3)", kind, level=0.9)
    assert found.interval == pytest.approx(tuple(expected(CAB_DR)), rel=1e-9)
    assert found.covers.startswith("the estimator's own mean")


def test_every_kind_is_tried_here_or_is_the_default():
    parameters = test_an_interval_by_name_is_that_of_the_contributions.pytestmark[0].args[1]
    assert {kind for kind, _ in parameters} | {"default"} == set(KINDS)


def test_betting_on_ips_is_about_the_value_and_needs_no_bound():
    found = row("IPS", "betting")
    assert found.interval == pytest.approx(tuple(betting.betting(C, REWARD, 0.95)))
    assert found.covers == "the policy's value, at every n"
    found = row("IPS", "sequence")
    limits = betting.weighted_sequence(C, REWARD, 0.95, times=[N])
    assert found.interval == pytest.approx((limits.low[-1], limits.high[-1]))
    assert "look as often as you like" in found.covers


@pytest.mark.parametrize("estimator", ["SNIPS", "SNDR"])
def test_a_ratio_is_resampled_by_its_influence(estimator):
    """The bootstrap's spread is that of the standard error, denominator and all."""
    found = row(estimator, "bootstrap")
    normal = intervals.normal(found.value, found.stderr, 0.95)
    assert found.interval.width == pytest.approx(normal.width, rel=0.1)
    assert found.value in found.interval


@pytest.mark.parametrize("kind", ["hoeffding", "empirical-bernstein", "betting", "sequence"])
def test_contributions_without_bounds_are_refused(kind):
    with refuses(ParameterError, "interval"):
        row("DR", kind)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ParameterError, match=r'^interval is "betings". Did you mean "betting"\?'):
        row("IPS", "betings")


@pytest.mark.parametrize("more", [{"cluster": ROWS // 3}, {"row_weight": C + 1}])
def test_dependent_or_weighted_rows_are_refused_row_by_row(more):
    with refuses(ParameterError, "interval"):
        op.evaluate(log(**more), POLICY, estimators=["IPS"], interval="betting")
    assert op.evaluate(log(**more), POLICY, estimators=["IPS"], interval="t")["IPS"].stderr > 0


@pytest.mark.parametrize("more", [{"cluster": ROWS // 3}, {"row_weight": C + 1}])
@pytest.mark.parametrize("estimator", ["IPS", "SNIPS", "DR"])
def test_dependent_or_weighted_rows_are_resampled_as_they_are(more, estimator):
    """As wide as the standard error says that allows for them, about the same value."""
    made = op.evaluate(
        log(**more), POLICY, prediction=MODEL, estimators=[estimator], interval="bootstrap"
    )[estimator]
    assert made.value in made.interval
    normal = intervals.normal(made.value, made.stderr, 0.95)
    assert made.interval.width == pytest.approx(normal.width, rel=0.1)


@pytest.mark.parametrize(
    "name",
    ["SB(tau=0)", *(name for name in TYPICAL if not math.isinf(
        op.parse(name).largest(op.parse(name).parameter or 0.0)))],
)  # fmt: skip
def test_no_contribution_is_outside_its_range(name):
    """Rewards and predictions at their ends, weights from 0 to a million."""
    member = parse(name)
    rewards, model = RewardRange(-1.0, 2.0, "declared"), np.array([-0.5, 1.5])
    low, high = contribution_range(member, rewards, model)
    c = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 400)])
    pi = np.minimum(c, 1.0)
    masses = member.masses(pi, np.minimum(1.0, 1.0 / np.maximum(c, 1e-3)))
    assert masses.observed.max() <= member.largest(member.parameter or 0.0) * (1 + 1e-12)
    whole = member.imputes == "all"
    for reward in rewards[:2]:
        for drawn in model:
            for imputed in model if member.uses_model else (0.0,):
                for share in (1.0,) if whole else (0.0, 1.0):
                    x = share * imputed + masses.observed * reward + masses.control * drawn
                    assert low - 1e-9 <= x.min()
                    assert x.max() <= high + 1e-9
