"""Identities between members, and metamorphic laws: what a change of the log must do."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import SupportError
from offpolicy.estimators._named import NAMED, parse
from offpolicy.logs._scan import BLOCK
from offpolicy.testing import LawBroken, check_estimator
from tests.support.cases import Case, bandit_log, cases, make_case
from tests.support.members import ALL_MEMBERS, TYPICAL, members
from tests.support.members import LIMITS as OF_CLASSES

EVERYDAY = TYPICAL
SHIFT_INVARIANT = [*members(0, imputes="all"), "SNIPS"]


def values(case: Case, members: list[str]) -> np.ndarray:
    try:
        return np.array([row.value for row in case.evaluate(members)])
    except SupportError:
        assume(False)
        raise


def unit(case: Case) -> float:
    """The size of the largest term that could be rounded."""
    log = case.log
    c = case.pi[log.chosen_index] / log.propensity
    largest = max(np.abs(case.reward).max(), np.abs(case.delta_hat).max(), 1e-300)
    return max(1.0, c.max()) ** 2 * largest


LIMITS = [
    *OF_CLASSES, ("CAB(M=1e300)", "CAB(M=inf)"), ("SWITCH(M=1e300)", "SWITCH(M=inf)"),
    ("CAB(M=inf)", "SWITCH(M=inf)"),
]  # fmt: skip


@functools.cache
def at_the_limits() -> list[tuple[Case, dict[str, float]]]:
    """60 small logs of every kind, each with what all the members at their limits say."""
    rng, found = np.random.default_rng(0), []
    members = sorted({name for pair in LIMITS for name in pair})
    while len(found) < 60:
        coins = rng.random(3) < 0.5
        case = make_case(
            rng, int(rng.integers(1, 9)), most=rng.choice([1, 2, 5, 9]),
            shift=rng.choice([0.0, 0.0, 1e8, -1e8]), unsupported=rng.choice([0.0, 0.0, 0.4]),
            deterministic=coins[0], ties=coins[1], weighted=coins[2], tiny=rng.choice([0.0, 1e-12]),
        )  # fmt: skip
        if case.pi[case.log.chosen_index].any():
            found.append((case, {row.estimator: row.value for row in case.evaluate(members)}))
    return found


@pytest.mark.parametrize(("member", "same_as"), LIMITS)
def test_limits(member, same_as):
    for case, found in at_the_limits():
        a, b = found[str(parse(member))], found[str(parse(same_as))]
        assert a == pytest.approx(b, abs=1e-12 * unit(case)), case


@given(cases())
@settings(max_examples=40, deadline=None)
def test_under_full_support_the_blends_end_in_ips(case):
    assume((case.pi0 > 0.0).all())
    ips, cab, switch = values(case, ["IPS", "CAB(M=inf)", "SWITCH(M=inf)"])
    assert cab == pytest.approx(ips, abs=1e-12 * unit(case))
    assert switch == pytest.approx(ips, abs=1e-12 * unit(case))


@given(cases())
@settings(max_examples=40, deadline=None)
def test_without_a_model_blends_are_their_weights_alone(case):
    blank = replace(case, delta_hat=np.zeros_like(case.delta_hat))
    pairs = [("CAB(M=2)", "CIPS(M=2)"), ("CAB-DR(M=2)", "CIPS(M=2)"), ("DR", "IPS")]
    pairs += [("SNDR", "SNIPS"), ("SGDR(lam=0.3)", "SGIPS(lam=0.3)")]
    members = sorted({name for pair in pairs for name in pair})
    found = dict(zip(members, values(blank, members), strict=True))
    for a, b in pairs:
        assert found[a] == pytest.approx(found[b], abs=1e-12 * unit(case))


@given(cases())
@settings(max_examples=40, deadline=None)
def test_on_policy_the_answer_is_the_mean_reward(case):
    same = replace(case, pi=case.pi0)
    weight = np.ones(len(case.reward)) if case.row_weight is None else case.row_weight
    mean = float(np.average(case.reward, weights=weight))
    members = ["IPS", "SNIPS", "CIPS(M=1)", "SWITCH(M=1)", "CAB(M=1)", "SGIPS(lam=0.3)"]
    result = same.evaluate(members)
    for row in result:
        assert row.value == pytest.approx(mean, abs=1e-12 * np.abs(case.reward).max())
        assert row.stderr == pytest.approx(result.logged.stderr, abs=1e-12 * unit(same))
        assert row.imputed_mass == pytest.approx(0.0, abs=1e-12)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_a_perfect_model_of_a_constant_gives_the_constant(case):
    assume((case.pi0 > 0.0).all())
    level = 3.25
    reward, delta_hat = (np.full_like(x, level) for x in (case.reward, case.delta_hat))
    flat = replace(case, reward=reward, delta_hat=delta_hat)
    found = values(flat, ["DM", "DR", "SNIPS", "SNDR", "CAB-DR(M=2)", "DRos(lam=2)"])
    np.testing.assert_allclose(found, level, rtol=1e-12)


def reordered(case: Case, order: np.ndarray) -> Case:
    """The same decisions in another order."""
    lengths = np.diff(case.offsets)[order]
    flat = np.concatenate([np.arange(case.offsets[i], case.offsets[i + 1]) for i in order])
    return Case(
        np.concatenate([[0], np.cumsum(lengths)]),
        case.chosen[order],
        case.reward[order],
        case.pi0[flat],
        case.pi[flat],
        case.delta_hat[flat],
        None if case.row_weight is None else case.row_weight[order],
    )


@given(cases(smallest=2), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_order_of_the_log_does_not_matter(case, random):
    order = np.array(random.sample(range(len(case.reward)), len(case.reward)))
    np.testing.assert_allclose(
        values(reordered(case, order), EVERYDAY), values(case, EVERYDAY), atol=1e-12 * unit(case)
    )


@given(cases(smallest=2))
@settings(max_examples=40, deadline=None)
def test_order_of_the_candidates_does_not_matter(case):
    """Reverse every decision's candidates: a relabelling of the actions."""
    flat = np.concatenate(
        [np.arange(a, b)[::-1] for a, b in zip(case.offsets, case.offsets[1:], strict=False)]
    )
    chosen = np.diff(case.offsets) - 1 - case.chosen
    masses = {"pi0": case.pi0[flat], "pi": case.pi[flat], "delta_hat": case.delta_hat[flat]}
    mirrored = replace(case, chosen=chosen, **masses)
    np.testing.assert_allclose(
        values(mirrored, EVERYDAY), values(case, EVERYDAY), atol=1e-12 * unit(case)
    )


@given(cases(smallest=2), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_a_repeated_log_has_the_same_value_and_a_smaller_error(case, times):
    again = reordered(case, np.tile(np.arange(len(case.reward)), times))
    n = len(case.reward)
    try:
        once, more = case.evaluate(EVERYDAY), again.evaluate(EVERYDAY)
    except SupportError:
        return
    shrink = math.sqrt((n - 1) / (n * times - 1))
    for a, b in zip(once, more, strict=True):
        assert b.value == pytest.approx(a.value, abs=1e-12 * unit(case))
        assert b.stderr == pytest.approx(shrink * a.stderr, abs=1e-12 * unit(case))


@given(cases(smallest=2), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_a_row_weight_is_a_repetition_for_the_value(case, times):
    plain = replace(case, row_weight=None)
    weight = np.ones(len(case.reward))
    weight[0] = times
    weighted = replace(case, row_weight=weight)
    order = np.concatenate([np.zeros(times - 1, int), np.arange(len(case.reward))])
    np.testing.assert_allclose(
        values(weighted, EVERYDAY), values(reordered(plain, order), EVERYDAY),
        atol=1e-12 * unit(case),
    )  # fmt: skip


@given(cases(smallest=2), st.sampled_from([0.5, 3.0, -2.0]))
@settings(max_examples=40, deadline=None)
def test_scaling_rewards_scales_everything(case, factor):
    scaled = replace(case, reward=factor * case.reward, delta_hat=factor * case.delta_hat)
    np.testing.assert_allclose(
        values(scaled, EVERYDAY), factor * values(case, EVERYDAY), atol=1e-11 * unit(case)
    )


@given(cases(smallest=2), st.sampled_from([1.0, -7.5]))
@settings(max_examples=40, deadline=None)
def test_shifting_rewards_shifts_the_invariant_members(case, by):
    shifted = replace(case, reward=case.reward + by, delta_hat=case.delta_hat + by)
    np.testing.assert_allclose(
        values(shifted, SHIFT_INVARIANT),
        values(case, SHIFT_INVARIANT) + by,
        atol=1e-11 * unit(case),
    )


def test_more_data_gives_a_smaller_error():
    rng = np.random.default_rng(0)
    case = make_case(rng, 4000, drawn=True)
    few = reordered(case, np.arange(200)).evaluate(["CAB(M=3)", "CAB-DR(M=3)"])
    many = case.evaluate(["CAB(M=3)", "CAB-DR(M=3)"])
    for a, b in zip(few, many, strict=True):
        assert b.stderr < a.stderr / 2


@pytest.mark.parametrize("name", [name for name in ALL_MEMBERS if "1e9" not in name])
def test_every_member_passes_the_public_check(name):
    check_estimator(parse(name))


def test_the_public_check_finds_a_liar():
    liar = op.ICE(
        alpha=lambda c: 1.0 + 0.0 * c + (c > 1.0) * len(c),
        beta=np.zeros_like,
        gamma=np.zeros_like,
        label="liar",
    )
    with pytest.raises(LawBroken):
        check_estimator(liar)


def test_every_named_estimator_states_formula_citation_and_needs():
    for name, kind in NAMED.items():
        text = kind.__doc__ or ""
        assert ".. math::" in text, name
        assert any(str(year) in text for year in range(1950, 2027)), name
        assert kind.needs <= {"policy", "prediction", "propensity", "logging"}


def test_clustered_errors_do_not_depend_on_where_blocks_end() -> None:
    rng = np.random.default_rng(0)
    n, clusters = 2 * BLOCK + 77, 100
    cluster = np.sort(rng.integers(0, clusters, n))
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.3 + 0.4 * rng.random(clusters)[cluster]).astype(float)
    log = bandit_log(action, reward, np.full((n, 2), 0.5), cluster=cluster)
    x = reward * np.where(action == 0, 1.8, 0.2)
    total = np.bincount(cluster, x - x.mean())
    expected = np.sqrt((total**2).sum() * clusters / (clusters - 1)) / n
    result = op.evaluate(log, np.tile([0.9, 0.1], (n, 1)), estimators=["IPS"])
    assert result["IPS"].stderr == pytest.approx(expected, rel=1e-9)
    part = log.rows(BLOCK - 5, BLOCK + 5)
    assert part.bucket.tolist() == log.bucket[BLOCK - 5 : BLOCK + 5].tolist()


def test_folds_are_even_and_belong_to_the_row() -> None:
    n = 50_000
    log = bandit_log(np.zeros(n, int), np.zeros(n), propensity=[1.0] * n)
    counts = np.bincount(log.fold(5), minlength=5)
    assert counts.min() > 0.94 * n / 5
    assert log.rows(123, 456).fold().tolist() == log.fold()[123:456].tolist()
