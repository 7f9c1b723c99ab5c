"""The page: ten sections, one style, one script, and nothing that leaves it."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from offpolicy.report.clipping import curves
from offpolicy.report.closing import reproduction
from offpolicy.report.drawing import WIDE, bare_table
from offpolicy.report.estimates import differences, estimators, notebook_forest
from offpolicy.report.markup import Markup, data_block, element, joined, plain
from offpolicy.report.material import Material
from offpolicy.report.opening import answer, warnings
from offpolicy.report.script import SCRIPT
from offpolicy.report.shown_log import model, over_log, support, weights
from offpolicy.report.style import FRAGMENT, STYLE

if TYPE_CHECKING:
    from offpolicy.differences import Comparison
    from offpolicy.results import Result

LONGEST_IN_TWIN = 1000
"""Characters of a text in the JSON that goes with the page: beyond, it is cut, and says so."""


def page(material: Material) -> str:
    """All of it, as one HTML file."""
    title = f"{plain(material.policies[0], 60)}: off-policy evaluation"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        element(
            "main",
            answer(material),
            warnings(material),
            estimators(material),
            curves(material),
            weights(material),
            support(material),
            model(material),
            over_log(material),
            differences(material),
            reproduction(material),
        ),
        element("footer", _signed()),
        data_block(_bounded(material.twin), id="twin"),
        element("script", Markup(SCRIPT)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _signed() -> str:
    from offpolicy import __version__

    return f"Made by offpolicy {__version__}. This file asks nothing of any server."


def _policy() -> Markup:
    """What the browser may do: apply our style and run our script, both known by their hashes."""
    style, script = (_hash(text) for text in (STYLE, SCRIPT))
    return Markup(
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _bounded(twin: str) -> str:
    """JSON in which no text is longer than `LONGEST_IN_TWIN`, on few lines."""
    return json.dumps(_cut(json.loads(twin)), ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {_cut(key): _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
        if len(value) > LONGEST_IN_TWIN:
            return f"{value[:LONGEST_IN_TWIN]}… ({len(value):,} characters)"
    return value


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
