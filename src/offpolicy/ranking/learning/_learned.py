"""`learn_ranker`: a ranker, and what queries that it was not learned from say of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar, Unpack, final

import numpy as np

from offpolicy._core.documents import Document
from offpolicy._core.door import Door
from offpolicy.errors import ParameterError, SupportError
from offpolicy.learning import Trial
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Lambda, Metric, as_metric
from offpolicy.ranking.data._read import RankingNames, as_rankings
from offpolicy.ranking.data._relevance import RelevanceModel
from offpolicy.ranking.data._weights import for_rankings
from offpolicy.ranking.evaluation._evaluate import evaluate
from offpolicy.ranking.evaluation._result import RankingResult
from offpolicy.ranking.learning._search import RankerCV, default_grid
from offpolicy.ranking.learning._svmrank import PropensitySVMRank

_RULES = {
    "cab90": "CAB with M the 90% quantile of 1/p over clicks",
    "cips90": "CIPS with M the 90% quantile of 1/p over clicks",
    "headline": "what rank evaluate puts first",
}


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """How the search for the weights ended: no objective is below (1 − ``gap``) of this one."""

    C: float
    objective: float
    gap: float
    steps: int
    converged: bool


@final
@dataclass(frozen=True, slots=True, repr=False)
class LearnedRanker(Document):
    """How a ranker was learned, and what it is worth.

    Attributes
    ----------
    ranker
        The file that it is written to.
    features
        How many it looks at.
    impressions, queries, clicks
        That it was learned from.
    evaluated
        Impressions that the evaluated ranker was learned from: fewer, if the one written was then
        learned again; None if nothing was held out.
    modelled
        Whether the model of relevance was learned from the same clicks.
    parameters, report
        The learner's, and how its search ended.
    metric, higher_is_better, rule, trials
        What was tried, if something was, and by which rule it was compared.
    result
        What the queries held out say of it.
    """

    schema: ClassVar[str] = "offpolicy.learned-ranker/3"

    ranker: str
    features: int
    impressions: int
    queries: int
    clicks: int
    evaluated: int | None
    modelled: bool
    parameters: dict[str, Any]
    report: Fit
    metric: str
    higher_is_better: bool
    rule: str | None
    trials: tuple[Trial, ...]
    result: RankingResult | None

    @property
    def name(self) -> str:
        """The ranker's, by its file."""
        return PurePath(self.ranker).stem

    def __str__(self) -> str:
        report = self.report
        lines = [
            f"A ranker by {self.features:,} features, learned from {self.impressions:,} "
            f"impressions of {self.queries:,} queries with {self.clicks:,} clicks.",
        ]
        if self.modelled:
            lines.append("  The model of relevance was learned from the same clicks, cross-fitted.")
        gap = f"the objective is at most {report.gap:.2g} of itself above its least value"
        ended = f"not converged ({gap}): more steps may help, {Door.named('max_iter')}."
        if report.converged:
            ended = f"converged; {gap}."
        lines.append(
            f"  {self.parameters['estimator']} was minimised with C = {report.C:.4g}: "
            f"{report.steps:,} steps, {ended}"
        )
        if self.rule is not None:
            lines.append(
                f"  Of {len(self.trials)} this was the best on queries that a ranker was "
                f"fitted without, by {_RULES[self.rule]}."
            )
        if self.result is None:
            lines.append("Nothing was held out: evaluate the ranker on other queries.")
            return "\n".join(lines)
        lines += [
            "",
            f"On {self.result.queries:,} queries that it was not learned from:",
            f"{self.name}: {self.result.told()}",
        ]
        if self.evaluated != self.impressions:
            lines.append(
                f"This is about the ranker learned from {self.evaluated:,} impressions. The one "
                f"written was learned from all {self.impressions:,}."
            )
        return "\n".join(lines)


def needs_model(learner: PropensitySVMRank, log: RankingLog) -> bool:
    """Whether a model of relevance is to be learned from clicks first."""
    return for_rankings(learner.estimator).uses_model and log.prediction is None


def learn_ranker(
    learner: PropensitySVMRank,
    log: Any,
    *,
    ranker: str = "ranker.json",
    rule: str = "cab90",
    metric: str | Metric | Lambda = "average rank",
    search_loss: bool = True,
    holdout: float = 0.2,
    refit: bool = False,
    seed: int = 0,
    level: float = 0.95,
    progress: Callable[[int, int], None] | None = None,
    **columns: Unpack[RankingNames],
) -> tuple[PropensitySVMRank, LearnedRanker]:
    """A ranker fitted without a share of the queries, and how it does on these.

    If the estimator's parameter is left out, it is chosen by `RankerCV`, and so is C if the learner
    has none.

    Parameters
    ----------
    log : RankingLog, dataframe, mapping of names to columns, or path
    ranker : str
        The file that it is to be saved to; its name without .json is the ranker's.
    rule, metric, progress
        Of `RankerCV`.
    search_loss : bool
        Whether ``loss`` is among what is chosen.
    holdout : float
        The share of the queries to be learned without; 0: none.
    refit : bool
        Whether the ranker is then learned again, from all queries.
    columns : names of columns, optional
        As in `ranking.evaluate`.
    """
    log, _ = as_rankings(log, columns, learn_ranker)
    modelled, asked = needs_model(learner, log), as_metric(metric)

    def fitted(part: RankingLog) -> tuple[PropensitySVMRank, list[Trial]]:
        from sklearn.exceptions import ConvergenceWarning

        if modelled:
            part = RelevanceModel().cross_fit(part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
            if for_rankings(learner.estimator).resolved:
                return learner.copy().fit(part), []
            grid = default_grid(learner, part)
            if not search_loss:
                grid.pop("loss", None)
            search = RankerCV(learner, grid, rule=rule, metric=asked).fit(part, progress=progress)
            return search.best_, search.trials_

    rest, held = split(log, holdout, seed=seed) if holdout else (log, None)
    best, trials = fitted(rest)
    name, result = PurePath(ranker).stem, None
    if held is not None:
        if modelled:
            assert held.X is not None
            held = held.replace(prediction=RelevanceModel().fit_clicks(rest).predict(held.X))
        plain = "DM" if held.propensity is None else "IPS"
        result = evaluate(held, best, [plain], asked, level=level)
        result = result.named(name)
    seen = rest
    if refit:
        (best, trials), seen = fitted(log), log
    return best, LearnedRanker(
        ranker,
        best.n_features_in_,
        len(seen),
        seen.queries,
        int(seen.click.sum()),
        None if result is None else len(rest),
        modelled,
        best.get_params() | {"estimator": str(best.estimator)},
        Fit(best.C_, best.objective_, best.gap_, best.n_iter_, best.gap_ <= best.tol),
        str(asked),
        asked.higher_is_better,
        rule if trials else None,
        tuple(trials),
        result,
    )


def split(log: RankingLog, share: float = 0.2, *, seed: int = 0) -> tuple[RankingLog, RankingLog]:
    """The log of clicks without about ``share`` of its queries, and these."""
    queries = log.queries
    if queries < 2:
        raise ParameterError("There is one query only: nothing can be held out.", column="holdout")
    order = np.random.default_rng([seed, 4]).permutation(queries)
    held = (order < min(max(round(share * queries), 1), queries - 1))[log.cluster]
    rest, other = log.take(~held), log.take(held)
    if log.propensity is not None and not other.click.any():
        raise SupportError(
            f"There is not one click on the {len(other):,} impressions held out to evaluate the "
            f"ranker on. Hold out more, or nothing.",
            column="holdout",
        )
    return rest, other
