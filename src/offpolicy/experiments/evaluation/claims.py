"""What the paper says of its figures on evaluation, as measurements that can come out either way.

A claim is measured on one data set at one n, from the curves of bias, variance and mean squared
error, whether these come from repeats or are exact. The number it gives is small where the claim
holds; up to ``limit`` it counts as holding. The paper does not say from which M on its figures are
drawn, so each is measured from 0 and from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.evaluation.accuracy import Accuracy, Outcome, Surveyed

_T = TypeVar("_T")


@dataclass(frozen=True)
class Claim:
    """A sentence, and how it is measured."""

    text: str
    number: str
    """What the number is."""
    measure: Callable[[Accuracy], float]
    limit: float
    every_n: bool = False
    """Whether it is about every n; otherwise about the largest (2,000 in the paper)."""

    def holds(self, measured: float) -> bool:
        return bool(measured <= self.limit)


def _rise(values: Floats) -> float:
    """The largest rise from an earlier value to a later one."""
    return float((values - np.minimum.accumulate(values)).max())


def _over(value: float, other: float) -> float:
    """Their ratio; equal zeros are equal."""
    return float(value / other) if other > 0.0 else 1.0 if value == 0.0 else float("inf")


def _log(mse: Floats) -> Floats:
    return np.log(np.maximum(mse, np.finfo(np.float64).tiny))


def _bias_falls(found: Accuracy) -> float:
    size = np.abs(found.bias["CAB"])
    rise = _rise(size)
    return _over(rise, float(size[0])) if rise > 0.0 else 0.0


def _variance_rises(found: Accuracy) -> float:
    variance = found.variance["CAB"]
    fall = _rise(-variance)
    return fall / float(variance.max()) if fall > 0.0 else 0.0


def dent(mse: Floats) -> float:
    """How far from falling, then rising, as the factor of the largest wrong turn."""
    log, turn = _log(mse), int(mse.argmin())
    return float(np.exp(max(_rise(log[: turn + 1]), _rise(-log[turn:]))))


def _in_the_middle(estimator: str) -> Callable[[Accuracy], float]:
    def ratio(found: Accuracy) -> float:
        mse = found.mse(estimator)
        return _over(mse.min(), min(mse[0], mse[-1]))

    return ratio


def _u_shape(estimator: str) -> Callable[[Accuracy], float]:
    def measure(found: Accuracy) -> float:
        mse = found.mse(estimator)
        inside = 0 < int(mse.argmin()) < len(mse) - 1
        return dent(mse) if inside else float("inf")

    return measure


def _narrowness(found: Accuracy) -> float:
    """One over the decades of M in which CAB's error is at most twice its least."""
    mse = found.mse("CAB")
    drawn = np.isfinite(found.M) & (found.M > 0.0)
    good = int((drawn & (mse <= 2.0 * mse.min())).sum())
    decades = np.ptp(np.log10(found.M[drawn])) / (drawn.sum() - 1)
    return float(1.0 / (good * decades)) if good else float("inf")


def _over_the_range(found: Accuracy) -> float:
    return max(map(_over, found.mse("CAB"), found.mse("CIPS")))


def _no_better(found: Accuracy) -> float:
    """The share of the values of M at which imputing hardly helps."""
    finite = np.isfinite(found.M)
    ratio = found.mse("CAB")[finite] / np.maximum(found.mse("CIPS")[finite], 1e-300)
    return float((ratio > 0.99).mean())


def _best(one: str, *others: str) -> Callable[[Accuracy], float]:
    def ratio(found: Accuracy) -> float:
        return _over(found.best(one), min(map(found.best, others)))

    return ratio


def variation(mse: Floats) -> float:
    """Total variation of the logarithm."""
    return float(np.abs(np.diff(_log(mse))).sum())


def _calmer(found: Accuracy) -> float:
    return _over(variation(found.mse("CAB")), variation(found.mse("SWITCH")))


CLAIMS = (
    Claim("The bias of CAB falls as M grows", "largest rise of its size, relative to the start",
          _bias_falls, 0.05, every_n=True),
    Claim("The variance of CAB rises with M", "largest fall of the variance, relative to its "
          "largest", _variance_rises, 0.05, every_n=True),
    Claim("The best M of CAB is in the middle at every n", "MSE at the best M / at the better end",
          _in_the_middle("CAB"), 0.95, every_n=True),
    Claim("CAB is robust to the choice of M", "1 / decades of M within twice the least MSE",
          _narrowness, 1.0, every_n=True),
    Claim("CAB's MSE is U-shaped", "factor of the largest wrong turn", _u_shape("CAB"), 1.05),
    Claim("CAB-DR's MSE is U-shaped", "factor of the largest wrong turn", _u_shape("CAB-DR"),
          1.05),
    Claim("SB's MSE is U-shaped", "factor of the largest wrong turn", _u_shape("SB"), 1.05),
    Claim("CAB is nowhere worse than cIPS", "largest MSE of CAB / cIPS over M", _over_the_range,
          1.01),
    Claim("CAB beats cIPS for most M", "share of M at which it is not 1% better", _no_better, 0.5),
    Claim("CAB beats SB (on most data sets)", "MSE at the best M / τ", _best("CAB", "SB"), 0.99),
    Claim("CAB-DR beats SB (on most data sets)", "MSE at the best M / τ", _best("CAB-DR", "SB"),
          0.99),
    Claim("CAB is at least comparable to SWITCH", "MSE at the best M / M", _best("CAB", "SWITCH"),
          1.05),
    Claim("SWITCH is more erratic than CAB", "total variation of log MSE, CAB / SWITCH", _calmer,
          1.0),
    Claim("DR beats IPS and DM", "MSE of DR / of the better one", _best("DR", "IPS", "DM"), 0.99),
    Claim("CAB beats DR (on most data sets)", "MSE at the best M / of DR", _best("CAB", "DR"),
          0.99),
    Claim("CAB-DR beats DR (on most data sets)", "MSE at the best M / of DR",
          _best("CAB-DR", "DR"), 0.99),
)  # fmt: skip

STARTS = (0.0, 1.0)


@dataclass(frozen=True)
class Judged:
    """A claim on one data set, M from ``start`` on; if about every n, at the worst of them."""

    claim: Claim
    data: str
    start: float
    measured: float
    """Over the repeats."""
    exact: float

    @property
    def holds(self) -> bool:
        return self.claim.holds(self.measured)


def judge(outcomes: Sequence[Outcome]) -> list[Judged]:
    """Every claim on every data set, M from 0 and from 1."""
    judged = []
    for start in STARTS:
        for claim in CLAIMS:
            for data in dict.fromkeys(outcome.data for outcome in outcomes):
                own = _asked(claim, {o.n: o for o in outcomes if o.data == data})
                found, exact = (
                    max(claim.measure(accuracy.above(start)) for accuracy in kind)
                    for kind in ([o.found for o in own], [o.exact for o in own])
                )
                judged.append(Judged(claim, data, start, found, exact))
    return judged


def _asked(claim: Claim, by_n: dict[int, _T]) -> list[_T]:
    """At every n, or at the largest."""
    return list(by_n.values()) if claim.every_n else [by_n[max(by_n)]]


def surveyed(claim: Claim, start: float, problems: Sequence[Surveyed]) -> int:
    """In how many of them the claim holds, exactly."""
    return sum(
        all(
            claim.holds(claim.measure(accuracy.above(start)))
            for accuracy in _asked(claim, problem.accuracy)
        )
        for problem in problems
    )


def to_markdown(judged: Sequence[Judged], problems: Sequence[Surveyed]) -> str:
    """A table for M from 0 on and one for M from 1 on: a row for each claim."""
    sets = list(dict.fromkeys(row.data for row in judged))
    lines = []
    for start in STARTS:
        lines += [
            f"M from {start:g} on. Measured over the repeats (and exactly): "
            "✓ where the claim holds, ✗ where it does not.",
            "",
            f"| claim | number | holds up to | {' | '.join(sets)} |"
            + (f" of all {len(problems)} readings and splits |" if problems else ""),
            f"|---|---|---|{'---|' * (len(sets) + bool(problems))}",
        ]
        for claim in CLAIMS:
            own = [row for row in judged if row.claim is claim and row.start == start]
            cells = [f"{_mark(claim, r.measured)} ({_mark(claim, r.exact)})" for r in own]
            if problems:
                cells.append(str(surveyed(claim, start, problems)))
            lines.append(
                f"| {claim.text} | {claim.number} | {claim.limit:g} | {' | '.join(cells)} |"
            )
        lines.append("")
    return "\n".join(lines)


def _mark(claim: Claim, value: float) -> str:
    text = "∞" if np.isinf(value) else f"{value:.2g}" if value < 100.0 else f"{value:.0e}"
    return f"{text} {'✓' if claim.holds(value) else '✗'}"
