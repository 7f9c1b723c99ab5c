"""The plan: what must be fixed before the one scan of a log.

Made from a sample (`evidence._sources`) of at most 200,000 decisions with four million candidates
(the whole log when it is smaller): the recalibrated model, the parameters of estimators that were
left open, and the centres of the self-normalised ones. Everything in it is a few hundred numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.parallel import each_block
from offpolicy._core.types import Floats
from offpolicy.errors import LogError, ParameterError
from offpolicy.estimators import Estimator, parse
from offpolicy.evidence._blocks import Block, blocks
from offpolicy.evidence._clip_path import ClipPath, Modelled, apply_model, kurtosis
from offpolicy.evidence._recalibration import Prediction, Recalibration, constant, regression
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.evidence._sources import Source, thinned
from offpolicy.evidence._stretches import Stretches
from offpolicy.evidence._summary_sums import classes_of
from offpolicy.evidence._tuning import tune
from offpolicy.intervals import Interval
from offpolicy.results import Tuned

SAMPLE = 200_000
"""Decisions from which the plan is made."""
SAMPLE_CANDIDATES = 4_000_000
"""Candidates they may have together, if there are many to a decision."""
_PREFERRED = 0.7
"""A constant is preferred to a regression whose error is more than one over this as large."""
GUARDS = ("SNIPS", "DR")
"""Estimators that the headline is held against; part of every walk, as far as they can be."""
TUNING_CANDIDATES = 100_000
"""Candidates over which the theory's terms are summed for every value of a parameter."""
LARGE_SAMPLE = 2 * TUNING_CANDIDATES
"""Candidates from which on not every prediction of a sample is held."""


class RewardRange(NamedTuple):
    """Where rewards lie, and how that is known: "declared", "binary" or "observed"."""

    low: float
    high: float
    known: str

    @property
    def span(self) -> float:
        return self.high - self.low

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high)

    def cut(self, interval: Interval) -> Interval | None:
        """What of an interval can be, if the range is known; None if nothing can."""
        if self.known == "observed":
            return interval
        low, high = max(interval.low, self.low), min(interval.high, self.high)
        return Interval(low, high) if low <= high else None


def range_of_rewards(source: Source, declared: tuple[float, float] | None = None) -> RewardRange:
    """The plan's range of rewards: declared, else 0 and 1 if none are other, else as observed."""
    low, high, binary = source.log.rewards
    if declared is not None:
        a, b = declared_range(declared)
        if low < a or high > b:
            place, reward = source.log.find_reward_outside(a, b)
            sentence = f"{reward} is outside the declared range [{a:g}, {b:g}]. Correct either."
            raise LogError(sentence, place)
        return RewardRange(a, b, "declared")
    if binary:
        return RewardRange(0.0, 1.0, "binary")
    return RewardRange(low, high, "observed")


def declared_range(limits: Any) -> tuple[float, float]:
    """What a verb was given as ``reward_range``, checked for the plan."""
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ParameterError(
            f"reward_range is {limits!r}; it must be two numbers, the least and the greatest "
            f"reward there can be.",
            column="reward_range",
        )
    return low, high


class Centre(NamedTuple):
    """What a ratio is near to, Σcρ/Σc and the mean of c, so that little of it remains to be found.

    Taken from the sample, or the whole log if that is all of it: the ratio that remains is then
    near 0, and its variance nearly that of a single column, so no digits are lost to cancellation.
    """

    ratio: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one scan needs to know."""

    columns: frozenset[str]
    """What is at hand: propensity, logging, policy, prediction."""
    reward_range: RewardRange
    usual: float | None
    """See `usual_reward`."""
    recalibration: Recalibration
    """The model that the headline rests on."""
    centre: float
    """About what rewards are in the mean, so that few digits are lost where sums are centred."""
    kurtosis: Floats
    """Of the headline's contributions, for every M of the grid."""
    members: tuple[Estimator, ...]
    shown: int
    """The first so many were asked for; the rest are `GUARDS`."""
    centres: tuple[Centre, ...]
    tuned: tuple[Tuned | None, ...]
    """For each member, how its parameter was chosen; None if it came with one."""
    classes: Floats
    """Between which predictions the classes lie in which the model's calibration is looked at."""
    stretches: Stretches
    """Into which the log is cut; its first row has another position than 0 if it is a part of
    another."""

    @property
    def exact(self) -> bool:
        """Whether π and π₀ are known of every candidate."""
        return {"logging", "policy"} <= self.columns


def sample_size(width: float) -> int:
    """How many decisions of ``width`` candidates each a plan's sample has, before the walk."""
    return _at_most(SAMPLE, SAMPLE_CANDIDATES, width)


def sample_of(source: Source) -> list[Block]:
    """The sample that plans are made from, one block for every policy of the source; checked."""
    sample = source.sample(sample_size(source.log.width))
    for block in sample:
        block.check_whole()
    return sample


def make_plan(
    sample: Block,
    n: int,
    rewards: RewardRange,
    members: Sequence[Estimator],
    *,
    rule: str = "theory",
    first_row: int = 0,
) -> Plan:
    """The plan: what a sample of a log of ``n`` decisions fixes before the walk."""
    shown, members = len(members), _with_guards(members, sample.columns)
    fitted = _tried(sample, regression(sample, (rewards.low, rewards.high)), n)
    best = _best(sample, fitted, n)
    tuned: list[Tuned | None] = [None] * len(members)
    left_open = [j for j, member in enumerate(members) if not member.resolved]
    if left_open:
        part = thinned(sample, _at_most(SAMPLE, TUNING_CANDIDATES, sample.log.width))
        looked = fitted if part is sample else _tried(part, fitted.model, len(part.log))
        for j in left_open:
            tuned[j] = tune(
                members[j], looked.rows, looked.curve, n=n, span=rewards.span, rule=rule
            )
    resolved = tuple(
        member if choice is None else parse(choice.estimator)
        for member, choice in zip(members, tuned, strict=True)
    )
    return Plan(
        sample.columns,
        rewards,
        usual_reward(sample.log.reward),
        best.model,
        best.rows.path.centre,
        kurtosis(best.rows),
        resolved,
        shown,
        tuple(_centre(sample, member) for member in resolved),
        tuple(tuned),
        classes_of(sample),
        Stretches(first_row, n),
    )


def _with_guards(members: Sequence[Estimator], columns: frozenset[str]) -> list[Estimator]:
    """The plan's estimators: those asked for, and those that guard the headline."""
    names = {member.name for member in members}
    guards = [parse(name) for name in GUARDS if name not in names]
    return [*members, *(guard for guard in guards if guard.needs <= columns)]


class _Tried(NamedTuple):
    """A model that the headline may rest on, on the sample."""

    model: Recalibration
    rows: Modelled
    curve: RiskCurve


def _tried(sample: Block, model: Recalibration, n: int) -> _Tried:
    """What a model makes of a sample of a log of ``n`` rows."""
    rows = _modelled(sample, model)
    grown = max(n / len(sample.log), 1.0)
    exact = {"logging", "policy"} <= sample.columns
    return _Tried(model, rows, RiskCurve.of(rows.path, exact=exact, grown=grown))


def _best(sample: Block, fitted: _Tried, n: int) -> _Tried:
    """The regression, or the constant if its estimated error at the interval's M is clearly
    less."""
    model = fitted.model
    if model.kind == "constant" or sample.log.propensity is None:
        return fitted
    plain = _tried(sample, constant(sample, (model.low, model.high)), n)
    error, other = (float(each.curve.cautious_mse.min()) for each in (fitted, plain))
    return plain if other < _PREFERRED * error else fitted


def _modelled(sample: Block, model: Recalibration) -> Modelled:
    """The sample with a model's predictions; made block by block, if it is large."""
    centre = float(sample.log.reward.mean())
    if int(sample.log.offsets[-1]) < LARGE_SAMPLE:
        return apply_model(sample, model, centre)
    made = blocks(sample.log, sample.target, sample.delta_hat, trusted=True)
    parts = list(each_block(lambda block: apply_model(block, model, centre), made))
    modelled, chosen = (
        np.concatenate([getattr(part.prediction, name) for part in parts])
        for name in ("modelled", "chosen")
    )
    path = functools.reduce(ClipPath.__add__, (part.path for part in parts))
    return Modelled(sample, Prediction(modelled, chosen, None), path)


def _at_most(decisions: int, candidates: int, width: float) -> int:
    """How many decisions of ``width`` candidates each a plan looks at."""
    return min(decisions, int(candidates / width) + 1)


def usual_reward(reward: Floats) -> float | None:
    """For the plan, the reward of at least half of the sample's rows, if there is one: that of
    decisions which led to nothing."""
    least = float(reward.min())
    if 2 * np.count_nonzero(reward == least) >= len(reward):  # known without sorting
        return least
    middle = float(np.partition(reward, (len(reward) - 1) // 2)[(len(reward) - 1) // 2])
    return middle if 2 * np.count_nonzero(reward == middle) >= len(reward) else None


def _centre(sample: Block, member: Estimator) -> Centre:
    if not member.self_normalised:
        return Centre()
    log = sample.log
    omega = log.weights
    residual = log.reward
    with np.errstate(over="ignore", invalid="ignore"):
        if member.uses_model:
            residual = residual - sample.delta_hat_chosen
        total = float((omega * sample.c).sum())
        ratio = float((omega * sample.c * residual).sum() / total) if total > 0.0 else math.nan
        weight = total / float(omega.sum())
    return Centre(ratio, weight) if math.isfinite(ratio) else Centre()
