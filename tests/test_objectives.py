"""Estimators as objectives: gradients against finite differences, one-sided at kinks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import EstimatorError, MissingColumnError, PolicyError
from offpolicy.estimators._named import NAMED, Estimator, parse
from offpolicy.estimators.weights import ratio
from offpolicy.learning._objective import objective

MEMBERS = (
    "DM", "IPS", "CIPS(M=0)", "CIPS(M=1.5)", "CIPS(M=inf)", "SNIPS", "DR", "SNDR", "SB(tau=0)",
    "SB(tau=0.3)", "SB(tau=1)", "DRos(lam=0)", "DRos(lam=2)", "DRos(lam=inf)", "SGIPS(lam=0)",
    "SGIPS(lam=0.4)", "SGIPS(lam=1)", "SGDR(lam=0.4)", "CAB(M=0)", "CAB(M=1.5)", "CAB(M=inf)",
    "CAB-DR(M=0)", "CAB-DR(M=1.5)", "CAB-DR(M=inf)",
)  # fmt: skip


def ragged_case(seed, *, n=7, unsupported=0.2, weighted=True):
    """A log with 1 to 5 candidates a decision, a policy and a model on it."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, n)
    offsets = np.r_[0, np.cumsum(lengths)]
    pi0, pi, chosen = [], [], []
    for length in lengths:
        q = rng.dirichlet(np.ones(length))
        gone = rng.random(length) < unsupported
        gone[q.argmax()] = False
        q = np.where(gone, 0.0, q)
        q /= q.sum()
        pi0.append(q)
        pi.append(rng.dirichlet(np.ones(length)))
        chosen.append(rng.choice(length, p=q))
    log = op.BanditLog.from_ragged(
        offsets=offsets,
        chosen=chosen,
        reward=rng.normal(size=n),
        logging=np.concatenate(pi0),
        row_weight=rng.uniform(0.5, 2.0, n) if weighted else None,
    )
    return log, np.concatenate(pi), rng.normal(size=offsets[-1])


def slow_value(member: Estimator, log, pi, delta_hat) -> float:
    """From the masses, decision by decision; π need not sum to 1."""
    omega = np.ones(len(log)) if log.row_weight is None else log.row_weight
    total, over, under = 0.0, 0.0, 0.0
    for i in range(len(log)):
        part = slice(log.offsets[i], log.offsets[i + 1])
        p, q, d = pi[part], log.logging[part], delta_hat[part]
        y = log.chosen[i]
        masses = member.masses(p, q, ratio(p, q))
        if member.self_normalised:
            total += omega[i] * float((masses.imputed * d).sum())
            own = log.reward[i] - (d[y] if member.name == "SNDR" else 0.0)
            over += omega[i] * p[y] / q[y] * own
            under += omega[i] * p[y] / q[y]
        else:
            total += omega[i] * float(
                (masses.imputed * d).sum()
                + masses.observed[y] * log.reward[i]
                + masses.control[y] * d[y]
            )
    return total / omega.sum() + (over / under if member.self_normalised else 0.0)


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
        found = objective(log, pi, prediction=delta_hat, estimator=member)
        assert found.value == pytest.approx(slow_value(member, log, pi, delta_hat), abs=1e-9)
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
            assert found.gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-5), (name, k)


@pytest.mark.parametrize("name", ["CIPS", "CAB", "CAB-DR"])
def test_at_a_kink_the_slope_is_the_one_from_below(name):
    log = op.BanditLog.from_arrays(action=[0, 1], reward=[1.0, -2.0], logging=[[0.25, 0.75]] * 2)
    pi, delta_hat = np.array([0.5, 0.5, 0.5, 0.5]), np.array([0.3, 0.2, 0.9, -0.4])
    member = parse(f"{name}(M=2)")  # c of the first action is exactly 2
    found = objective(log, pi, prediction=delta_hat, estimator=member).gradient
    for k in (0, 2):
        below, above = pi.copy(), pi.copy()
        below[k] -= 1e-7
        above[k] += 1e-7
        base = slow_value(member, log, pi, delta_hat)
        lower = (base - slow_value(member, log, below, delta_hat)) / 1e-7
        upper = (slow_value(member, log, above, delta_hat) - base) / 1e-7
        assert found[k] == pytest.approx(lower, abs=1e-6)
        if k == 0 or name == "CAB":
            assert lower != pytest.approx(upper, abs=1e-3)


def test_where_there_is_no_below_it_is_the_one_from_above():
    log = op.BanditLog.from_arrays(action=[0], reward=[1.0], logging=[[1.0, 0.0]])
    found = objective(
        log, np.array([1.0, 0.0]), prediction=np.array([0.5, 0.25]), estimator="CAB(M=3)"
    )
    assert found.gradient.tolist() == [1.0, 0.25]


def test_values_are_those_of_evaluate():
    log, pi, delta_hat = ragged_case(3, n=40)
    rows = op.evaluate(log, pi, prediction=delta_hat, estimators=list(MEMBERS))
    for row in rows:
        found = objective(log, pi, prediction=delta_hat, estimator=row.estimator)
        assert found.value == pytest.approx(row.value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["SWITCH(M=2)", "SWITCH-DR(M=2)"])
def test_switch_is_refused_with_the_reason(name):
    log, pi, delta_hat = ragged_case(0)
    with pytest.raises(EstimatorError, match=r"jumps where c = M, so it has no gradient"):
        objective(log, pi, prediction=delta_hat, estimator=name)


def test_what_is_missing_is_told():
    log, pi, delta_hat = ragged_case(0)
    with pytest.raises(EstimatorError, match=r"as an objective needs its parameter: CAB\(M=…\)"):
        objective(log, pi, prediction=delta_hat, estimator="CAB")
    with pytest.raises(MissingColumnError, match="CAB needs prediction"):
        objective(log, pi, estimator="CAB(M=2)")
    with pytest.raises(PolicyError, match="gives that of the chosen one only"):
        objective(log, np.full(len(log), 0.5), estimator="IPS")
    mine = op.ICE(lambda c: 1.0 / c, lambda c: 1.0 / c, lambda c: 0.0 * c, label="mine")
    with pytest.raises(EstimatorError, match="does not say how its weights change"):
        objective(log, pi, prediction=delta_hat, estimator=mine)
    never = op.BanditLog.from_arrays(action=[0], reward=[1.0], logging=[[0.5, 0.5]])
    with pytest.raises(EstimatorError, match="never chooses what was logged"):
        objective(never, [[0.0, 1.0]], estimator="SNIPS")


def test_what_learning_does_not_know_the_slope_of_is_refused():
    """Also if it says that it has one."""

    class Mine(op.CIPS):
        name = "MINE"

    class Named(op.CIPS):
        """As if it were CIPS, with other masses."""

    log, pi, delta_hat = ragged_case(0)
    for member in (Mine(M=2.0), Named(M=2.0)):
        with pytest.raises(EstimatorError, match="does not say how its weights change with c"):
            objective(log, pi, prediction=delta_hat, estimator=member)
