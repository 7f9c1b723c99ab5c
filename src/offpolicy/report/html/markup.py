"""Markup from plain values: the one place where text becomes HTML.

Whatever a user's data says is text. `element` escapes every child and every attribute that is not
`Markup` already, and only this module makes `Markup` of text; so no name, however it is spelt, can
add an element. Characters that steer the display (controls, directions, zero widths) are shown by
their number instead.
"""

from __future__ import annotations

import html
import re

LONGEST = 80
"""Characters of a name that are shown."""
LONGEST_TEXT = 1500
"""Characters of a sentence that are shown."""

_STEERING = re.compile(
    "([\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff])\\1*"
)


class Markup(str):
    """HTML that is safe as it is."""

    __slots__ = ()


Child = str | None
"""Text, to be escaped; `Markup`; or nothing."""


def plain(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text for a page, of bounded length, in which nothing steers the display."""
    cut = text[:longest]
    shown = _STEERING.sub(_numbered, cut)
    return shown if len(cut) == len(text) else f"{shown}… ({len(text):,} characters)"


def _numbered(match: re.Match[str]) -> str:
    times = len(match[0])
    return f"⟨U+{ord(match[1]):04X}{f' × {times}' if times > 1 else ''}⟩"


def escaped(text: str, longest: int = LONGEST_TEXT) -> Markup:
    """Text as HTML of a page."""
    return Markup(html.escape(plain(text, longest)))


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """``<tag attribute="…">children</tag>``. ``class_`` is class, and ``aria_label`` aria-label;
    True is an attribute without a value, None and False are none."""
    said = "".join(_attribute(name, value) for name, value in attributes.items())
    inner = "".join(_child(child) for child in children)
    if tag in _EMPTY:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{inner}</{tag}>")


_EMPTY = ("br", "img", "meta", "link", "input")


def joined(*children: Child) -> Markup:
    """Pieces of a page's HTML, one after the other."""
    return Markup("".join(_child(child) for child in children))


def section(id_: str, title: str, *parts: Child) -> Markup:
    """A section of a page, under its heading."""
    return element("section", element("h2", title), *parts, id=id_)


def name(text: str, longest: int = LONGEST) -> Markup:
    """A user's name for something, in HTML, kept apart from the direction of what is around it."""
    return element("bdi", escaped(text, longest))


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else escaped(child)


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    called = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {called}"
    if isinstance(value, float):
        value = number(value)
    said = value if isinstance(value, Markup) else escaped(str(value))
    return f' {called}="{said}"'


def number(value: float) -> str:
    """A coordinate in a chart's SVG: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def data_block(text: str, **attributes: str) -> Markup:
    """JSON in a script element that is never run; no ``</script>`` can end it early."""
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    safe = safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return element("script", Markup(safe), type="application/json", **attributes)
