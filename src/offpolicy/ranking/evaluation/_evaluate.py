"""`evaluate`: how good would another ranker have been? `sweep`: for every M."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy import intervals
from offpolicy._core.types import Floats
from offpolicy._core.validation import as_floats
from offpolicy.errors import EstimatorError, MissingColumnError, ParameterError, SupportError
from offpolicy.estimators import CAB, ICE, NAMED, Estimator
from offpolicy.intervals import Interval
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric, as_metric
from offpolicy.ranking.data._ranks import ranks_of
from offpolicy.ranking.data._weights import blended, for_rankings, weights_at
from offpolicy.ranking.evaluation._model_error import ModelError
from offpolicy.ranking.evaluation._recalibration import recalibrated
from offpolicy.ranking.evaluation._result import RankingEstimate, RankingResult, findings_of
from offpolicy.ranking.evaluation._sums import Queries, Value, value_of
from offpolicy.ranking.evaluation._tuning import choose
from offpolicy.results import Tuned

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_ESTIMATORS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "CAB")
"""What is computed unless asked otherwise, as far as the columns allow."""
OF_THE_VALUE = "the ranker's value: noise and the thinkable bias"
OF_THE_MEAN = "the estimator's own mean, not its bias"


def evaluate(
    log: RankingLog,
    ranker: Any,
    estimators: Sequence[str | Estimator] | None = None,
    metric: str | Metric = "average rank",
    *,
    level: float = 0.95,
    independent_clicks: bool = True,
) -> RankingResult:
    """Estimate a metric of a ranker from the clicks on another's rankings.

    Parameters
    ----------
    log : RankingLog
        With propensities; without them only DM can be had.
    ranker
        Scores (N,), a callable X → scores, or a fitted model; higher is better. Documents of equal
        score stand in the order of the log.
    estimators : names or objects, optional
        Of the family without w^γ; default `DEFAULT_ESTIMATORS`. A parameter that is left out is
        chosen from the log.
    metric : str
        "average rank", "sum of ranks", "dcg", "dcg@10", "precision@5", "recall@5",
        "reciprocal rank".
    level : float
        Coverage of the intervals.
    independent_clicks : bool
        Whether clicks of one impression are independent given its documents, as in the
        position-based model. If not, variances are those observed over queries.

    Examples
    --------
    >>> log = RankingLog.from_arrays(
    ...     offsets=[0, 2, 4], rank=[1, 2, 1, 2], click=[0, 1, 1, 0], propensity=[1, 0.5, 1, 0.5]
    ... )
    >>> evaluate(log, [0.0, 1.0, 1.0, 0.0], ["IPS"], "sum of ranks")["IPS"].value
    1.5
    """
    asked = as_metric(metric)
    intervals.normal_quantile(level)
    if not isinstance(log, RankingLog):
        raise ParameterError(
            f"A {type(log).__name__} is not a ranking log. Make one with RankingLog.read, "
            f"from_frame or from_arrays.",
            column="log",
        )
    judge = _Judge(log, ranks_of(ranker, log), asked, level, independent_clicks)
    members = _members(log, estimators, asked)
    tuned: list[Tuned] = []
    rows = []
    for member in members:
        reason = None
        if not member.resolved:
            choice = judge.choose(member, log.prediction)
            tuned.append(choice)
            member, reason = for_rankings(choice.estimator), choice.reason
        rows.append(judge.estimate(member, log.prediction, reason=reason))
    headline = rows[0]
    if log.propensity is not None and log.click.any():
        choice = judge.choose(CAB(), judge.delta)
        tuned.insert(0, choice)
        member = for_rankings(choice.estimator)
        headline = judge.estimate(member, judge.delta, reason=choice.reason, recalibrated=True)
    return RankingResult(
        metric=str(asked),
        impressions=len(log),
        queries=log.queries,
        clicks=int(log.click.sum()),
        estimates=tuple(rows),
        headline=headline,
        tuned=tuple(tuned),
        findings=findings_of(log, headline),
    )


def true_value(log: RankingLog, ranker: Any, metric: str | Metric = "average rank") -> float:
    """A ranker's metric by the log's relevance of documents, which is known in simulations."""
    if log.relevance is None:
        sentence = "The true value needs relevance, and the log has none."
        raise MissingColumnError(sentence, column="relevance")
    asked = as_metric(metric)
    lam = asked.weight(ranks_of(ranker, log))
    return value_of(log, asked, lam, log.relevance).value


def sweep(
    log: RankingLog,
    ranker: Any,
    estimator: str | Estimator = "CAB",
    metric: str | Metric = "average rank",
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
    lam = asked.weight(ranks_of(ranker, log))

    def evaluated(parameter: float) -> Value:
        member = kind.at(parameter)
        return value_of(log, asked, lam, blended(log, member, log.prediction))

    assert log.propensity is not None
    if kind.parameter_name == "M":
        p = log.propensity[log.propensity > 0.0]
        breakpoints = np.concatenate([[0.0], np.unique(1.0 / p), [np.inf]])
    elif math.isinf(kind.parameter_limit):
        breakpoints = np.sort(kind.grid)
    else:
        breakpoints = np.array([0.0, kind.parameter_limit])
    return RankingCurve(kind.name, str(asked), kind.parameter_name, breakpoints, level, evaluated)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankingCurve:
    """An estimator's value and standard error at every value of its parameter."""

    estimator: str
    metric: str
    parameter: str
    breakpoints: Floats
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

    def to_frame(self, points: int = 101) -> pa.Table:
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


# -- parts -----------------------------------------------------------------------------------


class _Judge:
    """One ranker on one log."""

    def __init__(
        self, log: RankingLog, target: Any, metric: Metric, level: float, independent: bool
    ) -> None:
        self.log, self.metric, self.level, self.independent = log, metric, level, independent
        self.lam = metric.weight(target)
        self.delta: Floats | None = None
        if log.propensity is not None:
            self.delta = recalibrated(log, target)
            base = value_of(log, metric, self.lam, self.delta)
            self.model_error = ModelError.of(log, base, self.delta)

    def choose(self, member: Estimator, prediction: Floats | None) -> Tuned:
        if self.delta is None:
            blended(self.log, member.at(0.0), prediction)
        assert self.delta is not None
        return choose(
            self.log, member, self.metric, self.lam, prediction, self.delta, self.model_error,
            independent=self.independent,
        )  # fmt: skip

    def estimate(
        self,
        member: Estimator,
        prediction: Floats | None,
        *,
        reason: str | None = None,
        recalibrated: bool = False,
    ) -> RankingEstimate:
        log = self.log
        c = blended(log, member, prediction)
        estimated = value_of(log, self.metric, self.lam, c)
        if not math.isfinite(estimated.value):
            raise SupportError(
                f"{member}: not one document counts as relevant, so {self.metric} has no value. "
                f"The log has {int(log.click.sum()):,} clicks.",
                column="click",
            )
        p = np.ones(log.documents) if log.propensity is None else log.propensity
        observed = weights_at(member, p).observed * log.click
        counted = np.abs(estimated.weight) * observed
        squares = float((counted * counted).sum())
        rests_on_clicks = bool(weights_at(member, p).observed.any())
        effective = float(counted.sum()) ** 2 / squares if squares > 0.0 else 0.0
        total = float(c.sum())
        degrees = max(log.queries - 1, 1)
        bias, bias_stderr, stderr, covers = 0.0, 0.0, estimated.stderr, OF_THE_MEAN
        if log.propensity is not None:
            bias, bias_stderr, stderr = self.bias(member, prediction)
            covers = OF_THE_VALUE
        return RankingEstimate(
            estimator=str(member),
            value=estimated.value,
            stderr=estimated.stderr,
            interval=intervals.student_t(estimated.value - bias, stderr, self.level, degrees),
            level=self.level,
            covers=covers,
            bias=bias,
            bias_stderr=bias_stderr,
            imputed_mass=1.0 - float(observed.sum()) / total if total > 0.0 else 0.0,
            clicks=effective if rests_on_clicks else None,
            largest_weight=float(observed.max()),
            recalibrated=recalibrated,
            reason=reason,
        )

    def bias(self, member: Estimator, prediction: Floats | None) -> tuple[float, float, float]:
        """The thinkable bias and its uncertainty, and the standard error of the value without it,
        whose spread includes that of the correction."""
        log = self.log
        assert log.propensity is not None
        assert self.delta is not None
        p, shown, base = log.propensity, log.propensity > 0.0, self.model_error.base
        weights = weights_at(member, p)
        model = np.zeros_like(p) if prediction is None else prediction
        observed = weights.observed * p
        mean = value_of(log, self.metric, self.lam, weights.imputed * model + observed * self.delta)
        # A ratio grows by what its denominator lacks.
        share = 1.0 - observed * (base.scale / mean.scale)
        left = self.model_error.left(share)
        further, rest = self.model_error.corrected(left)
        inverse = np.where(shown, p, np.inf) ** -1.0
        seen = further * (inverse * log.click - np.where(shown, self.delta, 0.0))
        # What is observed about its mean, and what the correction adds.
        noise = mean.weight * weights.observed * (log.click - p * self.delta)
        moved = noise + base.weight * (self.delta + seen)
        bias = mean.value - base.value - float((base.weight * seen).sum()) / len(log)
        spread = Queries.of(log).stderr(moved)
        uncertain = math.sqrt(self.model_error.bias(left)[1])
        return bias, uncertain, math.hypot(spread, math.sqrt(rest))


def _members(
    log: RankingLog, asked: Sequence[str | Estimator] | None, metric: Metric
) -> list[Estimator]:
    if isinstance(asked, (str, Estimator)):
        asked = [asked]
    if asked is not None:
        if not asked:
            raise EstimatorError("estimators is empty: name at least one.", column="estimators")
        members = [for_rankings(estimator) for estimator in asked]
        for member in members:
            if isinstance(member, ICE):
                sentence = "An ICE has no name to be found by; use document_weights."
                raise EstimatorError(sentence, column="estimators")
            blended(log, member if member.resolved else member.at(0.0), log.prediction)
        return members
    members = [for_rankings(name) for name in DEFAULT_ESTIMATORS]
    have = {name for name in ("propensity", "prediction") if getattr(log, name) is not None}
    usable = [
        member
        for member in members
        if (member.name == "DM" or "propensity" in have)
        and (not member.uses_model or "prediction" in have)
        # Without a click, a ratio by clicks alone is 0/0.
        and (member.uses_model or not metric.is_ratio or log.click.any())
    ]
    if not usable:
        raise MissingColumnError(
            "The log has neither a prediction nor clicks with propensities, so nothing can be "
            "estimated. Estimate the propensities, or train a model of relevance.",
            column="propensity",
        )
    return usable
