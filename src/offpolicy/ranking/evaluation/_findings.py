"""What stands against trusting an answer about a ranker, and what to do about it."""

from __future__ import annotations

from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.evaluation._result import RankingEstimate, RankingResult
from offpolicy.results import Finding

_FEW = 20.0
_ADVICE = {
    "no propensities": "Estimate them (offpolicy rank propensities), or give a curve that is known "
    "(--propensities, --eta).",
    "clicks stand behind": "Log more impressions, or ask about a ranker that is closer to what was "
    "shown.",
    "were not shown": "Show more of the candidates, now and then, or compare rankers on those that "
    "were shown.",
    "too few for normal errors": "Log more queries: impressions of one query may depend on each "
    "other, and count little more than once.",
}
"""By words that each sentence of `caveats` has, and no other."""


def caveats(log: RankingLog, headline: RankingEstimate) -> list[str]:
    """Sentences, without what to do."""
    notes = []
    if log.propensity is None:
        notes.append("the log has no propensities, so this is the model's word alone.")
    if headline.clicks is not None and headline.clicks < _FEW:
        notes.append(
            f"an effective {headline.clicks:.3g} clicks stand behind the part of the number that "
            f"is not the model's."
        )
    if not log.shown.all():
        hidden = 1.0 - float(log.shown.mean())
        notes.append(
            f"{hidden:.0%} of the candidate documents were not shown; what is said of them is the "
            f"model's word alone, and IPS and CIPS count them as not relevant."
        )
    if int(log.cluster.max()) + 1 < _FEW:
        notes.append(f"there are {int(log.cluster.max()) + 1} queries, too few for normal errors.")
    return notes


def findings_of(result: RankingResult) -> tuple[Finding, ...]:
    """The warnings of a result, each with what to do."""
    return tuple(_finding(warning) for warning in result.warnings)


def _finding(warning: str) -> Finding:
    code, advice = next(
        ((words, advice) for words, advice in _ADVICE.items() if words in warning), ("other", "")
    )
    message = f"{warning[:1].upper()}{warning[1:]}"
    return Finding(code.replace(" ", "-"), "warning", None, message, advice)
