"""`evaluate`: how good would another ranker have been?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from offpolicy import intervals
from offpolicy.errors import EstimatorError, MissingColumnError
from offpolicy.estimators import ICE, Estimator
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Lambda, Metric, as_metric
from offpolicy.ranking.data._ranks import ranks_of
from offpolicy.ranking.data._read import RankingNames, as_rankings
from offpolicy.ranking.data._weights import blended, for_rankings
from offpolicy.ranking.evaluation._click_path import Question
from offpolicy.ranking.evaluation._estimates import estimate, guarded
from offpolicy.ranking.evaluation._headline import make_headline, what_is_known
from offpolicy.ranking.evaluation._result import RankingResult, findings_of
from offpolicy.ranking.evaluation._sums import lam_of, value_of
from offpolicy.ranking.evaluation._tuning import tuned
from offpolicy.results import Finding, Headline

DEFAULT_ESTIMATORS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "CAB")
"""What is computed unless asked otherwise, as far as the columns allow."""


def evaluate(
    log: Any,
    ranker: Any,
    estimators: Sequence[str | Estimator] | None = None,
    metric: str | Metric | Lambda = "average rank",
    *,
    level: float = 0.95,
    independent_clicks: bool = True,
    **columns: Unpack[RankingNames],
) -> RankingResult:
    """Estimate a metric of a ranker from the clicks on another's rankings.

    Parameters
    ----------
    log : RankingLog, dataframe, mapping of names to columns, or path
        With propensities; without them only DM can be had.
    ranker
        Scores (N,), the name of a column that holds them, a callable X → scores, or a fitted
        model; higher is better. Documents of equal score stand in the order of the log.
    estimators : names or objects, optional
        Of the family without w^γ; default `DEFAULT_ESTIMATORS`. A parameter that is left out is
        chosen from the log.
    metric : str or function
        "average rank", "sum of ranks", "dcg", "dcg@10", "ndcg@10", "err", "precision@5",
        "recall@5", "reciprocal rank"; or a function of the rank, the λ of the paper. "ndcg" and
        "err" take the relevance of the other documents from the log's relevance or, with a warning,
        from its prediction.
    level : float
        Coverage of the intervals.
    independent_clicks : bool
        Whether clicks of one impression are independent given its documents, as in the
        position-based model. If not, variances are those observed over queries.
    columns : names of columns, optional
        Which column of a frame or a file plays which role, as in `RankingColumns`:
        ``click="clicked"``.

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
    log, scores = as_rankings(log, columns, evaluate, ranker)
    target = ranks_of(scores, log)
    question = Question(log, asked, target, lam_of(log, asked, target), level, independent_clicks)
    members = _members(log, estimators, asked)
    known = None if log.propensity is None else what_is_known(question)
    choices = [
        None if known is None or member.resolved else tuned(known, member, log.prediction)
        for member in members
    ]
    pairs = zip(members, choices, strict=True)
    rows = [estimate(question, member, known, choice) for member, choice in pairs]
    headlines: tuple[Headline, ...] = ()
    found: list[Finding] = []
    if known is not None and log.click.any():
        known, found = guarded(known)
        headlines = (make_headline(known),)
    answer = RankingResult(
        metric=str(asked),
        higher_is_better=asked.higher_is_better,
        impressions=len(log),
        queries=log.queries,
        clicks=int(log.click.sum()),
        estimates=tuple(rows),
        headlines=headlines,
        tuned=tuple(choice for choice in choices if choice is not None),
        findings=tuple(found + findings_of(log, asked, headlines[0] if headlines else rows[0])),
    )
    return answer.named(ranker) if isinstance(ranker, str) else answer


def true_value(
    log: RankingLog, ranker: Any, metric: str | Metric | Lambda = "average rank"
) -> float:
    """A ranker's metric by the log's relevance of documents, which is known in simulations."""
    if log.relevance is None:
        sentence = "The true value needs relevance, and the log has none."
        raise MissingColumnError(sentence, column="relevance")
    asked = as_metric(metric)
    lam = lam_of(log, asked, ranks_of(ranker, log))
    return value_of(log, asked, lam, log.relevance).value


# -- parts -----------------------------------------------------------------------------------


def _members(
    log: RankingLog, asked: Sequence[str | Estimator] | None, metric: Metric
) -> list[Estimator]:
    if asked is not None:
        listed = [asked] if isinstance(asked, (str, Estimator)) else asked
        if not listed:
            raise EstimatorError("estimators is empty: name at least one.", column="estimators")
        members = [for_rankings(estimator) for estimator in listed]
        for member in members:
            if isinstance(member, ICE):
                sentence = "An ICE has no name to be found by; use document_weights."
                raise EstimatorError(sentence, column="estimators")
            blended(log, member if member.resolved else member.at(0.0), log.prediction)
        return members
    usable = [
        member
        for member in map(for_rankings, DEFAULT_ESTIMATORS)
        if (member.name == "DM" or log.propensity is not None)
        and (not member.uses_model or log.prediction is not None)
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
