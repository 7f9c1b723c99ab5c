"""`sweep`: a ranker's estimate at every value of an estimator's parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy import intervals
from offpolicy._core.frames import as_pandas, as_polars
from offpolicy._core.types import Floats
from offpolicy._core.validation import as_floats
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import NAMED, Estimator
from offpolicy.intervals import Interval
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Lambda, Metric, as_metric
from offpolicy.ranking.data._ranks import ranks_of
from offpolicy.ranking.data._weights import blended, for_rankings
from offpolicy.ranking.evaluation._sums import Value, lam_of, value_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def sweep(
    log: RankingLog,
    ranker: Any,
    estimator: str | Estimator = "CAB",
    metric: str | Metric | Lambda = "average rank",
    *,
    level: float = 0.95,
) -> RankingCurve:
    """The curve of a ranker's estimate over the estimator's parameter, exact everywhere.

    Between two of its ``breakpoints``, which are the values of 1/p, what every document counts is
    linear in M for CAB and CIPS, and constant for SWITCH.
    """
    asked = as_metric(metric)
    intervals.normal_quantile(level)
    kind = for_rankings(estimator)
    if kind.parameter_name is None:
        swept = (name for name, each in NAMED.items() if each.for_ranking and each.parameter_name)
        sentence = f"{kind.name} has no curve; these have: {', '.join(swept)}."
        raise EstimatorError(sentence, column="estimator")
    blended(log, kind.at(0.0), log.prediction)
    lam = lam_of(log, asked, ranks_of(ranker, log))

    evaluated = _Evaluated(log, asked, lam, kind)
    assert log.propensity is not None
    if kind.parameter_name == "M":
        p = log.propensity[log.propensity > 0.0]
        breakpoints = np.concatenate([[0.0], np.unique(1.0 / p), [np.inf]])
    elif math.isinf(kind.parameter_limit):
        breakpoints = np.sort(kind.grid)
    else:
        breakpoints = np.array([0.0, kind.parameter_limit])
    return RankingCurve(kind.name, str(asked), kind.parameter_name, breakpoints, level, evaluated)


@dataclass(frozen=True, slots=True, eq=False)
class _Evaluated:
    """A ranker's estimate at any value of the parameter."""

    log: RankingLog
    metric: Metric
    lam: Floats
    kind: Estimator

    def __call__(self, parameter: float) -> Value:
        c = blended(self.log, self.kind.at(parameter), self.log.prediction)
        return value_of(self.log, self.metric, self.lam, c)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankingCurve:
    """An estimator's value and standard error at every value of its parameter."""

    estimator: str
    metric: str
    parameter: str
    breakpoints: Floats = field(repr=False)
    level: float
    evaluated: Callable[[float], Value] = field(repr=False)
    """The estimator at a value of the parameter."""

    def at(self, parameter: ArrayLike) -> Floats:
        """The estimate at each value of the parameter."""
        return self._each(parameter)[0]

    def stderr_at(self, parameter: ArrayLike) -> Floats:
        """Its standard error over queries."""
        return self._each(parameter)[1]

    def interval_at(self, parameter: float) -> Interval:
        """The normal interval of the estimator's own mean."""
        value, stderr = self._each(parameter)
        return intervals.normal(float(value), float(stderr), self.level)

    def to_frame(self, points: int = 101) -> pd.DataFrame:
        """`to_arrow` as a pandas DataFrame (needs pandas: ``pip install offpolicy[pandas]``)."""
        return as_pandas(self.to_arrow(points))

    def to_polars(self, points: int = 101) -> pl.DataFrame:
        """`to_arrow` as a polars DataFrame (needs polars: ``pip install offpolicy[polars]``)."""
        return as_polars(self.to_arrow(points))

    def to_arrow(self, points: int = 101) -> pa.Table:
        """Parameter, value, stderr, low and high as an Arrow table, at the breakpoints, or at that
        many of them; for SB at equal steps of τ."""
        import pyarrow as pa

        if points < 2:
            raise ParameterError(f"points is {points}; there must be at least 2.", column="points")
        x = self.breakpoints
        if math.isinf(x[-1]):
            x = x[np.linspace(0, len(x) - 1, min(points, len(x))).astype(np.int64)]
        else:
            x = np.linspace(x[0], x[-1], points)
        value, stderr = self._each(x)
        half = intervals.normal_quantile(self.level) * stderr
        columns = {"value": value, "stderr": stderr, "low": value - half, "high": value + half}
        return pa.table({self.parameter: x} | columns)

    def _each(self, parameter: ArrayLike) -> tuple[Floats, Floats]:
        """Values and standard errors."""
        x = as_floats(parameter, self.parameter, ParameterError)
        pairs = [self.evaluated(point)[:2] for point in x.ravel().tolist()]
        value, stderr = np.array(pairs).T.reshape(2, *np.shape(parameter))
        return value, stderr
