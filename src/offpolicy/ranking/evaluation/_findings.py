"""What stands against trusting an answer about a ranker."""

from __future__ import annotations

from offpolicy.evidence import TOO_FEW_EFFECTIVE
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.evaluation._result import RankingEstimate
from offpolicy.results import Finding, finding

FEWEST_QUERIES = 20
"""With fewer, errors over queries are far from normal."""


def findings_of(log: RankingLog, headline: RankingEstimate) -> tuple[Finding, ...]:
    """Of the one answer, from its log."""
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
