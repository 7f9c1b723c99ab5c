"""The answer in one sentence, and what to know before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.report.html.markup import Child, Markup, element, joined, name
from offpolicy.report.html.numbers import count, percent, places_for, rounded, span
from offpolicy.report.sections.material import Material
from offpolicy.results import Finding

if TYPE_CHECKING:
    from offpolicy.results import Estimate, Headline

_SIGNS = {"problem": "▲ Problem", "warning": "● Warning", "note": "Note"}


def answer(material: Material) -> Markup:
    """(1) A sentence for every policy, the first one large."""
    result = material.result
    rows: list[Headline | Estimate] = list(material.headlines)
    if not rows and result is not None:
        rows = [result.estimates[0]]
    first, *rest = rows
    return element(
        "section",
        element("p", _kicker(material), class_="kicker"),
        element("h1", _sentence(first, material)),
        *_explained(first, material),
        *(
            joined(element("h2", _sentence(row, material)), *_explained(row, material))
            for row in rest
        ),
        id="answer",
    )


def _kicker(material: Material) -> Markup:
    files = () if material.provenance is None else material.provenance.files
    n = f"{material.logged.n:,} logged decision{'s' * (material.logged.n > 1)}"
    return joined(
        "Off-policy evaluation · ", n,
        *([" · ", name(files[0].name)] if len(files) == 1 else []),
        *([f" · {len(files)} files"] if len(files) > 1 else []),
    )  # fmt: skip


def _refusal(row: Headline | Estimate) -> str | None:
    return getattr(row, "refusal", None)


def _sentence(row: Headline | Estimate, material: Material) -> Markup:
    low, high = row.interval
    places = places_for(low, high)
    gap = row.value - material.logged.value
    side = "above" if gap >= 0.0 else "below"
    if _refusal(row) is not None:
        return joined("This log cannot tell how ", name(row.policy), " would have done.")
    return joined(
        name(row.policy), ": ",
        element("span", f"{rounded(row.value, places)} {span(low, high, places)}", class_="number"),
        f", {rounded(abs(gap), places)} {side} what ran.",
    )  # fmt: skip


def _explained(row: Headline | Estimate, material: Material) -> list[Child]:
    low, high = row.interval
    places, logged = places_for(low, high), material.logged
    told = f"{rounded(row.value, places)} {span(low, high, places)}"
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


def warnings(material: Material) -> Markup:
    """(2) What may make the answer wrong, and what to do; nothing else."""
    findings = material.findings
    loud = [one for one in findings if one.severity != "note"]
    quiet = [one for one in findings if one.severity == "note"]
    parts: list[Child] = [warning_of(one) for one in loud]
    if not loud:
        parts.append(element("p", _nothing(material)))
    if quiet:
        parts.append(
            element(
                "details",
                element("summary", f"{len(quiet)} thing{'s' * (len(quiet) > 1)} good to know"),
                *(element("p", f"{one.sentence} {one.advice}") for one in quiet),
            )
        )
    if material.checked is None:
        parts.append(
            element(
                "p",
                "This is what the evaluation itself came across. ",
                element("code", "offpolicy check"),
                " looks further: for duplicates, rounded propensities, rewards that are codes.",
                class_="soft",
            )
        )
    return element("section", element("h2", "Before you use it"), *parts, id="warnings")


def warning_of(one: Finding) -> Markup:
    """A finding in its box."""
    return element(
        "div",
        element("p", _SIGNS[one.severity], class_="tag"),
        element("p", one.sentence),
        element("p", element("strong", "What to do: "), one.advice),
        class_=f"warning {one.severity}",
        data_code=one.code,
    )


def _nothing(material: Material) -> str:
    if not material.summaries:
        return "This result was kept without what warnings are made from."
    n = count(float(material.logged.n))
    return (
        f"No warnings. Over {n} decisions, support, effective sample size, large weights, the "
        f"frequencies of the actions and the mean reward over the log show nothing unusual."
    )
