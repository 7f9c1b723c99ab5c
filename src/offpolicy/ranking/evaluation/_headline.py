"""The one answer about a ranker: CAB around the recalibrated model, by the rule of the bandits."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.types import Floats
from offpolicy.estimators import GRID
from offpolicy.evidence import RiskCurve, least_error, satterthwaite
from offpolicy.intervals import Interval
from offpolicy.ranking.evaluation._click_path import ClickPath, Question, path_of
from offpolicy.ranking.evaluation._recalibration import recalibrated
from offpolicy.ranking.evaluation._sums import effective_clicks
from offpolicy.results import Headline

_EVERYTHING = Interval(-math.inf, math.inf)
NOISE = "the ranker's value: sampling error"


class Known(NamedTuple):
    """What the log says about a ranker's value, whichever estimator is asked."""

    asked: Question
    d: Floats
    path: ClickPath
    curve: RiskCurve
    interval: Interval

    @property
    def M(self) -> float:
        """At which the value is taken."""
        return float(GRID[self.curve.at_value])

    @property
    def value(self) -> float:
        """CAB at the M of least estimated error, with the correction, cut to the interval."""
        low, high = self.interval
        return min(max(self.curve.best_value, low), high)


def what_is_known(asked: Question) -> Known:
    """The headline's model, curve and interval."""
    d = recalibrated(asked.log, asked.target)
    path = path_of(asked, d)
    known = Known(asked, d, path, path.curve, _EVERYTHING)
    return known._replace(interval=_interval(known))


def _interval(known: Known) -> Interval:
    """Around CAB at the M of least cautious error; allows for one more document examined, whose
    relevance is the worst that it can be."""
    asked, path, curve = known.asked, known.path, known.curve
    k, level = curve.at_interval, asked.level
    if path.only_query:
        return cut(_EVERYTHING, asked)
    centre, bias = float(curve.value[k]), float(curve.plausible_bias[k])
    degrees = satterthwaite(path.moments, 1.0, k)
    document = _typical_weight(path, k) / len(asked.log)
    relevant = float(known.d.mean())
    worst = (1.0, 1.0) if asked.metric.is_ratio else (relevant, 1.0 - relevant)
    down, up = (
        intervals.bias_aware(
            math.hypot(math.sqrt(float(curve.variance[k])), document * far), bias, level, degrees
        )
        for far in worst
    )
    return cut(Interval(centre - down, centre + up), asked)


def _typical_weight(path: ClickPath, k: int) -> float:
    """The mean ω min(c, M) of documents examined, those of a larger one counting more."""
    squares, total = (
        float(path.bins.clipped_rows(*names)[k]) for names in (("ωcc", "ω", 2), ("c", "1", 1))
    )
    return squares / total if total > 0.0 else 0.0


def cut(interval: Interval, asked: Question) -> Interval:
    """An interval, cut to what the metric can be."""
    least, most = asked.metric.limits
    low, high = (min(max(end, least), most) for end in interval)
    return Interval(low, high)


def make_headline(known: Known) -> Headline:
    """The headline as it is returned."""
    asked, curve, path = known.asked, known.curve, known.path
    k, j = curve.at_value, curve.at_interval
    stderrs = np.sqrt(curve.variance)
    p = asked.log.propensity
    assert p is not None
    observed = np.minimum(np.where(p > 0.0, p, np.inf) ** -1.0, GRID[k])
    return Headline(
        policy=asked.ranker,
        M=known.M,
        model="ranks" if asked.log.prediction is None else "relevance",
        value=known.value,
        stderr=float(stderrs[k]),
        interval=known.interval,
        level=asked.level,
        covers=_covers(known),
        imputed_mass=float(curve.mass[k]),
        correction=float(curve.correction[k]),
        kappa=curve.kappa,
        interval_M=float(GRID[j]),
        interval_imputed_mass=float(curve.mass[j]),
        plausible_bias=float(curve.plausible_bias[j]),
        bias_bound=float(curve.mass[j]) * path.worth,
        rewarded=effective_clicks(np.abs(path.g) * observed * asked.log.click),
        policy_stderr=0.0,
        versus_logged=None,
        reason=least_error(float(stderrs[k]), float(curve.bias[k])),
        refusal=_ONE_QUERY if path.only_query else None,
        grid=tuple(map(float, GRID)),
        values=tuple(map(float, curve.value)),
        stderrs=tuple(map(float, stderrs)),
        errors=tuple(map(float, np.sqrt(curve.mse))),
    )


_ONE_QUERY = (
    "nothing says how far luck goes: there is only one query. Impressions of more queries would "
    "tell."
)


def _covers(known: Known) -> str:
    """What the headline's interval covers, in words."""
    j = known.curve.at_interval
    text, left = f"{NOISE}, a document not yet seen", float(known.curve.mass[j])
    if left > 5e-4:
        text += f", the model's plausible error on the {left:.1%} left to it at M = {GRID[j]:.4g}"
    return text
