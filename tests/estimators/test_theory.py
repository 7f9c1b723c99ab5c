"""Theorems 1 to 6: each other, exact enumeration, simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import theory
from offpolicy.estimators._named import parse
from offpolicy.estimators.theory import Problem
from offpolicy.testing import random_problem, sample_log
from tests.support import reference
from tests.support.members import members
from tests.support.refusals import refuses

MEMBERS = members(0, 1, 3, -1, self_normalised=False)
KINDS = {
    "logged": {},
    "estimated": {"propensity_error": 0.5},
    "unsupported": {"unsupported": 0.4},
    "both": {"propensity_error": 0.5, "unsupported": 0.4},
}
Ms = [0.0, 0.4, 1.5, 6.0, 1e6, math.inf]


def problems(kind: str) -> list[Problem]:
    rng = np.random.default_rng(list(KINDS).index(kind))
    return [random_problem(rng, actions=K, **KINDS[kind]) for K in (1, 3, 6)]


def plain(problem: Problem) -> reference.Problem:
    names = ("p", "pi", "pi0", "pi0_hat", "delta", "delta_hat", "sigma2")
    return reference.Problem(**{name: getattr(problem, name).tolist() for name in names})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MEMBERS)
def test_theorems_1_and_2_equal_enumeration(kind, name):
    member = parse(name)
    for problem in problems(kind):
        mean, variance = reference.enumerate_moments(member.name, member.parameter, plain(problem))
        bias = mean - reference.true_value(plain(problem))
        assert theory.bias(member, problem) == pytest.approx(bias, rel=1e-12, abs=1e-12)
        assert theory.variance(member, problem) == pytest.approx(variance, rel=1e-12, abs=1e-12)
        assert theory.mse(member, problem, 50) == pytest.approx(bias**2 + variance / 50, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("M", Ms)
def test_theorems_3_to_6_equal_theorems_1_and_2(kind, M):
    for problem in problems(kind):
        for member, bias, variance in (
            (op.CAB(M=M), theory.bias_cab, theory.variance_cab),
            (op.CABDR(M=M), theory.bias_cab_dr, theory.variance_cab_dr),
        ):
            assert bias(problem, M) == pytest.approx(theory.bias(member, problem), abs=1e-12)
            expected = theory.variance(member, problem, 7)
            assert variance(problem, M, 7) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", ["logged", "unsupported"])
@pytest.mark.parametrize("M", Ms)
def test_special_cases_of_section_3_1(kind, M):
    for problem in problems(kind):
        assert theory.bias_dm(problem) == pytest.approx(theory.bias(op.DM(), problem), abs=1e-12)
        cips = theory.bias(op.CIPS(M=M), problem)
        assert theory.bias_cips(problem, M) == pytest.approx(cips, abs=1e-12)
        for member in (op.CAB(M=M), op.CABDR(M=M)):
            expected = theory.bias(member, problem)
            assert theory.bias_cab_logged(problem, M) == pytest.approx(expected, abs=1e-12)
        for special, member in ((theory.variance_ips, op.IPS()), (theory.variance_dr, op.DR())):
            expected = theory.variance(member, problem, 3)
            assert special(problem, 3) == pytest.approx(expected, rel=1e-12)


def clipped_terms(problem: Problem, M: float) -> float:
    """Second and third term of Theorem 4."""
    imputed = (np.maximum(problem.pi - M * problem.pi0, 0) * problem.delta_hat).sum(axis=1)
    kept = (np.minimum(problem.pi, M * problem.pi0) * problem.delta).sum(axis=1)
    mean = imputed + kept
    over_x = problem.p @ (mean - problem.p @ mean) ** 2
    return theory.variance_cab(problem, M) - float(over_x)


def test_the_corrected_bound_holds_where_the_printed_one_fails():
    problem = Problem([1.0], [[0.1, 0.9]], [[0.9, 0.1]], [[1.0, 1.0]])
    term = clipped_terms(problem, 5.0)
    assert term == pytest.approx(2.151111, abs=1e-5)
    printed = 5.0**2 * 0.0  # M² E_x V_π₀(δ) with δ constant, and σ² = 0
    assert term > printed
    assert term <= theory.variance_bound_cab(problem, 5.0)


@pytest.mark.parametrize("M", [0.4, 1.5, 6.0])
def test_the_corrected_bound_holds_in_general(M):
    for problem in problems("logged"):
        assert clipped_terms(problem, M) <= theory.variance_bound_cab(problem, M) + 1e-12


def test_remarks_on_bias():
    """Sections 3.1 and 3.2: where the terms that the paper compares differ, and by how much."""
    rng = np.random.default_rng(5)
    for M in (0.5, 2.0):
        for _ in range(20):
            good = random_problem(rng, model_error=0.02)
            assert abs(theory.bias_cab_logged(good, M)) <= abs(theory.bias_cips(good, M)) + 1e-12
            # What CAB has more than CAB-DR where propensities are wrong: ζδ instead of −ζΔ.
            wrong = random_problem(rng, model_error=0.02, propensity_error=0.5)
            within = np.minimum(wrong.pi, M * wrong.pi0_hat)
            apart = -float(wrong.p @ (within * wrong.zeta * wrong.delta_hat).sum(axis=1))
            found = theory.bias_cab(wrong, M) - theory.bias_cab_dr(wrong, M)
            assert found == pytest.approx(apart, abs=1e-12)
        perfect = random_problem(rng, model_error=0.0, propensity_error=0.5)
        assert theory.bias_cab_dr(perfect, M) == pytest.approx(0.0, abs=1e-12)
        assert abs(theory.bias_cab(perfect, M)) > 1e-3


def test_bias_of_cab_is_within_the_imputed_mass():
    for problem in problems("logged"):
        for M in (0.0, 0.5, 2.0):
            mass = problem.p @ np.maximum(problem.pi - M * problem.pi0, 0.0).sum(axis=1)
            worst = np.abs(problem.error).max()
            assert abs(theory.bias_cab(problem, M)) <= worst * mass + 1e-12


@pytest.mark.parametrize("kind", ["logged", "estimated", "unsupported"])
def test_simulation_agrees(kind):
    rng = np.random.default_rng(17)
    problem = random_problem(rng, concentration=1.5, **KINDS[kind])
    believed = problem.pi0_hat / problem.pi0_hat.sum(axis=1, keepdims=True)
    problem = Problem(
        problem.p, problem.pi, problem.pi0, problem.delta, problem.delta_hat, problem.sigma2,
        believed,
    )  # fmt: skip
    n = 60_000
    log, pi, delta_hat = sample_log(problem, n, rng)
    for row in op.evaluate(log, pi, prediction=delta_hat, estimators=MEMBERS):
        expected = problem.value + theory.bias(row.member, problem)
        deviation = math.sqrt(theory.variance(row.member, problem, n))
        assert abs(row.value - expected) <= 4.5 * deviation + 1e-12, row.estimator
        if ("M=" in row.estimator or row.estimator == "DM") and "inf" not in row.estimator:
            assert row.stderr == pytest.approx(deviation, rel=0.1), row.estimator


def test_self_normalised_estimators_are_refused():
    (problem, *_) = problems("logged")
    with refuses(EstimatorError, "member"):
        theory.bias(op.SNIPS(), problem)
    with refuses(EstimatorError, "member"):
        theory.variance(op.SNDR(), problem)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("pi", [[0.5, 0.6]]),
        ("p", [0.5]),
        ("delta", [[1.0]]),
        ("delta", [[math.nan, 1.0]]),
        ("sigma2", [[-1.0, 0.0]]),
        ("pi0_hat", [[0.0, 1.0]]),
    ],
)
def test_malformed_problems_are_refused(column, values):
    fine = {"p": [1.0], "pi": [[0.5, 0.5]], "pi0": [[0.5, 0.5]], "delta": [[0.0, 1.0]]}
    with refuses(ParameterError, column):
        Problem(**(fine | {column: values}))


def test_section_3_1_needs_logged_propensities():
    (problem, *_) = problems("estimated")[1:]
    for special in (theory.variance_ips, theory.variance_dr):
        with refuses(ParameterError, "pi0_hat"):
            special(problem)
    for special in (theory.bias_cips, theory.bias_cab_logged, theory.variance_bound_cab):
        with refuses(ParameterError, "pi0_hat"):
            special(problem, 2.0)
