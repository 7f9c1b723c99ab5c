"""From where on something is worth a finding, and how likely it is chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.results import Severity

FALSE_ALARM = 1e-3
"""A test calls an honest log dishonest at most this often."""
UNSUPPORTED_MASS = (1e-6, 1e-3, 0.05)
"""Mass without support from which it is a note, a warning, a problem: the bias it may cause, in
units of the rewards' range."""
FEW_EFFECTIVE, TOO_FEW_EFFECTIVE = 100, 20
"""Effective rows (or rewarded rows, or clicks) below which intervals are wide, and below which
the number could be anything."""
FEW_EFFECTIVE_SHARE = 0.01
"""Effective rows, as a share of all, below which most of the log is of no use."""
PROBABILITY_ERROR = (0.0, 0.01, 0.1)
"""Relative error of probabilities from which it is a note, a warning, a problem: 1 % hides behind
most standard errors, and 10 % of the value is what many questions turn on."""


def tail(excess: Any, variance: Any, bound: Any) -> Floats:
    """How likely, at most, a finding is chance: a sum this far above its mean (Bennett).

    1 where nothing varies, as all that is left then is rounding (of which Bennett makes nothing
    elsewhere: the exponent is at most t/b·log(1 + tb/V)).
    """
    excess, variance = np.asarray(excess, dtype=float), np.asarray(variance, dtype=float)
    varies = (excess > 0.0) & (variance > 0.0) & np.isfinite(variance)
    with np.errstate(all="ignore"):
        u = excess * bound / variance
        exponent = variance / bound / bound * ((1.0 + u) * np.log1p(u) - u)
        return np.where(varies & ~np.isnan(exponent), np.exp(-exponent), 1.0)


def grade(value: float, steps: tuple[float, float, float]) -> Severity | None:
    """How bad a finding is: note, warning or problem, from these values on."""
    note, warning, problem = steps
    if value >= problem:
        return "problem"
    if value >= warning:
        return "warning"
    return "note" if value >= note else None


def percent(share: float) -> str:
    """A share in a finding's sentence: with two digits; whole from 99.5% on."""
    return f"{100.0 * share:.2g}%" if share < 0.995 else f"{100.0 * share:.0f}%"
