r"""The difference of two policies on one log: an answer of its own, by the headline's rule.

All policies are asked about the same decisions, so most of the luck of the draw is common to them
and cancels. Policies a and b, each clipped at its interval's M, with d its model,
:math:`w = \min(c, M)` and :math:`m = (\pi - M\pi_0)_+` the mass left to the model, differ by the mean of

.. math:: y = x_a - x_b - \tfrac12 \sum_y (m_a + m_b)(d_a - d_b), \qquad
          x = \sum_y \pi d + w\,(r - d).

The last term lets the mean of the two models answer for what is left to either. Then only the mass
on which they differ, :math:`\sum_y |m_a - m_b|`, can be biased: nothing for identical policies, and
little for like ones. Noise is the variance of y, scaled up to the differences of weights that could
have been drawn; bias, Student's t, the row that was not seen and the worst case without support are
as in `evidence._headline`. The policy that wrote the log takes part with the reward itself, w = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments
from offpolicy._core.ragged import decision_of_candidate, row_sums
from offpolicy._core.types import Floats
from offpolicy.estimators import weights
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._headline import Known
from offpolicy.evidence._noise import satterthwaite
from offpolicy.evidence._plan import Plan, RewardRange
from offpolicy.evidence._sources import Source
from offpolicy.evidence._weight_bins import GRID
from offpolicy.intervals import Interval
from offpolicy.logs import BanditLog
from offpolicy.logs.labels import GROUPS

_CHUNK = 64
"""Pairs whose differences are held at a time."""
_SUMS = ("differ", "mass", "drawable", "drawn", "kept", "noise", "above", "below")
"""Sums over rows, for every pair. Over candidates (or chosen ones standing in for them), times the
row weight: |π_a − π_b|; |m_a − m_b|; π₀(w_a − w_b)²; the same of the chosen ones; π₀|w_a − w_b|.
Times its square: the squared difference of w·(r − d). And where the logger never goes, (π_a − π_b)₊
and (π_b − π_a)₊."""


class Arm(NamedTuple):
    """A policy that takes part."""

    plan: Plan
    known: Known
    policy_stderr: float

    @property
    def M(self) -> float:
        return float(GRID[self.known.curve.at_interval])

    @property
    def guess(self) -> float:
        """What the model adds for candidates that the logger never chooses."""
        bins = self.known.path.bins
        return float(bins.unsupported[1]) / bins.weight

    @property
    def undrawn_mass(self) -> float:
        """How much less than 1 is kept in the mean, where only that shows mass left to the model."""
        curve = self.known.curve
        return float(curve.cautious_mass[curve.at_interval] - curve.mass[curve.at_interval])


@storable
@dataclass(frozen=True, slots=True)
class Paired:
    """Sums over the rows, for every pair; ``a + b`` is the union of the rows."""

    moments: tuple[Moments, ...]
    """Of y, `_CHUNK` pairs at a time: of the rows' differences as they are, not from the policies'
    co-moments, so that nothing is lost to cancellation between like policies."""
    fourth: Floats
    """Σω⁴(y − centre)⁴."""
    sums: Floats
    """(pairs, `_SUMS`)."""

    def __add__(self, other: Paired) -> Paired:
        with np.errstate(over="ignore"):
            return Paired(
                tuple(a + b for a, b in zip(self.moments, other.moments, strict=True)),
                self.fourth + other.fourth,
                self.sums + other.sums,
            )

    def sum_of(self, name: str, j: int) -> float:
        return float(self.sums[j, _SUMS.index(name)])


def pair(source: Source, arms: Sequence[Arm], pairs: Sequence[tuple[int, int]]) -> Paired:
    """The pass over the log that takes the differences of all pairs of arms, by position; one more
    than the last is the policy that wrote the log."""
    exact = all(arm.plan.exact for arm in arms)
    means = [float(arm.known.curve.value[arm.known.curve.at_interval]) for arm in arms]
    means.append(arms[0].plan.centre)
    with np.errstate(invalid="ignore"):
        centres = np.array([means[a] - means[b] for a, b in pairs])

    def of_blocks(blocks: list[Block]) -> Paired:
        log = blocks[0].log
        sides = [_Side.of(part, arm, exact) for part, arm in zip(blocks, arms, strict=True)]
        sides.append(_Side.of_logger(log, exact))
        moments, fourth, sums = [], np.empty(len(pairs)), np.zeros((len(pairs), len(_SUMS)))
        for start in range(0, len(pairs), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            columns = [_row_differences(log, sides[a], sides[b], exact) for a, b in pairs[chunk]]
            with np.errstate(over="ignore", invalid="ignore"):
                y = np.stack(columns)
                off = (log.weights * (y - centres[chunk, None])) ** 2
                fourth[chunk] = (off * off).sum(axis=1)
            moments.append(
                Moments.of(y, log.row_weight, log.group, groups=GROUPS, diagonal=True)
            )
        for j, (a, b) in enumerate(pairs):
            sums[j] = _sums(log, sides[a], sides[b], exact)
        return Paired(tuple(moments), fourth, sums)

    asked = [(arm.plan, arm.M) for arm in arms]
    return source.reduce(of_blocks, Paired.__add__, question=("pairs", asked, pairs))


class _Side(NamedTuple):
    """One policy on a block. The last four are of every candidate with support, or if π or π₀ are
    not known of all, of the chosen ones, which stand in for them."""

    x: Floats
    chosen: Floats
    """w of the chosen candidate."""
    residual: Floats | None
    """r − d; None for the logger, who has no model."""
    unsupported: Floats
    """π of the candidates without support."""
    c: Floats
    w: Floats
    d: Floats | None

    @classmethod
    def of(cls, block: Block, arm: Arm, exact: bool) -> _Side:
        log, pi = block.log, block.target.flat
        model = arm.plan.recalibration.predict(log, pi, block.delta_hat)
        residual, chosen = log.reward - model.chosen, np.minimum(block.c, arm.M)
        with np.errstate(over="ignore", invalid="ignore"):
            x = model.modelled + chosen * residual
        if not exact:
            return cls(x, chosen, residual, np.empty(0), block.c, chosen, model.chosen)
        assert pi is not None
        assert log.logging is not None
        c = np.where(log.logging > 0.0, weights.ratio(pi, log.logging), 0.0)
        lost = pi[log.logging == 0.0]
        return cls(x, chosen, residual, lost, c, np.minimum(c, arm.M), model.flat)

    @classmethod
    def of_logger(cls, log: BanditLog, exact: bool) -> _Side:
        one = np.ones(len(log))
        every = one
        lost: Floats = np.empty(0)
        if exact:
            assert log.logging is not None
            every = (log.logging > 0.0).astype(np.float64)
            lost = np.zeros(int((log.logging == 0.0).sum()))
        return cls(log.reward, one, None, lost, every, every, None)


def _row_differences(log: BanditLog, a: _Side, b: _Side, exact: bool) -> Floats:
    """y of every row of a block."""
    with np.errstate(over="ignore", invalid="ignore"):
        y = a.x - b.x
        if a.d is None or b.d is None:
            return y
        shared = 0.5 * ((a.c - a.w) + (b.c - b.w)) * (a.d - b.d)
        if exact:
            shared = row_sums(log.logging * shared, log.offsets)
        return y - shared


def _sums(log: BanditLog, a: _Side, b: _Side, exact: bool) -> Floats:
    """`_SUMS` of a block."""
    omega = share = log.weights
    if exact:
        of_candidate = decision_of_candidate(log.offsets)
        share = omega[of_candidate] * log.logging
        lost = omega[of_candidate[log.logging == 0.0]] * (a.unsupported - b.unsupported)
    else:
        lost = np.zeros(1)
    first = a.residual if a.residual is not None else b.residual
    second = b.residual if b.residual is not None else a.residual
    with np.errstate(over="ignore", invalid="ignore"):
        w = a.w - b.w
        drawn = omega * (a.chosen - b.chosen) ** 2
        noise = (omega * (a.chosen * first - b.chosen * second)) ** 2
        return np.array([
            (share * np.abs(a.c - b.c)).sum(),
            (share * np.abs((a.c - a.w) - (b.c - b.w))).sum(),
            (share * w * w).sum(),
            drawn.sum(),
            (share * np.abs(w)).sum(),
            noise.sum(),
            np.maximum(lost, 0.0).sum(),
            np.maximum(-lost, 0.0).sum(),
        ])  # fmt: skip


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
    identical: bool

    def interval(self, level: float) -> Interval:
        half = intervals.bias_aware(self.spread, self.bias, level, self.degrees)
        return Interval(self.low - half, self.high + half)

    def p_value(self, least: float) -> float:
        """The smallest 1 − level, and at least ``least``, whose interval leaves out 0."""
        if self.low - self.bias <= 0.0 <= self.high + self.bias or not math.isfinite(self.spread):
            return 1.0
        if 0.0 not in self.interval(1.0 - least):
            return least
        below, above = math.log(least), 0.0
        for _ in range(40):
            middle = 0.5 * (below + above)
            if 0.0 in self.interval(-math.expm1(middle)):
                below = middle
            else:
                above = middle
        return math.exp(above)


def gap_of(
    paired: Paired, j: int, first: Arm, second: Arm | None, rewards: RewardRange, logged: float
) -> Gap:
    """The difference of the j-th pair; ``second`` is None for the policy that wrote the log."""
    chunk, column = divmod(j, _CHUNK)
    moments, total = paired.moments[chunk], paired.moments[chunk].weight
    arms = [first] if second is None else [first, second]
    other = logged if second is None else second.known.value
    above, below = (paired.sum_of(name, j) / total for name in ("above", "below"))
    identical = paired.sum_of("differ", j) / total <= 1e-12 and above + below == 0.0
    if identical:
        return Gap(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, math.inf, 0.0, identical=True)
    low = high = float(moments.mean[column])
    if above > 0.0 or below > 0.0:
        guess = first.guess - (0.0 if second is None else second.guess)
        low += above * rewards.low - below * rewards.high - guess
        high += above * rewards.high - below * rewards.low - guess
    noise = moments.stderr(column)
    drawable, drawn = paired.sum_of("drawable", j), paired.sum_of("drawn", j)
    growth = drawable / drawn if drawn > 0.0 else 1.0
    if growth > 1.0:
        alone = float(moments.covariance(grouped=False)[column])
        design = max(noise * noise / alone, 1.0) if alone > 0.0 else 1.0
        noise = math.sqrt(noise**2 + (growth - 1.0) * paired.sum_of("noise", j) / total**2 * design)
    kept = paired.sum_of("kept", j)
    typical = max(drawable, drawn) / kept if kept > 0.0 else 0.0
    worst = max(rewards.high - logged, logged - rewards.low)
    row = typical * worst * moments.weight2 / total**2
    spread = math.hypot(noise, row, *(arm.policy_stderr for arm in arms))
    mass = paired.sum_of("mass", j) / total
    undrawn = [arm.undrawn_mass for arm in arms] + [0.0] * (second is None)
    mass += abs(undrawn[0] - undrawn[1])
    curves = [(arm.known.curve, arm.known.curve.at_interval) for arm in arms]
    size = max(float(curve.size[k]) for curve, k in curves)
    caution = max(curve.caution for curve, _ in curves)
    return Gap(
        first.known.value - other,
        moments.stderr(column),
        low,
        high,
        spread,
        caution * size * mass if mass > 0.0 else 0.0,
        satterthwaite(moments, paired.fourth[j], column),
        above + below,
        identical=False,
    )
