"""What `evaluate` says about a ranker, and what stands against trusting it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from offpolicy.estimators import Estimator
from offpolicy.evidence import TOO_FEW_EFFECTIVE
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import Metric
from offpolicy.results import (
    Estimate,
    Finding,
    Headline,
    ResultTable,
    Tuned,
    cells_of_estimates,
    estimate_named,
    finding,
    notes_of_estimates,
)

FEWEST_QUERIES = 20
"""With fewer, errors over queries are far from normal."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class RankingResult(ResultTable[Estimate]):
    """All estimates, in the order asked for; index by estimator: ``result["CAB"]``.

    In an `Estimate` about a ranker the policy is the ranker, rewards are clicks, and masses are
    shares of what documents count in the metric.
    """

    schema: ClassVar[str] = "offpolicy.ranking-result/3"
    row: ClassVar[type] = Estimate
    derived: ClassVar[tuple[str, ...]] = ("ranker",)

    metric: str
    higher_is_better: bool
    """Whether more of the metric is better."""
    impressions: int
    queries: int
    clicks: int
    estimates: tuple[Estimate, ...]
    headlines: tuple[Headline, ...] = ()
    """The one answer: CAB around the recalibrated model; none without propensities or clicks."""
    tuned: tuple[Tuned, ...] = ()
    """One for each parameter that was left out."""
    findings: tuple[Finding, ...] = ()
    """What stands against trusting the answer."""

    @property
    def ranker(self) -> str:
        """Its name."""
        return self.estimates[0].policy

    @property
    def headline(self) -> Headline | Estimate:
        """The one answer; where there is none, the first estimate."""
        return self.headlines[0] if self.headlines else self.estimates[0]

    def __getitem__(self, key: str | Estimator) -> Estimate:
        return estimate_named(self.estimates, key)

    def named(self, ranker: str) -> RankingResult:
        """The same, with the ranker's name."""

        def said(rows: tuple[Any, ...]) -> Any:
            return tuple(replace(row, policy=ranker) for row in rows)

        names = ("estimates", "headlines", "tuned")
        return replace(self, **{name: said(getattr(self, name)) for name in names})

    def sentence(self) -> str:
        """The answer in words, and what its interval covers."""
        row = self.headline
        better = "higher" if self.higher_is_better else "lower"
        lines = [
            f"{self.metric}: {row.value:.5g} [{row.interval.low:.5g}, {row.interval.high:.5g}] "
            f"({better} is better), from {self.impressions:,} impressions of {self.queries:,} "
            f"queries with {self.clicks:,} clicks.",
            f"  The interval covers {row.covers}.",
        ]
        if isinstance(row, Headline):
            lines.append(f"  {row.how}")
        return "\n".join(lines)

    def _cells(self) -> list[list[str]]:
        return cells_of_estimates(self.estimates)

    def _notes(self) -> list[str]:
        return notes_of_estimates(self.estimates)


def findings_of(log: RankingLog, metric: Metric, headline: Headline | Estimate) -> list[Finding]:
    """What stands against the answer about a ranker: few clicks, few queries, and the like."""
    findings: list[Finding] = []
    clicks = headline.rewarded if isinstance(headline, Headline) else headline.ess
    queries = log.queries
    if log.propensity is None:
        sentence = "The log has no propensities, so this is the model's word alone."
        findings += finding("no-examination", "warning", sentence)
    if clicks is not None and clicks < TOO_FEW_EFFECTIVE:
        sentence = (
            f"An effective {clicks:.3g} clicks stand behind the part of the number that is not "
            f"the model's."
        )
        findings += finding("few-clicks", "warning", sentence, clicks=clicks)
    if metric.needs_relevance and log.relevance is None:
        sentence = (
            f"What a document counts in {metric} depends on the relevance of others, for which the "
            f"model's word is taken. The interval does not know how far that is off."
        )
        findings += finding("metric-by-model", "warning", sentence)
    hidden = 1.0 - float(log.shown.mean())
    if hidden > 0.0:
        sentence = (
            f"{hidden:.0%} of the candidate documents were not shown, so no click can speak of "
            f"them. The answer takes the model's word, as if it were off there by no more than on "
            f"the documents that were examined least; the interval knows nothing worse. IPS and "
            f"CIPS count them as not relevant."
        )
        findings += finding("not-shown", "warning", sentence, share=hidden)
    if queries < FEWEST_QUERIES:
        sentence = f"There are {queries} queries, too few for normal errors."
        if queries == 1:
            sentence = "There is one query, and nothing says how others differ from it."
        findings += finding("few-queries", "warning", sentence, queries=queries)
    return findings
