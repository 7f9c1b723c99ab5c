"""Findings: what a user should know about a log, how bad it is, and what to do about it.

`offpolicy.checks` looks for all of them; the scan that `evaluate` makes comes across some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np

from offpolicy._core.types import Floats

Severity = Literal["note", "warning", "problem"]
ORDER: tuple[Severity, ...] = ("problem", "warning", "note")

ADVICE = {
    "clusters": "Log for longer, or name finer clusters (users rather than days) if these are "
    "independent of each other.",
    "constant-prediction": "Such a model can steady an estimate, but not tell one action from "
    "another. Check that it is given the candidates.",
    "constant-propensity": "Check that it is not a stand-in. If the logger chose among some of the "
    "candidates only, list only those.",
    "constant-reward": "Every policy then looks the same. Check that this is the right column.",
    "deterministic": "These rows say nothing about any other action. Check that 1 is the truth and "
    "not a stand-in; to learn more, let the logger explore.",
    "drift": "An answer is about the whole time of the log, on average. Look at what changed, and "
    "use the part that is like the time to come. (If rows are sorted by something else, give "
    "time.)",
    "dropped": "An answer is about the rows that are left, and off if it is no accident which rows "
    "are malformed. Correct the export.",
    "duplicates": "Look for a double write, or a join that multiplies rows, and keep each decision "
    "once. Standard errors are too small otherwise, unless all copies of a row are in one cluster.",
    "effective-size": "Log more decisions, explore more, or ask about a policy that is closer to "
    "the logger.",
    "frequencies": "The logged probabilities are not those of the system that chose. Look for a "
    "rule or a filter behind the draw, for rounding, or for probabilities of another version or "
    "another action. Until it is found, estimate them from the log.",
    "heavy-weights": "Use an estimator that bounds the weights (CAB-DR; CIPS without a model). The "
    "standard errors of IPS, SNIPS and DR are not to be trusted here.",
    "no-propensity": "Log the probability with which each action was drawn. Without it, only DM "
    "works.",
    "prediction-calibration": "DM is off by as much, and the other estimators then lean on their "
    "weights. Fit the model anew, or recalibrate it on a part of the log.",
    "prediction-range": "Clip them, or use a model that keeps to the range (a classifier, for "
    "rewards of 0 and 1).",
    "rare-rewards": "Log more decisions, or use a reward that comes more often (clicks rather than "
    "orders).",
    "reward-outlier": "Check that it is real: a single such row can decide the answer.",
    "reward-range": "Declare the range as it is, or correct the rewards. Bounds that use the range "
    "are untrue.",
    "reward-values": "Make sure that each is an amount and not a code (−1 for missing, say); then "
    "declare reward_range.",
    "rounded-propensities": "Log propensities with all their digits.",
    "sample": "What is rare in the log may be missing here. To look at every row, check the log in "
    "parts.",
    "support": "No reward in the log speaks for it: estimators fill it in from the model (DM, DR, "
    "CAB) or with 0 (IPS). Let the logger try these actions, or keep the policy off them.",
    "thin-support": "Use an estimator that clips, with a reward model (CAB-DR), or let the logger "
    "try these actions more often.",
    "weight-drift": "With true propensities weights average 1 at all times, but for what is "
    "clipped or has no support. Look at what changed: the logger, the candidates, or the policy.",
    "weight-mean": "The logged probabilities, or the policy's, are not those of what was chosen, "
    "in a way that matters for this policy. See also frequencies.",
}  # fmt: skip
"""Every code a finding can have, and what to do about it."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a log that its user should know.

    Attributes
    ----------
    code : a key of `ADVICE`
    severity : "note", "warning" or "problem"
        A problem: the answer may be plainly wrong, or there is none. A warning: it may be off by
        more than its standard error says. A note: good to know.
    policy : name of the policy concerned, or None if it is the log itself
    message, advice : what was found, and what to do
    numbers : the numbers of the message, for programs
    """

    code: str
    severity: Severity
    policy: str | None
    message: str
    advice: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict, hash=False)


# -- from where on -----------------------------------------------------------------------------

ALPHA = 1e-3
"""A test calls an honest log dishonest at most this often."""
UNSUPPORTED = (1e-6, 1e-3, 0.05)
"""Mass without support from which it is a note, a warning, a problem: the bias it may cause, in
units of the rewards' range."""
TOP, TOP_SHARE = 0.01, (0.2, 0.3, 0.7)
"""The heaviest hundredth of the rows, and the share of all weight it may hold. Of log-normal
weights it holds 9 % with σ = 1, 37 % with σ = 2, and 75 % with σ = 3."""
SMALL, TINY = 100, 20
"""Effective rows below which intervals are wide, and below which the normal ones are untrue."""
SMALL_SHARE = 0.01
"""Effective rows, as a share of all, below which most of the log is of no use."""
OFF_BY = (0.0, 0.01, 0.1)
"""Relative error of probabilities from which it is a note, a warning, a problem: 1 % hides behind
most standard errors, and 10 % of the value is what many questions turn on."""
TENTHS, FEWEST_FOR_DRIFT = 10, 200
"""Drift is looked for between tenths, of at least 20 rows, and between halves."""
DRIFT = 0.05
"""Less than 5 % of the mean (or of the spread, if that is less) is not worth a word."""
CALIBRATION = 0.05
"""Share of the mean reward (or of its spread, if that is less) by which a model may be off."""


def tail(excess: Any, variance: Any, bound: Any) -> Floats:
    """How likely, at most, a sum is this far above its mean: Bennett's inequality.

    1 where nothing varies, as all that is left then is rounding (of which Bennett makes nothing
    elsewhere: the exponent is at most t/b·log(1 + tb/V)).
    """
    excess, variance = np.asarray(excess, dtype=float), np.asarray(variance, dtype=float)
    varies = (excess > 0.0) & (variance > 0.0) & np.isfinite(variance)
    with np.errstate(all="ignore"):
        u = excess * bound / variance
        exponent = variance / bound**2 * ((1.0 + u) * np.log1p(u) - u)
        return np.where(varies, np.exp(-exponent), 1.0)


def finding(
    code: str,
    severity: Severity | None,
    message: str,
    policy: str | None = None,
    **numbers: float | int | str,
) -> list[Finding]:
    """The finding, if it is severe enough to be one."""
    if severity is None:
        return []
    return [Finding(code, severity, policy, message, ADVICE[code], numbers)]


def grade(value: float, steps: tuple[float, float, float]) -> Severity | None:
    """Note, warning or problem from these values on."""
    note, warning, problem = steps
    if value >= problem:
        return "problem"
    if value >= warning:
        return "warning"
    return "note" if value >= note else None


def percent(share: float) -> str:
    """With two digits; whole from 99.5% on."""
    return f"{100.0 * share:.2g}%" if share < 0.995 else f"{100.0 * share:.0f}%"
