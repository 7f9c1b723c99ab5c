"""Choosing a parameter: the theory's terms, each rule against a slow one, and what is reported."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import GRID, theory
from offpolicy.estimators._named import NAMED, parse
from offpolicy.estimators.theory import Problem
from offpolicy.evidence._blocks import Block, whole_block
from offpolicy.evidence._clip_path import Modelled
from offpolicy.evidence._plausible_bias import residual_size, typical_error
from offpolicy.evidence._recalibration import Prediction
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.evidence._tuning import RULES, chosen_by, tune
from offpolicy.policies._policies import Target
from offpolicy.results._result import Tuned
from offpolicy.testing import random_problem
from tests.support.cases import bandit_log, make_case
from tests.support.refusals import refuses
from tests.support.slow_headline import path_around

TUNABLE = [name for name, kind in NAMED.items() if kind.parameter_name is not None]
Z = 1.959963984540054

# -- bias and variance are those of Theorems 1 and 2 -----------------------------------------


class World:
    """A log with one row per context of a problem, all equally likely, in which the recalibrated
    model is the truth."""

    def __init__(self, seed: int, *, unsupported: float = 0.0, model: bool = True) -> None:
        rng = np.random.default_rng(seed)
        S, K = 40, 4
        given = random_problem(rng, contexts=S, actions=K, unsupported=unsupported)
        action = [rng.choice(K, p=row) for row in given.pi0]
        reward = given.delta[np.arange(S), action] + 0.3 * rng.normal(size=S)
        self.log = op.BanditLog.from_arrays(action=action, reward=reward, logging=given.pi0)
        self.delta_hat = given.delta_hat.ravel() if model else None
        pi = given.pi.ravel()
        self.block: Block = whole_block(self.log, Target("new", pi), self.delta_hat)
        modelled = (given.pi * given.delta).sum(axis=1)
        chosen = given.delta[np.arange(S), action]
        self.modelled = with_model(self.block, Prediction(modelled, chosen, given.delta.ravel()))
        self.problem = Problem(
            p=np.full(S, 1.0 / S),
            pi=given.pi,
            pi0=given.pi0,
            delta=given.delta,
            delta_hat=given.delta_hat if model else None,
            sigma2=np.full((S, K), size_of(self.modelled) ** 2),
        )

    def tune(self, name: str, **options: object) -> Tuned:
        settings = {"n": 40, "span": 1.0} | options
        return tune(parse(name), self.modelled, curve_of(self.modelled), **settings)


def curve_of(rows: Modelled) -> RiskCurve:
    exact = rows.block.target.flat is not None and rows.block.log.logging is not None
    return RiskCurve.of(rows.path, exact=exact)


def with_model(block: Block, prediction: Prediction) -> Modelled:
    return Modelled(
        block, prediction, path_around(block, prediction, float(block.log.reward.mean()))
    )


def size_of(modelled: Modelled) -> float:
    """Of the residuals, rows weighted by c."""
    block = modelled.block
    residual = block.log.reward - modelled.prediction.chosen
    size = math.sqrt(np.average(residual**2, weights=block.log.weights * block.c))
    assert residual_size(modelled.path.bins)[-1] == pytest.approx(size)
    return size


@pytest.mark.parametrize("unsupported", [0.0, 0.4])
@pytest.mark.parametrize("name", TUNABLE)
def test_bias_and_variance_are_those_of_the_theorems(name, unsupported):
    world = World(0, unsupported=unsupported)
    tuned, kappa = world.tune(name, n=1000), typical_error(world.modelled.path.bins)
    kind = NAMED[name]
    for j, value in enumerate(tuned.grid):
        member = kind(float(value))
        bias = theory.bias(member, world.problem)
        assert tuned.bias[j] == pytest.approx(bias, rel=1e-9, abs=1e-12)
        error = kappa * size_of(world.modelled) * tuned.imputed_mass[j]
        assert tuned.bias_stderr[j] == pytest.approx(error)
        variance = theory.variance(member, world.problem, 1000)
        assert tuned.variance[j] == pytest.approx(variance, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", ["CIPS", "SGIPS"])
def test_the_same_without_a_model(name):
    world = World(1, model=False)
    tuned = world.tune(name)
    member = NAMED[name](float(tuned.grid[20]))
    assert tuned.bias[20] == pytest.approx(theory.bias(member, world.problem))


@pytest.mark.parametrize("name", TUNABLE)
def test_value_error_and_mass_are_those_of_evaluate(name):
    case = make_case(np.random.default_rng(2), 300, weighted=True, unsupported=0.3, drawn=True)
    log = case.log
    result = op.evaluate(log, case.pi, prediction=case.delta_hat, estimators=[name])
    (tuned,) = result.tuned
    kind = NAMED[name]
    places = [0, 9, 30, len(tuned.grid) - 1]
    members = [kind(float(tuned.grid[k])) for k in places]
    given = op.evaluate(log, case.pi, prediction=case.delta_hat, estimators=members)
    for k, row in zip(places, given, strict=True):
        assert tuned.value[k] == pytest.approx(row.value, rel=1e-9, abs=1e-9)
        # The tables leave out n/(n − 1).
        stderr = row.stderr * math.sqrt(299 / 300)
        assert tuned.stderr[k] == pytest.approx(stderr, rel=1e-9, abs=1e-12)
        assert tuned.imputed_mass[k] == pytest.approx(row.imputed_mass, abs=1e-9)


def test_where_only_the_chosen_are_known_the_drawn_ones_stand_in():
    """The bias of CIPS is then the mean of −(c − min(c, M))·d, over the rows."""
    rng = np.random.default_rng(3)
    n = 2000
    pi, propensity = rng.uniform(0.01, 1.0, n), rng.uniform(0.05, 1.0, n)
    log = bandit_log(np.zeros(n, int), rng.integers(0, 2, n), propensity=propensity)
    block = whole_block(log, Target("new", None, pi), None)
    constant = np.full(n, 0.4)
    modelled = with_model(block, Prediction(constant, constant, None))
    tuned = tune(op.CIPS(), modelled, curve_of(modelled), n=n, span=1.0)
    for k in (0, 10, 20, 63):
        M = GRID[k]
        kept = np.minimum(block.c, M)
        assert tuned.bias[k] == pytest.approx((0.4 * (kept - 1.0)).mean(), abs=1e-12)
        assert tuned.variance[k] == pytest.approx((kept * log.reward).var() / n)


# -- rules -----------------------------------------------------------------------------------


def random_table(rng: np.random.Generator, size: int = 12) -> Tuned:
    """Values that drift from the truth as the error falls, with some ties."""
    stderr = np.sort(rng.gamma(1.0, 0.1, size))
    stderr[rng.integers(size)] = stderr[rng.integers(size)]
    return Tuned(
        policy="new",
        estimator="CAB(M=1)",
        rule="theory",
        parameter="M",
        chosen=1.0,
        reason="",
        grid=np.arange(float(size)),
        value=rng.normal(size=size) * rng.choice([0.05, 0.3, 1.0]),
        stderr=stderr,
        bias=0.1 * rng.normal(size=size),
        bias_stderr=0.05 * rng.random(size),
        variance=stderr**2 * rng.random(size),
        imputed_mass=np.sort(rng.random(size))[::-1],
    )


def slow_theory(t: Tuned, span: float, headline: float | None) -> float:
    mse = [b * b + s * s + v for b, s, v in zip(t.bias, t.bias_stderr, t.variance, strict=True)]
    if headline is None:
        return t.grid[mse.index(min(mse))]
    near = [(abs(t.value[j] - headline), j) for j in range(len(mse)) if mse[j] <= 2.0 * min(mse)]
    return t.grid[min(near)[1]]


def slow_slope(t: Tuned, span: float, headline: float | None) -> float:
    """Largest parameter: least bias. Go down while all intervals so far meet, two by two."""
    ends = [(v - 2 * Z * s, v + 2 * Z * s) for v, s in zip(t.value, t.stderr, strict=True)]
    best = len(ends) - 1
    for j in range(len(ends) - 1, -1, -1):
        used = ends[j:]
        if not all(a[0] <= b[1] and b[0] <= a[1] for a in used for b in used):
            break
        best = j
    return t.grid[best]


def slow_slope_plus(t: Tuned, span: float, headline: float | None) -> float:
    """The narrowest one that agrees with all that are wider, whatever their place on the grid."""
    width = Z * t.stderr
    order = sorted(range(len(width)), key=lambda j: (-width[j], j))
    best = order[0]
    for place, j in enumerate(order):
        if all(
            abs(t.value[j] - t.value[i]) <= width[j] + (math.sqrt(6.0) - 1.0) * width[i]
            for i in order[:place]
        ):
            best = j
    return t.grid[best]


def slow_switch(t: Tuned, span: float, headline: float | None) -> float:
    worst = [s * s + (span * m) ** 2 for s, m in zip(t.stderr, t.imputed_mass, strict=True)]
    return t.grid[worst.index(min(worst))]


SLOW = {
    "theory": slow_theory,
    "slope": slow_slope,
    "slope++": slow_slope_plus,
    "switch": slow_switch,
}


def test_every_rule_has_a_slow_one():
    assert set(SLOW) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_rules_choose_what_slow_ones_choose(rule):
    rng = np.random.default_rng(4)
    chosen = set()
    for _ in range(300):
        table = random_table(rng)
        span, headline = float(rng.random()), rng.choice([None, rng.normal()])
        got = chosen_by(rule, table, span, headline)
        assert got == SLOW[rule](table, span, headline)
        chosen.add(got)
    assert len(chosen) > 4


@pytest.mark.parametrize("rule", RULES)
def test_a_table_with_overflow_still_has_a_choice(rule):
    table = random_table(np.random.default_rng(5))
    table = replace(
        table,
        value=np.where(table.grid > 6, np.inf, table.value),
        stderr=np.where(table.grid > 6, np.inf, table.stderr),
        bias=np.where(table.grid > 6, np.inf, table.bias),
    )
    assert chosen_by(rule, table, 1.0) <= 6


# -- what comes out --------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", TUNABLE)
def test_what_is_chosen_is_in_the_grid_and_is_what_the_rule_says(name, rule):
    world = World(6)
    tuned, headline = world.tune(name, rule=rule, span=3.0), curve_of(world.modelled).best_value
    assert tuned.chosen in tuned.grid
    assert parse(tuned.estimator) == NAMED[name](tuned.chosen)
    assert (tuned.rule, tuned.parameter) == (rule, NAMED[name].parameter_name)
    assert tuned.policy == "new"
    assert tuned.chosen == chosen_by(rule, tuned, 3.0, headline)
    assert tuned.chosen == SLOW[rule](tuned, 3.0, headline)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("theory", r"least estimated error: \S+ noise, \S+ bias"),
        ("slope", r"the last M whose interval agrees with those of less bias \(slope\)"),
        ("slope++", r"the last M whose interval agrees with those of less bias \(slope\+\+\)"),
        ("switch", r"least variance plus squared largest possible bias \(\S+ noise\)"),
    ],
)
def test_the_reason_is_given(rule, reason):
    assert re.fullmatch(reason, World(7).tune("CAB", rule=rule).reason)


@pytest.mark.parametrize(
    ("name", "ends"),
    [("CAB", (0.0, math.inf)), ("SB", (0.0, 1.0)), ("DRos", (0.0, math.inf)), ("SGDR", (1.0, 0.0))],
)
def test_grids_run_from_all_model_to_all_weights(name, ends):
    grid = parse(name).grid
    assert (grid[0], grid[-1]) == ends
    assert 60 <= len(grid) <= 70
    steps = np.diff(grid)
    assert (steps > 0.0).all() or (steps < 0.0).all()
    first, last = (NAMED[name](float(end)) for end in ends)
    pi, pi0 = np.array([0.9, 0.1]), np.array([0.2, 0.8])
    assert last.observed(pi, pi0) == pytest.approx(pi / pi0)
    assert first.observed(pi, pi0).max() <= 1.0


def test_a_rule_that_does_not_exist():
    case = make_case(np.random.default_rng(9), 20)
    with refuses(ParameterError, "tuning") as caught:
        op.evaluate(
            case.log, case.pi, prediction=case.delta_hat, estimators=["CAB"], tuning="guess"
        )
    assert str(caught.value) == 'tuning is "guess"; it can be theory, slope, slope++, switch.'


def test_an_estimator_without_a_parameter():
    with pytest.raises(EstimatorError) as caught:
        World(8).tune("DR")
    assert str(caught.value) == "DR has no parameter to choose."


def test_a_better_model_is_trusted_more():
    """With δ̂ = δ the bias is only that of the recalibration, and SB leans on the model; with a
    model far off it does not."""
    case = make_case(np.random.default_rng(10), 1500, drawn=True, most=4)
    reward = case.pi[case.log.chosen_index]
    log = case.log_with(reward=reward)
    good, bad = (
        op.evaluate(log, case.pi, prediction=model, estimators=["SB"]).tuned[0]
        for model in (case.pi, case.pi + 5.0)
    )
    assert good.chosen < 0.2
    assert bad.chosen > 0.9
