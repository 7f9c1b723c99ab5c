"""The page of an evaluation or a comparison: ten sections, and more where it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, plain
from offpolicy.report.html.style import FRAGMENT
from offpolicy.report.sections.clipping import curves
from offpolicy.report.sections.closing import reproduction
from offpolicy.report.sections.estimates import differences, estimators, notebook_forest
from offpolicy.report.sections.log import model, over_log, support, weights
from offpolicy.report.sections.material import Material
from offpolicy.report.sections.opening import answer, warnings
from offpolicy.report.svg.drawing import WIDE, bare_table

if TYPE_CHECKING:
    from offpolicy.results import Comparison, Result


def page(material: Material, *further: Child, verb: str = "evaluate") -> str:
    """All of it, as one HTML file; ``further`` sections stand before the last."""
    title = f"{plain(material.policies[0], 60)}: off-policy evaluation"
    sections: list[Child] = [
        answer(material),
        warnings(material),
        estimators(material),
        curves(material),
        weights(material),
        support(material),
        model(material),
        over_log(material),
        differences(material),
        *further,
        reproduction(material.provenance, verb),
    ]
    return framed(title, sections, material.twin)


# -- notebooks ---------------------------------------------------------------------------------


def fragment(found: Result | Comparison, head: list[str], *body: list[str]) -> str:
    """For notebooks: the sentences, the forest plot, and a table."""
    lines = [joined(line, element("br")) for line in found.sentence().splitlines()]
    return element(
        "div",
        element("style", Markup(FRAGMENT)),
        element("p", joined(*lines)),
        notebook_forest(found, WIDE),
        bare_table(head, body),
        class_="offpolicy",
    )
