r"""From the sums of the scan to what is drawn, and to what is worth a warning.

The value over the log comes with a confidence sequence, an interval after every stretch all of
which hold at once: of a mean of t rows with standard deviation s,

.. math:: \bar x_t \pm s_t\,\sqrt{\frac{2(t\rho^2 + 1)}{t^2\rho^2}\,
          \log\frac{\sqrt{t\rho^2 + 1}}{\alpha}},

the boundary of Robbins' normal mixture, with :math:`\rho` such that it is narrowest, for its time,
after a quarter of the log. It holds as far as the central limit theorem does (Waudby-Smith et al.
2024), and takes nothing but sums, so that no row need be kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evidence import _summary_sums as tallies
from offpolicy.evidence._gather import Evidence
from offpolicy.evidence._headline import Known
from offpolicy.evidence._noise import design_effect
from offpolicy.evidence._plan import Plan
from offpolicy.evidence._walk import Scanned
from offpolicy.evidence._weight_bins import EDGES
from offpolicy.evidence.findings import about_size
from offpolicy.evidence.findings._policy import about_support
from offpolicy.evidence.findings._propensities import about_actions
from offpolicy.results import Action, Calibration, Finding, OverLog, Summary, Support, Weights

TOP_ACTIONS = 20
"""Actions that are shown by themselves."""


def make_summary(e: Evidence, known: Known | None) -> Summary:
    """The summary of one policy, from the walk's sums; ``known`` is None without propensities."""
    scanned = e.scanned
    with np.errstate(all="ignore"):
        return Summary(
            e.policy,
            None if known is None else _numbers(known.curve.mass + known.unsupported),
            None if known is None else _weights(scanned),
            _support(scanned, e.plan),
            _calibration(scanned, e.source.trained.kind if e.source.trained else ""),
            None if known is None else _over_log(scanned, known, e.level),
        )


def _weights(scanned: Scanned) -> Weights:
    bins, c = scanned.path.bins, scanned.c
    weight, rows = bins.several("c", "1")
    total = float(weight.sum())
    return Weights(
        edges=_numbers(EDGES),
        rows=_numbers(rows / bins.weight),
        weight=_numbers(weight / total if 0.0 < total < np.inf else 0.0 * weight),
        mass=_numbers(bins.of_candidates[:, 0] / bins.weight),
        unsupported=float(bins.unsupported[0] / bins.weight),
        largest=float(c.high[0]),
        mean=float(c.mean[0]),
        effective=float(c.effective()[0]),
    )


def _support(scanned: Scanned, plan: Plan) -> Support:
    found, total = scanned.tally.actions, scanned.c.weight
    size = np.maximum(found.sums[:, tallies.POLICY], found.sums[:, tallies.CHOSEN])
    order = np.argsort(-size, kind="stable")
    first, rest = order[:TOP_ACTIONS], order[TOP_ACTIONS:]
    first = first[np.argsort(-found.sums[first, tallies.POLICY], kind="stable")]
    others = len(rest) + found.others
    return Support(
        tuple(_action(tallies.shown(found.names[k]), found.sums[k], total) for k in first),
        _action("", found.other + found.sums[rest].sum(axis=0), total) if others else None,
        others,
        {"logging", "policy"} <= plan.columns,
        found.short / total,
    )


def _action(name: str, sums: Floats, total: float) -> Action:
    chosen = float(sums[tallies.CHOSEN])
    return Action(
        name,
        chosen / total,
        float(sums[tallies.EARNED]) / chosen if chosen > 0.0 else None,
        float(sums[tallies.POLICY]) / total,
        float(sums[tallies.LOGGING]) / total,
        float(sums[tallies.UNSUPPORTED]) / total,
    )


def _calibration(scanned: Scanned, trained: str) -> Calibration | None:
    sums = scanned.tally.by_class
    sums = sums[sums[:, 0] > 0.0]
    total = float(sums[:, 0].sum())
    if not len(sums) or not np.isfinite(sums).all():
        return None
    weight, squares = sums[:, 0], sums[:, 1]
    mean = sums[:, tallies.OBSERVED] / weight
    variance = np.maximum(sums[:, tallies.OBSERVED_2] / weight - mean**2, 0.0)
    spread = scanned.reward.sample_variance(0)
    bins = scanned.path.bins
    after = bins.total("ee") / bins.weight
    return Calibration(
        rows=_numbers(weight / total),
        predicted=_numbers(sums[:, tallies.GIVEN] / weight),
        observed=_numbers(mean),
        stderr=_numbers(np.sqrt(variance * squares) / weight),
        recalibrated=_numbers(sums[:, tallies.RECALIBRATED] / weight),
        fit=_explained(float(sums[:, tallies.OFF_2].sum()) / total, spread),
        fit_recalibrated=_explained(after, spread),
        trained=trained,
    )


def _explained(left: float, spread: float) -> float:
    return 1.0 - left / spread if spread > 0.0 and math.isfinite(left) else 0.0


def _over_log(scanned: Scanned, known: Known, level: float) -> OverLog | None:
    """The headline's value over the course of the log, at its M, from the walk's sums."""
    path, curve, k = scanned.path, known.curve, known.curve.at_value
    each, so_far = path.bins.each, path.bins.so_far
    weight, squares = so_far.several("1", "ω").sum(axis=-1)
    rows, rewards = each.several("1", "r").sum(axis=-1)
    mean, _, second = (sums[:, k] for sums in so_far.about_mean())
    if not (np.isfinite(second).all() and (rows > 0.0).all()):
        return None
    spread = np.sqrt(second / squares * design_effect(path.moments, k))
    half = sequence_half_width(weight**2 / squares, spread, level)
    parts, n = len(weight), scanned.reward.count
    value = path.centre + mean + curve.corrections(path.bins, k)
    times = scanned.tally.times
    return OverLog(
        rows=tuple(float(-(-(j + 1) * n // parts)) for j in range(parts)),
        value=_numbers(path.centre + each.about_mean()[0][:, k]),
        logged=_numbers(rewards / rows),
        so_far=_numbers(value),
        low=_numbers(value - half),
        high=_numbers(value + half),
        since=None if times is None else _numbers(times.low),
        until=None if times is None else _numbers(times.high),
        dated=times is not None and times.dated,
    )


def sequence_half_width(t: Floats, spread: Floats, level: float) -> Floats:
    """Half the width of the headline's confidence sequence after t rows of the log.

    It is narrowest after a quarter of them.
    """
    alpha = 1.0 - level
    far = -2.0 * math.log(alpha)
    rho2 = (far + math.log1p(far)) / (0.25 * float(t[-1]))
    grown = t * rho2 + 1.0
    return np.asarray(
        spread * np.sqrt(2.0 * grown / (t * t * rho2) * (0.5 * np.log(grown) - math.log(alpha)))
    )


def _numbers(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in np.where(np.isnan(values), np.inf, values))


# -- what is worth a warning -----------------------------------------------------------------


def notice(e: Evidence) -> list[Finding]:
    """What `evaluate` and `compare` find about one policy, and `check` besides other things."""
    found, scanned = list(e.noticed), e.scanned
    if e.weighed:
        found += about_support(e.policy, scanned)
        found += about_size(e.policy, float(scanned.c.effective()[0]), scanned.reward.count)
        found += about_actions(scanned)
    return found


def without_repeats(*found: Sequence[Finding]) -> tuple[Finding, ...]:
    """All findings, each once: those about the log itself are made for every policy."""
    first: dict[tuple[str, str | None], Finding] = {}
    for each in itertools.chain(*found):
        first.setdefault((each.code, each.place), each)
    return tuple(first.values())
