"""The plan: what must be fixed before the one scan of a log.

Made from a sample (`evidence._sources`) of at most 200,000 decisions with four million candidates
(the whole log when it is smaller): the recalibrated model, the parameters of estimators that were
left open, and the centres of the self-normalised ones. Everything in it is a few hundred numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.errors import LogError, ParameterError
from offpolicy.estimators import Estimator, parse
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._fit_noise import fit_variance
from offpolicy.evidence._model_error import BANDS, EDGES, GRID, Bands, band_table
from offpolicy.evidence._recalibration import FOLDS, Prediction, Recalibration
from offpolicy.evidence._sources import Source, thinned
from offpolicy.evidence._summary_sums import classes_of
from offpolicy.evidence._tuning import tune
from offpolicy.logs import width_of
from offpolicy.results import Tuned

SAMPLE = 200_000
"""Decisions from which the plan is made."""
SAMPLE_CANDIDATES = 4_000_000
"""Candidates they may have together, if there are many to a decision."""
FIT_ROWS, FIT_CANDIDATES = 5_000, 500_000
"""Decisions, and candidates they may have, from which it is found how noisy its model is."""
TUNING_CANDIDATES = 100_000
"""Candidates over which the theory's terms are summed for every value of a parameter."""


class RewardRange(NamedTuple):
    """Where rewards lie, and how that is known: "declared", "binary" or "observed"."""

    low: float
    high: float
    known: str

    @property
    def span(self) -> float:
        return self.high - self.low


def range_of_rewards(source: Source, declared: tuple[float, float] | None = None) -> RewardRange:
    """The plan's range of rewards: declared, else 0 and 1 if none are other, else as observed."""
    low, high, binary = source.rewards
    if declared is not None:
        a, b = declared_range(declared)
        if low < a or high > b:
            place, reward = source.find_reward_outside(a, b)
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

    n: int
    columns: frozenset[str]
    """What is at hand: propensity, logging, policy, prediction."""
    reward_range: RewardRange
    usual: float | None
    """See `usual_reward`."""
    recalibration: Recalibration
    sampled: int
    """Decisions on which it was fitted."""
    fit_variance: Floats
    """What the noise of that fit adds to the variance of the headline, for every M of the grid."""
    members: tuple[Estimator, ...]
    centres: tuple[Centre, ...]
    tuned: tuple[Tuned | None, ...]
    """For each member, how its parameter was chosen; None if it came with one."""
    classes: Floats
    """Between which predictions the classes lie in which the model's calibration is looked at."""
    first_row: int
    """The position of the log's first row, if it is a part of another."""


def sample_size(width: float) -> int:
    """How many decisions of ``width`` candidates each a plan's sample has, before the walk."""
    return _at_most(SAMPLE, SAMPLE_CANDIDATES, width)


def sample_of(source: Source) -> list[Block]:
    """The sample that plans are made from, one block for every policy of the source; checked."""
    sample = source.sample(sample_size(source.width))
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
    log, width = sample.log, width_of(sample.log.offsets)
    recalibration = Recalibration.fitted(
        log, sample.target.flat, sample.delta_hat, (rewards.low, rewards.high)
    )
    noise = np.zeros(len(GRID))
    if log.propensity is not None:
        part = thinned(sample, _at_most(FIT_ROWS, FIT_CANDIDATES, width))
        noise = fit_variance(part, recalibration, GRID) * (len(part.log) / len(log))
    tuned: list[Tuned | None] = [None] * len(members)
    if any(not member.resolved for member in members):
        part = thinned(sample, _at_most(SAMPLE, TUNING_CANDIDATES, width))
        look = look_at(part, recalibration)
        curve = headline_curve(look, n)
        for j, member in enumerate(members):
            if not member.resolved:
                tuned[j] = tune(
                    member,
                    part,
                    look.tilde,
                    look.bands,
                    n=n,
                    reward_range=(rewards.low, rewards.high),
                    rule=rule,
                    headline=float(curve.value[curve.best]),
                )
    resolved = tuple(
        member if choice is None else parse(choice.estimator)
        for member, choice in zip(members, tuned, strict=True)
    )
    return Plan(
        n,
        sample.columns,
        rewards,
        usual_reward(log.reward),
        recalibration,
        len(log),
        noise,
        resolved,
        tuple(_centre(sample, member) for member in resolved),
        tuple(tuned),
        classes_of(sample),
        first_row,
    )


def _at_most(decisions: int, candidates: int, width: float) -> int:
    """How many decisions of ``width`` candidates each a plan looks at."""
    return min(decisions, int(candidates / width) + 1)


def usual_reward(reward: Floats) -> float | None:
    """For the plan, the reward of at least half of the sample's rows, if there is one: that of
    decisions which led to nothing."""
    middle = float(np.partition(reward, (len(reward) - 1) // 2)[(len(reward) - 1) // 2])
    return middle if 2 * np.count_nonzero(reward == middle) >= len(reward) else None


class Look(NamedTuple):
    """Rows with the recalibrated model's predictions and the bands they fill."""

    block: Block
    tilde: Prediction
    bands: Bands


def look_at(block: Block, recalibration: Recalibration, usual: float | None = None) -> Look:
    """Predict a block's rewards with the recalibrated model and take its bands."""
    if block.compiled and block.target.flat is not None:
        return _look_compiled(block, recalibration, usual)
    tilde = recalibration.predict(block.log, block.target.flat, block.delta_hat)
    residual = block.log.reward - tilde.chosen
    bands = Bands.of(block.log, block.target.flat, block.c, residual, tilde.flat, usual, tilde.gap)
    return Look(block, tilde, bands)


def _look_compiled(block: Block, fit: Recalibration, usual: float | None) -> Look:
    """`look_at` a block in one compiled pass, which holds no prediction but those it returns."""

    log, features = block.log, fit.features
    nothing: Floats = np.empty(0)
    assert block.target.flat is not None
    modelled, at_chosen = np.empty((2, len(log)))
    sums, unsupported = np.zeros((BANDS, 5)), np.zeros(2)
    from offpolicy.evidence._candidate_kernels import recalibrated_sums

    recalibrated_sums(
        log.offsets,
        log.chosen,
        block.target.flat,
        nothing if log.logging is None else log.logging,
        block.delta_hat if features.has_prediction else nothing,
        nothing if log.row_weight is None else log.row_weight,
        log.fold(FOLDS),
        fit.raw_coefficients(),
        fit.kept,
        np.array([fit.low, fit.high, features.low, features.high, features.trace]),
        np.append(EDGES, np.inf),
        band_table(),
        modelled,
        at_chosen,
        sums,
        unsupported,
    )
    residual = log.reward - at_chosen
    if log.logging is None:
        bands = Bands.of(log, None, block.c, residual, None, usual)
    else:
        bands = Bands.compiled(log, block.c, residual, usual, sums, unsupported)
    return Look(block, Prediction(modelled, at_chosen, None), bands)


class HeadlineCurve(NamedTuple):
    """CAB-DR with the recalibrated model on the grid of M: what the choice is made from."""

    value: Floats
    variance: Floats
    bias: Floats
    bias_stderr: Floats
    imputed_mass: Floats

    @property
    def mse(self) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            mse = self.variance + self.bias**2 + self.bias_stderr**2
        return np.where(np.isfinite(mse), mse, np.inf)

    @property
    def best(self) -> int:
        return int(np.argmin(self.mse))


def headline_curve(look: Look, n: int) -> HeadlineCurve:
    """From a sample, the headline's error at every M of the grid, for a log of ``n`` rows."""
    log, tilde = look.block.log, look.tilde
    omega = log.weights
    omega = omega / omega.mean()
    weighted = omega * (log.reward - tilde.chosen)
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.array([(np.minimum(look.block.c, M) * weighted).mean() for M in GRID])
        spread = tilde.modelled - (omega * tilde.modelled).mean()
        modelled = float((omega * omega * spread * spread).mean())
    return curve_from(value + float((omega * tilde.modelled).mean()), modelled, look.bands, n)


def curve_from(value: Floats, modelled: float, bands: Bands, n: int) -> HeadlineCurve:
    """The headline's curve on the grid of M, by theory; ``modelled`` is the variance of Σ πδ̃."""
    c = bands.mean_weight
    observed = np.minimum(c, GRID[:, None])
    left = bands.left(observed)
    bias, bias_stderr = bands.error.bias(left, bands.apart(observed))
    return HeadlineCurve(
        value=value,
        variance=(modelled + bands.noise(observed)) / n,
        bias=bias,
        bias_stderr=bias_stderr,
        imputed_mass=left.sum(axis=1) + bands.unsupported[0] / bands.weight,
    )


def _centre(sample: Block, member: Estimator) -> Centre:
    if not member.self_normalised:
        return Centre()
    log = sample.log
    omega = log.weights
    residual = log.reward
    with np.errstate(over="ignore", invalid="ignore"):
        if member.imputes is not None:
            residual = residual - sample.delta_hat_chosen
        total = float((omega * sample.c).sum())
        ratio = float((omega * sample.c * residual).sum() / total) if total > 0.0 else math.nan
        weight = total / float(omega.sum())
    return Centre(ratio, weight) if math.isfinite(ratio) else Centre()
