"""The one answer about a ranker: CAB around the recalibrated model, by the rule of the bandits."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy.estimators import GRID
from offpolicy.evidence import around, error_covered, of_curve, satterthwaite
from offpolicy.intervals import Interval
from offpolicy.ranking.evaluation._click_path import ClickPath, Question, path_of
from offpolicy.ranking.evaluation._recalibration import recalibrated
from offpolicy.ranking.evaluation._sums import effective_clicks
from offpolicy.results import Headline

NOISE = "the ranker's value, and allows for sampling error"


class Known(NamedTuple):
    """What the log says about a ranker's value, whichever estimator is asked."""

    path: ClickPath
    interval: Interval

    @property
    def M(self) -> float:
        """At which the value is taken."""
        return float(GRID[self.path.curve.at_value])

    @property
    def value(self) -> float:
        """CAB there, with the correction, cut to the interval."""
        low, high = self.interval
        return min(max(self.path.curve.best_value, low), high)


def what_is_known(asked: Question) -> Known:
    """The headline's curve and interval."""
    path = path_of(asked, recalibrated(asked.log, asked.target))
    return Known(path, _interval(path))


def _interval(path: ClickPath) -> Interval:
    """Around CAB at the M of least cautious error; allows for one more document examined, whose
    relevance is the worst that it can be."""
    asked, curve, p = path.asked, path.curve, path.asked.log.p
    k = curve.at_interval
    if asked.log.queries == 1:
        return asked.cut(-math.inf, math.inf)
    # The mean weight of examined documents, those of a larger one counting more.
    weight = np.abs(path.g) * asked.observed(float(GRID[k]))
    squares, total = (float((p * weight**power).sum()) for power in (2, 1))
    document = squares / total / len(asked.log) if total > 0.0 else 0.0
    relevant = float(path.d.mean())
    # A ratio goes either way by a document that is relevant.
    worst = (1.0, 1.0) if asked.metric.is_ratio else (relevant, 1.0 - relevant)
    far = document * worst[0], document * worst[1]
    return asked.cut(*around(curve, far, asked.level, satterthwaite(path.moments, 1.0, k)))


def make_headline(known: Known) -> Headline:
    """The headline as it is returned."""
    path, asked = known.path, known.path.asked
    counted = np.abs(path.g) * asked.observed(known.M) * asked.log.click
    only = asked.log.queries == 1
    return Headline(
        policy=asked.ranker,
        model="ranks" if asked.log.prediction is None else "relevance",
        value=known.value,
        interval=known.interval,
        level=asked.level,
        covers=f"{NOISE}, a document not yet seen{error_covered(path.curve)}",
        rewarded=effective_clicks(counted),
        policy_stderr=0.0,
        versus_logged=None,
        refusal="there is only one query, and nothing says how others differ" if only else None,
        **of_curve(path.curve, path.worth),
    )
