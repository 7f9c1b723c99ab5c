"""The compiled pass over a block leaves behind what NumPy does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy._core.moments import Moments
from offpolicy.estimators import GRID, weights
from offpolicy.estimators import _kernels as kernels
from offpolicy.estimators._named import ICE, Estimator, parse
from offpolicy.evidence import _blocks as scan
from offpolicy.evidence._clip_path import ClipPath, Modelled, apply_model, kurtosis
from offpolicy.evidence._plan import RewardRange, make_plan
from offpolicy.evidence._recalibration import Prediction, constant
from offpolicy.evidence._sources import InMemory, part_of
from offpolicy.evidence._walk import Scanned, scan_block
from offpolicy.policies import Target
from tests.support.cases import Case, cases, make_case
from tests.support.limits import small_blocks
from tests.support.members import ALL_MEMBERS
from tests.support.slow_headline import path_around

SQUARE_ROOT = ICE(
    alpha=lambda c: 1.0 - 1.0 / np.sqrt(np.maximum(c, 1.0)),
    beta=lambda c: 1.0 / np.sqrt(np.maximum(c, 1.0)),
    gamma=np.zeros_like,
)


EDGES_OF_FAMILY = [
    "CIPS(M=0)", "CAB(M=inf)", "SWITCH(M=inf)", "SWITCH-DR(M=0)", "DRos(lam=0)", "DRos(lam=inf)",
    "SGIPS(lam=0)", "SGDR(lam=1)", "SB(tau=0)", "SB(tau=1)",
]  # fmt: skip
MEMBERS: list[Estimator] = [
    *map(parse, ALL_MEMBERS), SQUARE_ROOT, *map(parse, EDGES_OF_FAMILY),
]  # fmt: skip


PLAIN = ("values", "observed", "imputed_mass", "c", "reward")


def both_paths(case: Case, members: list[Estimator]) -> tuple[Scanned, Scanned]:
    log = case.log
    target = op.policies.resolve(log, case.pi)
    low, high = float(case.reward.min()), float(case.reward.max())
    slow, fast = (
        scan.Block(log, target, case.delta_hat, lambda: None, size) for size in (0.0, math.inf)
    )
    plan = make_plan(slow, len(log), RewardRange(low, high, "observed"), members)
    return scan_block(slow, plan), scan_block(fast, plan)


def assert_near(slow: Moments, fast: Moments, unit: np.ndarray | float) -> None:
    assert (slow.count, slow.weight, slow.weight2) == pytest.approx(
        (fast.count, fast.weight, fast.weight2), rel=1e-14
    )
    scale = slow.weight2
    for name, power in (("mean", 1), ("low", 1), ("high", 1), ("second", 2)):
        a, b = getattr(slow, name), getattr(fast, name)
        room = unit**power * (scale if name == "second" else 1.0)
        assert (np.abs(a - b) <= 1e-12 * room).all(), name
    assert (np.abs(slow.cross - fast.cross) <= 1e-12 * unit * slow.weight2).all()


@given(cases(smallest=2, largest=30))
@settings(max_examples=60, deadline=None)
def test_compiled_block_equals_numpy(case):
    slow, fast = both_paths(case, MEMBERS)
    largest = float(slow.c.high[0])
    unit = max(1.0, largest) * (1.0 + np.abs(case.delta_hat).max() + np.abs(case.reward).max())
    for name in PLAIN:
        assert_near(getattr(slow, name), getattr(fast, name), unit)
    for one, other in zip(slow.ratios, fast.ratios, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_near(one, other, unit * max(1.0, largest))
    room = slow.reward.weight2 * unit**2 * max(1.0, largest)
    for a, b in sums_of(slow, fast):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 * room)


def sums_of(slow: Scanned, fast: Scanned) -> list[tuple[np.ndarray, np.ndarray]]:
    """Everything in both but moments."""
    pairs = [(slow.paired, fast.paired)]
    for name in ("of_rows", "of_candidates", "unsupported"):
        pairs.append((getattr(slow.path.bins, name), getattr(fast.path.bins, name)))
    pairs.append((slow.tally.actions.sums, fast.tally.actions.sums))
    return [*pairs, (slow.tally.by_class, fast.tally.by_class)]


@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_block_keeps_its_digits(weighted):
    case = make_case(np.random.default_rng(4), 3000, most=9, weighted=weighted, drawn=True)
    slow, fast = both_paths(case, MEMBERS)
    plain = [(getattr(slow, name), getattr(fast, name)) for name in PLAIN]
    for one, other in (*plain, (slow.path.moments, fast.path.moments)):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(one.second, other.second, rtol=1e-11, atol=1e-24)
    for one, other in plain:
        np.testing.assert_allclose(one.low, other.low, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.high, other.high, rtol=1e-12, atol=1e-14)
    for a, b in sums_of(slow, fast):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12 * np.abs(a).max())


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 3.0, 1e7]), st.booleans(), st.booleans(),
    st.sampled_from([0.0, 1e8]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_path_s_moments_are_those_of_the_contributions(seed, largest, weighted, grouped, far):
    """At every M, also far from 0; and the kurtosis with them."""
    rng = np.random.default_rng(seed)
    n = 50
    weight = rng.uniform(0.1, 3.0, n) if weighted else None
    log = op.BanditLog.from_arrays(
        action=np.zeros(n, int), reward=far + rng.normal(size=n), propensity=np.ones(n),
        row_weight=weight, cluster=rng.integers(0, 9, n) if grouped else None,
    )  # fmt: skip
    block = scan.whole_block(log, Target("new", None, largest * rng.random(n) ** 2), None)
    prediction = Prediction(far + rng.normal(size=n), far + rng.normal(size=n), None)
    rows = Modelled(block, prediction, path_around(block, prediction, far + 0.2))
    x = prediction.modelled + np.minimum(block.c, GRID[:, None]) * (log.reward - prediction.chosen)
    slow, fast = Moments.of(x, weight, log.group, groups=256, diagonal=True), rows.path.moments
    # Where numbers of 1e8 stand for ones, eight digits of what is left are rounding.
    room = 1e-13 * max(1.0, largest) ** 2 * n * (1e6 if far else 1.0)
    for name in ("count", "weight", "weight2", "mean", "cross", "second"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-9, atol=room)
    for together in (False, True):
        a, b = (moments.covariance(grouped=together) for moments in (slow, fast))
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=room)
    off = (log.weights * (x - slow.mean[:, None])) ** 2
    expected = n * (off**2).sum(axis=1) / off.sum(axis=1) ** 2
    np.testing.assert_allclose(kurtosis(rows), expected, rtol=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        "DRos(lam=0)", "DRos(lam=1e-300)", "DRos(lam=5)", "DRos(lam=1e300)", "DRos(lam=inf)",
        "SGDR(lam=0)", "SGDR(lam=1e-300)", "SGDR(lam=0.1)", "SGDR(lam=1)", "IPS", "DM",
        "CAB(M=0)", "CAB(M=3)", "CAB(M=inf)", "SWITCH(M=3)", "SWITCH(M=inf)", "SB(tau=0.3)",
    ],
)  # fmt: skip
def test_compiled_rests_equal_those_of_numpy(name):
    """Also where π or π₀ is 0, or so small that its square is."""
    sizes = np.array([0.0, 1e-310, 1e-200, 1e-160, 1e-17, 1e-3, 0.3, 0.5, 1.0])
    pi, pi0 = (side.reshape(-1) for side in np.meshgrid(sizes, sizes[[0, 2, 3, 4, 5, 6, 7, 8]]))
    n, member = len(pi), parse(name)
    mass, dot = np.empty((2, n))
    kernels.rest_sums(member.weight)(
        np.arange(n + 1), pi, pi0, np.full(n, 3.0), member.parameter or 0.0, mass, dot
    )
    observed = member.observed(pi, pi0)
    left = weights.leftover(pi, pi0, observed)
    np.testing.assert_allclose(mass, left, rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(dot, 3.0 * left, rtol=0.0, atol=3e-15)


# -- room for more ---------------------------------------------------------------------------


class Halves:
    """Two segments in the place of `Stretches`: even rows of a log, and odd ones."""

    count = 2

    def of_rows(self, log: op.BanditLog) -> np.ndarray:
        return (log.first_row + np.arange(len(log))) % 2


def test_two_rewards_and_two_segments_go_through_the_same_sums_in_one_pass(monkeypatch):
    case = make_case(np.random.default_rng(3), 400, drawn=True, unsupported=0.2)
    rewards = case.reward, np.cos(np.arange(400.0))
    target = op.policies.resolve(case.log, case.pi)
    logs = [case.log_with(reward=reward, logging=case.pi0) for reward in rewards]
    models = [constant(scan.whole_block(log, target, None), (-1.0, 2.0)) for log in logs]

    def path_of(block: scan.Block, k: int) -> ClipPath:
        first, n = block.log.first_row, len(block.log)
        log = block.log.replace(reward=rewards[k][first : first + n], trusted=True)
        return apply_model(replace(block, log=log), models[k], 0.1, None, Halves()).path

    def of_block(made: list[scan.Block]) -> list[ClipPath]:
        return [path_of(made[0], k) for k in range(2)]

    small_blocks(monkeypatch, 64)
    source = InMemory(case.log, [target], None)
    together = source.reduce(
        of_block, lambda a, b: [x + y for x, y in zip(a, b, strict=True)], question=("rewards",)
    )
    for log, model, path in zip(logs, models, together, strict=True):
        whole = apply_model(scan.whole_block(log, target, None), model, 0.1).path
        np.testing.assert_allclose(path.moments.mean, whole.moments.mean, rtol=1e-12)
        np.testing.assert_allclose(path.moments.second, whole.moments.second, rtol=1e-9)
        for half, mean, second in zip(range(2), *path.bins.each.about_mean()[::2], strict=True):
            rows = np.arange(half, 400, 2)
            block = part_of(scan.whole_block(log, target, None), rows)
            d = model.predict(log, target.flat, None)
            e = (log.reward - d.chosen)[rows]
            x = (d.modelled - 0.1)[rows] + np.minimum.outer(GRID, block.c) * e
            np.testing.assert_allclose(mean, x.mean(axis=1), rtol=1e-9)
            np.testing.assert_allclose(second, 200 * x.var(axis=1), rtol=1e-9)
