"""What the log holds for a policy: weights, actions, the reward model, and the order of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from offpolicy.report.html.markup import Child, Markup, element, name, plain, section
from offpolicy.report.html.numbers import count, percent, places_for, rounded, short
from offpolicy.report.sections.estimates import left_out
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.report.svg.charts import Bar, Column, bars, histogram
from offpolicy.report.svg.drawing import Drawn, Mark, figure, table
from offpolicy.report.svg.lines import Line, line_chart
from offpolicy.report.svg.scales import Scale, around, linear, with_room_for
from offpolicy.results import Action, Calibration, OverLog, Summary, Support, Weights

_TAIL = 0.01
_OLD = "This result was kept by an earlier version, without what is drawn here. Evaluate anew."


def _section(
    data: PageData, id_: str, title: str, lead: str, draw: Callable[[Summary], Markup]
) -> Markup:
    """One figure for each policy."""
    parts: list[Child] = [element("p", lead)] if data.summaries else [element("p", _OLD)]
    several = len(data.policies) > 1
    for one in data.summaries:
        if several:
            parts.append(element("h3", name(one.policy)))
        parts.append(draw(one))
    parts.append(left_out(len(data.policies) - MOST_POLICIES))
    return section(id_, title, *parts)


# -- weights -----------------------------------------------------------------------------------


def weights(data: PageData) -> Markup:
    """(5) The distribution of the weights, on a logarithmic axis, and its tail's share."""
    lead = (
        "A weight is how many times as likely the policy is as the logger to take the logged "
        "action. When a few rows hold much of the weight, the answer is what happened in those."
    )

    def draw(one: Summary) -> Markup:
        if one.weights is None:
            return element("p", "Without propensities there are no weights.")
        return _weights(one.weights)

    return _section(data, "weights", "How the weights are spread", lead, draw)


def _weights(found: Weights) -> Markup:
    start, rows, share = found.tail(_TAIL)
    used = [k for k in range(len(found.rows)) if found.rows[k] > 0.0 or found.weight[k] > 0.0]
    last = max(used, default=0) + 1
    has_tail = rows > 0.0 and 0.0 < share < 1.0
    columns = [
        Column(
            found.rows[k],
            found.weight[k],
            has_tail and k > 0 and found.edges[k - 1] >= start * 0.999,
        )
        for k in range(last)
    ]
    step = math.log10(found.edges[1] / found.edges[0])
    ticks = [
        (1.0 + (power - math.log10(found.edges[0])) / step, short(10.0**power))
        for power in range(-1, 7)
    ]
    ticks = [(at, said) for at, said in ticks if at <= len(columns) + 1e-9]
    summed = (
        f"Rows with weights of {short(start)} or more are {percent(rows)} of the log and hold "
        f"{percent(share)} of all weight."
        if has_tail
        else ""
    )
    alt = f"Histogram of the weights; the largest is {short(found.largest)}. {summed}"

    def draw(width: float) -> Drawn:
        return histogram(
            columns, ticks, width, alt=alt, axis="weight (logarithmic; below 0.1 in the first)",
            y_label="share of rows (filled) and of all weight (outline)",
            tail_label=f"from {short(start)}: {percent(share)} of all weight" if has_tail else "",
        )  # fmt: skip

    lost = (
        f" {percent(found.unsupported)} of the policy's probability is where the logger never "
        f"goes, and has no weight at all."
        if found.unsupported > 0.0
        else ""
    )
    caption = (
        f"{summed} The largest weight is {short(found.largest)}, their mean {short(found.mean)} "
        f"(1 if the propensities are right and nothing is without support); together they are "
        f"worth {count(found.effective)} rows of equal weight.{lost}"
    )
    edges = [0.0, *found.edges, math.inf]
    body: list[list[Child]] = [
        [
            f"{short(edges[k])} to {short(edges[k + 1])}", percent(found.rows[k]),
            percent(found.weight[k]), percent(found.mass[k]),
        ]
        for k in range(len(found.rows))
        if found.rows[k] > 0.0 or found.mass[k] > 0.0
    ]  # fmt: skip
    head = ["weight", "of the rows", "of all weight", "of the policy's probability"]
    return figure(draw, caption, table(head, body, "The weights in numbers"))


# -- actions -----------------------------------------------------------------------------------


def support(data: PageData) -> Markup:
    """(6) What the policy wants and what the logger did, action by action."""
    lead = (
        "Thick bars: how often the policy would take the action. Thin bars: how often the logger "
        "did, by its probabilities. A long thick bar over a short thin one is where the log has "
        "little to say."
    )
    return _section(
        data,
        "support",
        "Which actions the log supports",
        lead,
        lambda one: _support(one.support),
    )


def _support(found: Support) -> Markup:
    rows = [*found.actions, *([] if found.other is None else [found.other])]
    labels = [_label(row, found) for row in rows]
    shown = [
        Bar(label, row.policy, row.logging, f"{percent(row.policy)} / {percent(row.logging)}",
            row.unsupported > 1e-6)
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    alt = "Bars: share of the policy and of the logger for each action. " + "; ".join(
        f"{plain(bar.label, 40)} {bar.said}" for bar in shown
    )

    def draw(width: float) -> Drawn:
        return bars(shown, width, alt=alt, axis="policy (thick) / logger (thin)")

    told = []
    if any(row.unsupported > 1e-6 for row in rows):
        told.append("▲ marks actions that the policy takes where the logger never does.")
    if not found.exact:
        told.append(
            "Shares are estimated from what was chosen, as the probabilities of the other "
            "candidates are not in the log."
        )
    if found.short > 0.0:
        told.append(
            f"The log has very many actions: they were counted in fixed memory, and no share is "
            f"short by more than {percent(found.short)}."
        )
    body: list[list[Child]] = [
        [
            name(label), percent(row.policy), percent(row.logging), percent(row.chosen),
            "–" if row.reward is None else short(row.reward), percent(row.unsupported),
        ]
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    head = ["action", "policy", "logger", "chosen", "mean reward", "without support"]
    return figure(draw, " ".join(told) or None, table(head, body, "The actions in numbers"))


def _label(row: Action, found: Support) -> str:
    if row is not found.other:
        return row.name
    return f"{'at least ' if found.short else ''}{found.others:,} other{'s' * (found.others > 1)}"


# -- the reward model --------------------------------------------------------------------------


def model(data: PageData) -> Markup:
    """(7) Predictions against rewards."""
    lead = (
        "Each dot is a class of logged decisions with like predictions. On the dotted line the "
        "model is right on average; bars are two standard errors. Rings are the same predictions "
        "after recalibration on the log, which is what the answer uses."
    )

    def draw(one: Summary) -> Markup:
        if one.calibration is None:
            return element(
                "p",
                "No reward model was given, and there was nothing to train one from: the answer "
                "rests on the weights and on a plain regression on the policy's probabilities.",
            )
        return _calibration(one.calibration)

    return _section(data, "model", "The reward model against the rewards", lead, draw)


def _calibration(found: Calibration) -> Markup:
    reach = [2.0 * e for e in found.stderr]
    ends = [*found.predicted, *found.observed, *found.recalibrated]
    low, high = around([*ends, *(o + e for o, e in zip(found.observed, reach, strict=True))])

    def scale(start: float, stop: float) -> Scale:
        return linear(low, high, start, stop, about=5 if stop - start > 400.0 else 4)

    who = "The model was trained on the log itself, cross-fitted. " if found.trained else ""
    fit = (
        f"{who}It explains {percent(found.fit)} of the variance of the rewards; recalibrated, "
        f"{percent(found.fit_recalibrated)}."
    )
    if found.fit < 0.0:
        fit = (
            f"{who}Taken as it is, it fits the rewards worse than their mean would (R² = "
            f"{found.fit:.2f}); recalibrated, it explains {percent(found.fit_recalibrated)} of "
            f"their variance."
        )
    alt = f"Calibration plot in {len(found.rows)} classes. {fit}"

    def draw(width: float) -> Drawn:
        return line_chart(
            found.predicted,
            [
                Line((low, high), "ideal", x=(low, high)),
                Line(found.recalibrated, "ring", dots=True),
                Line(found.observed, "points", dots=True, whisker=reach),
            ],
            width, alt=alt, x_axis=scale, y_limits=(low, high), x_label="predicted reward",
            y_label="mean reward observed", height=320.0,
        )  # fmt: skip

    places = places_for(low, high) + 1
    body: list[list[Child]] = [
        [rounded(p, places), rounded(o, places), rounded(e, places), rounded(r, places), percent(n)]
        for p, o, e, r, n in zip(
            found.predicted, found.observed, found.stderr, found.recalibrated, found.rows,
            strict=True,
        )
    ]  # fmt: skip
    head = ["predicted", "observed", "stderr", "recalibrated", "of the rows"]
    return figure(draw, fit, table(head, body, "The calibration in numbers"))


# -- over the log ------------------------------------------------------------------------------


def over_log(data: PageData) -> Markup:
    """(8) The value by the order of the log, with a confidence sequence."""
    lead = (
        "Had one looked on the way: the estimate from all rows up to each point, with a confidence "
        "sequence, intervals that hold at every look at once. Rings are tenths of the log by "
        "themselves. If they wander, the answer is an average over times that differ."
    )

    def draw(one: Summary) -> Markup:
        if one.over_log is None:
            why = "Without propensities" if one.weights is None else "With numbers this large"
            return element("p", f"{why} there is nothing to follow over the log.")
        return _over_log(one.over_log, data)

    return _section(data, "order", "Over the log", lead, draw)


def _over_log(found: OverLog, data: PageData) -> Markup:
    parts, n = len(found.rows), found.rows[-1]
    tenths = _tenths(found)
    middle = [place for place, _, _ in tenths]
    own, ran = [value for _, value, _ in tenths], [logged for _, _, logged in tenths]
    last, width_last = found.so_far[-1], found.high[-1] - found.low[-1]
    limits = around([*own, last - width_last, last + width_last])
    for end in (min(ran), max(ran)):
        limits = with_room_for(limits, end)

    def scale(start: float, stop: float) -> Scale:
        return linear(0.0, n, start, stop, about=5 if stop - start > 400.0 else 3)

    alt = (
        f"Line chart: the estimate over {count(n)} rows in {parts} stretches. It ends at "
        f"{short(found.so_far[-1])}, with a confidence sequence from {short(found.low[-1])} to "
        f"{short(found.high[-1])}."
    )

    def draw(width: float) -> Drawn:
        return line_chart(
            list(found.rows),
            [
                Line(found.high, "noise", low=found.low),
                Line(ran, "ran", "what ran", x=middle),
                Line(own, "ring", dots=True, x=middle),
                Line(found.so_far, "line", "policy so far"),
            ],
            width, alt=alt, x_axis=scale, y_limits=limits, x_label="decisions, in the log's order",
            y_label="mean reward",
            levels=[]
            if limits[0] <= data.logged.value <= limits[1]
            else [Mark(data.logged.value, f"what ran: {short(data.logged.value)}")],
        )  # fmt: skip

    order = ""
    if found.since is not None and found.until is not None:
        order = (
            f" The rows are in order of time, from {_when(found.since[0], found)} to "
            f"{_when(found.until[-1], found)}."
            if found.in_order
            else " The rows are not in order of time: what moves with time is not seen here."
        )
    caption = (
        f"The sequence is for the mean of the answer's estimator, without its bias, and holds as "
        f"far as the central limit theorem does; it is wider than the interval of the answer, "
        f"which is for one look only.{order}"
    )
    head = ["decisions", "in the stretch", "what ran", "so far", "low", "high"]
    if found.since is not None:
        head += ["since", "until"]
    places = places_for(found.low[-1], found.high[-1]) + 1
    body: list[list[Child]] = []
    for k in range(parts):
        cells = (found.value[k], found.logged[k], found.so_far[k], found.low[k], found.high[k])
        line: list[Child] = [count(found.rows[k]), *(rounded(cell, places) for cell in cells)]
        if found.since is not None and found.until is not None:
            line += [_when(found.since[k], found), _when(found.until[k], found)]
        body.append(line)
    return figure(draw, caption, table(head, body, "The stretches in numbers"))


def _tenths(found: OverLog) -> list[tuple[float, float, float]]:
    """Where each tenth of the log has its middle, and the estimate and the mean reward in it."""
    parts = len(found.rows)
    starts = [0.0, *found.rows[:-1]]
    pooled = []
    for k in range(min(10, parts)):
        own = range(k * parts // min(10, parts), (k + 1) * parts // min(10, parts))
        sizes = [found.rows[j] - starts[j] for j in own]
        value, logged = (
            sum(size * x[j] for size, j in zip(sizes, own, strict=True)) / sum(sizes)
            for x in (found.value, found.logged)
        )
        pooled.append(((starts[own[0]] + found.rows[own[-1]]) / 2.0, value, logged))
    return pooled


def _when(time: float, found: OverLog) -> str:
    if not found.dated:
        return f"{time:.15g}"
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{time:.15g}"
