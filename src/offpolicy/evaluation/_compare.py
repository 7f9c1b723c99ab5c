r"""`compare`: which of these policies is better, and by how much?

All policies are asked about the same decisions, so most of the luck of the draw is common to them
and cancels in the difference: its variance is that of the *paired* contributions,

.. math:: \hat d = \frac1n \sum_i (x_i^a - x_i^b), \qquad
          x_i = \sum_y \pi\tilde\delta + \min(c, M)\,(r - \tilde\delta),

each policy by its headline, CAB-DR around its own recalibrated model at its own M. The policy that
wrote the log takes part under the name "logged", with the reward itself for its contribution.

The interval is for the difference of the policies' *values*, and blocks as the headline's
(`evidence._headline`):

* noise: the paired variance, with each row's part in the fit of the models
  (`evidence._fit_noise`), and blocks larger by as much as the theory's variance of either headline
  is above the observed one, for the sake of huge weights that the log did not happen to draw;
* bias: everything between the difference and the one with the measured biases taken out; their
  uncertainties are added as if independent, which is cautious: two models err alike more often
  than not;
* where the logger never goes: the worst case over what the two policies do *differently* there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats
from offpolicy.errors import MissingColumnError, ParameterError, did_you_mean
from offpolicy.evaluation._evaluate import logged_of, named_policies, policy_stderr
from offpolicy.evidence import (
    TOO_FEW_EFFECTIVE,
    Block,
    Plan,
    Pull,
    RewardRange,
    Rows,
    Scanned,
    Source,
    degrees_of,
    influence,
    make_headline,
    make_plan,
    make_summary,
    notice,
    range_of_rewards,
    refuse_no_overlap,
    sample_of,
    scan,
    source_of,
    stderr_of,
    train_model,
    what_is_known,
    without_repeats,
)
from offpolicy.evidence.findings import about_dropped
from offpolicy.intervals import Interval
from offpolicy.logs import BanditLog, LogScan
from offpolicy.logs.labels import GROUPS
from offpolicy.results import (
    CANNOT_TELL,
    LOGGED,
    NOT_DECIDED,
    Comparison,
    Difference,
    Finding,
    Headline,
    Logged,
    Summary,
)

MULTIPLICITY = ("holm", "none")

_SMALLEST_P = 2e-12
_CHUNK = 64
"""Pairs whose differences are held at a time."""
_POWER_80 = NormalDist().inv_cdf(0.8)


def compare(
    log: BanditLog | LogScan,
    policies: Mapping[str, Any],
    *,
    prediction: Any = None,
    level: float = 0.95,
    multiplicity: str = "holm",
    reward_range: tuple[float, float] | None = None,
    baseline: str | None = None,
    resume: str | Path | None = None,
) -> Comparison:
    """Compare policies with each other, and with the one that wrote the log.

    Parameters
    ----------
    log : BanditLog
        With propensities.
    policies : mapping of names to policies
        Each anything that `evaluate` takes. The name "logged" is taken: it is the policy that
        wrote the log.
    prediction : optional
        The reward model δ̂, as for `evaluate`; it serves all policies.
    level : float
        Coverage of the intervals, of all at once if ``multiplicity="holm"``.
    multiplicity : {"holm", "none"}
        With several pairs some will differ by chance. "holm" allows for that: p-values are
        adjusted by Holm's steps and decide, intervals are widened by Bonferroni's rule (which
        is slightly more cautious: an interval may still touch 0 where Holm decides). With "none"
        each pair stands for itself.
    reward_range : (low, high), optional
        Between which rewards lie; by default 0 and 1 if they are binary, else as observed.
    baseline : str, optional
        Compare all other policies with this one only, instead of all pairs; ``"logged"`` is
        compared with others only if it is the baseline.
    resume : folder, optional
        As for `evaluate`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, 1000)
    >>> reward = rng.random(1000) < np.where(action == 1, 0.6, 0.3)
    >>> log = BanditLog.from_arrays(action=action, reward=reward, logging=[[0.5, 0.5]] * 1000)
    >>> compared = compare(log, {"new": [[0.2, 0.8]] * 1000, "old": [[0.7, 0.3]] * 1000})
    >>> compared["new", "old"].verdict
    'new is better than old'
    """
    intervals.check_level(level)
    if multiplicity not in MULTIPLICITY:
        raise ParameterError(
            f'multiplicity is "{multiplicity}"; it must be {" or ".join(MULTIPLICITY)}.',
            column="multiplicity",
        )
    named = _named(policies)
    pairs = _pairs(list(named), baseline)
    source = source_of(log, named, prediction, resume)
    train_model(source)
    samples = sample_of(source)
    if samples[0].log.propensity is None:
        raise MissingColumnError(
            "compare needs the propensity of the chosen action: without it nothing says how a "
            "policy other than the logged one would have done.",
            column="propensity",
        )
    rewards = range_of_rewards(source, reward_range)
    plans = [
        make_plan(block, source.n, rewards, (), first_row=source.first_row) for block in samples
    ]
    scans = scan(source, plans)
    logged = logged_of(scans[0].plain, Rows(()).reward, source.n, level)
    arms = [
        _arm(source, k, plan, scanned, level, logged)
        for k, (plan, scanned) in enumerate(zip(plans, scans, strict=True))
    ]
    paired = _paired(source, arms, pairs)
    ran = _Side(LOGGED, logged.stderr**2, logged.stderr**2)
    sides = [*(arm.side for arm in arms), ran]
    gaps = [
        _gap(paired, j, sides[a], sides[b], arms[0].plan.reward_range)
        for j, (a, b) in enumerate(pairs)
    ]
    return Comparison(
        _judged(gaps, source.n, level, multiplicity),
        tuple(arm.headline for arm in arms),
        logged,
        level,
        multiplicity,
        baseline,
        source.dropped,
        without_repeats(about_dropped(source.dropped), *(arm.findings for arm in arms)),
        tuple(arm.summary for arm in arms),
    )


def _named(policies: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(policies, Mapping):
        raise ParameterError(
            f'policies must be a mapping of names to policies, {{"new": …, "old": …}}; found a '
            f"{type(policies).__name__}.",
            column="policy",
        )
    named = named_policies(policies, "compare")
    if LOGGED in named:
        raise ParameterError(
            f'The name "{LOGGED}" is taken: it is the policy that wrote the log, and takes part by '
            f"itself. Give this one another name.",
            column="policy",
        )
    return named


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[int, int]]:
    """Which policies `compare` compares, by position; "logged" comes after all the others."""
    everyone = [*names, LOGGED]
    if baseline is None:
        return [(a, b) for a in range(len(everyone)) for b in range(a + 1, len(everyone))]
    if baseline not in everyone:
        raise ParameterError(
            f'baseline is "{baseline}", and there is no such policy.'
            f"{did_you_mean(str(baseline), everyone)} There are {', '.join(everyone)}.",
            column="baseline",
        )
    if len(names) == 1 and baseline != LOGGED:
        raise ParameterError(
            f'"{baseline}" is the only policy, and the baseline: there is nothing to compare it '
            f'with. Give another policy, or baseline="{LOGGED}".',
            column="baseline",
        )
    against = everyone.index(baseline)
    return [(a, against) for a in range(len(names)) if a != against]


# -- one policy ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """What a difference must know of one policy."""

    name: str
    observed: float
    """Variance of its value, as the rows show it."""
    planned: float
    """The same by the theory, which knows of weights that were never drawn."""
    bias: float = 0.0
    bias_stderr: float = 0.0
    policy_stderr: float = 0.0
    guess: float = 0.0
    """What the model adds for candidates that the logger never chooses."""
    headline: Headline | None = None

    @property
    def growth(self) -> float:
        """How much larger the variance may be than it looks; at least 1."""
        if self.planned <= self.observed:
            return 1.0
        return self.planned / self.observed if self.observed > 0.0 else math.inf

    @property
    def stderr(self) -> float:
        return math.sqrt(max(self.planned, self.observed))


class _Arm(NamedTuple):
    """A policy, planned and scanned."""

    plan: Plan
    M: float
    unsupported: float
    side: _Side
    headline: Headline
    summary: Summary
    findings: list[Finding]


def _arm(
    source: Source,
    k: int,
    plan: Plan,
    scanned: Scanned,
    level: float,
    logged: Logged,
) -> _Arm:
    rows = Rows(())
    name = source.names[k]
    refuse_no_overlap(float(scanned.plain.high[rows.weight]), name)
    by_draws = policy_stderr(source, k, plan)[-1]
    known = what_is_known(scanned, rows, plan)
    headline = make_headline(name, scanned, rows, plan, known, by_draws, level, logged)
    curve = known.curve
    unsupported, guess = (float(x) / scanned.bands.weight for x in scanned.bands.unsupported)
    side = _Side(
        name=name,
        observed=stderr_of(scanned.grid, curve.best) ** 2,
        planned=float(curve.variance[curve.best]),
        bias=headline.bias,
        bias_stderr=headline.bias_stderr,
        policy_stderr=by_draws,
        guess=guess,
        headline=headline,
    )
    summary = make_summary(
        name, scanned, rows, plan, known, level, trained=source.trained is not None
    )
    findings = notice(summary, scanned, rows, clustered=scanned.plain.group_weight is not None)
    return _Arm(plan, headline.M, unsupported, side, headline, summary, findings)


# -- all pairs, in one pass ------------------------------------------------------------------


@storable
@dataclass(frozen=True, slots=True)
class _Paired:
    """Sums over the rows, for every pair; ``a + b`` is the union of the rows."""

    plain: tuple[Moments, ...]
    """Of the rows' differences, `_CHUNK` pairs at a time: taken as they are, not from the
    policies' co-moments, so that nothing is lost to cancellation between like policies."""
    noise: tuple[Moments, ...]
    """The same with every row's part in the fit of the models: for variances."""
    above: Floats
    """Σω max(πa − πb, 0) over candidates that the logger never chooses."""
    below: Floats
    """Σω max(πb − πa, 0) there."""

    def __add__(self, other: _Paired) -> _Paired:
        return _Paired(
            tuple(a + b for a, b in zip(self.plain, other.plain, strict=True)),
            tuple(a + b for a, b in zip(self.noise, other.noise, strict=True)),
            self.above + other.above,
            self.below + other.below,
        )


def _paired(source: Source, arms: Sequence[_Arm], pairs: Sequence[tuple[int, int]]) -> _Paired:
    """The passes of `compare` over pairs: what each model's fit does, then all contributions."""
    pulls = _leverages(source, arms)
    lost = any(arm.unsupported > 0.0 for arm in arms)

    def of_blocks(blocks: list[Block]) -> _Paired:
        log = blocks[0].log
        x = [_contribution(part, arm) for part, arm in zip(blocks, arms, strict=True)]
        moved = [
            values + influence(part, arm.plan.recalibration, pull)[0]
            for values, part, arm, pull in zip(x, blocks, arms, pulls, strict=True)
        ]
        above, below = np.zeros((2, len(pairs)))
        if lost:
            _add_unsupported(blocks, pairs, above, below)
        chunks = [pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK)]
        return _Paired(
            tuple(_moments_of(log, [*x, log.reward], chunk) for chunk in chunks),
            tuple(_moments_of(log, [*moved, log.reward], chunk) for chunk in chunks),
            above,
            below,
        )

    asked = [(arm.plan, arm.M) for arm in arms]
    return source.reduce(of_blocks, _Paired.__add__, question=("pairs", asked, pairs, pulls))


def _leverages(source: Source, arms: Sequence[_Arm]) -> list[Floats]:
    def of_blocks(blocks: list[Block]) -> list[Pull]:
        return [
            Pull.of(block, arm.plan.recalibration, np.array([arm.M]))
            for block, arm in zip(blocks, arms, strict=True)
        ]

    def added(first: list[Pull], second: list[Pull]) -> list[Pull]:
        return [a + b for a, b in zip(first, second, strict=True)]

    asked = [(arm.plan, arm.M) for arm in arms]
    pulls = source.reduce(of_blocks, added, question=("fits", asked))
    return [pull.leverage(arm.plan.sampled) for pull, arm in zip(pulls, arms, strict=True)]


def _moments_of(log: BanditLog, x: Sequence[Floats], pairs: Sequence[tuple[int, int]]) -> Moments:
    with np.errstate(over="ignore"):
        gap = np.stack([x[a] - x[b] for a, b in pairs])
    return Moments.of(gap, log.row_weight, log.group, groups=GROUPS, diagonal=True)


def _contribution(block: Block, arm: _Arm) -> Floats:
    """What every row contributes to a policy in `compare`: Σ πδ̃ + min(c, M)(r − δ̃)."""
    tilde = arm.plan.recalibration.predict(block.log, block.target.flat, block.delta_hat)
    with np.errstate(over="ignore"):
        return tilde.modelled + np.minimum(block.c, arm.M) * (block.log.reward - tilde.chosen)


def _add_unsupported(
    blocks: Sequence[Block], pairs: Sequence[tuple[int, int]], above: Floats, below: Floats
) -> None:
    """For every pair that `compare` looks at, add what a block has where the logger never goes."""
    log = blocks[0].log
    if log.logging is None:
        return
    places = np.flatnonzero(log.logging == 0.0)
    omega = log.weights
    share = omega[decision_of_candidate(log.offsets)[places]]
    nothing = np.zeros(len(places))
    mass = [
        nothing if part.target.flat is None else share * part.target.flat[places] for part in blocks
    ]
    mass.append(nothing)
    for j, (a, b) in enumerate(pairs):
        gap = mass[a] - mass[b]
        above[j] += np.maximum(gap, 0.0).sum()
        below[j] += np.maximum(-gap, 0.0).sum()


# -- one pair --------------------------------------------------------------------------------


class _Gap(NamedTuple):
    """A difference before it is judged."""

    first: _Side
    second: _Side
    value: float
    stderr: float
    low: float
    high: float
    """Where the difference of the values lies, but for noise: the value with the measured biases
    taken out, and the worst case where the logger never goes."""
    spread: float
    degrees: float
    unsupported: float
    """Probability that the two put on different candidates that the logger never chooses."""

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """Of the one or two that have one: "logged" has none."""
        return tuple(s.headline for s in (self.first, self.second) if s.headline is not None)

    def interval(self, level: float) -> Interval:
        low, high = min(self.value, self.low), max(self.value, self.high)
        return intervals.hull(low, high, self.spread, level, self.degrees)

    @property
    def p_value(self) -> float:
        """The smallest 1 − level whose interval leaves out 0."""
        low, high = min(self.value, self.low), max(self.value, self.high)
        if low <= 0.0 <= high or math.isinf(self.spread):
            return 1.0
        if 0.0 not in self.interval(1.0 - _SMALLEST_P):
            return _SMALLEST_P
        below, above = math.log(_SMALLEST_P), 0.0
        for _ in range(40):
            middle = 0.5 * (below + above)
            if 0.0 in self.interval(-math.expm1(middle)):
                below = middle
            else:
                above = middle
        return math.exp(above)


def _gap(paired: _Paired, j: int, a: _Side, b: _Side, rewards: RewardRange) -> _Gap:
    chunk, column = divmod(j, _CHUNK)
    moments = paired.plain[chunk]
    unit = np.eye(1, len(moments.mean), column)[0]
    value, direct = float(moments.mean[column]), moments.variance_of(unit)
    variance = paired.noise[chunk].variance_of(unit)
    above, below = (float(x[j]) / moments.weight for x in (paired.above, paired.below))
    low = high = value - (a.bias - b.bias)
    if above > 0.0 or below > 0.0:
        low += above * rewards.low - below * rewards.high - (a.guess - b.guess)
        high += above * rewards.high - below * rewards.low - (a.guess - b.guess)
    further = [x for side in (a, b) for x in (side.bias_stderr, side.policy_stderr)]
    return _Gap(
        first=a,
        second=b,
        value=value,
        stderr=math.sqrt(variance),
        low=low,
        high=high,
        spread=math.hypot(math.sqrt(variance + _undrawn(direct, a, b)), *further),
        degrees=degrees_of(moments),
        unsupported=above + below,
    )


def _undrawn(direct: float, a: _Side, b: _Side) -> float:
    """What huge weights not drawn would add to the variance of a difference in `compare`.

    Its direct part (the models as they are) is larger by as much as either policy's own may be
    than it looks; at most, by the triangle inequality, both policies' planned ones together.
    """
    growth = max(a.growth, b.growth)
    if growth == 1.0 or math.isinf(direct):
        return 0.0
    most = max((a.stderr + b.stderr) ** 2 - direct, 0.0)
    return most if math.isinf(growth) else min(direct * (growth - 1.0), most)


# -- verdicts --------------------------------------------------------------------------------


def _judged(
    gaps: Sequence[_Gap], n: int, level: float, multiplicity: str
) -> tuple[Difference, ...]:
    p_values = [gap.p_value for gap in gaps]
    adjusted, each = p_values, level
    if multiplicity == "holm":
        adjusted, each = holm(p_values), 1.0 - (1.0 - level) / len(gaps)
        if 1.0 - each < _SMALLEST_P:
            raise ParameterError(
                f"level is {level}, too near to 1 for {len(gaps)} pairs. Ask for less, or for "
                f"fewer pairs with baseline=.",
                column="level",
            )
    return tuple(
        _difference(gap, p, p_all, n, level, each)
        for gap, p, p_all in zip(gaps, p_values, adjusted, strict=True)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """`compare`'s adjusted p-values: reject those up to α, and no true one goes with chance 1 − α.

    The smallest of m is multiplied by m, the next by m − 1, …; none is below the one before.
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, j in enumerate(sorted(range(len(p_values)), key=lambda j: p_values[j])):
        largest = max(largest, min((len(p_values) - rank) * p_values[j], 1.0))
        adjusted[j] = largest
    return adjusted


def _difference(
    gap: _Gap, p_value: float, adjusted: float, n: int, level: float, each: float
) -> Difference:
    interval = gap.interval(each)
    decided = adjusted < 1.0 - level or 0.0 not in interval
    reason, hopeless = _thin(gap), None
    if reason is None:
        reason = hopeless = _hopeless(gap, decided)
    verdict = NOT_DECIDED if reason is None else CANNOT_TELL
    rows: tuple[float | None, float | None] = (math.inf, math.inf)
    if decided and reason is None:
        names = (gap.first.name, gap.second.name)
        better, worse = names if gap.value > 0.0 else names[::-1]
        verdict, rows = f"{better} is better than {worse}", (None, None)
    elif hopeless is None:
        rows = _rows_needed(gap, interval, n)
    return Difference(
        first=gap.first.name,
        second=gap.second.name,
        value=gap.value,
        stderr=gap.stderr,
        interval=interval,
        p_value=p_value,
        adjusted_p_value=adjusted,
        verdict=verdict,
        reason=reason,
        rows_needed=rows[0],
        rows_needed_80=rows[1],
    )


def _thin(gap: _Gap) -> str | None:
    """Why `compare` needs more rows before it says anything; None if there are enough."""
    for headline in gap.headlines:
        if headline.rewarded < TOO_FEW_EFFECTIVE:
            return f"{headline.policy}: {headline.refusal}"
    return None


def _hopeless(gap: _Gap, decided: bool) -> str | None:
    """Why `compare` could not tell from any number of rows; None if it could."""
    if math.isinf(gap.spread):
        return (
            "The standard error is infinite: there is only one cluster, a policy is known through "
            "too few draws, or the numbers are too large."
        )
    if gap.unsupported > 0.0 and gap.low <= 0.0 <= gap.high:
        return (
            f"{gap.unsupported:.1%} of their probability is where they differ and the logger never "
            f"goes; rewards there could put the difference anywhere from {gap.low:.3g} to "
            f"{gap.high:.3g}. More rows of this log would not help: log some decisions that "
            f"explore these candidates."
        )
    if not decided and gap.second.name == LOGGED:
        # As `evaluate` says it: one log, one answer.
        refusals = (f"{row.policy}: {row.refusal}" for row in gap.headlines if row.refusal)
        return next(refusals, None)
    return None


def _rows_needed(gap: _Gap, interval: Interval, n: int) -> tuple[float, float]:
    """How many more rows `compare` needs to tell two policies apart: on average, and with 80 %.

    With f times the rows, what is noise or measured bias now is smaller by √f; the worst case
    where the logger never goes stays. So 0 is left out when goal − reach/√f is above 0.
    """
    if gap.low > 0.0:
        goal, reach = gap.low, gap.low - interval.low
    elif gap.high < 0.0:
        goal, reach = -gap.high, interval.high - gap.high
    else:
        return math.inf, math.inf
    rewarded = min(headline.rewarded for headline in gap.headlines)
    if rewarded == 0.0:
        return math.inf, math.inf
    least = max(TOO_FEW_EFFECTIVE / rewarded, 1.0)

    def rows(reach: float) -> float:
        return _round_up(n * (max((reach / goal) ** 2, least) - 1.0))

    return rows(reach), rows(reach + _POWER_80 * gap.spread)


def _round_up(rows: float) -> float:
    """Rows that `compare` needs, in two digits and zeros, at least 1; infinite beyond 1e15."""
    if not rows < 1e15:
        return math.inf
    step = 10.0 ** max(math.floor(math.log10(max(rows, 1.0))) - 1, 0)
    return max(math.ceil(rows / step) * step, 1.0)
