"""The curve over M, with a slider that reads off any of its points."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from functools import partial

from offpolicy.intervals import normal_quantile
from offpolicy.report.html.markup import Child, Markup, data_block, element, joined, name, section
from offpolicy.report.html.numbers import decimals, percent, places_for, rounded, short
from offpolicy.report.sections.estimates import left_out
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.report.svg.drawing import Mark, both_widths, table
from offpolicy.report.svg.lines import Line, line_chart
from offpolicy.report.svg.scales import around, decades, with_room_for
from offpolicy.results import Headline


def from_curve(row: Headline) -> str:
    """How the answer's value and its interval come from the curve, each with its own M."""
    places = places_for(*row.interval) + 1
    moved = rounded(row.value - row.values[row.grid.index(row.M)], places)
    text = f"Dot: the answer's value, at M = {short(row.M)}, where the estimated error is least"
    if moved.strip("−0.,"):
        text += f"; what rows beyond M say of the model's mean error moves it by {moved}"
    text += f". Bar: its {percent(row.level)} interval, which stands around "
    if row.interval_M == row.M:
        return f"{text}the same M."
    return (
        f"{text}M = {short(row.interval_M)}, where the error is least if the bias is up to five "
        f"times what it seems."
    )


def curves(data: PageData) -> Markup:
    """Section (4) of the page: what the answer would be at every M, and why this one was taken."""
    summaries = {summary.policy: summary for summary in data.summaries}
    several = len(data.main.headlines) > 1
    drawn = []
    for row in data.main.headlines[:MOST_POLICIES]:
        title = element("h3", name(row.policy)) if several else None
        if row.model == "logger":
            text = "Every weight is 1: the answer is the mean reward of the log, whatever M."
            drawn.append(joined(title, element("p", text)))
            continue
        summary = summaries.get(row.policy)
        largest = summary.weights.largest if summary and summary.weights else math.inf
        imputed = summary.imputed if summary else None
        ran = data.main.logged.value
        drawn.append(curve_over_M(row, title, ran=ran, largest=largest, imputed=imputed))
    lead = (
        "What the answer's estimator, CAB-DR, says for every M. A decision that the policy takes c "
        "times as often as the logger counts c times, but no more than M times; the rest is left "
        "to the reward model. Left edge: the model decides. Right edge: the logged rewards decide. "
        "Where the curve is flat the choice of M matters little; where it climbs or falls, the "
        "model and the rewards disagree."
    )
    if not drawn:
        lead = "Without propensities there are no weights, and no curve."
    return curves_section(lead, *drawn, left_out(len(data.main.headlines) - MOST_POLICIES))


def curves_section(lead: str, *parts: Child) -> Markup:
    return section("curve", "How far to trust the weights", element("p", lead), *parts)


def _stops(grid: Sequence[float], largest: float) -> list[int]:
    """Stops of the page's slider: the grid, 0, even steps on a logarithmic axis, and ∞, until
    nothing is clipped any more, and its end."""
    last = len(grid) - 1
    inner = [k for k in range(last) if k < 2 or grid[k - 1] < largest]
    return [*inner, last]


def _x_axis(row: Headline, stops: list[int]) -> tuple[list[float], list[tuple[float, str]]]:
    """The chart's axis: the grid is even on a logarithmic one, so that its points can be counted; 0
    stands left of it and ∞ right of it."""
    x = [float(k) for k in range(len(stops))]
    second = row.grid[stops[2]] if len(stops) > 3 else row.grid[2]
    inner = [tick for tick in decades(row.grid[stops[1]], second) if 0.9 < tick[0] < x[-1] - 1.5]
    return x, [(0.0, "0"), (x[-1], "∞"), *inner]


def curve_over_M(
    row: Headline,
    title: Markup | None,
    metric: str = "",
    *,
    ran: float | None = None,
    largest: float = math.inf,
    imputed: Sequence[float] | None = None,
) -> Markup:
    """Chart of a curve with bands, slider and table; beside it what ran, if that is known, and what
    is left to the model. Nothing is clipped beyond the ``largest`` weight of the log."""
    stops = _stops(row.grid, largest)
    x, ticks = _x_axis(row, stops)
    z = normal_quantile(row.level)
    values = [row.values[k] for k in stops]
    noise = [row.stderrs[k] for k in stops]
    error = [row.errors[k] for k in stops]
    left = None if imputed is None else [imputed[k] for k in stops]
    chosen = _nearest(row, stops, row.M)
    # One wild point must not flatten the rest: the axis shows the neighbourhood of the answer.
    taken, off = values[chosen], z * error[chosen]
    level = taken if ran is None else ran
    reach = 6.0 * max(off, abs(taken - level) / 3.0)
    near = [v for v in values if abs(v - taken) <= reach]
    limits = around([*near, taken - 1.6 * off, taken + 1.6 * off, row.value, *row.interval])
    limits = with_room_for(limits, level)
    told = _told(row, stops, left)
    alt = (
        f"Line chart: the estimate for every clipping constant M. At the chosen M = {short(row.M)} "
        f"it is {short(taken)}; at M = 0, by the model alone, {short(values[0])}; without "
        f"clipping {short(values[-1])}. The answer is {short(row.value)}."
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
            *_answer(row, x, stops),
        ],
        alt=alt, y_limits=limits, y_label=metric or "mean reward",
        marks=[Mark(x[chosen], f"taken: M = {short(row.M)}")],
        levels=[] if ran is None else [Mark(ran, f"what ran: {short(ran)}")],
    )  # fmt: skip
    mass = None if left is None else partial(
        draw,
        [Line(left, "second")],
        alt=f"Line chart: the share left to the model, {percent(left[0])} at M = 0 and "
        f"{percent(left[-1])} without clipping.",
        y_limits=(0.0, 1.0), y_label="share of the policy's probability left to the model",
        height=170.0, marks=[Mark(x[chosen], "")], percent=True, y_ticks=2,
    )  # fmt: skip
    number = f"M-{zlib.crc32((row.policy + metric).encode('utf-8', 'replace'))}"  # as in every run
    slider = element(
        "div",
        element("label", "Read off any M", for_=number),
        element("input", type="range", min="0", max=str(len(stops) - 1), value=str(chosen),
                step="1", id=number),
        element("output", told[chosen], for_=number),
        class_="slider",
        hidden=True,
    )  # fmt: skip
    head = ["M", "estimate", "stderr", "estimated error", "left to the model"]
    places = decimals(noise[chosen]) + 1
    body: list[list[Child]] = [
        [
            short(row.grid[k]), *(rounded(x, places) for x in numbers),
            "–" if left is None else percent(left[j]),
        ]
        for j, (k, *numbers) in enumerate(zip(stops, values, noise, error, strict=True))
    ]  # fmt: skip
    return element(
        "figure",
        title,
        both_widths(curve),
        None if mass is None else both_widths(mass),
        element(
            "figcaption",
            f"Dark band: one standard error, noise alone. Light band: the estimated error, noise "
            f"and bias. {from_curve(row)}",
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


def _answer(row: Headline, x: list[float], stops: list[int]) -> list[Line]:
    """The answer on its curve's chart: a dot, and its interval as an upright bar."""
    (low, high), place = row.interval, x[_nearest(row, stops, row.M)]
    middle, half = x[_nearest(row, stops, row.interval_M)], 0.0025 * x[-1]
    bar = Line([high, high], "bar", low=[low, low], x=[middle - half, middle + half])
    return [bar, Line([row.value], "points", dots=True, x=[place])]


def _told(row: Headline, stops: list[int], imputed: list[float] | None) -> list[str]:
    said = []
    for j, k in enumerate(stops):
        places = decimals(row.stderrs[k]) + 1
        text = f"M = {short(row.grid[k])}: estimate {rounded(row.values[k], places)}"
        text += f", standard error {rounded(row.stderrs[k], places)}"
        if math.isfinite(row.errors[k]):
            text += f", estimated error with bias {rounded(row.errors[k], places)}"
        if imputed is not None:
            text += f"; {percent(imputed[j])} left to the model"
        said.append(f"{text}.")
    return said


def _nearest(row: Headline, stops: list[int], M: float) -> int:
    """The slider's stop at M."""
    return min(range(len(stops)), key=lambda k: abs(_log(row.grid[stops[k]]) - _log(M)))


def _log(M: float) -> float:
    return math.log(min(max(M, 1e-3), 1e9))
