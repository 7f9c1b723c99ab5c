"""The page of an evaluation or a comparison: ten sections, and more where it was learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, plain
from offpolicy.report.html.style import FRAGMENT
from offpolicy.report.sections.answer import Said, answer, warnings
from offpolicy.report.sections.curve import curves
from offpolicy.report.sections.diagnostics import diagnostics
from offpolicy.report.sections.estimates import differences, estimators, notebook_forest
from offpolicy.report.sections.page_data import PageData
from offpolicy.report.sections.reproduction import reproduction
from offpolicy.report.svg.drawing import WIDE, bare_table
from offpolicy.results import FEW_EFFECTIVE, TOO_HEAVY, ResultTable


def page(data: PageData, *further: Child, verb: str = "evaluate", also: Sequence[Said] = ()) -> str:
    """The page of an evaluation, as one HTML file; ``further`` sections stand before the last, and
    what is said ``also`` after the answer."""
    title = f"{plain(data.policies[0], 60)}: off-policy evaluation"
    compares = data.result is None
    sections: list[Child] = [
        answer(data, *also),
        warnings(data),
        differences(data) if compares else None,
        estimators(data),
        curves(data),
        *diagnostics(data),
        None if compares else differences(data),
        *further,
        reproduction(data.provenance, verb),
    ]
    return framed(title, sections, data.twin)


# -- notebooks ---------------------------------------------------------------------------------


def fragment(results: ResultTable[Any], head: list[str], *body: list[str]) -> str:
    """HTML for notebooks: the sentences, the forest plot, and a table."""
    lines = [joined(line, element("br")) for line in results.sentence().splitlines()]
    heavy = any(TOO_HEAVY in cell for row in body for cell in row)
    return element(
        "div",
        element("style", Markup(FRAGMENT)),
        element("p", joined(*lines)),
        notebook_forest(results, WIDE),
        bare_table(head, body),
        element("p", f"{TOO_HEAVY} {FEW_EFFECTIVE}") if heavy else None,
        class_="offpolicy",
    )
