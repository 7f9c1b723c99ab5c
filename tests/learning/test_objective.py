"""Estimators as objectives: gradients against finite differences, one-sided at kinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import EstimatorError, MissingColumnError, PolicyError
from offpolicy.estimators._named import NAMED, parse
from offpolicy.learning._objective import objective
from tests.support.learning import MEMBERS, ragged_case, slow_value
from tests.support.refusals import refuses


def test_all_that_can_be_objectives_are_tried():
    assert {parse(name).name for name in MEMBERS} == {
        name for name, kind in NAMED.items() if kind.subdifferentiable
    }


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_gradients_are_finite_differences(seed):
    log, pi, delta_hat = ragged_case(seed)
    h = 1e-6
    for name in MEMBERS:
        member = parse(name)
        result = objective(log, pi, prediction=delta_hat, estimator=member)
        assert result.value == pytest.approx(slow_value(member, log, pi, delta_hat), abs=1e-9)
        for k in range(len(pi)):
            if member.parameter_name == "M" and member.parameter < np.inf:
                kink = member.parameter * log.logging[k]
                if abs(pi[k] - kink) < 1e-5:
                    continue
            up, down = pi.copy(), pi.copy()
            up[k] += h
            down[k] -= h
            slope = (
                slow_value(member, log, up, delta_hat) - slow_value(member, log, down, delta_hat)
            ) / (2.0 * h)
            assert result.gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-5), (name, k)


@pytest.mark.parametrize("name", ["CIPS", "CAB", "CAB-DR"])
def test_at_a_kink_the_slope_is_the_one_from_below(name):
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[1.0, -2.0], logging=[[0.25, 0.75]] * 2)
    pi, delta_hat = np.array([0.5, 0.5, 0.5, 0.5]), np.array([0.3, 0.2, 0.9, -0.4])
    member = parse(f"{name}(M=2)")  # c of the first action is exactly 2
    gradient = objective(log, pi, prediction=delta_hat, estimator=member).gradient
    for k in (0, 2):
        below, above = pi.copy(), pi.copy()
        below[k] -= 1e-7
        above[k] += 1e-7
        base = slow_value(member, log, pi, delta_hat)
        lower = (base - slow_value(member, log, below, delta_hat)) / 1e-7
        upper = (slow_value(member, log, above, delta_hat) - base) / 1e-7
        assert gradient[k] == pytest.approx(lower, abs=1e-6)
        if k == 0 or name == "CAB":
            assert lower != pytest.approx(upper, abs=1e-3)


def test_where_there_is_no_below_it_is_the_one_from_above():
    log = op.BanditLog.from_arrays(action=[0], reward=[1.0], logging=[[1.0, 0.0]])
    result = objective(
        log, np.array([1.0, 0.0]), prediction=np.array([0.5, 0.25]), estimator="CAB(M=3)"
    )
    assert result.gradient.tolist() == [1.0, 0.25]


def test_values_are_those_of_evaluate():
    log, pi, delta_hat = ragged_case(3, n=40)
    rows = op.evaluate(log, pi, prediction=delta_hat, estimators=list(MEMBERS))
    for row in rows:
        result = objective(log, pi, prediction=delta_hat, estimator=row.estimator)
        assert result.value == pytest.approx(row.value, rel=1e-9, abs=1e-12)


@final
@dataclass(frozen=True, slots=True)
class Root(op.Estimator):
    """√c, without a slope."""

    name = "ROOT"
    imputes = "nothing"
    weights_sum_to_one = False

    @staticmethod
    def weight(pi, pi0, _):
        return np.sqrt(pi / pi0)


@final
@dataclass(frozen=True, slots=True)
class SlopedRoot(op.Estimator):
    """√c, with one."""

    name = "SLOPED-ROOT"
    imputes = "rest"

    @staticmethod
    def weight(pi, pi0, _):
        return np.sqrt(pi / pi0)

    @staticmethod
    def slope(pi, pi0, _):
        return 0.5 * np.sqrt(pi0 / pi)


def test_a_class_of_one_s_own_is_an_objective_if_it_has_a_slope():
    log, pi, delta_hat = ragged_case(4, unsupported=0.0)
    found = objective(log, pi, prediction=delta_hat, estimator=SlopedRoot())
    assert found.value == pytest.approx(slow_value(SlopedRoot(), log, pi, delta_hat))
    # Below c = 1 nothing is left of π.
    away = np.flatnonzero((pi > 1e-3) & (np.abs(pi / log.logging - 1.0) > 1e-2))
    assert len(away) > 5
    for k in away:
        step = np.zeros_like(pi)
        step[k] = 1e-6
        up, down = (slow_value(SlopedRoot(), log, pi + s, delta_hat) for s in (step, -step))
        assert found.gradient[k] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-6)


def blended_ice(M: float) -> op.ICE:
    """CAB(M), from its three weights and their derivatives in c."""
    return op.ICE(
        alpha=lambda c: np.maximum(1.0 - M / np.maximum(c, 1e-100), 0.0),
        beta=lambda c: np.minimum(M / np.maximum(c, 1e-100), 1.0),
        gamma=np.zeros_like,
        slopes=(
            lambda c: np.where(c > M, M / np.maximum(c, 1e-100) ** 2, 0.0),
            lambda c: np.where(c > M, -M / np.maximum(c, 1e-100) ** 2, 0.0),
            np.zeros_like,
        ),
        label="mine",
    )


@pytest.mark.parametrize("unsupported", [0.0, 0.3])
def test_an_ice_is_an_objective_if_its_slopes_are_given(unsupported):
    log, pi, delta_hat = ragged_case(5, unsupported=unsupported)
    mine = objective(log, pi, prediction=delta_hat, estimator=blended_ice(2.0))
    cab = objective(log, pi, prediction=delta_hat, estimator="CAB(M=2)")
    assert mine.value == pytest.approx(cab.value)
    assert mine.gradient == pytest.approx(cab.gradient)


def test_an_ice_with_a_control_has_the_gradient_of_finite_differences():
    log, pi, delta_hat = ragged_case(6, unsupported=0.0)
    ice = op.ICE(
        alpha=lambda c: np.exp(-c),
        beta=lambda c: 1.0 / (1.0 + c),
        gamma=lambda c: -0.5 / (1.0 + c) ** 2,
        slopes=(lambda c: -np.exp(-c), lambda c: -1.0 / (1 + c) ** 2, lambda c: 1.0 / (1 + c) ** 3),
    )
    found = objective(log, pi, prediction=delta_hat, estimator=ice)
    row = op.evaluate(log, pi, prediction=delta_hat, estimators=[ice]).estimates[0]
    assert found.value == pytest.approx(row.value)
    for k in range(len(pi)):
        step = np.zeros_like(pi)
        step[k] = 4e-7
        up, down = (
            objective(log, pi + s, prediction=delta_hat, estimator=ice).value for s in (step, -step)
        )
        assert found.gradient[k] == pytest.approx((up - down) / 8e-7, rel=1e-4, abs=1e-6)


def reciprocal(c):
    return 1.0 / c


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        ("SWITCH(M=2)", "jumps where c = M"),
        ("SWITCH-DR(M=2)", "jumps where c = M"),
        (op.ICE(reciprocal, reciprocal, np.zeros_like, label="mine"), "does not say how"),
        (Root(), "does not say how"),
    ],
    ids=["SWITCH", "SWITCH-DR", "ICE", "Root"],
)
def test_what_has_no_known_slope_is_refused_with_the_reason(estimator, why):
    log, pi, delta_hat = ragged_case(0)
    with refuses(EstimatorError, "estimator", match=why):
        objective(log, pi, prediction=delta_hat, estimator=estimator)


def test_what_is_missing_is_told():
    log, pi, delta_hat = ragged_case(0)
    with refuses(EstimatorError, "M"):
        objective(log, pi, prediction=delta_hat, estimator="CAB")
    with refuses(MissingColumnError, "prediction"):
        objective(log, pi, estimator="CAB(M=2)")
    with refuses(PolicyError, "policy"):
        objective(log, np.full(len(log), 0.5), estimator="IPS")
    never = op.BanditLog.from_arrays(action=[0], reward=[1.0], logging=[[0.5, 0.5]])
    with refuses(EstimatorError, "policy"):
        objective(never, [[0.0, 1.0]], estimator="SNIPS")
