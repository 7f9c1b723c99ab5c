"""The curve over M, with a slider that reads off any of its points."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from offpolicy.intervals import normal_quantile
from offpolicy.report.html.markup import Child, Markup, data_block, element, name, section
from offpolicy.report.html.numbers import in_brackets, percent, places_for, rounded, short
from offpolicy.report.sections.estimates import left_out
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.report.svg.drawing import Mark, both_widths, table
from offpolicy.report.svg.lines import Line, line_chart
from offpolicy.report.svg.scales import around, decades, with_room_for

if TYPE_CHECKING:
    from offpolicy.results import Headline, Summary


class Swept(NamedTuple):
    """An answer for every M of a grid: 0, even steps on a logarithmic axis, and ∞."""

    name: str
    grid: Sequence[float]
    values: Sequence[float]
    stderrs: Sequence[float]
    errors: Sequence[float]
    """The estimated error at each M, bias included."""
    M: float
    """The one that was taken, and the answer with it."""
    value: float
    level: float
    measure: str = "mean reward"
    ran: float | None = None
    """What ran, if that is known."""
    largest: float = math.inf
    """Weight in the log; beyond, nothing is clipped."""
    imputed: Sequence[float] | None = None


def _swept(row: Headline, summary: Summary | None, data: PageData) -> Swept:
    weights = None if summary is None else summary.weights
    return Swept(
        row.policy, row.grid, row.values, row.stderrs, row.errors, row.M, row.value,
        data.level,
        ran=data.main.logged.value,
        largest=math.inf if weights is None else weights.largest,
        imputed=None if summary is None else summary.imputed,
    )  # fmt: skip


def curves(data: PageData) -> Markup:
    """Section (4) of the page: what the answer would be at every M, and why this one was taken."""
    summaries = {summary.policy: summary for summary in data.summaries}
    several = len(data.main.headlines) > 1
    drawn = [
        curve_over_M(
            _swept(row, summaries.get(row.policy), data),
            element("h3", name(row.policy)) if several else None,
        )
        for row in data.main.headlines[:MOST_POLICIES]
    ]
    lead = (
        "A decision that the policy takes M times as often as the logger counts M times, and no "
        "more: what is beyond M is left to the reward model. Far left all is the model's word, far "
        "right all is the weights'. Where the curve is flat the choice matters little; where it "
        "climbs or falls, the model and the rewards disagree."
    )
    if not drawn:
        lead = "Without propensities there are no weights, and no curve."
    return curves_section(lead, *drawn, left_out(len(data.main.headlines) - MOST_POLICIES))


def curves_section(lead: str, *parts: Child) -> Markup:
    return section("curve", "How far to trust the weights", element("p", lead), *parts)


def _stops(row: Swept) -> list[int]:
    """Stops of the page's slider: the grid until nothing is clipped any more, and its end."""
    last = len(row.grid) - 1
    inner = [k for k in range(last) if k < 2 or row.grid[k - 1] < row.largest]
    return [*inner, last]


def _x_axis(row: Swept, stops: list[int]) -> tuple[list[float], list[tuple[float, str]]]:
    """The chart's axis: the grid is even on a logarithmic one, so that its points can be counted; 0
    stands left of it and ∞ right of it."""
    x = [float(k) for k in range(len(stops))]
    second = row.grid[stops[2]] if len(stops) > 3 else row.grid[2]
    inner = [tick for tick in decades(row.grid[stops[1]], second) if 0.9 < tick[0] < x[-1] - 1.5]
    return x, [(0.0, "0"), (x[-1], "∞"), *inner]


def curve_over_M(row: Swept, title: Markup | None, key: str = "") -> Markup:
    """Chart of a curve with bands, slider and table; ``key`` tells curves of one name apart."""
    stops = _stops(row)
    x, ticks = _x_axis(row, stops)
    z = normal_quantile(row.level)
    values = [row.values[k] for k in stops]
    noise = [z * row.stderrs[k] for k in stops]
    error = [z * row.errors[k] for k in stops]
    imputed = None if row.imputed is None else [row.imputed[k] for k in stops]
    chosen = min(range(len(stops)), key=lambda k: abs(_log(row.grid[stops[k]]) - _log(row.M)))
    # One wild point must not flatten the rest: the axis shows the neighbourhood of the answer.
    taken, off = values[chosen], error[chosen]
    ran = taken if row.ran is None else row.ran
    reach = 6.0 * max(noise[chosen], off, abs(taken - ran) / 3.0)
    near = [v for v in values if abs(v - taken) <= reach]
    limits = with_room_for(around([*near, taken - 1.6 * off, taken + 1.6 * off]), ran)
    told = _told(row, stops, noise, imputed)
    alt = (
        f"Line chart: the estimate for every clipping constant M. At the chosen M = {short(row.M)} "
        f"it is {short(row.value)}; at M = 0, by the model alone, {short(values[0])}; without "
        f"clipping {short(values[-1])}."
    )

    draw = partial(
        line_chart, x, x_limits=(0.0, x[-1]), x_ticks=ticks, x_label="M, the largest weight",
        cursor=True,
    )  # fmt: skip
    curve = partial(
        draw,
        [
            _band(values, error, "bias"),
            _band(values, noise, "noise"),
            Line(values, "line", "estimate"),
        ],
        alt=alt, y_limits=limits, y_label=row.measure,
        marks=[Mark(x[chosen], f"chosen: M = {short(row.M)}")],
        levels=[] if row.ran is None else [Mark(ran, f"what ran: {short(ran)}")],
    )  # fmt: skip
    mass = None if imputed is None else partial(
        draw,
        [Line(imputed, "second")],
        alt=f"Line chart: the share left to the model, {percent(imputed[0])} at M = 0 and "
        f"{percent(imputed[-1])} without clipping.",
        y_limits=(0.0, 1.0), y_label="share of the policy's probability left to the model",
        height=170.0, marks=[Mark(x[chosen], "")], percent=True, y_ticks=2,
    )  # fmt: skip
    number = f"M-{zlib.crc32((row.name + key).encode('utf-8', 'replace'))}"  # the same in every run
    slider = element(
        "div",
        element("label", "Read off any M", for_=number),
        element("input", type="range", min="0", max=str(len(stops) - 1), value=str(chosen),
                step="1", id=number),
        element("output", told[chosen], for_=number),
        class_="slider",
        hidden=True,
    )  # fmt: skip
    head = ["M", "estimate", "low", "high", "left to the model", "estimated error"]
    places = places_for(taken - noise[chosen], taken + noise[chosen]) + 1
    body: list[list[Child]] = [
        [
            short(row.grid[k]), rounded(v, places), rounded(v - e, places), rounded(v + e, places),
            "–" if imputed is None else percent(imputed[j]), rounded(row.errors[k], places),
        ]
        for j, (k, v, e) in enumerate(zip(stops, values, noise, strict=True))
    ]  # fmt: skip
    return element(
        "figure",
        title,
        both_widths(curve),
        None if mass is None else both_widths(mass),
        element(
            "figcaption",
            f"Dark band: the {percent(row.level)} interval for noise alone. Light band: with "
            f"the estimated bias as well. M = {short(row.M)} has the least of both together.",
        ),
        slider,
        data_block(json.dumps(told, ensure_ascii=False)),
        table(head, body, "The curve in numbers"),
        data_curve="M",
    )


def _band(values: Sequence[float], halves: Sequence[float], class_: str) -> Line:
    """An area of a chart, as far to both sides of the values."""
    pairs = list(zip(values, halves, strict=True))
    return Line([v + half for v, half in pairs], class_, low=[v - half for v, half in pairs])


def _told(
    row: Swept, stops: list[int], noise: list[float], imputed: list[float] | None
) -> list[str]:
    said = []
    for j, k in enumerate(stops):
        value, e = row.values[k], noise[j]
        low, high = value - e, value + e
        places = places_for(low, high) + 1
        around_it = in_brackets(low, high, places)
        text = f"M = {short(row.grid[k])}: {rounded(value, places)} {around_it}"
        if imputed is not None:
            text += f"; {percent(imputed[j])} left to the model"
        if math.isfinite(row.errors[k]):
            text += f"; estimated error {rounded(row.errors[k], places)}, bias included"
        said.append(f"{text}.")
    return said


def _log(M: float) -> float:
    return math.log(min(max(M, 1e-3), 1e9))
