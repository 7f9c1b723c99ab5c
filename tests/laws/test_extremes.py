"""Inputs at the edge of floating point, and logs at the edge of being logs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import EstimatorError, LogError, PredictionError, SupportError
from offpolicy.estimators import NAMED
from offpolicy.evidence._tuning import RULES
from tests.support.cases import Case, bandit_log, cases
from tests.support.limits import small_blocks
from tests.support.members import PARAMETRIC
from tests.support.refusals import refuses

SAFE = ["DM", "CIPS(M=5)", "SB(tau=0)", "CAB(M=5)", "CAB-DR(M=5)", "SWITCH(M=5)", "SNIPS"]


def two_actions(pi0: float, pi: float, n: int = 4, chosen: int = 1, reward: float = 1.0):
    """n decisions between two actions; the logger takes action 1 with probability pi0."""
    log = bandit_log([chosen] * n, [reward] * n, [1.0 - pi0, pi0])
    return log, [[1.0 - pi, pi]] * n, [[0.5, 0.25]] * n


@pytest.mark.parametrize("pi0", [1e-300, 1e-12, 0.5])
@pytest.mark.parametrize("chosen", [0, 1])
def test_tiny_propensities_are_ordinary(pi0, chosen):
    log, pi, delta_hat = two_actions(pi0, 0.5, chosen=chosen)
    result = op.evaluate(log, pi, prediction=delta_hat, estimators=[*SAFE, "IPS", "DRos(lam=3)"])
    for row in result:
        assert math.isfinite(row.value)
        assert not math.isnan(row.stderr)
    c = (0.5 / pi0) if chosen == 1 else 0.5 / (1.0 - pi0)
    assert result["IPS"].value == pytest.approx(c, rel=1e-12)
    assert result["CIPS"].value == pytest.approx(min(c, 5.0), rel=1e-12)
    modelled = max(0.5 - 5 * pi0, 0) * 0.25 + max(0.5 - 5 * (1 - pi0), 0) * 0.5
    assert result["CAB"].value == pytest.approx(modelled + min(c, 5.0), rel=1e-12)


def test_weights_whose_squares_overflow_have_an_infinite_error():
    log = bandit_log([1, 0, 0], [1.0, 1.5, 0.0], [[1.0, 1e-290], [0.5, 0.5], [0.5, 0.5]])
    result = op.evaluate(log, [[0.5, 0.5]] * 3, estimators=["IPS", "CIPS(M=10)", "SNIPS"])
    assert math.isinf(result["IPS"].stderr)
    assert result["IPS"].value in result["IPS"].interval
    assert 0.5 in result["IPS"].interval
    assert math.isfinite(result["CIPS"].stderr)
    assert op.Result.from_json(result.to_json()) == result


def test_values_that_overflow_are_refused():
    log = bandit_log([1, 0], [1e140, 0.0], [[1.0, 1e-290], [0.5, 0.5]])
    with refuses(EstimatorError, column="IPS"):
        op.evaluate(log, [[0.5, 0.5]] * 2, estimators=["IPS"])


@pytest.mark.parametrize("weight", [1.0, 1e6, 1e12])
def test_weights_up_to_1e12_keep_their_digits(weight):
    log = bandit_log(
        [1, 0, 0, 0], [1.0, 0.0, 1.0, 1.0], [[1.0 - 0.5 / weight, 0.5 / weight], *[[0.5, 0.5]] * 3]
    )
    result = op.evaluate(log, [[0.5, 0.5]] * 4, estimators=["IPS", "SNIPS"])
    c = np.array([weight, 1.0, 1.0, 1.0])
    r = np.array([1.0, 0.0, 1.0, 1.0])
    assert result["IPS"].value == pytest.approx((c * r).mean(), rel=1e-14)
    assert result["IPS"].stderr == pytest.approx((c * r).std(ddof=1) / 2.0, rel=1e-12)
    assert result["SNIPS"].value == pytest.approx((c * r).sum() / c.sum(), rel=1e-14)


@pytest.mark.parametrize(
    ("reward", "ends"), [(2.5, (-math.inf, math.inf)), (1.0, (0.0, 1.0))], ids=["any", "binary"]
)
def test_one_decision_has_a_value_and_an_interval_of_all_there_can_be(reward, ends):
    log, pi, delta_hat = two_actions(0.5, 0.8, n=1, reward=reward)
    result = op.evaluate(log, pi, prediction=delta_hat)
    for row in [*result, *result.headlines]:
        assert math.isfinite(row.value)
        assert row.stderr == math.inf
        assert row.interval == ends


def test_one_candidate_is_no_choice():
    log = op.BanditLog.from_arrays(action=[0] * 3, reward=[1, 2, 3], logging=[[1.0]] * 3)
    result = op.evaluate(log, [[1.0]] * 3, prediction=[[9.0]] * 3, estimators=["IPS", "CAB(M=1)"])
    assert [row.value for row in result] == [2.0, 2.0]


def test_a_hundred_thousand_candidates():
    K = 100_000
    rng = np.random.default_rng(0)
    pi0 = rng.dirichlet(np.ones(K), 3)
    pi = rng.dirichlet(np.ones(K), 3)
    delta_hat = rng.normal(size=(3, K))
    action = np.array([0, K // 2, K - 1])
    reward = np.array([1.0, 0.0, 2.0])
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0)
    result = op.evaluate(
        log, pi, prediction=delta_hat, estimators=["DM", "CAB(M=2)", "SWITCH(M=2)"]
    )
    c = pi[np.arange(3), action] / pi0[np.arange(3), action]
    cab = (np.maximum(pi - 2 * pi0, 0) * delta_hat).sum(axis=1) + np.minimum(c, 2) * reward
    assert result["CAB"].value == pytest.approx(cab.mean(), rel=1e-12)
    curve = op.sweep(log, pi, prediction=delta_hat)
    assert float(curve.at(2.0)) == pytest.approx(cab.mean(), rel=1e-12)
    assert float(curve.stderr_at(2.0)) == pytest.approx(result["CAB"].stderr, rel=1e-10)


def test_deficient_support_is_reported_as_imputed_mass():
    log = bandit_log([0, 0], [1.0, 0.0], [[1.0, 0.0], [1.0, 0.0]])
    result = op.evaluate(
        log, [[0.25, 0.75]] * 2, prediction=[[0.5, 1.0]] * 2,
        estimators=["IPS", "DR", "CAB(M=inf)", "CAB-DR(M=inf)", "SWITCH(M=inf)"],
    )  # fmt: skip
    for row in result:
        assert row.imputed_mass == 0.75
    assert result["IPS"].value == 0.125
    assert result["CAB"].value == 0.125 + 0.75
    assert result["SWITCH"].value == 0.875


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e8])
def test_an_offset_of_the_rewards_costs_no_digits(offset):
    rng = np.random.default_rng(1)
    n = 5000
    noise = rng.normal(size=n)
    logging = np.full((n, 2), 0.5)
    action = rng.integers(0, 2, n)
    log = op.BanditLog.from_arrays(action=action, reward=noise + offset, logging=logging)
    base = op.BanditLog.from_arrays(action=action, reward=noise, logging=logging)
    delta_hat = np.full((n, 2), offset)
    pi = np.tile([0.3, 0.7], (n, 1))
    members = ["DM", "SNIPS", "DR", "SNDR", "CAB-DR(M=1.2)"]
    a = op.evaluate(log, pi, prediction=delta_hat, estimators=members)
    b = op.evaluate(base, pi, prediction=np.zeros((n, 2)), estimators=members)
    for x, y in zip(a, b, strict=True):
        assert x.value - offset == pytest.approx(y.value, abs=1e-7)
        assert x.stderr == pytest.approx(y.stderr, rel=1e-7, abs=1e-12)


def test_a_logger_that_all_but_never_draws_counts_as_one_that_never_does():
    """π₀ = 1.5e-311: its inverse overflows."""
    n, rng = 300, np.random.default_rng(0)
    scores = np.tile([0.0, -715.0, 0.0], (n, 1))
    blank = op.BanditLog.from_arrays(action=np.zeros(n, int), reward=np.zeros(n), actions=3)
    pi0 = op.Softmax(scores).probabilities(blank).reshape(n, 3)
    assert 0.0 < pi0[0, 1] < 1e-300
    log = op.BanditLog.from_arrays(action=rng.choice([0, 2], n), reward=rng.random(n), logging=pi0)
    Ms = [1.0, 1e10, math.inf]
    delta_hat = np.full((n, 3), 0.5)
    curve = op.sweep(log, op.Uniform(), prediction=delta_hat)
    members = [f"CAB(M={M!r})" for M in Ms]
    result = op.evaluate(log, op.Uniform(), prediction=delta_hat, estimators=members)
    assert curve.at(Ms) == pytest.approx([row.value for row in result], rel=1e-12)
    assert result["CAB(M=inf)"].imputed_mass == pytest.approx(1 / 3)


def test_masked_values_are_refused():
    reward = np.ma.array([1.0, 999.0], mask=[False, True])
    with refuses(LogError, column="reward"):
        op.BanditLog.from_arrays(action=[0, 0], reward=reward, logging=[[1.0], [1.0]])


def test_only_ratios_of_row_weights_matter():
    given = {"action": [0, 1, 0], "reward": [1, 0, 1], "logging": [[0.5, 0.5]] * 3}
    weight = np.array([1.0, 2.0, 3.0])
    pi = [[0.8, 0.2]] * 3
    rows = [
        op.evaluate(
            op.BanditLog.from_arrays(**given, row_weight=scale * weight), pi, estimators=["IPS"]
        )["IPS"]
        for scale in (1.0, 1e-90, 1e90)
    ]
    for row in rows[1:]:
        assert (row.value, row.stderr, row.ess) == pytest.approx(
            (rows[0].value, rows[0].stderr, rows[0].ess), rel=1e-12
        )
    with refuses(LogError, column="row_weight"):
        op.BanditLog.from_arrays(**given, row_weight=1e-170 * weight)


def test_few_clusters_never_share_a_group():
    given = {"action": [0] * 100, "reward": np.arange(100.0), "logging": np.ones((100, 1))}
    for names in ([47, 9], [1, 2]):
        log = op.BanditLog.from_arrays(**given, cluster=np.repeat(names, 50))
        row = op.evaluate(log, np.ones((100, 1)), estimators=["IPS"])["IPS"]
        assert row.stderr == pytest.approx(25.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_prediction_is_found_wherever_it_stands(monkeypatch, bad):
    """Even where the policy never goes, in a log that takes the compiled path."""
    small_blocks(monkeypatch, 300)
    n, K, rng = 500, 12, np.random.default_rng(0)
    log = bandit_log(rng.integers(0, K, n), rng.random(n), np.full((n, K), 1 / K))
    pi = np.zeros((n, K))
    pi[:, :6] = 1 / 6
    delta_hat = rng.random((n, K))
    delta_hat[7, 11] = bad
    ice = op.ICE(alpha=np.ones_like, beta=np.ones_like, gamma=lambda c: -np.ones_like(c))
    for ask in (
        lambda: op.sweep(log, pi, prediction=delta_hat, grid=[5.0]),
        lambda: op.sweep(log, pi, prediction=delta_hat),
        lambda: op.evaluate(log, pi, prediction=delta_hat, estimators=[ice]),
    ):
        with refuses(PredictionError, column="prediction", row=7, part="candidate 11"):
            ask()


def test_grids_longer_than_two_bytes_can_count(monkeypatch):
    small_blocks(monkeypatch, 300)
    rng = np.random.default_rng(0)
    n, K = 500, 12
    pi, pi0 = rng.dirichlet(np.ones(K), n), rng.dirichlet(np.ones(K), n)
    log = bandit_log(rng.integers(0, K, n), rng.random(n), pi0).rows(0, 400)
    grid = np.linspace(0.0, 4.0, 40_001)[::4]
    grid = np.concatenate([grid, np.linspace(4.1, 9.0, 33_000)])[-33_500:]
    few = grid[:: len(grid) // 5]
    flat = {"prediction": rng.random((400, K)), "estimator": "SWITCH"}
    whole = op.sweep(log, pi[:400], **flat, grid=grid)
    part = op.sweep(log, pi[:400], **flat, grid=few)
    np.testing.assert_allclose(whole.at(few), part.values, rtol=1e-12)


# -- the whole of evaluate, whatever the numbers ---------------------------------------------

LEFT_OPEN = PARAMETRIC
CHOSEN_ONLY = [name for name, kind in NAMED.items() if kind.needs == {"propensity"}]
REWARDS = {
    "as drawn": lambda case, rng: case.reward,
    "binary": lambda case, rng: rng.integers(0, 2, len(case.reward)).astype(float),
    "all equal": lambda case, rng: np.full(len(case.reward), 3.0),
    "all zero": lambda case, rng: np.zeros(len(case.reward)),
    "huge": lambda case, rng: rng.choice([-1e150, 0.0, 1.0, 1e150], len(case.reward)),
    "all huge": lambda case, rng: np.full(len(case.reward), -1e150),
    "tiny": lambda case, rng: rng.choice([-1e-160, 0.0, 1e-160], len(case.reward)),
}
PREDICTIONS = {"ordinary": 1.0, "huge": 1e150, "at the limit": 1.7e308, "tiny": 1e-160}


def assert_says_something(result: op.Result) -> None:
    """No NaN anywhere, intervals the right way round, and text that can be written."""
    for row in [*result, *result.headlines]:
        assert row.interval.low <= row.interval.high, row
        for name in ("value", "stderr", "plausible_bias", "bias_bound", "imputed_mass"):
            assert not math.isnan(getattr(row, name)), (name, row)
    for row in result.headlines:
        assert row.value in row.interval, row
        assert row.versus_logged.low <= row.versus_logged.high, row
    assert op.Result.from_json(result.to_json()).to_json() == result.to_json()
    assert "nan" not in str(result)


@given(
    cases(),
    st.sampled_from(list(REWARDS)),
    st.sampled_from(list(PREDICTIONS)),
    st.sampled_from([0.0, 1e-100, 1e-299]),
    st.sampled_from(RULES),
    st.sampled_from(["whole", "no prediction", "chosen only", "clusters"]),
    st.integers(0, 100),
)
@settings(max_examples=80, deadline=None)
def test_extreme_numbers_give_an_answer_or_a_refusal(
    case, rewards, predictions, tiny, rule, columns, seed
):
    """±1e150, weights of 1e299, one row, one action, bins with nothing in them; warnings are
    errors here."""
    rng = np.random.default_rng(seed)
    reward = REWARDS[rewards](case, rng)
    pi0 = with_tiny(case, tiny)
    delta_hat = np.clip(case.delta_hat, -1.0, 1.0) * PREDICTIONS[predictions]
    rows = {"offsets": case.offsets, "chosen": case.chosen, "reward": reward}
    log = op.BanditLog.from_ragged(
        **rows,
        logging=pi0,
        row_weight=case.row_weight,
        cluster=rng.integers(0, 3, len(reward)) if columns == "clusters" else None,
    )
    policy, model, members = case.pi, delta_hat, [*LEFT_OPEN, "DM", "IPS", "SNIPS", "DR", "SNDR"]
    if columns in ("no prediction", "chosen only"):
        model, members = None, CHOSEN_ONLY
    if columns == "chosen only":
        policy = case.pi[log.chosen_index]
        log = op.BanditLog.from_arrays(action=case.chosen, reward=reward, propensity=log.propensity)
    extreme = max(np.abs(reward).max(), PREDICTIONS[predictions], 1.0 / pi0[pi0 > 0.0].min())
    try:
        result = op.evaluate(log, policy, prediction=model, estimators=members, tuning=rule)
    except SupportError:
        assert not case.pi[case.log.chosen_index].any()
    except EstimatorError as refusal:
        text = str(refusal)
    else:
        assert_says_something(result)
        return
    if case.pi[case.log.chosen_index].any():
        assert " overflows: the largest weight is " in text
        assert extreme > 1e100


def with_tiny(case: Case, tiny: float) -> np.ndarray:
    """The logger's probabilities with that of the first candidate, where it has any company that
    is ever chosen, all but gone."""
    pi0 = case.pi0.copy()
    for start, stop in zip(case.offsets[:-1], case.offsets[1:], strict=True):
        part = pi0[start:stop]
        if tiny and part[0] > 0.0 and part[1:].sum() > 0.0:
            part[1:] /= part[1:].sum()
            part[0] = tiny
    return pi0


def test_draws_of_a_policy_whose_weights_overflow_have_an_infinite_error():
    n = 6
    log = op.BanditLog.from_arrays(action=[0] * n, reward=np.arange(n), logging=[[1e-200, 1.0]] * n)
    draw = lambda log, rng: rng.integers(0, 2, len(log))  # noqa: E731
    row = op.evaluate(log, op.MonteCarlo(draw, draws=20), estimators=["IPS"])["IPS"]
    assert row.policy_stderr == math.inf
    assert row.value in row.interval
