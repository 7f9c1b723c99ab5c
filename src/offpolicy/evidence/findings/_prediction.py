"""What the predictions show: is the reward model right about the log itself?"""

from __future__ import annotations

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._limits import FALSE_ALARM, TOO_FEW_EFFECTIVE, percent
from offpolicy.evidence._plan import usual_reward
from offpolicy.evidence.findings._chance import Rows, kish
from offpolicy.logs import BanditLog
from offpolicy.results import Finding, Severity, finding

BEYOND = 0.1
"""Predictions may leave the range by a tenth of it: straight lines do."""
SETTLED = 50
"""A mean may be far off because its largest terms have not come up yet, if its squares rest on
fewer rows than this: 0.8 % of honest logs of heavy rewards were called miscalibrated without."""
LEAST_MISCALIBRATION = 0.05
"""Share of the mean reward (or of its spread, if that is less) by which a model may be off."""


def about_found_prediction(found: bool) -> list[Finding]:
    """The finding of a reward model that nobody named."""
    sentence = 'The column "prediction" was taken for the estimates of a reward model.'
    return finding("prediction-found", "note" if found else None, sentence)


def about_prediction(
    log: BanditLog, delta_hat: Floats, limits: tuple[float, float] | None
) -> list[Finding]:
    """Findings on predictions: within the range, different between actions?"""
    low, high, N = float(delta_hat.min()), float(delta_hat.max()), len(delta_hat)
    if limits is None and _is_binary(log.reward):
        limits = (0.0, 1.0)
    least, most = limits or (float(log.reward.min()), float(log.reward.max()))
    outside = int(np.count_nonzero((delta_hat < least) | (delta_hat > most)))
    far = max(least - low, high - most) > BEYOND * (most - least)
    sentence = (
        f"{outside:,} of {N:,} predictions ({percent(outside / N)}) are outside the "
        f"{'rewards seen' if limits is None else 'range of rewards'}, {least:g} to {most:g}: they "
        f"go from {low:g} to {high:g}."
    )
    severity: Severity | None = "warning" if far and limits is not None else "note"
    found = finding(
        "prediction-range", severity if outside else None, sentence,
        low=low, high=high, outside=outside,
    )  # fmt: skip
    starts = log.offsets[:-1]
    differ = np.maximum.reduceat(delta_hat, starts) > np.minimum.reduceat(delta_hat, starts)
    alike = not differ.any() and bool((np.diff(log.offsets) > 1).any())
    value = f": {low:g} for all" if low == high else ""
    sentence = f"In every decision the predictions of all candidates are equal{value}."
    return found + finding(
        "constant-prediction", "note" if alike else None, sentence, low=low, high=high
    )


def _is_binary(reward: Floats) -> bool:
    return bool(np.isin(reward, (0.0, 1.0)).all())


def _may_be_unseen(rows: Rows, reward: Floats, x: Floats, error: float) -> bool:
    """Whether a finding is too early: rewards that set the mean right may not have come up yet."""
    usual = usual_reward(reward)
    if usual is not None and np.count_nonzero(reward != usual) < TOO_FEW_EFFECTIVE:
        return True
    heavy_side = error * float((rows.omega * x * x * x).sum()) > 0.0
    return not heavy_side and kish((rows.omega * x) ** 2) < SETTLED


def about_calibration(block: Block, rows: Rows) -> list[Finding]:
    """The finding, if any, that the model gets the mean reward of the log itself wrong."""
    if block.delta_hat is None:
        return []
    log, predicted = block.log, block.delta_hat_chosen
    off = log.reward - predicted
    scale = float(np.abs(off).max())
    if scale == 0.0:
        return []
    x = off / scale
    variance = float(((rows.omega * x) ** 2).sum())
    error, reward = scale * float((rows.omega * x).mean()), float((rows.omega * log.reward).mean())
    if _is_binary(log.reward) and predicted.min() >= 0.0 and predicted.max() <= 1.0:
        by_model = float((rows.omega**2 * predicted * (1.0 - predicted)).sum()) / scale**2
        chance = rows.chance(x, max(variance, by_model), 1.0 / scale)
    elif _may_be_unseen(rows, log.reward, x, error):
        return []
    else:
        chance = rows.chance(x, variance, 1.0)
    spread = float(log.reward.std())
    if chance >= FALSE_ALARM or abs(error) < LEAST_MISCALIBRATION * min(
        abs(reward) or spread, spread
    ):
        return []
    stderr = scale * rows.spread(x) / len(log)
    sentence = (
        f"For what was chosen, the model predicts {reward - error:.4g} on average; the mean reward "
        f"is {reward:.4g} (the difference is known to ±{stderr:.2g})."
    )
    return finding(
        "prediction-calibration", "warning", sentence,
        predicted=reward - error, reward=reward, stderr=stderr, chance=chance,
    )  # fmt: skip
