"""Lines, areas and dots over one axis, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from offpolicy.report.html.markup import Child, Markup, element, number
from offpolicy.report.svg.drawing import Mark, label, path, rule, svg, upright, x_axis_of, y_axis_of
from offpolicy.report.svg.scales import Scale, linear


class Line(NamedTuple):
    """A line, or with ``low`` an area, or ``dots``; ``label`` is written at its end."""

    y: Sequence[float]
    class_: str
    label: str = ""
    low: Sequence[float] | None = None
    dots: bool = False
    whisker: Sequence[float] | None = None
    x: Sequence[float] | None = None
    """If other than the chart's."""


def line_chart(
    x: Sequence[float],
    lines: Sequence[Line],
    width: float,
    *,
    alt: str,
    x_limits: tuple[float, float],
    x_ticks: Sequence[tuple[float, str]] | None = None,
    y_limits: tuple[float, float],
    x_label: str,
    y_label: str,
    height: float = 280.0,
    marks: Sequence[Mark] = (),
    levels: Sequence[Mark] = (),
    percent: bool = False,
    cursor: bool = False,
    y_ticks: int = 5,
    margin: float = 0.0,
) -> Markup:
    """Chart of lines, areas and dots over one x; ``marks`` stand at an x and ``levels`` lie at a y.

    The x axis has ``x_ticks``, if they are given, and a margin at both ends.
    """
    narrow = width < 500.0
    left, right = 46.0, width - (10.0 if narrow else 128.0)
    top, bottom = 42.0 if marks else 28.0, height - 44.0
    about = 4 if narrow else 5
    across = linear(*x_limits, left + margin, right - margin, about=about, ticks=x_ticks)
    across = across._replace(start=left, stop=right)
    up = linear(*y_limits, bottom, top, about=y_ticks, percent=percent)
    low, high = y_limits

    named = up._replace(stop=24.0) if marks else up
    parts: list[Child] = [
        y_axis_of(named, left, right, y_label),
        x_axis_of(across, bottom, x_label),
    ]
    labels: list[tuple[float, str, str]] = []
    for level in levels:
        if low <= level.value <= high:
            y = up.at(level.value)
            parts.append(rule(left, y, right, y, "mark"))
            labels.append((y, level.label, "t s"))
        else:
            edge, sign = (bottom, "▾") if level.value < low else (top, "▴")
            labels.append((edge, f"{sign} {level.label}", "t s"))
    for line in lines:
        places = [across.at(value) for value in (x if line.x is None else line.x)]
        parts += _drawn(line, places, up, y_limits, radius=3.0 if narrow else 3.5)
        inside = [up.at(value) for value in line.y if low <= value <= high]
        if line.label and inside:
            labels.append((inside[-1], line.label, f"t s {line.class_.split()[-1]}-text"))
    for mark in marks:
        place = across.at(mark.value)
        parts.append(upright(place, (top, bottom), (left, right), mark.label, chosen=True))
    if cursor:
        stops = Markup(",".join(number(across.at(value)) for value in x))
        movable = rule(0.0, top, 0.0, bottom, "cursor-line")
        parts.append(element("g", movable, class_="cursor idle", data_stops=stops))
    parts += _end_labels(labels, right, bottom, top, narrow=narrow)
    return svg(width, height, alt, *parts)


def _drawn(
    line: Line, places: Sequence[float], up: Scale, limits: tuple[float, float], *, radius: float
) -> list[Child]:
    """A chart's areas and whiskers are cut off where its axis ends; lines break, dots go."""
    low, high = limits

    def cut(value: float) -> float:
        return up.at(min(max(value, low), high))

    def at(value: float) -> float:
        return up.at(value) if low <= value <= high else math.nan

    if line.low is not None:
        top = [(x, cut(y)) for x, y in zip(places, line.y, strict=True)]
        bottom = [(x, cut(y)) for x, y in zip(places, line.low, strict=True)]
        return [path([*top, *reversed(bottom)], line.class_)]
    points = [(x, at(y)) for x, y in zip(places, line.y, strict=True)]
    if not line.dots:
        return [path(points, line.class_)]
    whiskers: list[Child] = []
    if line.whisker is not None:
        for x, y, reach in zip(places, line.y, line.whisker, strict=True):
            whiskers.append(rule(x, cut(y - reach), x, cut(y + reach), "whisker"))
    return whiskers + [
        element("circle", cx=x, cy=y, r=radius, class_=line.class_)
        for x, y in points
        if math.isfinite(y)
    ]


def _end_labels(
    labels: Sequence[tuple[float, str, str]],
    right: float,
    bottom: float,
    top: float,
    *,
    narrow: bool,
) -> list[Child]:
    """A chart's labels beside the ends of its lines, moved apart; on a phone, inside above them."""
    shown = sorted((text for text in labels if math.isfinite(text[0])), key=lambda text: text[0])
    places: list[float] = []
    for y, _, _ in shown:
        places.append(max(y, places[-1] + 15.0 if places else top, top))
    limit = bottom
    for k in reversed(range(len(places))):
        places[k] = min(places[k], limit)
        limit = places[k] - 15.0
    placed: list[Child] = []
    for y, (_, said, class_) in zip(places, shown, strict=True):
        if narrow:
            placed.append(label(right - 2.0, y - 6.0, said, f"{class_} halo", "end"))
        else:
            placed.append(label(right + 8.0, y + 4.0, said, class_))
    return placed
