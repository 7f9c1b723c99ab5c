"""Figure 2: the mean squared error of every estimator over M, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.claims import Claim
from offpolicy.experiments.evaluation.accuracy import Outcome
from offpolicy.experiments.evaluation.figure1 import AXES, over, rise
from offpolicy.experiments.pictures import DEFAULT_STYLE, STYLES, finish, panels


def _log(mse: Floats) -> Floats:
    return np.log(np.maximum(mse, np.finfo(np.float64).tiny))


def dent(mse: Floats) -> float:
    """How far from falling, then rising, as the factor of the largest wrong turn."""
    log, turn = _log(mse), int(mse.argmin())
    return float(np.exp(max(rise(log[: turn + 1]), rise(-log[turn:]))))


def _u_shape(estimator: str) -> Callable[[Accuracy], float]:
    def measure(found: Accuracy) -> float:
        mse = found.mse(estimator)
        inside = 0 < int(mse.argmin()) < len(mse) - 1
        return dent(mse) if inside else float("inf")

    return measure


def _over_the_range(found: Accuracy) -> float:
    return max(map(over, found.mse("CAB"), found.mse("CIPS")))


def _no_better(found: Accuracy) -> float:
    """The share of the values of M at which imputing hardly helps."""
    finite = np.isfinite(found.M)
    ratio = found.mse("CAB")[finite] / np.maximum(found.mse("CIPS")[finite], 1e-300)
    return float((ratio > 0.99).mean())


def _best(one: str, *others: str) -> Callable[[Accuracy], float]:
    def ratio(found: Accuracy) -> float:
        return over(found.best(one), min(map(found.best, others)))

    return ratio


def variation(mse: Floats) -> float:
    """Total variation of the logarithm."""
    return float(np.abs(np.diff(_log(mse))).sum())


def _calmer(found: Accuracy) -> float:
    return over(variation(found.mse("CAB")), variation(found.mse("SWITCH")))


CLAIMS = (
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


def draw(outcomes: Sequence[Outcome], path: Path, headline: dict[str, float]) -> None:
    """A panel for each set (SB: τ from 0 to 1 on the same axis); ``headline`` is the MSE of the
    default, with M chosen from the log, by data set."""
    figure, axes = panels(len(outcomes), 2, margin=0.5)
    for ax, one in zip(axes, outcomes, strict=False):
        AXES.compare(ax, one.found, STYLES)
        if one.data in headline:
            colour, style, width = DEFAULT_STYLE
            ax.axhline(headline[one.data], color=colour, linestyle=style, lw=width,
                       label="our default, M from the log")  # fmt: skip
        low = min([*map(one.found.best, STYLES), headline.get(one.data, np.inf)])
        high = max(one.found.best(name) for name in ("CAB", "SB", "SWITCH", "DM"))
        high = max(high, float(one.found.mse("CAB").max()))
        AXES.frame(ax, f"{one.data}, n = {one.n:,}", (low * 0.6, high * 2.0))
    finish(figure, axes[0], path, "outside lower center", ncols=5)
