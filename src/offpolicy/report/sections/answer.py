"""The answer in one sentence, and what to know before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from offpolicy.report.html.markup import Child, Markup, element, joined, name, section
from offpolicy.report.html.numbers import (
    count,
    counted,
    percent,
    places_for,
    rounded,
    with_interval,
)
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.sections.page_data import PageData
from offpolicy.results import Finding

if TYPE_CHECKING:
    from offpolicy.results import Estimate, Headline

_SIGNS = {"problem": "▲ Problem", "warning": "● Warning", "note": "Note"}


def answer(data: PageData) -> Markup:
    """Section (1) of the page: a sentence for every policy, the first one large."""
    rows = data.main.headlines or data.rows[:1]
    top = f"Off-policy evaluation · {counted(data.main.logged.n, 'logged decision')}"
    return answers(
        kicker(top, data.provenance),
        [(_sentence(row, data), _explained(row, data)) for row in rows],
    )


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


def _refusal(row: Headline | Estimate) -> str | None:
    return getattr(row, "refusal", None)


def _sentence(row: Headline | Estimate, data: PageData) -> Markup:
    places = places_for(*row.interval)
    gap = row.value - data.main.logged.value
    side = "above" if gap >= 0.0 else "below"
    if _refusal(row) is not None:
        return joined("This log cannot tell how ", name(row.policy), " would have done.")
    return joined(
        name(row.policy), ": ",
        large_number(row.value, row.interval),
        f", {rounded(abs(gap), places)} {side} what ran.",
    )  # fmt: skip


def _explained(row: Headline | Estimate, data: PageData) -> list[Child]:
    low, high = row.interval
    places, logged = places_for(low, high), data.main.logged
    told = with_interval(row.value, row.interval)
    refusal = _refusal(row)
    ran = f"What ran earned {rounded(logged.value, max(places, 3))} a decision"
    if refusal is not None:
        text = f"{refusal[0].upper()}{refusal[1:]} The estimate would be {told}. {ran}."
        return [element("p", text, class_="lead")]
    sure = (
        ", which lies within the interval: the log does not settle which of the two is better."
        if low <= logged.value <= high
        else ", which lies outside the interval."
    )
    covered = f"The {percent(row.level)} interval covers {row.covers}." if row.covers else ""
    reason = f" Estimated by {_rounded_name(row)}" if row.reason is not None else ""
    reason += f", the clipping constant of {row.reason}." if reason else ""
    return [
        element("p", f"{ran}{sure}", class_="lead"),
        element("p", f"{covered}{reason}", class_="soft"),
    ]


def _rounded_name(row: Headline | Estimate) -> str:
    return row.estimator.split("(")[0] + (f" at M = {row.M:.4g}" if row.M is not None else "")


# -- warnings ----------------------------------------------------------------------------------


def warnings(data: PageData) -> Markup:
    """Section (2) of the page: what may make the answer wrong, and what to do; nothing else."""
    findings = data.findings
    loud = [finding for finding in findings if finding.severity != "note"]
    quiet = [finding for finding in findings if finding.severity == "note"]
    parts: list[Child] = []
    if not loud:
        parts.append(element("p", _nothing(data)))
    if quiet:
        parts.append(
            element(
                "details",
                element("summary", f"{len(quiet)} thing{'s' * (len(quiet) > 1)} good to know"),
                *(element("p", f"{finding.sentence} {finding.advice}") for finding in quiet),
            )
        )
    if data.checked is None:
        parts.append(
            element(
                "p",
                "This is what the evaluation itself came across. ",
                element("code", "offpolicy check"),
                " looks further: for duplicates, rounded propensities, rewards that are codes.",
                class_="soft",
            )
        )
    return warnings_section(loud, *parts)


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
