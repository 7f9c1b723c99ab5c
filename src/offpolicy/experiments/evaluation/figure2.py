"""Figure 2: the mean squared error of every estimator over M, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.claims import Claim
from offpolicy.experiments.evaluation.accuracy import Outcome
from offpolicy.experiments.evaluation.figure1 import AXES, quotient, rise
from offpolicy.experiments.pictures import DEFAULT_STYLE, STYLES, finish, panels


def _log(mse: Floats) -> Floats:
    return np.log(np.maximum(mse, np.finfo(np.float64).tiny))


def dent(mse: Floats) -> float:
    """For a claim on Figure 2: how far from falling, then rising, by the largest wrong turn."""
    log, turn = _log(mse), int(mse.argmin())
    return float(np.exp(max(rise(log[: turn + 1]), rise(-log[turn:]))))


def _u_shape(estimator: str) -> Callable[[Accuracy], float]:
    def measure(accuracy: Accuracy) -> float:
        mse = accuracy.mse(estimator)
        inside = 0 < int(mse.argmin()) < len(mse) - 1
        return dent(mse) if inside else float("inf")

    return measure


def _over_the_range(accuracy: Accuracy) -> float:
    return max(map(quotient, accuracy.mse("CAB"), accuracy.mse("CIPS")))


def _best(name: str, *others: str) -> Callable[[Accuracy], float]:
    def ratio(accuracy: Accuracy) -> float:
        return quotient(accuracy.best(name), min(map(accuracy.best, others)))

    return ratio


def variation(mse: Floats) -> float:
    """For a claim on Figure 2: total variation of the logarithm."""
    return float(np.abs(np.diff(_log(mse))).sum())


def _calmer(accuracy: Accuracy) -> float:
    return quotient(variation(accuracy.mse("CAB")), variation(accuracy.mse("SWITCH")))


PLACE = "Section 4.2, paragraph 2"
CLAIMS = tuple(replace(claim, place=PLACE) for claim in (
    *(Claim(f"{name}'s MSE is U-shaped", "factor of the largest wrong turn", _u_shape(name), 1.05)
      for name in ("CAB", "CAB-DR", "SB")),
    Claim("CAB outperforms cIPS in the full range of M", "largest MSE of CAB / cIPS over M",
          _over_the_range, 1.01),
    *(Claim(f"{name} beats SB (on most data sets)", "MSE at the best M / τ", _best(name, "SB"),
            0.99) for name in ("CAB", "CAB-DR")),
    Claim("CAB is at least comparable to SWITCH", "MSE at the best M / M", _best("CAB", "SWITCH"),
          1.05),
    Claim("SWITCH is more erratic than CAB", "total variation of log MSE, CAB / SWITCH", _calmer,
          1.0),
    Claim("DR beats IPS and DM", "MSE of DR / of the better one", _best("DR", "IPS", "DM"), 0.99),
    *(Claim(f"{name} beats DR (on most data sets)", "MSE at the best M / of DR", _best(name, "DR"),
            0.99) for name in ("CAB", "CAB-DR")),
))  # fmt: skip


def draw(outcomes: Sequence[Outcome], path: Path, headline: dict[str, float]) -> None:
    """Figure 2, a panel for each set (SB: τ from 0 to 1 on the same axis); ``headline`` is the MSE
    of the default, with M chosen from the log, by data set."""
    figure, axes = panels(len(outcomes), 2, margin=0.5)
    for ax, outcome in zip(axes, outcomes, strict=False):
        AXES.compare(ax, outcome.repeated, STYLES)
        if outcome.data in headline:
            colour, style, width = DEFAULT_STYLE
            ax.axhline(headline[outcome.data], color=colour, linestyle=style, lw=width,
                       label="our default, M from the log")  # fmt: skip
        low = min([*map(outcome.repeated.best, STYLES), headline.get(outcome.data, np.inf)])
        high = max(outcome.repeated.best(name) for name in ("CAB", "SB", "SWITCH", "DM"))
        high = max(high, float(outcome.repeated.mse("CAB").max()))
        AXES.frame(ax, f"{outcome.data}, n = {outcome.n:,}", (low * 0.6, high * 2.0))
    finish(figure, axes[0], path, "outside lower center", ncols=5)
