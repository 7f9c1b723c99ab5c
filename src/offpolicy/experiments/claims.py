"""What the paper says, whether it holds, and what was measured.

The rule for verdicts. A claim is about a quantity that is small where it holds: for "A beats B" the
logarithm of A's error over B's, so that a mean over runs is a ratio. If it is about several things
(CAB against each of six others) it has so many *parts*, and must hold of all. Every part has a 95%
interval for its mean over runs or splits, by Student's t; values that are compared come from the
same runs. The claim *holds* if every interval is below the margin, *fails* if one (at a level that
allows for the number of parts) is above it, and otherwise *cannot be told*. The margin is 0, unless
the claim's word is vague: what "among the best" may lag behind is said beside the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.tables import paper_name, short

_Size = TypeVar("_Size", int, float)


# -- the rule --------------------------------------------------------------------------------------

HOLDS, FAILS, OPEN = "holds", "fails", "cannot be told"
VERDICTS = (HOLDS, FAILS, OPEN)
TENTH = math.log(1.1)
"""What vague words are allowed here, as a logarithm: a tenth."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and the part of the claim that decides it (the worst one)."""

    verdict: str
    part: str
    mean: float
    low: float
    high: float
    runs: int
    logarithms: bool = True
    """Of ratios; otherwise numbers are shown as they are."""

    def __str__(self) -> str:
        """ "fails: CAB/DM 1.2 [1.1, 1.31]"."""
        return f"{self.verdict}: {self.part} {self.numbers}"

    @property
    def numbers(self) -> str:
        """The mean and its interval, of ratios as ratios."""
        low, high = map(self._text, (self.low, self.high))
        return f"{self.middle} [{low}, {high}]" if self.runs > 1 else self.middle

    @property
    def middle(self) -> str:
        """The mean alone."""
        return self._text(self.mean)

    def _text(self, value: float) -> str:
        value = math.exp(min(value, 700.0)) if self.logarithms else value
        return f"{value:.3g}" if 5e-4 < abs(value) < 1000.0 else short(value)


def judge(
    parts: Mapping[str, Sequence[float] | Floats],
    margin: float = 0.0,
    *,
    strict: bool = False,
    logarithms: bool = True,
) -> Judged:
    """Whether the mean of every part is at most ``margin`` (below it, if ``strict``)."""
    found, least = [], []
    for name, values in parts.items():
        mean = float(values[0] if len(set(values)) == 1 else np.mean(values))
        half, wide = (half_width(values, share) for share in (1, len(parts)))
        low, lowest = (-math.inf if x == math.inf else mean - x for x in (half, wide))
        found.append(Judged("", name, mean, low, mean + half, len(values), logarithms))
        least.append(lowest)
    highest = max(found, key=lambda part: part.high)
    if highest.high < margin or (not strict and highest.high == margin):
        return replace(highest, verdict=HOLDS)
    worst = max(least)
    if worst > margin or (strict and worst == margin):
        return replace(found[least.index(worst)], verdict=FAILS)
    return replace(max(found, key=lambda part: part.mean), verdict=OPEN)


def judge_one(
    name: str, values: Sequence[float] | Floats, limit: float, *, of_ratio: bool
) -> Judged:
    """Whether the mean of one number is at most ``limit``; of a ratio that of its logarithm."""
    if not of_ratio:
        return judge({name: values}, limit, logarithms=False)
    logs = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    return judge({name: logs}, math.log(limit))


def half_width(values: Sequence[float] | Floats, parts: int) -> float:
    """Of the 95% interval for a claim's mean over runs, for one of so many parts; one run says
    nothing."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return math.inf
    if len(set(values)) == 1:
        return 0.0
    if not np.isfinite(values).all():
        return math.inf
    return float(stdtrit(n - 1, 1.0 - 0.025 / parts) * np.std(values, ddof=1) / math.sqrt(n))


def counted(judged: Iterable[Judged]) -> str:
    """How often a claim holds, fails, and cannot be told: "7/0/2"."""
    verdicts = [one.verdict for one in judged]
    return "/".join(str(verdicts.count(one)) for one in VERDICTS)


def log_ratios(errors: Mapping[str, Floats], name: str, others: Iterable[str]) -> dict[str, Floats]:
    """Parts of a claim that ``name`` has a lower error than each of the others."""
    return {
        f"{paper_name(name)}/{paper_name(other)}": np.log(errors[name] / errors[other])
        for other in others
        if other != name
    }


# -- claims about curves ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A sentence about curves of bias, variance and mean squared error, and how it is measured.

    The number is small where the claim holds: at most ``limit``, its margin.
    """

    text: str
    number: str
    """What the number is."""
    measure: Callable[[Accuracy], float]
    limit: float
    every_size: bool = False
    """Whether it is about logs of every size; otherwise about those of one."""
    place: str = ""
    """Where the paper says so."""
    about: Sequence[str] = ("CAB",)
    """The estimators without which there is nothing to measure."""
    of_ratio: bool = True
    """Whether it is a ratio of errors: its mean over splits is then of logarithms."""

    def measured(self, curves: Mapping[_Size, Accuracy], size: _Size, start: float) -> float:
        """At ``size``, or at the worst if it is about every size; M from ``start`` on."""
        sizes = curves.values() if self.every_size else [curves[size]]
        return max(self.measure(accuracy.above(start)) for accuracy in sizes)
