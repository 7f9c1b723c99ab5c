"""The page of an evaluation or a comparison: ten sections, and more where it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.report.clipping import curves
from offpolicy.report.closing import reproduction
from offpolicy.report.drawing import WIDE, bare_table
from offpolicy.report.estimates import differences, estimators, notebook_forest
from offpolicy.report.frame import framed
from offpolicy.report.markup import Child, Markup, element, joined, plain
from offpolicy.report.material import Material
from offpolicy.report.opening import answer, warnings
from offpolicy.report.shown_log import model, over_log, support, weights
from offpolicy.report.style import FRAGMENT

if TYPE_CHECKING:
    from offpolicy.differences import Comparison
    from offpolicy.results import Result


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
