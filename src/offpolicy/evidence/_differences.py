"""The difference of two policies on one log: an answer of its own, by the headline's rule.

All policies are asked about the same decisions, so most of the luck of the draw is common to them
and cancels. The policy that wrote the log takes part with the reward itself, w = 1; its difference
to any other follows from the sums of the one walk, other pairs take a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments, Sums
from offpolicy._core.ragged import decision_of_candidate, row_sums
from offpolicy._core.types import Floats
from offpolicy.estimators import GRID, weights
from offpolicy.evidence._blocks import WALK, Block
from offpolicy.evidence._clip_path import predict_every
from offpolicy.evidence._headline import Known
from offpolicy.evidence._noise import design_effect, satterthwaite
from offpolicy.evidence._sources import Source
from offpolicy.intervals import Interval
from offpolicy.logs import BanditLog
from offpolicy.logs.labels import GROUPS

_CHUNK = 64
"""Pairs whose differences are held at a time."""
_SUMS = ("differ", "mass", "drawable", "kept", "drawn", "noise", "above", "below")
"""Sums over rows, for every pair. Over candidates (or chosen ones standing in for them), times the
row weight: |π_a − π_b|; |m_a − m_b|; π₀(w_a − w_b)²; π₀|w_a − w_b|. Over the chosen ones:
(w_a − w_b)²; times the weight's square, the squared difference of w·(r − d). And where the logger
never goes, (π_a − π_b)₊ and (π_b − π_a)₊."""


def _guess(arm: Known) -> float:
    """What the model adds for candidates that the logger never chooses."""
    bins = arm.path.bins
    return float(bins.unsupported[1]) / bins.weight


def _residuals(arm: Known) -> float:
    """Σω²e²/Σω of a policy's model."""
    bins = arm.path.bins
    return bins.total("ωee") / bins.weight


def _undrawn_mass(arm: Known) -> float:
    """What is left to the model but not seen, where π₀ is known of chosen candidates only."""
    curve = arm.curve
    return float(curve.cautious_mass[curve.at_interval] - curve.mass[curve.at_interval])


@storable
@dataclass(frozen=True, slots=True)
class Paired(Sums):
    """Sums over the rows, for every pair."""

    moments: tuple[Moments, ...]
    """Of y, `_CHUNK` pairs at a time: of the rows' differences as they are, not from the policies'
    co-moments, so that nothing is lost to cancellation between like policies."""
    fourth: Floats
    """Σω⁴(y − centre)⁴."""
    sums: Floats
    """(pairs, `_SUMS`)."""


def pair(source: Source, arms: Sequence[Known], pairs: Sequence[tuple[int, int]]) -> Paired:
    """One more pass over the log, which takes the differences of pairs of arms, by position."""
    exact = all(arm.e.plan.exact for arm in arms)
    means = [float(arm.curve.value[arm.curve.at_interval]) for arm in arms]
    with np.errstate(invalid="ignore"):
        centres = np.array([means[a] - means[b] for a, b in pairs])

    def of_blocks(blocks: list[Block]) -> Paired:
        log = blocks[0].log
        pi0 = log.logging if exact else None
        sides = [_Side.of(part, arm, pi0) for part, arm in zip(blocks, arms, strict=True)]
        if pi0 is not None and WALK.compiling(blocks[0].size * len(pairs)):
            take = _in_one_walk(log, sides, pi0)
        else:
            take = _by_pair(log, sides, pi0)
        moments, fourth, sums = [], [], []
        for start in range(0, len(pairs), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            with np.errstate(over="ignore", invalid="ignore"):
                y, of_candidates = take(pairs[chunk])
                off = (log.weights * (y - centres[chunk, None])) ** 2
                fourth.append((off * off).sum(axis=1))
                of_rows = [_of_rows(log, sides[a], sides[b], pi0) for a, b in pairs[chunk]]
            moments.append(Moments.of(y, log.row_weight, log.group, groups=GROUPS, diagonal=True))
            sums.append(np.hstack([of_candidates, of_rows]))
        return Paired(tuple(moments), np.concatenate(fourth), np.concatenate(sums))

    asked = [(arm.e.plan, arm.M) for arm in arms]
    return source.reduce(of_blocks, Paired.__add__, question=("pairs", asked, pairs))


class _Side(NamedTuple):
    """One policy on a block. c, w and d are of every candidate, 0 without support; or if π or
    π₀ are not known of all, of the chosen ones, which stand in for them."""

    x: Floats
    chosen: Floats
    """w of the chosen candidate."""
    residual: Floats
    """r − d."""
    unsupported: Floats
    """π of the candidates without support."""
    c: Floats
    w: Floats
    d: Floats
    M: float

    @classmethod
    def of(cls, block: Block, arm: Known, pi0: Floats | None) -> _Side:
        log, pi = block.log, block.target.flat
        model = predict_every(block, arm.e.plan.recalibration)
        residual, chosen = log.reward - model.chosen, np.minimum(block.c, arm.M)
        with np.errstate(over="ignore", invalid="ignore"):
            x = model.modelled + chosen * residual
        if pi0 is None or pi is None:
            return cls(x, chosen, residual, np.zeros(0), block.c, chosen, model.chosen, arm.M)
        assert model.flat is not None
        c = np.where(pi0 > 0.0, weights.ratio(pi, pi0), 0.0)
        kept = np.minimum(c, arm.M)
        return cls(x, chosen, residual, pi[pi0 == 0.0], c, kept, model.flat, arm.M)


_Pairs = Sequence[tuple[int, int]]
_Take = Callable[[_Pairs], tuple[Floats, Floats]]
"""For pairs of policies, y of every row of a block, and the first four of `_SUMS`."""


def _by_pair(log: BanditLog, sides: Sequence[_Side], pi0: Floats | None) -> _Take:
    """Pair by pair."""
    omega = share = log.weights
    if pi0 is not None:
        share = omega[decision_of_candidate(log.offsets)] * pi0

    def take(pairs: _Pairs) -> tuple[Floats, Floats]:
        y, sums = [], []
        for a, b in ((sides[a], sides[b]) for a, b in pairs):
            left_a, left_b, w = a.c - a.w, b.c - b.w, a.w - b.w
            shared = 0.5 * (left_a + left_b) * (a.d - b.d)
            y.append(a.x - b.x - (shared if pi0 is None else row_sums(pi0 * shared, log.offsets)))
            each = share * np.abs(a.c - b.c), share * np.abs(left_a - left_b), share * w * w
            sums.append([float(values.sum()) for values in (*each, share * np.abs(w))])
        return np.stack(y), np.array(sums)

    return take


def _in_one_walk(log: BanditLog, sides: Sequence[_Side], pi0: Floats) -> _Take:
    """The same, all pairs in one walk over the candidates."""
    from offpolicy._core.kernels import read_only
    from offpolicy.evidence._difference_kernels import add_pairs

    x, c, d = (np.stack([getattr(side, name) for side in sides]) for name in ("x", "c", "d"))
    M = np.array([side.M for side in sides])
    held = read_only(log.offsets, c, M, d, pi0, log.weights)

    def take(pairs: _Pairs) -> tuple[Floats, Floats]:
        places, sums = np.array(pairs), np.zeros((len(pairs), 4))
        shared = np.empty((len(pairs), len(log)))
        add_pairs(places, *held, shared, sums)
        return x[places[:, 0]] - x[places[:, 1]] - shared, sums

    return take


def _of_rows(log: BanditLog, a: _Side, b: _Side, pi0: Floats | None) -> list[float]:
    """The sums of a pair that are over chosen candidates, and where the logger never goes."""
    omega, lost = log.weights, np.zeros(0)
    if pi0 is not None:
        nowhere = omega[decision_of_candidate(log.offsets)[pi0 == 0.0]]
        lost = nowhere * (a.unsupported - b.unsupported)
    drawn = a.chosen - b.chosen
    noise = a.chosen * a.residual - b.chosen * b.residual
    sums = (
        omega * drawn**2, (omega * noise) ** 2, np.maximum(lost, 0.0), np.maximum(-lost, 0.0)
    )  # fmt: skip
    return [float(values.sum()) for values in sums]


# -- one pair --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference of two policies' values, before it is judged."""

    value: float
    """That of the headlines."""
    stderr: float
    """Of noise alone."""
    low: float
    high: float
    """Where the difference lies, but for noise and bias: apart by the worst case where the logger
    never goes."""
    spread: float
    """Standard error of both: noise scaled up, draws of the policies, and one row not seen."""
    bias: float
    degrees: float
    unsupported: float
    """Probability that the two put on different candidates that the logger never chooses."""
    most: float
    """What no difference can exceed."""
    identical: bool

    def __neg__(self) -> Gap:
        """The other way round."""
        low, high = -self.high, -self.low
        return replace(self, value=-self.value, low=low, high=high)

    def interval(self, level: float) -> Interval:
        half, most = intervals.bias_aware(self.spread, self.bias, level, self.degrees), self.most
        low, high = max(self.low - half, -most), min(self.high + half, most)
        # What cannot be says that something is wrong, not where the difference lies.
        return Interval(low, high) if low <= high else Interval(-most, most)

    def p_value(self, least: float) -> float:
        """The smallest 1 − level, and at least ``least``, whose interval leaves out 0."""
        if self.low - self.bias <= 0.0 <= self.high + self.bias or not math.isfinite(self.spread):
            return 1.0
        away = max(self.low, -self.high)

        def missing(log_p: float) -> float:
            """By how much the interval's half falls short of reaching 0."""
            level = -math.expm1(log_p)
            return away - intervals.bias_aware(self.spread, self.bias, level, self.degrees)

        below, above = math.log(least), -1e-9
        short, over = missing(below), missing(above)
        if short > 0.0 or over <= 0.0:
            return least if 0.0 < short <= self.most else 1.0
        for turn in range(60):
            # The secant where it helps, the middle every third time.
            share = 0.5 if turn % 3 == 2 else min(max(short / (short - over), 0.01), 0.99)
            log_p = below + share * (above - below)
            if (gap := missing(log_p)) > 0.0:
                above, over = log_p, gap
            else:
                below, short = log_p, gap
            if above - below < 1e-12 * abs(below):
                break
        return math.exp(above)


SAME = Gap(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, math.inf, 0.0, math.inf, identical=True)
"""Of a policy and itself."""


class _Seen(NamedTuple):
    """What the rows show of a difference."""

    centre: float
    """The mean of y."""
    stderr: float
    degrees: float
    drawable: float
    """Squares of the differences of weights that could have been drawn,"""
    drawn: float
    """and of those that were;"""
    kept: float
    """their size; and"""
    noise: float
    """the squares of what they weight."""
    residuals: float
    """Squares of all residuals: Σω²e²/Σω."""
    above: float
    """Mass of the first policy where the logger never goes, that the second has not;"""
    below: float
    """and the other way round."""


def gap_of(paired: Paired, j: int, first: Known, second: Known) -> Gap:
    """The difference of the j-th pair."""
    chunk, column = divmod(j, _CHUNK)
    moments, total = paired.moments[chunk], paired.moments[chunk].weight
    sums = dict(zip(_SUMS, map(float, paired.sums[j]), strict=True))
    above, below = sums["above"] / total, sums["below"] / total
    if sums["differ"] <= 1e-12 * total and above + below == 0.0:
        return SAME
    curves = [(arm.curve, arm.curve.at_interval) for arm in (first, second)]
    mass = sums["mass"] / total + abs(_undrawn_mass(first) - _undrawn_mass(second))
    size = max(float(curve.size[k]) for curve, k in curves)
    with np.errstate(all="ignore"):
        share = float(paired.fourth[j] / moments.second[column] ** 2)
    seen = _Seen(
        float(moments.mean[column]), moments.stderr(column), satterthwaite(moments, share, column),
        sums["drawable"], sums["drawn"], sums["kept"],
        sums["noise"] * design_effect(moments, column), max(map(_residuals, (first, second))),
        above, below,
    )  # fmt: skip
    bias = max(curve.caution for curve, _ in curves) * size * mass if mass > 0.0 else 0.0
    return _gap((first, second), (first.value, second.value), seen, bias)


def gap_to_logged(arm: Known) -> Gap:
    """The difference between a policy and the one that wrote the log, from the sums of the walk."""
    if arm.identical:
        return SAME
    curve, path = arm.curve, arm.path
    bins, moments = path.bins, path.moments
    k, scanned, logged = curve.at_interval, arm.e.scanned, arm.e.logged
    reward = scanned.reward
    design = max(design_effect(moments, k), design_effect(reward, 0))
    policy, logging, _ = bins.of_candidates.T
    M = GRID[k] if np.isfinite(GRID[k]) else 0.0
    with np.errstate(all="ignore"):
        drawn = bins.clipped_rows("cc", "1", 2)[k] - 2.0 * bins.residuals.kept[k]
        noise = bins.clipped_rows("ωccee", "ωee", 2) - 2.0 * bins.clipped_rows("ωcee", "ωee", 1)
        drawable = bins.weight * (bins.second[k] - 2.0 * bins.kept[k]) + logging.sum()
    seen = _Seen(
        float(curve.value[k]) - logged.value,
        math.sqrt(float(scanned.variance_apart(k, arm.e.rows)[-1])),
        satterthwaite(moments, arm.e.plan.kurtosis[k] / moments.count, k),
        float(drawable),
        float(drawn + bins.weight),
        # Σ π₀|w − 1|: bins lie on one side of 1, but for one.
        float(np.abs(policy[:k] - logging[:k]).sum() + abs(M - 1.0) * logging[k:].sum()),
        float(noise[k] + bins.total("ωee")) * design,
        _residuals(arm),
        float(bins.unsupported[0]) / bins.weight,
        0.0,
    )
    return _gap((arm,), (arm.value, logged.value), seen, float(curve.plausible_bias[k]))


def _gap(arms: Sequence[Known], values: tuple[float, float], seen: _Seen, bias: float) -> Gap:
    """A difference by the headline's rule; the second policy is the logged one if ``arms`` has only
    one."""
    rewards, moments = arms[0].e.plan.reward_range, arms[0].path.moments
    # What the models say of where the logger never goes is no evidence, not even if both policies
    # have the same mass there.
    centre = seen.centre - _guess(arms[0]) + sum(map(_guess, arms[1:]))
    lost = seen.above + seen.below
    low = centre + seen.above * rewards.low - seen.below * rewards.high
    high = centre + seen.above * rewards.high - seen.below * rewards.low
    (down, up), *others = (arm.doubt for arm in arms)
    low, high = low + down - sum(d[1] for d in others), high + up - sum(d[0] for d in others)
    noise = seen.stderr
    if seen.drawable > seen.drawn:
        # If no weight that differs was drawn, all residuals are as near as any.
        size = max(seen.noise, 0.0) / seen.drawn if seen.drawn > 0.0 else seen.residuals
        undrawn = (seen.drawable - seen.drawn) * size
        noise = math.sqrt(noise**2 + undrawn / moments.weight**2)
    typical = max(seen.drawable, seen.drawn) / seen.kept if seen.kept > 0.0 else 0.0
    middles = [min(max(value, rewards.low), rewards.high) for value in values]
    worst = max(rewards.high - min(middles), max(middles) - rewards.low)
    row = typical * worst * moments.weight2 / moments.weight**2
    spread = math.hypot(noise, row, *(arm.e.by_draws[-1] for arm in arms))
    spread = spread if math.isfinite(spread) else math.inf
    most = math.inf if rewards.known == "observed" else rewards.span
    value = values[0] - values[1]
    return Gap(value, seen.stderr, low, high, spread, bias, seen.degrees, lost, most,
               identical=False)  # fmt: skip
