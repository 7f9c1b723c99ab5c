"""`sweep`: a ranker's estimate at every value of an estimator's parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Unpack, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy import intervals
from offpolicy._core.types import Floats
from offpolicy._core.validation import as_floats
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import NAMED, Estimator
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Lambda, Metric, as_metric
from offpolicy.ranking.data._ranks import ranks_of
from offpolicy.ranking.data._read import RankingNames, as_rankings
from offpolicy.ranking.data._weights import blended, for_rankings
from offpolicy.ranking.evaluation._sums import Value, lam_of, value_of
from offpolicy.results import ParameterCurve


def sweep(
    log: Any,
    ranker: Any,
    estimator: str | Estimator = "CAB",
    metric: str | Metric | Lambda = "average rank",
    *,
    level: float = 0.95,
    **columns: Unpack[RankingNames],
) -> RankingCurve:
    """The curve of a ranker's estimate over the estimator's parameter, exact everywhere.

    Between two of its ``breakpoints``, which are the values of 1/p, what every document counts is
    linear in M for CAB and CIPS, and constant for SWITCH. ``log``, ``ranker`` and ``columns`` are
    as in `evaluate`.
    """
    log, ranker = as_rankings(log, columns, sweep, ranker)
    asked = as_metric(metric)
    intervals.normal_quantile(level)
    kind = for_rankings(estimator)
    if kind.parameter_name is None:
        swept = (name for name, each in NAMED.items() if each.for_ranking and each.parameter_name)
        sentence = f"{kind.name} has no curve; these have: {', '.join(swept)}."
        raise EstimatorError(sentence, column="estimator")
    blended(log, kind.at(0.0), log.prediction)
    lam = lam_of(log, asked, ranks_of(ranker, log))

    evaluated = partial(_evaluated, log, asked, lam, kind)
    if kind.parameter_name == "M":
        breakpoints = np.concatenate([[0.0], np.unique(1.0 / log.p[log.p > 0.0]), [np.inf]])
    elif math.isinf(kind.parameter_limit):
        breakpoints = np.sort(kind.grid)
    else:
        breakpoints = np.array([0.0, kind.parameter_limit])
    return RankingCurve(kind.name, str(asked), kind.parameter_name, breakpoints, level, evaluated)


def _evaluated(
    log: RankingLog, metric: Metric, lam: Floats, kind: Estimator, parameter: float
) -> Value:
    """A ranker's estimate at any value of the parameter."""
    return value_of(log, metric, lam, blended(log, kind.at(parameter), log.prediction))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankingCurve(ParameterCurve):
    """An estimator's value and standard error at every value of its parameter."""

    points: ClassVar[int] = 101

    estimator: str
    metric: str
    parameter: str
    breakpoints: Floats = field(repr=False)
    level: float
    evaluated: Callable[[float], Value] = field(repr=False)
    """The estimator at a value of the parameter."""

    def _shown(self, points: int) -> Floats:
        """For SB equal steps of τ."""
        if math.isinf(self.breakpoints[-1]):
            return ParameterCurve._shown(self, points)
        return np.linspace(self.breakpoints[0], self.breakpoints[-1], points)

    def _each(self, parameter: ArrayLike) -> tuple[Floats, Floats]:
        x = as_floats(parameter, self.parameter, ParameterError)
        pairs = [self.evaluated(point)[:2] for point in x.ravel().tolist()]
        value, stderr = np.array(pairs).T.reshape(2, *np.shape(parameter))
        return value, stderr
