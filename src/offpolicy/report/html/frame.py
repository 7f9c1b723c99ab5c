"""The frame of every page: head, style, script, the JSON twin, and nothing that leaves it."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from offpolicy.report.html.markup import Child, Markup, data_block, element
from offpolicy.report.html.script import SCRIPT
from offpolicy.report.html.style import STYLE

LONGEST_IN_TWIN = 1000
"""Characters of a text in the JSON that goes with the page: beyond, it is cut, and says so."""


def framed(title: str, sections: list[Child], twin: str) -> str:
    """One HTML file of these sections; ``twin`` is the same as JSON."""
    from offpolicy import __version__

    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_content_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(STYLE)),
    )
    short = json.dumps(_cut(json.loads(twin)), ensure_ascii=False, separators=(",", ":"))
    made = f"Made by offpolicy {__version__}. This file asks nothing of any server."
    body = element(
        "body",
        element("main", *sections),
        element("footer", made),
        data_block(short, id="twin"),
        element("script", Markup(SCRIPT)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _content_policy() -> Markup:
    """What the browser may do with a page: apply our style and run our script, known by hashes."""
    hashes = (hashlib.sha256(text.encode()).digest() for text in (STYLE, SCRIPT))
    style, script = (f"'sha256-{base64.b64encode(raw).decode()}'" for raw in hashes)
    return Markup(
        f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )


def _cut(value: Any) -> Any:
    """A page's JSON twin in which no text is longer than `LONGEST_IN_TWIN`."""
    if isinstance(value, dict):
        return {_cut(key): _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
        if len(value) > LONGEST_IN_TWIN:
            return f"{value[:LONGEST_IN_TWIN]}… ({len(value):,} characters)"
    return value
