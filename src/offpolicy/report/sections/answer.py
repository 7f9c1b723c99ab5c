"""The answer in one sentence, and what to know before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from offpolicy.intervals import Interval
from offpolicy.report.html.markup import Child, Markup, element, joined, name, section
from offpolicy.report.html.numbers import (
    count,
    counted,
    in_brackets,
    percent,
    places_for,
    rounded,
    signed,
    with_interval,
)
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.results import (
    IDENTICAL,
    LEARNED_HERE,
    LOGGED,
    NOT_DECIDED,
    Difference,
    Estimate,
    Finding,
    Headline,
    shown_estimator,
)

_SIGNS = {"problem": "▲ Problem", "warning": "● Warning", "note": "Note"}


Said: TypeAlias = tuple[Child, Sequence[Child]]
"""A sentence, and what explains it."""


def answer(data: PageData, *also: Said) -> Markup:
    """Section (1) of the page: a sentence for every policy, the first one large; before them, if
    that was the question, which of the policies is better."""
    rows = data.main.headlines or data.rows[:1]
    top = f"Off-policy evaluation · {counted(data.main.logged.n, 'logged decision')}"
    told = [(_sentence(row, data), _explained(row, data)) for row in rows]
    return answers(kicker(top, data.provenance), [*_contest(data), *told, *also])


def _contest(data: PageData) -> list[Said]:
    """The best of the policies against the next, then against the others; against the baseline, if
    there is one. Nothing where they are compared with what ran alone."""
    comparison = data.comparison
    if data.result is not None or comparison is None:
        return []
    rows = [row for row in comparison.differences if LOGGED not in (row.first, row.second)]
    if not rows:
        return []
    if comparison.baseline is None:
        best = max(comparison.headlines, key=lambda row: (row.can_tell, row.value)).policy
        rivals = [row for row in rows if best in (row.first, row.second)]
        rows = [row if row.first == best else -row for row in rivals]
    rows.sort(key=lambda row: row.value, reverse=comparison.baseline is not None)
    lines = [_besides(rows[0]), *(row.sentence() for row in rows[1:MOST_POLICIES])]
    return [(_which(rows[0], data), [element("p", line, class_="lead") for line in lines if line])]


def _which(row: Difference, data: PageData) -> Markup:
    """Which of two policies is better, and by how much, large."""
    first, second = name(row.first), name(row.second)
    by = large_number(row.value, row.interval)
    here = LEARNED_HERE * data.main.flatters(row.first, row.second)
    if row.verdict == IDENTICAL:
        return joined(first, " and ", second, " are identical on this log.")
    if any(one.place in (None, row.first, row.second) for one in data.main.problems):
        return joined(first, " − ", second, ": ", by, ", not to be relied on: there is a problem.")
    if row.decided:
        shown = -row if row.better == row.second else row
        by = large_number(shown.value, shown.interval)
        better, worse = name(shown.first), name(shown.second)
        return joined(here, better, " is better than ", worse, " by ", by, ".")
    whether = "Not decided" if row.can_tell else "This log cannot tell"
    return joined(here, f"{whether} whether ", first, " is better than ", second, ": ", by, ".")


def _besides(row: Difference) -> str:
    """What the sentence about two policies says besides: why it cannot tell; how many rows can."""
    return row.sentence().partition("]. ")[2]


def answers(
    top: Markup, sentences: Sequence[tuple[Child, Sequence[Child]]], *after: Child
) -> Markup:
    """HTML of sentences, each with what explains it, the first one large."""
    parts: list[Child] = [top]
    for k, (sentence, explained) in enumerate(sentences):
        parts += [element("h2" if k else "h1", sentence), *explained]
    return element("section", *parts, *after, id="answer")


def kicker(said: Child, provenance: Provenance | None) -> Markup:
    """Line above a page's answer: what the page is, and of which files."""
    files = () if provenance is None else provenance.files
    named: list[Child] = []
    if files:
        named = [" · ", name(files[0].name) if len(files) == 1 else f"{len(files)} files"]
    return element("p", said, *named, class_="kicker")


def large_number(value: float, interval: tuple[float, float]) -> Markup:
    return element("span", with_interval(value, interval), class_="number")


class _Versus(NamedTuple):
    """A policy less what ran, by the paired difference: what decides, wherever the page says it."""

    verdict: str
    """Better, worse, not decided, identical; or that the log cannot tell."""
    value: float
    interval: Interval
    note: str = ""


def _versus(row: Headline, data: PageData) -> _Versus:
    difference = data.compared_with_logged(row.policy)
    if difference is None:
        low, high = row.compared
        value = min(max(row.value - data.main.logged.value, low), high)
        return _Versus(row.verdict, value, row.compared)
    verdict, note = difference.verdict, ""
    if difference.decided:
        verdict = "better" if difference.better == row.policy else "worse"
        if 0.0 in difference.interval:
            note = (
                f" It is decided by the adjusted p, {difference.adjusted_p_value:.2g}, though the "
                f"more cautious interval still holds 0."
            )
    elif difference.reason is not None:
        note = f" {difference.reason}"
    comparison = data.comparison
    assert comparison is not None
    if len(comparison.differences) > 1 and comparison.multiplicity != "none":
        others = len(comparison.differences) - 1
        note += (
            f" Its interval holds together with {counted(others, 'other')} on this page, and is "
            f"wider for it."
        )
    return _Versus(verdict, difference.value, difference.interval, note)


def _sentence(row: Headline | Estimate, data: PageData) -> Markup:
    told = [name(row.policy), ": ", large_number(row.value, row.interval)]
    if not isinstance(row, Headline):
        return joined(*told, ".")
    if not row.can_tell:
        return joined("This log cannot tell how ", name(row.policy), " would have done.")
    if any(one.place in (None, row.policy) for one in data.main.problems):
        return joined(*told, ", not to be relied on: there is a problem.")
    versus = _versus(row, data)
    if versus.verdict == IDENTICAL:
        return joined(*told, ", identical to what ran.")
    if data.main.flatters(row.policy):
        told.append(", measured on its training data, which is optimistic")
    if versus.verdict == "better":
        by = large_number(versus.value, versus.interval)
        return joined(*told, ". Better than what ran by ", by, ".")
    if versus.verdict == "worse":
        low, high = versus.interval
        by = large_number(-versus.value, (-high, -low))
        return joined(*told, ". Worse than what ran by ", by, ".")
    undecided = "Not decided" if versus.verdict == NOT_DECIDED else "This log cannot tell"
    return joined(*told, f". {undecided} whether it is better than what ran.")


def _explained(row: Headline | Estimate, data: PageData) -> list[Child]:
    places = max(places_for(*row.interval), 3)
    ran = f"What ran earned {rounded(data.main.logged.value, places)} a decision."
    covered = f"The {percent(row.level)} interval covers {row.covers}. " if row.covers else ""
    if not isinstance(row, Headline):
        chosen = "" if row.reason is None else f"; {row.reason}"
        by = f"{covered}By {shown_estimator(row.estimator)}{chosen}."
        return [element("p", ran, class_="lead"), element("p", by, class_="soft")]
    if row.refusal is not None:
        told = with_interval(row.value, row.interval)
        text = f"{row.refusal[0].upper()}{row.refusal[1:]} The estimate would be {told}. {ran}"
        return [element("p", text, class_="lead")]
    versus = _versus(row, data)
    if versus.verdict == IDENTICAL:
        text = "The policy gives every action the probability that the logger gave it."
        return [element("p", f"{ran} {text}", class_="lead")]
    how = "The difference is taken decision by decision"
    if versus.verdict not in ("better", "worse"):
        digits = places_for(*versus.interval)
        how += f": {signed(versus.value, digits)} {in_brackets(*versus.interval, digits)}"
    return [
        element("p", f"{ran} {how}.{versus.note}", class_="lead"),
        element("p", f"{covered}{row.how}", class_="soft"),
    ]


# -- warnings ----------------------------------------------------------------------------------


def warnings(data: PageData) -> Markup:
    """Section (2) of the page: what may make the answer wrong, and what to do; nothing else."""
    findings = data.findings
    loud = [finding for finding in findings if finding.severity != "note"]
    quiet = [finding for finding in findings if finding.severity == "note"]
    return warnings_section(
        loud,
        None if loud else element("p", _nothing(data)),
        element(
            "details",
            element("summary", f"{len(quiet)} thing{'s' * (len(quiet) > 1)} good to know"),
            *(element("p", f"{finding.sentence} {finding.advice}") for finding in quiet),
        )
        if quiet
        else None,
        element(
            "p",
            "This is what the evaluation itself came across. ",
            element("code", "offpolicy check"),
            " looks further: for duplicates, rounded propensities, rewards that are codes.",
            class_="soft",
        )
        if data.checked is None
        else None,
    )


def warnings_section(findings: Iterable[Finding], *after: Child) -> Markup:
    """Section of a page: findings in their boxes, and what else is to be known."""
    boxes = (_warning(finding) for finding in findings)
    return section("warnings", "Before you use it", *boxes, *after)


def _warning(finding: Finding) -> Markup:
    """HTML of a finding in its box."""
    return element(
        "div",
        element("p", _SIGNS[finding.severity], class_="tag"),
        element("p", finding.sentence),
        element("p", element("strong", "What to do: "), finding.advice),
        class_=f"warning {finding.severity}",
        data_code=finding.code,
    )


def _nothing(data: PageData) -> str:
    if not data.summaries:
        return "This result was kept without what warnings are made from."
    n = count(float(data.main.logged.n))
    return (
        f"No warnings. Over {n} decisions, support, effective sample size, large weights, the "
        f"frequencies of the actions and the mean reward over the log show nothing unusual."
    )
