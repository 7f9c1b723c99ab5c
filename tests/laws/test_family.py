"""Every member equals the slow reference, on both of its paths, and keeps its declared nature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

import offpolicy as op
from offpolicy.errors import SupportError
from offpolicy.estimators._named import NAMED, Estimator, parse
from offpolicy.evidence import _blocks as scan
from tests.support import reference
from tests.support.cases import Case, bandit_log, cases, make_case
from tests.support.limits import small_blocks
from tests.support.members import ALL_MEMBERS, CHOSEN_ONLY, members


def scale(case: Case, name: str, parameter: float | None) -> float:
    """Weighted mean of the absolute terms: what rounding errors are relative to."""
    if name in ("SNIPS", "SNDR"):
        name, parameter = {"SNIPS": "IPS", "SNDR": "DR"}[name], None
    decisions = case.decisions
    weight = sum(d.row_weight for d in decisions)
    terms = (d.row_weight * reference.absolute_terms(name, parameter, d) for d in decisions)
    return sum(terms) / weight


def assert_equals_reference(case: Case, result: op.Result, tolerance: float) -> None:
    decisions = case.decisions
    total = sum(d.row_weight for d in decisions)
    for row in result:
        member = parse(row.estimator)
        value, stderr = reference.estimate(member.name, member.parameter, decisions)
        unit = max(scale(case, member.name, member.parameter), 1e-300)
        if member.self_normalised:
            weights = [reference.importance(d.pi[d.chosen], d.pi0[d.chosen]) for d in decisions]
            unit *= max(1.0, max(weights) * total / math.fsum(
                d.row_weight * c for d, c in zip(decisions, weights, strict=True)
            ))  # fmt: skip
        assert abs(row.value - value) <= tolerance * unit, (row.estimator, row.value, value)
        if math.isinf(stderr):
            assert math.isinf(row.stderr)
        else:
            assert abs(row.stderr - stderr) <= tolerance * unit, (row.estimator, stderr)
        mass = math.fsum(
            d.row_weight * reference.imputed_mass(member.name, member.parameter, d)
            for d in decisions
        )
        assert row.imputed_mass == pytest.approx(mass / total, abs=1e-12)


@given(cases())
@settings(max_examples=100, deadline=None)
def test_every_member_equals_the_reference(case):
    try:
        result = case.evaluate(ALL_MEMBERS)
    except SupportError:
        assert not case.pi[case.log.chosen_index].any()
        return
    assert_equals_reference(case, result, 1e-10)


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_path_equals_the_reference(monkeypatch, shift, weighted):
    small_blocks(monkeypatch, 23)
    rng = np.random.default_rng(5)
    case = make_case(rng, 75, shift=shift, unsupported=0.3, weighted=weighted)
    assert_equals_reference(case, case.evaluate(ALL_MEMBERS), 1e-10)


@given(cases(smallest=2))
@settings(max_examples=60, deadline=None)
def test_compiled_and_numpy_paths_agree(case):
    members = [parse(name) for name in ALL_MEMBERS]
    log = case.log
    target = op.policies.resolve(log, case.pi)
    slow = scan.Block(log, target, case.delta_hat, lambda: None)
    fast = scan.Block(log, target, case.delta_hat, lambda: None, size=math.inf)
    both = zip(scan.contributions(slow, members), scan.contributions(fast, members), strict=True)
    for member, (a, b) in zip(members, both, strict=True):
        unit = 1e-13 * np.abs(case.delta_hat).max() * max(1.0, np.abs(slow.c).max())
        assert np.abs(a.value - b.value).max() <= unit, member
        np.testing.assert_allclose(a.imputed_mass, b.imputed_mass, atol=1e-13)
        np.testing.assert_array_equal(a.observed, b.observed)


def test_threads_and_blocks_do_not_matter(monkeypatch):
    small_blocks(monkeypatch, 300)
    case = make_case(np.random.default_rng(1), 1_000, most=9)
    members = ["IPS", "SNDR", "CAB(M=3)", "SWITCH(M=3)"]
    one = case.evaluate(members).to_json()
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert case.evaluate(members).to_json() == one


@pytest.mark.parametrize("columns", ["logging", "propensity", "chosen policy"])
def test_missing_columns_change_only_the_imputed_mass(columns):
    case = make_case(np.random.default_rng(2), 5000, drawn=True)
    full = case.log
    members = list(CHOSEN_ONLY)
    pi: object = case.pi
    log = full
    if columns != "logging":
        log = case.narrow
        members += [] if columns == "chosen policy" else ["DR", "CAB-DR(M=2)", "DRos(lam=3)"]
    if columns == "chosen policy":
        pi = case.pi[full.chosen_index]
    prediction = None if columns == "chosen policy" else case.delta_hat
    got = op.evaluate(log, pi, prediction=prediction, estimators=members)
    want = case.evaluate(members)
    for a, b in zip(got, want, strict=True):
        assert (a.value, a.stderr, a.ess) == pytest.approx((b.value, b.stderr, b.ess), rel=1e-12)
        assert a.imputed_mass == pytest.approx(b.imputed_mass, abs=0.15)


def at_pairs(member: Estimator, pi: np.ndarray, pi0: np.ndarray) -> np.ndarray:
    imputed, observed, control = member.masses(pi, pi0)
    return imputed + pi0 * (observed + control)


@pytest.mark.parametrize("name", members(0, self_normalised=False))
def test_the_four_desiderata_are_as_declared(name):
    member = parse(name)
    rng = np.random.default_rng(0)
    pi, pi0 = rng.random(200), rng.uniform(0.05, 1.0, 200)
    sums_to_one = np.allclose(at_pairs(member, pi, pi0), pi)
    assert member.weights_sum_to_one == sums_to_one
    c = pi / pi0
    masses = member.masses(pi, pi0)
    assert member.for_ranking == (not masses.control.any())
    weight = (masses.observed + 0.0) / c
    assert member.adaptive == (np.ptp(weight) > 1e-12)
    # Sub-differentiable: no jump of any mass as π crosses any weight.
    fine = np.linspace(0.0, 1.0, 200_001)
    half = np.full_like(fine, 0.25)
    jumps = [np.abs(np.diff(mass)).max() for mass in member.masses(fine, half)]
    assert member.subdifferentiable == (max(jumps) < 1e-3)


def test_every_named_estimator_is_covered_here():
    assert {parse(name).name for name in ALL_MEMBERS} == set(NAMED)


@given(cases(smallest=2))
@settings(max_examples=40, deadline=None)
def test_ice_with_the_weights_of_cab_is_cab(case):
    clip = lambda c: np.minimum(2.5 / np.maximum(c, 1e-300), 1.0)  # noqa: E731
    zero = np.zeros_like
    mine = op.ICE(alpha=lambda c: 1.0 - clip(c), beta=clip, gamma=zero, label="mine")
    twin = op.ICE(
        alpha=np.ones_like, beta=lambda c: clip(c), gamma=lambda c: -clip(c), label="twin"
    )
    try:
        result = case.evaluate([mine, "CAB(M=2.5)", twin, "CAB-DR(M=2.5)"])
    except SupportError:
        return
    unit = 1e-12 * max(1.0, np.abs(case.delta_hat).max())
    for a, b in (("mine", "CAB"), ("twin", "CAB-DR")):
        assert result[a].value == pytest.approx(result[b].value, abs=unit)
        assert result[a].imputed_mass == pytest.approx(result[b].imputed_mass, abs=1e-12)


def test_effective_sample_size_and_largest_weight():
    log = bandit_log([0, 0, 1], [1.0, 0.0, 1.0], [[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    result = op.evaluate(
        log, [[1.0, 0.0]] * 3, prediction=np.zeros((3, 2)), estimators=["DM", "IPS", "CIPS(M=1)"]
    )
    assert result["IPS"].ess == pytest.approx((2 + 4) ** 2 / (4 + 16))
    assert result["IPS"].largest_weight == 4.0
    assert result["CIPS"].ess == pytest.approx(2.0)
    assert result["DM"].ess is None


def test_clustered_standard_errors_see_dependence():
    rng = np.random.default_rng(3)
    users, visits = 2000, 10
    taste = rng.normal(size=users)
    cluster = np.repeat(np.arange(users), visits)
    reward = np.repeat(taste, visits)
    n = users * visits
    columns = {"action": np.zeros(n, int), "reward": reward, "logging": np.ones((n, 1))}
    plain = op.evaluate(op.BanditLog.from_arrays(**columns), np.ones((n, 1)), estimators=["IPS"])
    log = op.BanditLog.from_arrays(**columns, cluster=cluster)
    clustered = op.evaluate(log, np.ones((n, 1)), estimators=["IPS", "SNIPS"])
    truth = 1.0 / math.sqrt(users)
    assert plain["IPS"].stderr == pytest.approx(truth / math.sqrt(visits), rel=0.05)
    # 256 groups: the standard error itself has a relative error of 1/√512 = 4.4%.
    assert clustered["IPS"].stderr == pytest.approx(truth, rel=0.18)
    assert clustered["SNIPS"].stderr == pytest.approx(clustered["IPS"].stderr, rel=1e-9)


def test_clustered_standard_errors_equal_the_formula():
    rng = np.random.default_rng(4)
    case = make_case(rng, 300, weighted=True)
    cluster = np.array([f"user {k}" for k in rng.integers(0, 40, 300)])
    log = case.log_with(cluster=cluster)
    got = op.evaluate(log, case.pi, estimators=["IPS"])["IPS"]
    g = case.pi[log.chosen_index] / log.propensity * case.reward
    weight = case.row_weight
    v = (weight * g).sum() / weight.sum()
    totals = [(weight * (g - v))[log.group == k].sum() for k in np.unique(log.group)]
    G = len(totals)
    expected = math.sqrt(G / (G - 1) * np.square(totals).sum()) / weight.sum()
    assert (got.value, got.stderr) == pytest.approx((v, expected), rel=1e-12)


@pytest.mark.parametrize("shared", [False, True], ids=["own draws", "one draw for all"])
def test_the_error_of_a_policy_known_by_draws_is_reported(shared):
    """policy_stderr is the spread of the estimate over repeated sets of draws. 80 sets: the
    spread is known to 8 %, 25 % is asked."""
    rng = np.random.default_rng(5)
    n = 300
    log = bandit_log(rng.integers(0, 2, n), rng.random(n), np.full((n, 2), 0.5))

    def draw(log, stream):
        size = None if shared else len(log)
        return np.broadcast_to(stream.random(size) < 0.3, len(log)).astype(int)

    rows = [
        op.evaluate(log, op.MonteCarlo(draw, draws=60, seed=seed), estimators=["IPS"])["IPS"]
        for seed in range(80)
    ]
    spread = np.std([row.value for row in rows])
    reported = math.sqrt(np.mean([row.policy_stderr**2 for row in rows]))
    assert reported == pytest.approx(spread, rel=0.25)
    exact = op.evaluate(log, np.full((n, 2), [0.7, 0.3]), estimators=["IPS"])["IPS"]
    assert np.mean([row.interval.width for row in rows]) > exact.interval.width
