"""Charts of rows and columns as SVG: functions from numbers to markup, in one visual language.

A chart is drawn for a width in pixels, so that its text is as large as the page's. Every chart
says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from offpolicy.report.html.markup import Child, Markup, element
from offpolicy.report.svg.drawing import (
    Mark,
    fitted,
    label,
    path,
    rule,
    svg,
    upright,
    x_axis_of,
    y_axis_of,
)
from offpolicy.report.svg.scales import linear


class Row(NamedTuple):
    """A line of a forest plot: a value with its interval."""

    label: str
    value: float
    low: float
    high: float
    said: str
    """The same in numbers."""
    note: str = ""
    """What stands beside it, in a column of its own."""
    strong: bool = False
    dim: bool = False


def forest(
    rows: Sequence[Row],
    width: float,
    *,
    alt: str,
    axis: str,
    mark: Mark | None = None,
    limits: tuple[float, float],
    notes: str = "",
) -> Markup:
    """A forest plot: values with their intervals, which end in a tip where the axis ends before
    them; ``notes`` heads the column of the rows' notes."""
    narrow = width < 500.0
    beside = 0.0 if narrow or not notes else 92.0
    left, right = (8.0, width - 8.0) if narrow else (170.0 - beside / 4, width - 172.0 - beside)
    step = 44.0 if narrow else 30.0
    top = 26.0 if mark is not None or notes else 8.0
    bottom = top + step * len(rows) + 4.0
    x = linear(*limits, left, right, about=4 if narrow else 5)
    low, high = limits

    def inside(value: float) -> float:
        return x.at(min(max(value, low), high))

    parts: list[Child] = [x_axis_of(x, bottom, axis, grid_top=top)]
    if mark is not None and mark.value < low:
        parts.append(label(left, top - 11.0, f"◂ {mark.label}", "t s"))
    elif mark is not None and mark.value > high:
        parts.append(label(right, top - 11.0, f"{mark.label} ▸", "t s", "end"))
    elif mark is not None:
        place = x.at(mark.value)
        anchor = "start" if place < left + 70.0 else "end" if place > right - 70.0 else "middle"
        parts += [
            rule(place, top - 6.0, place, bottom, "mark"),
            label(place, top - 11.0, mark.label, "t s", anchor),
        ]
    if notes and not narrow:
        parts.append(label(width, top - 11.0, notes, "t s", "end"))
    for k, row in enumerate(rows):
        y = top + step * k + (30.0 if narrow else 16.0)
        kind = " strong" if row.strong else " dim" if row.dim else ""
        said = f"{row.said} {row.note}" if narrow and row.note else row.said
        start, end, base = (left, right, y - 12.0) if narrow else (0.0, width, y + 4.5)
        room, halo = (width - 7.0 * len(said) - 30.0, " halo") if narrow else (left - 14.0, "")
        parts += [
            label(start, base, fitted(row.label, room), f"t{kind}{halo}"),
            label(end - beside, base, said, f"t n{kind}{halo}", "end"),
        ]
        if beside and row.note:
            parts.append(label(end, base, row.note, "t n", "end"))
        for beyond, edge, way in ((row.low < low, left, -1.0), (row.high > high, right, 1.0)):
            if beyond:
                tip = [(edge - 6.0 * way, y - 5.0), (edge, y), (edge - 6.0 * way, y + 5.0)]
                parts.append(path(tip, f"range tip{kind}"))
        parts.append(rule(inside(row.low), y, inside(row.high), y, f"range{kind}"))
        if low <= row.value <= high:
            radius = 5.0 if row.strong else 4.0
            parts.append(element("circle", cx=x.at(row.value), cy=y, r=radius, class_=f"dot{kind}"))
    return svg(width, bottom + 44.0, alt, *parts)


# -- bars --------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """One row of bars: a share, the one it is compared with, and both in words."""

    label: str
    share: float
    other: float
    said: str
    flagged: bool = False


def bars(rows: Sequence[Bar], width: float, *, alt: str, axis: str) -> Markup:
    """Chart of pairs of horizontal bars, the second thin; on a phone, what they say is above."""
    narrow = width < 500.0
    left, right = (8.0, width - 8.0) if narrow else (170.0, width - 172.0)
    step = 40.0 if narrow else 26.0
    top, bottom = 4.0, 4.0 + step * len(rows) + 4.0
    most = max((max(row.share, row.other) for row in rows), default=1.0) or 1.0
    x = linear(0.0, most * 1.02, left, right, about=4, percent=True)
    parts: list[Child] = [x_axis_of(x, bottom, axis, grid_top=top)]
    for k, row in enumerate(rows):
        y = top + step * k + (22.0 if narrow else 6.0)
        start, end, base = (left, right, y - 6.0) if narrow else (0.0, width, y + 11.0)
        room = (width - 130.0 if narrow else left - 14.0) - (16.0 if row.flagged else 0.0)
        flag = "▲ " if row.flagged else ""
        parts += [
            label(start, base, flag + fitted(row.label, room), "t halo"),
            label(end, base, row.said, "t n halo", "end"),
            _bar(left, y, x.at(row.share) - left, 8.0, "bar"),
            _bar(left, y + 9.0, x.at(row.other) - left, 4.0, "bar other"),
        ]
    return svg(width, bottom + 44.0, alt, *parts)


def _bar(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return element("rect", x=x, y=y, width=max(width, 0.0), height=height, class_=class_)


class Column(NamedTuple):
    """A column of a histogram: what fills it, what is outlined, and whether it is in the tail."""

    share: float
    other: float
    tail: bool


def histogram(
    columns: Sequence[Column],
    ticks: Sequence[tuple[float, str]],
    width: float,
    *,
    alt: str,
    axis: str,
    y_label: str,
    tail_label: str = "",
    height: float = 260.0,
) -> Markup:
    """Chart of columns side by side: one share filled, one an outline. ``ticks`` count columns."""
    narrow = width < 500.0
    left, right, top, bottom = 46.0, width - 10.0, 44.0, height - 44.0
    most = max((max(column.share, column.other) for column in columns), default=1.0) or 1.0
    up = linear(0.0, most * 1.05, bottom, top, about=4, percent=True)
    across = linear(0.0, float(len(columns)), left, right, ticks=ticks)
    gap = 1.0 if narrow else 1.5
    parts: list[Child] = [
        y_axis_of(up._replace(stop=26.0), left, right, y_label),
        x_axis_of(across, bottom, axis),
    ]
    outline: list[tuple[float, float]] = [(left, bottom)]
    for k, column in enumerate(columns):
        a, b = across.at(float(k)), across.at(float(k + 1))
        if column.share > 0.0:
            y, kind = up.at(column.share), "bar tail" if column.tail else "bar"
            parts.append(_bar(a + gap / 2, y, b - a - gap, bottom - y, kind))
        outline += [(a, up.at(column.other)), (b, up.at(column.other))]
    parts.append(path([*outline, (right, bottom)], "outline"))
    first = next((k for k, column in enumerate(columns) if column.tail), None)
    if first is not None and tail_label:
        edge = across.at(float(first))
        parts.append(upright(edge, (top, bottom), (left, right), tail_label))
    return svg(width, height, alt, *parts)


def sparkline(values: Sequence[float]) -> str:
    """A chart in a line of text: ▁▂▅▇█."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    steps = "▁▂▃▄▅▆▇█"
    span = high - low or 1.0
    return "".join(
        steps[round((value - low) / span * 7.0)] if math.isfinite(value) else " "
        for value in values
    )
