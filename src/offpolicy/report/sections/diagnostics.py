"""What the log holds for a policy: weights, actions, the reward model, and the order of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from offpolicy.report.html.markup import Child, Markup, element, name, plain, section
from offpolicy.report.html.numbers import (
    count,
    counted,
    in_brackets,
    percent,
    places_for,
    rounded,
    short,
)
from offpolicy.report.sections.estimates import left_out
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.report.svg.charts import Bar, Column, bars, histogram
from offpolicy.report.svg.drawing import Mark, figure, table
from offpolicy.report.svg.lines import Line, line_chart
from offpolicy.report.svg.scales import around, decades, with_room_for
from offpolicy.results import Action, Headline, OverLog, Summary, Support

_TAIL = 0.01


def diagnostics(data: PageData) -> list[Markup]:
    """Sections (5) to (8) of the page, with one chart for each policy."""
    several = len(data.policies) > 1
    more = left_out(len(data.policies) - MOST_POLICIES)
    sections = []
    for id_, (title, lead, draw) in _SECTIONS.items():
        parts: list[Child] = [element("p", lead)]
        for summary in data.summaries:
            if several:
                parts.append(element("h3", name(summary.policy)))
            parts.append(draw(summary, data))
        sections.append(section(id_, title, *parts, more))
    return sections


# -- weights -----------------------------------------------------------------------------------


def _weights(summary: Summary, _: PageData) -> Markup:
    """Chart of the distribution of the weights, on a logarithmic axis, and its tail's share."""
    weights = summary.weights
    if weights is None:
        return element("p", "Without propensities there are no weights.")
    start, rows, share = weights.tail(_TAIL)
    used = [k for k in range(len(weights.rows)) if weights.rows[k] > 0.0 or weights.weight[k] > 0.0]
    last = max(used, default=0) + 1
    has_tail = rows > 0.0 and 0.0 < share < 1.0
    edges = [0.0, *weights.edges, math.inf]
    columns = [
        Column(weights.rows[k], weights.weight[k], has_tail and edges[k] >= start * 0.999)
        for k in range(last)
    ]
    ticks = [tick for tick in decades(*weights.edges[:2]) if tick[0] <= len(columns) + 1e-9]
    summed = (
        f"Rows with weights of {short(start)} or more are {percent(rows)} of the log and hold "
        f"{percent(share)} of all weight."
        if has_tail
        else ""
    )
    alt = f"Histogram of the weights; the largest is {short(weights.largest)}. {summed}"

    draw = partial(
        histogram, columns, ticks, alt=alt, axis="weight (logarithmic; below 0.1 in the first)",
        y_label="share of rows (filled) and of all weight (outline)",
        tail_label=f"from {short(start)}: {percent(share)} of all weight" if has_tail else "",
    )  # fmt: skip
    lost = (
        f" {percent(weights.unsupported)} of the policy's probability is where the logger never "
        f"goes, and has no weight at all."
        if weights.unsupported > 0.0
        else ""
    )
    caption = (
        f"{summed} The largest weight is {short(weights.largest)}, their mean "
        f"{short(weights.mean)} (1 if the propensities are right and nothing is without support); "
        f"together they are worth {count(weights.effective)} rows of equal weight.{lost}"
    )
    shares = list(zip(weights.rows, weights.weight, weights.mass, strict=True))
    body = [
        [f"{short(edges[k])} to {short(edges[k + 1])}", *map(percent, shares[k])]
        for k in range(len(shares))
        if weights.rows[k] > 0.0 or weights.mass[k] > 0.0
    ]
    head = ["weight", "of the rows", "of all weight", "of the policy's probability"]
    return figure(draw, caption, table(head, body, "The weights in numbers"))


# -- actions -----------------------------------------------------------------------------------


def _support(summary: Summary, _: PageData) -> Markup:
    """Chart of what the policy wants and what the logger did, action by action."""
    support = summary.support
    rows = [*support.actions, *([] if support.other is None else [support.other])]
    labels = [_label(row, support) for row in rows]
    shown = [
        Bar(label, row.policy, row.logging, f"{percent(row.policy)} / {percent(row.logging)}",
            row.unsupported > 1e-6)
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    alt = "Bars: share of the policy and of the logger for each action. " + "; ".join(
        f"{plain(bar.label, 40)} {bar.said}" for bar in shown
    )

    draw = partial(bars, shown, alt=alt, axis="policy (thick) / logger (thin)")
    told = []
    if any(row.unsupported > 1e-6 for row in rows):
        told.append("▲ marks actions that the policy takes where the logger never does.")
    if not support.exact:
        told.append(
            "Shares are estimated from what was chosen, as the probabilities of the other "
            "candidates are not in the log."
        )
    if support.short > 0.0:
        told.append(
            f"The log has very many actions: they were counted in fixed memory, and no share is "
            f"short by more than {percent(support.short)}."
        )
    body: list[list[Child]] = [
        [
            name(label), percent(row.policy), percent(row.logging), percent(row.chosen),
            "–" if row.reward is None else short(row.reward), percent(row.unsupported),
        ]
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    head = ["action", "policy", "logger", "chosen", "mean reward", "without support"]
    return figure(draw, " ".join(told), table(head, body, "The actions in numbers"))


def _label(row: Action, support: Support) -> str:
    if row is not support.other:
        return row.name
    return f"{'at least ' if support.short else ''}{counted(support.others, 'other')}"


# -- the reward model --------------------------------------------------------------------------


def _calibration(summary: Summary, data: PageData) -> Markup:
    """Chart of predictions against rewards."""
    calibration, headline = summary.calibration, data.headline_of(summary.policy)
    if calibration is None:
        text = "No reward model was given, and there was nothing to train one from."
        if headline is not None and headline.model != "logger":
            text += f" The answer is by CAB-DR around {headline.around}."
        return element("p", text)
    reach = [2.0 * e for e in calibration.stderr]
    ends = [*calibration.predicted, *calibration.observed, *calibration.recalibrated]
    low, high = around([*ends, *(o + e for o, e in zip(calibration.observed, reach, strict=True))])

    who = ""
    if calibration.trained:
        who = f"The model, {calibration.trained}, was trained on the log itself, cross-fitted. "
    fit = f"{who}It explains {percent(calibration.fit)} of the variance of the rewards."
    if calibration.fit < 0.0:
        fit = (
            f"{who}Taken as it is, it fits the rewards worse than their mean would (R² = "
            f"{calibration.fit:.2f})."
        )
    if headline is not None and headline.model != "logger":
        used = "it, recalibrated on the log" if headline.model == "model" else headline.around
        fit += f" Rings: what the answer uses, {used}. R² {calibration.fit_recalibrated:.2f}."
    alt = f"Calibration plot in {len(calibration.rows)} classes. {fit}"

    lines = [
        Line((low, high), "ideal", x=(low, high)),
        Line(calibration.recalibrated, "ring", dots=True),
        Line(calibration.observed, "points", dots=True, whisker=reach),
    ]
    draw = partial(
        line_chart, calibration.predicted, lines, alt=alt, x_limits=(low, high),
        y_limits=(low, high), x_label="predicted reward", y_label="mean reward observed",
        height=320.0,
    )  # fmt: skip
    places = places_for(low, high) + 1
    columns = (
        calibration.predicted, calibration.observed, calibration.stderr, calibration.recalibrated,
    )  # fmt: skip
    body = [
        [*(rounded(x, places) for x in numbers), percent(share)]
        for share, *numbers in zip(calibration.rows, *columns, strict=True)
    ]
    head = ["predicted", "observed", "stderr", "recalibrated", "of the rows"]
    return figure(draw, fit, table(head, body, "The calibration in numbers"))


# -- over the log ------------------------------------------------------------------------------


def _over_log(summary: Summary, data: PageData) -> Markup:
    """Chart of the value by the order of the log, with a confidence sequence."""
    course = summary.over_log
    if course is None:
        why = "Without propensities" if summary.weights is None else "With numbers this large"
        return element("p", f"{why} there is nothing to follow over the log.")
    parts, n = len(course.rows), course.rows[-1]
    tenths = _tenths(course)
    middle = [place for place, _, _ in tenths]
    values, ran = [value for _, value, _ in tenths], [logged for _, _, logged in tenths]
    last, width_last = course.so_far[-1], course.high[-1] - course.low[-1]
    limits = around([*values, last - width_last, last + width_last])
    for end in (min(ran), max(ran)):
        limits = with_room_for(limits, end)

    alt = (
        f"Line chart: the estimate over {count(n)} rows in {parts} stretches. It ends at "
        f"{short(course.so_far[-1])}, with a confidence sequence from {short(course.low[-1])} to "
        f"{short(course.high[-1])}."
    )

    lines = [
        Line(course.high, "noise", low=course.low),
        Line(ran, "ran", "what ran", x=middle),
        Line(values, "ring", dots=True, x=middle),
        Line(course.so_far, "line", "policy so far"),
    ]
    logged = Mark(data.main.logged.value, f"what ran: {short(data.main.logged.value)}")
    levels = [] if limits[0] <= logged.value <= limits[1] else [logged]
    draw = partial(
        line_chart, course.rows, lines, alt=alt, x_limits=(0.0, n), y_limits=limits,
        x_label="decisions, in the log's order", y_label="mean reward", levels=levels,
    )  # fmt: skip
    order = ""
    if course.since is not None and course.until is not None:
        order = (
            f" The rows are in order of time, from {_when(course.since[0], course)} to "
            f"{_when(course.until[-1], course)}."
            if course.in_order
            else " The rows are not in order of time: what moves with time is not seen here."
        )
    caption = f"{_sequence(course, data.headline_of(summary.policy))}{order}"
    head = ["decisions", "in the stretch", "what ran", "so far", "low", "high"]
    if course.since is not None:
        head += ["since", "until"]
    places = places_for(course.low[-1], course.high[-1]) + 1
    body: list[list[Child]] = []
    for k in range(parts):
        cells = (course.value[k], course.logged[k], course.so_far[k], course.low[k], course.high[k])
        line: list[Child] = [count(course.rows[k]), *(rounded(cell, places) for cell in cells)]
        if course.since is not None and course.until is not None:
            line += [_when(course.since[k], course), _when(course.until[k], course)]
        body.append(line)
    return figure(draw, caption, table(head, body, "The stretches in numbers"))


def _sequence(course: OverLog, headline: Headline | None) -> str:
    """What a confidence sequence is for, and how it ends beside the answer's interval."""
    low, high = course.low[-1], course.high[-1]
    places = places_for(low, high) + 1
    text = (
        f"The sequence is for the mean of the answer's estimator, without its bias, and holds as "
        f"far as the central limit theorem does. It ends at {in_brackets(low, high, places)}"
    )
    if headline is None:
        return f"{text}."
    width, other = high - low, headline.interval.high - headline.interval.low
    interval = f"the answer's interval, {in_brackets(*headline.interval, places)}"
    if rounded(width, places) == rounded(other, places):
        return f"{text}, as wide as {interval}."
    if width > other:
        return f"{text}, wider than {interval}, as that is for one look only."
    return f"{text}, narrower than {interval}, as that allows for bias and for rows not seen, too."


def _tenths(course: OverLog) -> list[tuple[float, float, float]]:
    """Points of a chart: the middle of each tenth of the log, its estimate and its mean reward."""
    parts = len(course.rows)
    starts = [0.0, *course.rows[:-1]]
    pooled = []
    for k in range(min(10, parts)):
        tenth = range(k * parts // min(10, parts), (k + 1) * parts // min(10, parts))
        sizes = [course.rows[j] - starts[j] for j in tenth]
        value, logged = (
            sum(size * x[j] for size, j in zip(sizes, tenth, strict=True)) / sum(sizes)
            for x in (course.value, course.logged)
        )
        pooled.append(((starts[tenth[0]] + course.rows[tenth[-1]]) / 2.0, value, logged))
    return pooled


def _when(time: float, course: OverLog) -> str:
    if not course.dated:
        return f"{time:.15g}"
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{time:.15g}"


_SECTIONS: dict[str, tuple[str, str, Callable[[Summary, PageData], Markup]]] = {
    "weights": (
        "How the weights are spread",
        "A weight is how many times as likely the policy is as the logger to take the logged "
        "action. When a few rows hold much of the weight, the answer is what happened in those.",
        _weights,
    ),
    "support": (
        "Which actions the log supports",
        "Thick bars: how often the policy would take the action. Thin bars: how often the logger "
        "did, by its probabilities. A long thick bar over a short thin one is where the log has "
        "little to say.",
        _support,
    ),
    "model": (
        "The reward model against the rewards",
        "Each dot is a class of logged decisions with like predictions. On the dotted line the "
        "model is right on average; bars are two standard errors.",
        _calibration,
    ),
    "order": (
        "Over the log",
        "How the estimate developed as rows came in: from all rows up to each point, with a "
        "confidence sequence, intervals that hold at every look at once. Rings are tenths of the "
        "log by themselves. If they wander, the answer is an average over times that differ.",
        _over_log,
    ),
}
"""Title, what to know, and the figure of each, by the section's id."""
