"""What a page is made of: a verb's answer, what `compare` and `check` say besides, from one sample,
one model and one walk (and one more for differences of policies)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from offpolicy.errors import ParameterError
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


def _check_page(page: str | Path | None) -> None:
    """Raise before anything is read if there is nowhere to write a page."""
    if page is not None and not Path(page).absolute().parent.is_dir():
        raise ParameterError(f"report: there is no folder {Path(page).parent}.", column="report")


def _written(together: Together, page: str | Path | None) -> Together:
    """The answers, of which a page has been written, if one was asked for."""
    if page is not None:
        from offpolicy.report.document import Results

        Results(together.answers, together.report.findings).to_html(page)
    return together


def evaluate_and_check(
    log: BanditLog | LogScan,
    policy: Any,
    *,
    interval: str = "default",
    page: str | Path | None = None,
    **asked: Any,
) -> Together:
    """What `evaluate` returns, with several policies also `compare`'s differences, each by itself,
    and what `check` says."""
    _check_page(page)
    check_kind(interval, log)
    question = Question(log, named_policies(policy, "evaluate"), **asked, keep_sample=True)
    evidence = gather(question)
    answers: list[Result | Comparison] = [evaluated(evidence, interval)]
    if len(evidence) > 1 and evidence[0].weighed:
        answers.append(compared(evidence, "none"))
    return _written(Together(tuple(answers), checked(evidence, question.reward_range)), page)


def evaluate_and_compare(
    log: BanditLog | LogScan, policy: dict[str, Any], others: dict[str, Any], **asked: Any
) -> tuple[Result, Comparison]:
    """What `evaluate` returns of one policy, and how it compares with others and what ran, each
    difference by itself."""
    evidence = gather(Question(log, policy | others, **asked))
    comparison = replace(compared(evidence, "none"), summaries=())
    return evaluated(evidence[:1]), comparison


def compare_and_check(
    log: BanditLog | LogScan,
    policies: Any,
    *,
    multiplicity: str = "holm",
    baseline: str | None = None,
    page: str | Path | None = None,
    **asked: Any,
) -> Together:
    """What `compare` returns, and what `check` says."""
    _check_page(page)
    question = question_of_pairs(log, policies, multiplicity, baseline, **asked, keep_sample=True)
    evidence = gather(question)
    comparison = compared(evidence, multiplicity, baseline)
    return _written(Together((comparison,), checked(evidence, question.reward_range)), page)
