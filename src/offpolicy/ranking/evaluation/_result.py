"""What `evaluate` says about a ranker, and what stands against trusting it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import ClassVar, final

from offpolicy.estimators import Estimator, parse
from offpolicy.evidence import TOO_FEW_EFFECTIVE
from offpolicy.intervals import Interval
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import parse_metric
from offpolicy.results import Finding, ResultTable, Tuned, estimate_named, finding, shown_estimator

FEWEST_QUERIES = 20
"""With fewer, errors over queries are far from normal."""


@final
@dataclass(frozen=True, slots=True)
class RankingEstimate:
    """One estimator's answer.

    Attributes
    ----------
    estimator : str
        With its parameter: ``"CAB(M=10)"``.
    value, stderr
        The estimate, and its standard error over queries: impressions of one query may depend on
        each other.
    interval, level, covers
        The interval, its level, and what it covers: the ranker's value, if the model's error can
        be measured, else the estimator's own mean.
    bias, bias_stderr
        What of the value is thought to be bias, and how uncertain that is.
    imputed_mass
        The share of what counts as relevant that comes from the model.
    clicks
        Effective number of clicks behind the number; None if it rests on the model alone.
    largest_weight
        Of a click.
    recalibrated : bool
        Whether the model was recalibrated on the log's clicks.
    reason : str or None
        Why this parameter, if it was chosen.
    """

    estimator: str
    value: float
    stderr: float
    interval: Interval
    level: float
    covers: str
    bias: float
    bias_stderr: float
    imputed_mass: float
    clicks: float | None
    largest_weight: float
    recalibrated: bool
    reason: str | None

    @property
    def M(self) -> float | None:
        """Its clipping constant, if it has one."""
        member = parse(self.estimator)
        return member.parameter if member.parameter_name == "M" else None


@final
@dataclass(frozen=True, slots=True)
class RankingResult(ResultTable[RankingEstimate]):
    """All estimates, in the order asked for; index by estimator: ``result["CAB"]``."""

    schema: ClassVar[str] = "offpolicy.ranking-result/1"
    row: ClassVar[type] = RankingEstimate

    metric: str
    impressions: int
    queries: int
    clicks: int
    estimates: tuple[RankingEstimate, ...]
    headline: RankingEstimate
    """The one answer: CAB around the recalibrated model, M chosen from the log."""
    tuned: tuple[Tuned, ...] = ()
    """One for each parameter that was left out, the headline's first."""
    findings: tuple[Finding, ...] = ()
    """What stands against trusting the answer."""
    ranker: str = "The ranker"
    """Its name."""

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the metric is better."""
        return parse_metric(self.metric).higher_is_better

    def __getitem__(self, key: str | Estimator) -> RankingEstimate:
        return estimate_named(self.estimates, key)

    def sentence(self) -> str:
        """The answer in words, what its interval covers, and what is doubtful."""
        row = self.headline
        better = "higher" if self.higher_is_better else "lower"
        lines = [
            f"{self.metric}: {row.value:.5g} [{row.interval.low:.5g}, {row.interval.high:.5g}] "
            f"({better} is better), from {self.impressions:,} impressions of {self.queries:,} "
            f"queries with {self.clicks:,} clicks.",
            f"  The interval covers {row.covers}.",
        ]
        if row.reason is not None:
            model = " around the recalibrated model" if row.recalibrated else ""
            lines.append(f"  By {shown_estimator(row.estimator)}{model}; {row.reason}.")
        return "\n".join([*lines, *(f"  {item}" for item in self.findings)])

    def _cells(self) -> list[list[str]]:
        level = f"{self.headline.level:.4g}"
        head = ["estimator", "value", "stderr", f"low {level}", f"high {level}", "bias"]
        table = [[*head, "imputed", "clicks", "max weight"]]
        for row in self.estimates:
            numbers = [row.value, row.stderr, row.interval.low, row.interval.high, row.bias]
            clicks = "–" if row.clicks is None else f"{row.clicks:,.1f}"
            cells = [shown_estimator(row.estimator), *(f"{x:.5g}" for x in numbers)]
            table.append([*cells, f"{row.imputed_mass:.1%}", clicks, f"{row.largest_weight:.4g}"])
        return table

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, ranker: str = "The ranker"
    ) -> str:
        """The result as a page: one HTML file that needs nothing else, with the warnings, the
        charts and the tables behind them. Written to ``path`` whole or not at all."""
        from offpolicy.report.document import Results

        return Results((replace(self, ranker=ranker),)).to_html(path)

    def _check_read(self) -> None:
        """A metric has a name that is known."""
        parse_metric(self.metric)


def findings_of(log: RankingLog, headline: RankingEstimate) -> tuple[Finding, ...]:
    """What stands against the answer about a ranker: few clicks, few queries, and the like."""
    findings, clicks, queries = [], headline.clicks, log.queries
    if log.propensity is None:
        sentence = "The log has no propensities, so this is the model's word alone."
        findings += finding("no-examination", "warning", sentence)
    if clicks is not None and clicks < TOO_FEW_EFFECTIVE:
        sentence = (
            f"An effective {clicks:.3g} clicks stand behind the part of the number that is not "
            f"the model's."
        )
        findings += finding("few-clicks", "warning", sentence, clicks=clicks)
    hidden = 1.0 - float(log.shown.mean())
    if hidden > 0.0:
        sentence = (
            f"{hidden:.0%} of the candidate documents were not shown; what is said of them is the "
            f"model's word alone, and IPS and CIPS count them as not relevant."
        )
        findings += finding("not-shown", "warning", sentence, share=hidden)
    if queries < FEWEST_QUERIES:
        sentence = f"There are {queries} queries, too few for normal errors."
        findings += finding("few-queries", "warning", sentence, queries=queries)
    return tuple(findings)
