"""The difference of two policies, by loops over rows and candidates."""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

import offpolicy as op
from offpolicy.evidence import Gap, Question, gap_of, gather, pair, what_is_known
from offpolicy.evidence._plan import make_plan, range_of_rewards, sample_of
from offpolicy.evidence._sources import InMemory
from offpolicy.intervals import Interval, bias_aware
from offpolicy.policies._policies import resolve
from tests.support.cases import Case, make_case
from tests.support.limits import small_blocks


class Side(NamedTuple):
    """A policy on one row: x, w and e of the chosen, and (π₀, c, w, d, π) of every candidate."""

    x: float
    w: float
    e: float
    candidates: list[tuple[float, float, float, float, float]]


def side_of(log: op.BanditLog, pi: np.ndarray, model: np.ndarray | None, M: float) -> list[Side]:
    """Around the headline's model, at the M of its interval. π may be of the chosen only."""
    source = InMemory(log, [resolve(log, pi)], model)
    (sample,) = sample_of(source)
    plan = make_plan(sample, len(log), range_of_rewards(source), ())
    d = plan.recalibration.predict(log, source.targets[0].flat, model)
    sides = []
    for i in range(len(log)):
        c = sample.pi_chosen[i] / log.propensity[i]
        w, e = min(c, M), log.reward[i] - d.chosen[i]
        candidates = [(1.0, c, w, d.chosen[i], c)]
        if log.logging is not None and d.flat is not None:
            candidates = []
            for k in range(log.offsets[i], log.offsets[i + 1]):
                pi0 = log.logging[k]
                ratio = pi[k] / pi0 if pi0 > 0.0 else 0.0
                candidates.append((pi0, ratio, min(ratio, M), d.flat[k], pi[k]))
        sides.append(Side(d.modelled[i] + w * e, w, e, candidates))
    return sides


def logged(log: op.BanditLog, other: list[Side]) -> list[Side]:
    """What ran: weights of 1, the reward itself, and whatever model."""
    return [
        Side(log.reward[i], 1.0, side.e, [(p0, 1.0, 1.0, d, p0) for p0, _, _, d, _ in
                                          side.candidates])
        for i, side in enumerate(other)
    ]  # fmt: skip


def slow_gap(log: op.BanditLog, a: list[Side], b: list[Side], worst: float, *, shared: bool):
    """Mean of y, its standard error, the whole spread, and the mass on which the models differ."""
    omega, units = log.weights, log.group if log.group is not None else range(len(log))
    sums, y = dict.fromkeys(("drawable", "drawn", "kept", "noise", "mass"), 0.0), []
    for i, (s, t) in enumerate(zip(a, b, strict=True)):
        taken = 0.0
        for (pi0, c, w, d, _), (_, c2, w2, d2, _) in zip(s.candidates, t.candidates, strict=True):
            taken += 0.5 * pi0 * ((c - w) + (c2 - w2)) * (d - d2) if shared else 0.0
            sums["drawable"] += omega[i] * pi0 * (w - w2) ** 2
            sums["kept"] += omega[i] * pi0 * abs(w - w2)
            sums["mass"] += omega[i] * pi0 * abs((c - w) - (c2 - w2))
        sums["drawn"] += omega[i] * (s.w - t.w) ** 2
        sums["noise"] += (omega[i] * (s.w * s.e - t.w * t.e)) ** 2
        y.append(s.x - t.x - taken)
    total = omega.sum()
    mean = np.average(y, weights=omega)
    off, groups = omega * (np.array(y) - mean), {}
    for unit, value in zip(units, off, strict=True):
        groups[unit] = groups.get(unit, 0.0) + value
    n, G = len(log), len(groups)
    alone = n / (n - 1) * (off**2).sum() / total**2
    variance = G / (G - 1) * sum(v * v for v in groups.values()) / total**2
    noise = variance
    if sums["drawable"] > sums["drawn"]:
        design = max(variance / alone, 1.0)
        noise += (sums["drawable"] / sums["drawn"] - 1.0) * design * sums["noise"] / total**2
    row = max(sums["drawable"], sums["drawn"]) / sums["kept"] * worst
    row *= (omega**2).sum() / total**2
    fourth = sum(v**4 for v in groups.values())
    if log.group is None:  # about where the two are apart, before what is shared is taken off
        apart = np.average([s.x - t.x for s, t in zip(a, b, strict=True)], weights=omega)
        fourth = ((omega * (np.array(y) - apart)) ** 4).sum()
    shares = fourth / sum(v * v for v in groups.values()) ** 2
    degrees = min(max(2.0 / max(shares - 1.0 / G, 1e-300), 3.0), G - 1.0)
    return (
        mean,
        math.sqrt(variance),
        math.hypot(math.sqrt(noise), row),
        sums["mass"] / total,
        degrees,
    )


@pytest.mark.parametrize("with_model", [False, True])
@pytest.mark.parametrize("kind", ["plain", "weighted", "clustered", "both", "chosen"])
def test_every_pair_by_hand(kind, with_model):
    n, rng = 150, np.random.default_rng(2)
    case = make_case(rng, n, weighted=kind in ("weighted", "both"), drawn=True, most=4)
    cluster = rng.integers(0, 40, n) if kind in ("clustered", "both") else None
    log, model = case.log_with(cluster=cluster), case.delta_hat if with_model else None
    other = np.concatenate([np.full(k, 1.0 / k) for k in np.diff(case.offsets)])
    policies = {"a": case.pi, "b": other, "c": 0.7 * case.pi0 + 0.3 * case.pi}
    if kind == "chosen":
        log, model = case.narrow, None
        policies = {name: pi[log.chosen_index] for name, pi in policies.items()}
    found = op.compare(log, policies, prediction=model, multiplicity="none")
    sides = {
        row.policy: side_of(log, policies[row.policy], model, row.interval_M)
        for row in found.headlines
    }
    values, headlines = {}, {row.policy: row for row in found.headlines}
    low, high = case.reward.min(), case.reward.max()
    for name, row in headlines.items():
        values[name] = row.value
        alone = op.evaluate(log, {name: policies[name]}, prediction=model).headline
        assert alone.versus_logged == found[name, "logged"].interval
        assert alone == row
    values["logged"] = found.logged.value
    for a, b in combinations([*sides, "logged"], 2):
        pair, ran = found[a, b], b == "logged"
        second = logged(log, sides[a]) if ran else sides[b]
        middles = [min(max(values[one], low), high) for one in (a, b)]
        worst = max(high - min(middles), max(middles) - low)
        mean, stderr, spread, mass, degrees = slow_gap(log, sides[a], second, worst, shared=not ran)
        assert pair.stderr == pytest.approx(stderr, rel=1e-8)
        assert pair.value == pytest.approx(
            min(max(values[a] - values[b], pair.interval.low), pair.interval.high), abs=1e-12
        )
        if kind == "chosen" or ran:
            # Masses that were not drawn; and |w − 1| is known by bins only.
            assert pair.interval.low < mean < pair.interval.high
            assert pair.interval.width > 2.0 * bias_aware(spread, 0.0, 0.95, 1e9) * 0.99
            continue
        sizes = [caution_and_size(log, policies[one], model) for one in (a, b)]
        bias = max(k for k, _ in sizes) * max(s for _, s in sizes) * mass
        half = bias_aware(spread, bias, 0.95, degrees)
        assert pair.interval == pytest.approx((mean - half, mean + half), rel=1e-6, abs=1e-9)


def caution_and_size(log: op.BanditLog, pi: np.ndarray, model: np.ndarray | None):
    """min(5κ, 1), and s at the interval's M."""
    row = op.evaluate(log, pi, prediction=model, estimators=["IPS"]).headline
    k = min(5.0 * row.kappa, 1.0)
    mass = sum(
        omega * max(p - row.interval_M * q, 0.0)
        for omega, p, q in zip(
            np.repeat(log.weights, np.diff(log.offsets)), pi, log.logging, strict=True
        )
    ) / log.weights.sum()  # fmt: skip
    return k, row.plausible_bias / (k * mass) if mass > 0.0 else 0.0


def halves(case: Case, share: float) -> np.ndarray:
    return (1.0 - share) * case.pi + share * case.pi0


def test_the_nearer_two_policies_are_the_narrower_is_their_difference():
    case = make_case(np.random.default_rng(6), 400, drawn=True)
    widths = []
    for share in (0.0, 1e-9, 1e-4, 1e-2, 0.3):
        pair = op.compare(case.log, {"a": case.pi, "b": halves(case, share)}, baseline="b")[
            "a", "b"
        ]
        assert (pair.verdict == "identical") == (share == 0.0)
        assert 0.0 in pair.interval
        widths.append(pair.interval.width)
    assert widths[0] == 0.0
    assert widths == sorted(widths)
    assert widths[1] < 1e-6
    assert widths[2] < 0.02 * widths[4]


def test_blocks_and_chunks_are_merged(monkeypatch):
    """Many blocks are one, to the last digits but few; and more pairs than are held at once."""
    case = make_case(np.random.default_rng(7), 900, drawn=True, unsupported=0.1)
    policies = {f"p{k}": halves(case, share) for k, share in enumerate(np.linspace(0.0, 0.9, 12))}
    whole = op.compare(case.log, policies)
    assert len(whole) == 78
    small_blocks(monkeypatch, 128)
    parts = op.compare(case.log, policies)
    for one, other in zip(whole, parts, strict=True):
        assert (one.first, one.second, one.verdict) == (other.first, other.second, other.verdict)
        assert other.value == pytest.approx(one.value, rel=1e-8, abs=1e-12)
        assert other.stderr == pytest.approx(one.stderr, rel=1e-8)
        assert other.interval == pytest.approx(one.interval, rel=1e-6, abs=1e-9)


def test_the_p_value_of_a_gap():
    """The level whose interval just holds 0; 1 where bias or a worst case alone explain it."""
    for gap in (
        Gap(0.3, 0.1, 0.3, 0.3, 0.1, 0.05, 20.0, 0.0, math.inf, identical=False),
        Gap(-0.3, 0.1, -0.4, -0.3, 0.1, 0.0, 7.0, 0.1, math.inf, identical=False),
    ):
        p = gap.p_value(2e-12)
        assert 1e-6 < p < 0.1
        assert 0.0 in gap.interval(1.0 - p * 0.999)
        assert 0.0 not in gap.interval(1.0 - p * 1.001)
    assert (
        Gap(0.3, 0.1, -0.1, 0.3, 0.1, 0.0, 7.0, 0.4, math.inf, identical=False).p_value(2e-12)
        == 1.0
    )
    assert (
        Gap(0.3, 0.1, 0.3, 0.3, 0.1, 0.31, 7.0, 0.0, math.inf, identical=False).p_value(2e-12)
        == 1.0
    )
    sure = Gap(0.3, 1e-9, 0.3, 0.3, 1e-9, 0.0, 99.0, 0.0, math.inf, identical=False)
    assert sure.p_value(2e-12) == 2e-12
    for most in (math.inf, 2.0):
        unknown = Gap(0.3, math.inf, 0.3, 0.3, math.inf, 0.0, 1.0, 0.0, most, identical=False)
        assert (unknown.p_value(2e-12), unknown.interval(0.9)) == (1.0, Interval(-most, most))


def test_what_models_say_of_where_the_logger_never_goes_is_in_no_difference():
    """Two policies with a tenth of their mass there: each has a regression of its own, which says
    something else of it, and the truth is that it is the same for both."""
    apart = []
    for seed in range(30):
        rng, n = np.random.default_rng(seed), 2000
        action, x = rng.integers(0, 2, n), rng.random(n)
        reward = (rng.random(n) < np.where(action == 1, 0.6, 0.3)).astype(float)
        log = op.BanditLog.from_arrays(
            action=action, reward=reward, logging=np.tile([0.5, 0.5, 0.0], (n, 1))
        )
        lost = np.full(n, 0.1)
        first = np.stack([np.full(n, 0.7), np.full(n, 0.2), lost], axis=1)
        second = np.stack([0.2 + 0.1 * x, 0.7 - 0.1 * x, lost], axis=1)
        evidence = gather(Question(log, {"a": first, "b": second}, verb="compare"))
        arms = [what_is_known(each) for each in evidence]
        gap = gap_of(pair(evidence[0].source, arms, [(0, 1)]), 0, *arms)
        truth = float(((first - second)[:, :2] @ [0.3, 0.6]).mean())
        apart.append(0.5 * (gap.low + gap.high) - truth)
        assert gap.unsupported == 0.0
    # With the models' words in it the mean is 0.037.
    assert abs(np.mean(apart)) < 4.0 * np.std(apart) / math.sqrt(len(apart)) < 0.01
