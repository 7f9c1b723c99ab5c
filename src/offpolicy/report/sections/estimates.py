"""Estimators side by side, and policies against each other, as forest plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offpolicy.report.html.markup import Child, Markup, element, name, plain
from offpolicy.report.html.numbers import count, percent, places_for, rounded, short, span
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.report.svg.charts import Row, forest
from offpolicy.report.svg.drawing import Drawn, Mark, figure, table
from offpolicy.report.svg.scales import around, with_room_for

if TYPE_CHECKING:
    from offpolicy.results import Comparison, Difference, Estimate, Headline, Logged, Result

_ROOM = 0.15


def shown_estimator(estimator: str) -> str:
    """CAB-DR(M=3.103), with its parameter rounded."""
    base, _, inner = estimator.partition("(")
    key, _, value = inner.rstrip(")").partition("=")
    try:
        return f"{base}({key}={float(value):.4g})" if inner else estimator
    except ValueError:
        return estimator


def estimators(data: PageData) -> Markup:
    """(3) All estimators with interval and bias bound; of a comparison, the headlines."""
    result = data.result
    parts: list[Child] = []
    if result is None:
        parts.append(_forest_of(list(data.headlines), data, by_policy=True))
        title = "The policies side by side"
    else:
        title = "Estimators side by side"
        for policy in result.policies[:MOST_POLICIES]:
            if len(result.policies) > 1:
                parts.append(element("h3", name(policy)))
            own: list[Estimate | Headline] = [h for h in result.headlines if h.policy == policy]
            own += [row for row in result.estimates if row.policy == policy]
            parts.append(_forest_of(own, data, by_policy=False))
        parts.append(left_out(len(result.policies)))
    said = (
        "The first line is the answer; the others are the same question put to other estimators. "
        if result is not None and result.headlines
        else ""
    )
    return element(
        "section",
        element("h2", title),
        element(
            "p",
            f"{said}Thick bars are {percent(data.level)} intervals. The thin line is the most "
            f"that the estimator's bias can be, whatever the rewards: where it is long, the number "
            f"leans on the model, or on nothing, for much of the policy's probability.",
        ),
        *parts,
        id="estimators",
    )


def left_out(policies: int) -> Markup | None:
    """What is said where not all policies are drawn."""
    if policies <= MOST_POLICIES:
        return None
    more = policies - MOST_POLICIES
    return element("p", f"{more} more are in the JSON.", class_="soft")


def _forest_of(
    rows: Sequence[Estimate | Headline], data: PageData, *, by_policy: bool
) -> Markup:
    lines, draw = _lines(rows, data.logged, by_policy=by_policy)
    head = ["policy" if by_policy else "estimator", "value", "stderr", "low", "high", "bias",
            "bias at most", "imputed", "effective rows", "largest weight"]  # fmt: skip
    body: list[list[Child]] = []
    for row, line in zip(rows, lines, strict=True):
        places = places_for(*row.interval) + 1
        ess, largest = getattr(row, "ess", None), getattr(row, "largest_weight", None)
        cells = [row.value, row.stderr, *row.interval, row.bias, row.bias_bound]
        line_of: list[Child] = [name(line.label), *(rounded(cell, places) for cell in cells)]
        line_of += [percent(row.imputed_mass), "–" if ess is None else count(ess)]
        body.append([*line_of, "–" if largest is None else short(largest)])
    return figure(draw, None, table(head, body, "The numbers"))


def _lines(
    rows: Sequence[Estimate | Headline], logged: Logged, *, by_policy: bool
) -> tuple[list[Row], Callable[[float], Drawn]]:
    """The lines of the forest plot, and what draws it."""
    ends: list[float] = []
    for row in rows:
        ends += [row.value, row.interval.low, row.interval.high]
    low, high = with_room_for(around(ends, _ROOM), logged.value)
    lines = []
    for k, row in enumerate(rows):
        headline = hasattr(row, "grid")
        places = places_for(row.interval.low, row.interval.high)
        label = row.policy if by_policy else shown_estimator(row.estimator)
        lines.append(
            Row(
                "The answer" if headline and not by_policy else label,
                row.value, row.interval.low, row.interval.high,
                f"{rounded(row.value, places)} {span(*row.interval, places)}",
                row.bias_bound if math.isfinite(row.bias_bound) else None,
                strong=headline and (not by_policy or k == 0),
            )
        )  # fmt: skip
    alt = "Forest plot. " + "; ".join(f"{plain(line.label, 80)}: {line.said}" for line in lines)
    alt += f". What ran: {short(logged.value)}."
    mark = Mark(logged.value, f"what ran: {short(logged.value)}")

    def draw(width: float) -> Drawn:
        return forest(lines, width, alt=alt, axis="mean reward", mark=mark, limits=(low, high))

    return lines, draw


def notebook_forest(found: Result | Comparison, width: float) -> Markup:
    """The same for a notebook: of the first policy, or of all that were compared."""
    rows: Sequence[Estimate | Headline] = found.headlines
    if hasattr(found, "estimates"):
        policy = found.policies[0]
        rows = [row for row in (*found.headlines, *found.estimates) if row.policy == policy]
    _, draw = _lines(rows, found.logged, by_policy=not hasattr(found, "estimates"))
    return draw(width).svg


# -- differences -------------------------------------------------------------------------------


def differences(data: PageData) -> Markup | None:
    """(9) Policies against each other, if there are several."""
    comparison = data.comparison
    if comparison is None:
        if len(data.policies) < 2:
            return None
        text = element(
            "p",
            "The differences between policies are known more exactly than their values, as luck is "
            "common to both. ",
            element("code", "offpolicy compare"),
            " with the same policies gives them.",
        )
        return element(
            "section", element("h2", "Policies against each other"), text, id="differences"
        )
    rows = comparison.differences[:40]
    low, high = around([0.0, *(end for row in rows for end in (*row.interval, row.value))], _ROOM)
    lines = [_difference(row) for row in rows]
    alt = "Forest plot of differences. " + "; ".join(
        f"{plain(line.label, 120)}: {line.said}, {plain(row.verdict, 120)}"
        for line, row in zip(lines, rows, strict=True)
    )

    def draw(width: float) -> Drawn:
        mark = Mark(0.0, "no difference")
        return forest(lines, width, alt=alt, axis="difference", mark=mark, limits=(low, high))

    head = ["first", "second", "difference", "stderr", "low", "high", "p", "adjusted p",
            "rows needed", "verdict"]  # fmt: skip
    body: list[list[Child]] = []
    for row in rows:
        places = places_for(*row.interval) + 1
        cells = [rounded(cell, places) for cell in (row.value, row.stderr, *row.interval)]
        needed = "–" if row.rows_needed is None else count(row.rows_needed)
        chances = [f"{row.p_value:.2g}", f"{row.adjusted_p_value:.2g}"]
        body.append([name(row.first), name(row.second), *cells, *chances, needed, row.verdict])
    together = len(comparison.differences) > 1 and comparison.multiplicity != "none"
    return element(
        "section",
        element("h2", "Policies against each other"),
        element(
            "p",
            "Each line is one policy less another on the same decisions; a bar that does not touch "
            "0 settles which is better." + (" All intervals hold together." if together else ""),
        ),
        *(element("p", row.sentence()) for row in rows[:6]),
        figure(draw, None, table(head, body, "The numbers")),
        id="differences",
    )


def _difference(row: Difference) -> Row:
    places = places_for(*row.interval)
    first, second = (plain(one, 60) for one in (row.first, row.second))
    return Row(
        f"{first} − {second}", row.value, row.interval.low, row.interval.high,
        f"{rounded(row.value, places)} {span(*row.interval, places)}",
        strong=row.decided, dim=not row.decided,
    )  # fmt: skip
