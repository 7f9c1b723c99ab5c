"""Choosing M, τ and C of a learned ranker by clicks on rankings that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.door import Door
from offpolicy._core.parameters import Parameters, need_fitted
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import MissingColumnError, ParameterError, SupportError
from offpolicy.estimators import CAB, CIPS
from offpolicy.learning import Trial, checked_combinations
from offpolicy.ranking.data._log import RankingLog, need_rankings
from offpolicy.ranking.data._metrics import Lambda, Metric, as_metric
from offpolicy.ranking.data._ranks import ranks_of, scores_of
from offpolicy.ranking.data._relevance import checked_folds
from offpolicy.ranking.data._weights import blended, for_rankings
from offpolicy.ranking.evaluation._evaluate import evaluate
from offpolicy.ranking.evaluation._sums import lam_of, value_of
from offpolicy.ranking.learning._svmrank import PropensitySVMRank, fit_in_turn

LOSSES = (1.0, 10.0, 100.0, 1000.0)
"""Of the search without a grid: C in the learner's own units."""
MS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


def cab90(log: RankingLog, ranker: Any, metric: Metric) -> float:
    """A ranker's score by `cips90` with what clipping loses given back by the model: CAB, same M.

    All candidates are judged by the same weights, so that what these are off by is much the same
    for all, and so is the noise. Without a model it is `cips90`.
    """
    return _clipped(log, ranker, metric, CIPS if log.prediction is None else CAB)


def cips90(log: RankingLog, ranker: Any, metric: Metric) -> float:
    """A ranker's score by the paper's rule: CIPS, M the 90% quantile of 1/p over clicks; no model.

    Sum and average of ranks put candidates in the same order, since all have the same weights.
    """
    return _clipped(log, ranker, metric, CIPS)


def headline(log: RankingLog, ranker: Any, metric: Metric) -> float:
    """A ranker's score by the estimate that `evaluate` puts first: M and the model are its own."""
    _clicked(log)
    return evaluate(log, ranker, ["IPS"], metric).headline.value


RULES: dict[str, Callable[[RankingLog, Any, Metric], float]] = {
    "cab90": cab90,
    "cips90": cips90,
    "headline": headline,
}


def _clipped(log: RankingLog, ranker: Any, metric: Metric, kind: type[CAB] | type[CIPS]) -> float:
    """By a member with M the 90% quantile of 1/p over clicks."""
    c = blended(log, kind(float(np.quantile(1.0 / _clicked(log), 0.9))), log.prediction)
    return value_of(log, metric, lam_of(log, metric, ranks_of(ranker, log)), c).value


def _clicked(log: RankingLog) -> Floats:
    """The propensities of the documents that were clicked."""
    p = _propensities(log)[log.click > 0.0]
    if not len(p):
        sentence = "The validation log has no clicks: it cannot tell which is best."
        raise SupportError(sentence, column="click")
    return p


@final
@dataclass(eq=False)
class RankerCV(Parameters):
    """Fits a ranker for every combination of a grid, and keeps the best on held-out queries.

    What differs only in C, or in ``loss``, is fitted in one go, each search starting where that of
    the next smaller C ended.

    Parameters
    ----------
    learner : PropensitySVMRank, optional
        Whose parameters hold where the grid is silent. Without one its estimator is CAB.
    grid : mapping of parameter to values, optional
        Without it, `default_grid`: M, or τ, if the learner's estimator leaves it out, and C, if
        the learner has none.
    rule : "cab90", "cips90" or "headline"
        What is compared on the validation log. "cips90" is the paper's: CIPS with M the 90%
        quantile of 1/p over clicks. "cab90" is CAB with the same M, if the log has a prediction.
        "headline" is what `evaluate` puts first.
    metric : str or Metric
        Of `evaluate`.
    folds : int
        Without a validation log each query is scored by a ranker that was fitted without its fold,
        and all clicks validate.

    Attributes
    ----------
    best_ : PropensitySVMRank, fitted on the whole log
    params_ : dict, what was chosen
    trials_ : list of `Trial`, in the order of the grid

    Examples
    --------
    >>> search = RankerCV(grid={"estimator": ["IPS", "CAB(M=5)"], "C": [0.1, 1]}, rule="cips90")
    """

    learner: PropensitySVMRank | None = None
    grid: Mapping[str, Sequence[Any]] | None = None
    _: KW_ONLY
    rule: str = "cab90"
    metric: str | Metric | Lambda = "average rank"
    folds: int = 3

    def fit(
        self,
        log: RankingLog,
        *,
        validation: RankingLog | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Search; ``progress`` is told how many combinations of how many are done."""
        need_rankings(log)
        learner = PropensitySVMRank(estimator="CAB") if self.learner is None else self.learner
        metric = as_metric(self.metric)
        grid = default_grid(learner, log) if self.grid is None else self.grid
        combinations = checked_combinations(learner, grid, self.rule, RULES)
        judged = log if validation is None else validation
        learners = [learner.copy(**params) for params in combinations]
        self.trials_ = [Trial(params, math.nan, 0) for params in combinations]
        done = 0
        for alike in _differing_in_C(learners):
            scores, steps = self._unseen([learners[i] for i in alike], log, validation)
            for i, score, count in zip(alike, scores, steps, strict=True):
                value = RULES[self.rule](judged, score, metric)
                self.trials_[i] = Trial(combinations[i], value, count)
                done += 1
                if progress is not None:
                    progress(done, len(learners))
        pick = max if metric.higher_is_better else min
        best = pick(range(len(learners)), key=lambda i: self.trials_[i].score)
        self.params_, self.best_ = combinations[best], learners[best]
        if validation is None:
            self.best_.fit(log)
        return self

    def _unseen(
        self, learners: list[PropensitySVMRank], log: RankingLog, validation: RankingLog | None
    ) -> tuple[list[Floats], list[int]]:
        """What rankers that differ in C only say of documents they were not fitted on."""
        if validation is not None:
            fit_in_turn(learners, *learners[0].arrays(log))
            scores = [scores_of(learner, validation) for learner in learners]
            return scores, [learner.n_iter_ for learner in learners]
        fold = log.fold(checked_folds(self.folds))
        if (fold == fold[0]).all():
            raise ParameterError(
                f"The log cannot be split into folds: its {len(log):,} impressions are of too few "
                f"queries.{Door.in_python(' Give validation=.')}",
                column="validation",
            )
        scores = [np.empty(log.documents) for _ in learners]
        steps = [0] * len(learners)
        for k in np.unique(fold):
            held = (fold == k)[log.impression]
            copies = [learner.copy() for learner in learners]
            fit_in_turn(copies, *copies[0].arrays(log.take(fold != k)))
            for j, learner in enumerate(copies):
                assert log.X is not None
                scores[j][held] = learner.decision_function(log.X[held])
                steps[j] += learner.n_iter_
        return scores, steps

    def decision_function(self, X: ArrayLike) -> Floats:
        """Of the best one."""
        need_fitted(self, "best_")
        return self.best_.decision_function(X)

    def rank(self, X: ArrayLike, offsets: ArrayLike) -> Ints:
        """Of the best one."""
        need_fitted(self, "best_")
        return self.best_.rank(X, offsets)


def default_grid(learner: PropensitySVMRank, log: RankingLog) -> dict[str, list[Any]]:
    """What a ranker's learner leaves open: the estimator's parameter, up to the largest 1/p, C."""
    grid: dict[str, list[Any]] = {}
    member = for_rankings(learner.estimator)
    if not member.resolved:
        largest = 1.0 / _propensities(log)[log.shown].min(initial=1.0)
        values: Sequence[float] = [*(M for M in MS if largest > M), math.inf]
        if member.parameter_name != "M":
            values = member.grid[5:-5:10].tolist()
        grid["estimator"] = [str(member.at(value)) for value in values]
    if learner.C is None:
        grid["loss"] = list(LOSSES)
    return grid


def _differing_in_C(learners: Sequence[PropensitySVMRank]) -> list[list[int]]:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, learner in enumerate(learners):
        params = learner.get_params() | {"estimator": str(learner.estimator)}
        key = tuple(value for name, value in params.items() if name not in ("C", "loss"))
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _propensities(log: RankingLog) -> Floats:
    if log.propensity is None:
        raise MissingColumnError(
            "Choosing by clicks needs propensity, the probability with which each document was "
            "examined, and the log has none. Estimate it (estimate_propensities), or give it.",
            column="propensity",
        )
    return log.propensity
