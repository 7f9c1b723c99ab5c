"""What a page is made of: a verb's answer, what `compare` and `check` say besides, from one sample,
one model and one walk (and one more for differences of policies)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from offpolicy.evaluation._check import checked
from offpolicy.evaluation._compare import compared, question_of_pairs
from offpolicy.evaluation._evaluate import evaluated, named_policies
from offpolicy.evaluation._interval_kinds import check_kind
from offpolicy.evidence import Question, gather
from offpolicy.logs import BanditLog, LogScan
from offpolicy.results import Comparison, Report, Result


class Together(NamedTuple):
    """Answers to one question, and what `check` finds."""

    answers: tuple[Result | Comparison, ...]
    report: Report

    def to_html(self, path: str | Path) -> None:
        """Write the page."""
        from offpolicy.report.document import Results

        Results(self.answers, self.report.findings).to_html(path)


def evaluate_and_check(
    log: BanditLog | LogScan, policy: Any, *, interval: str = "default", **asked: Any
) -> Together:
    """What `evaluate` returns, with several policies also `compare`'s differences, each by itself,
    and what `check` says."""
    check_kind(interval, log)
    question = Question(log, named_policies(policy, "evaluate"), **asked, keep_sample=True)
    evidence = gather(question)
    answers: list[Result | Comparison] = [evaluated(evidence, interval)]
    if len(evidence) > 1 and evidence[0].weighed:
        answers.append(compared(evidence, "none"))
    return Together(tuple(answers), checked(evidence, question.reward_range))


def compare_and_check(
    log: BanditLog | LogScan,
    policies: Any,
    *,
    multiplicity: str = "holm",
    baseline: str | None = None,
    **asked: Any,
) -> Together:
    """What `compare` returns, and what `check` says."""
    question = question_of_pairs(log, policies, multiplicity, baseline, **asked, keep_sample=True)
    evidence = gather(question)
    comparison = compared(evidence, multiplicity, baseline)
    return Together((comparison,), checked(evidence, question.reward_range))
