"""Pieces of charts: text, rules, lines and axes.

Colours and strokes are classes of the page's style.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from offpolicy.report.html.markup import Child, Markup, element, joined, number, plain
from offpolicy.report.svg.scales import Scale

WIDE, NARROW = 720.0, 336.0
"""Pixels: a chart is drawn for both, and shown at that size."""


Draw = Callable[[float], Markup]
"""What makes an SVG for a width."""


class Mark(NamedTuple):
    """A line across a chart, and what it is."""

    value: float
    label: str


def figure(draw: Draw, caption: Child, *behind: Child) -> Markup:
    """A chart for both widths, its caption, and what is behind it: the table."""
    below = element("figcaption", caption) if caption else None
    return element("figure", both_widths(draw), below, *behind)


def both_widths(draw: Draw) -> Markup:
    """A chart for screens and one for phones, of which one is shown."""
    wide = element("div", draw(WIDE), class_="wide")
    return joined(wide, element("div", draw(NARROW), class_="narrow"))


def table(head: Sequence[str], rows: Sequence[Sequence[Child]], what: str) -> Markup:
    """A chart's numbers, in HTML behind a disclosure; the first column names the row."""
    return element(
        "details",
        element("summary", what),
        element("div", bare_table(head, rows), class_="scroll", tabindex="0"),
    )


def bare_table(head: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    """An HTML table as it is."""
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", c) for c in row[1:]))
        for row in rows
    ]
    return element("table", element("thead", top), element("tbody", *body))


def facts(rows: Sequence[tuple[str, str]]) -> Markup:
    """An HTML table of what is called what, line by line."""
    return element("div", bare_table(["", ""], rows), class_="scroll left", tabindex="0")


def svg(width: float, height: float, alt: str, *children: Child) -> Markup:
    return element(
        "svg",
        element("title", alt),
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=alt,
    )


def label(x: float, y: float, said: str, class_: str = "t", anchor: str = "start") -> Markup:
    where = None if anchor == "start" else anchor
    return element("text", said, x=x, y=y, class_=class_, text_anchor=where)


def rule(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def upright(
    x: float,
    ends: tuple[float, float],
    sides: tuple[float, float],
    said: str,
    *,
    chosen: bool = False,
) -> Markup:
    """A chart's rule from top to bottom, and beside it, where there is more room, what it is."""
    top, bottom = ends
    anchor, nudge = ("end", -5.0) if x > sum(sides) / 2.0 else ("start", 5.0)
    return joined(
        rule(x, top - 4.0, x, bottom, "chosen" if chosen else "mark"),
        label(x + nudge, top + 4.0, said, "t s strong" if chosen else "t s", anchor),
    )


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line of a chart through the points; it breaks where one is not finite."""
    said, pen = [], "M"
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = "M"
            continue
        said.append(f"{pen}{number(x)} {number(y)}")
        pen = "L"
    return element("path", d=Markup("".join(said)), class_=class_)


def fitted(text: str, room: float) -> str:
    """A chart's label cut to the room there is, at some 7 pixels a character."""
    most = max(int(room / 7.0), 4)
    said = plain(text, 200)
    return said if len(said) <= most else f"{said[: most - 1]}…"


def x_axis_of(x: Scale, y: float, title: str, *, grid_top: float | None = None) -> Markup:
    parts: list[Child] = [rule(x.start, y, x.stop, y, "axis")]
    taken: list[tuple[float, float]] = []
    for value, said in x.ticks:
        place, half = x.at(value), 3.6 * len(said) + 4.0
        if grid_top is not None:
            parts.append(rule(place, grid_top, place, y, "grid"))
        parts.append(rule(place, y, place, y + 4.0, "axis"))
        # The first ticks are the more important ones: what would overlap them stays unwritten.
        if all(place + half < low or place - half > high for low, high in taken):
            taken.append((place - half, place + half))
            parts.append(label(place, y + 18.0, said, "t s", "middle"))
    parts.append(label(x.stop, y + 36.0, title, "t s", "end"))
    return element("g", *parts)


def y_axis_of(y: Scale, left: float, right: float, title: str) -> Markup:
    parts: list[Child] = []
    for value, said in y.ticks:
        place = y.at(value)
        parts += [
            rule(left, place, right, place, "grid"),
            label(left - 6.0, place + 4.0, said, "t s", "end"),
        ]
    parts.append(label(0.0, y.stop - 12.0, title, "t s"))
    return element("g", *parts)
