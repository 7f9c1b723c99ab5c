"""Estimators side by side, and policies against each other, as forest plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offpolicy.report.html.markup import Child, Markup, element, name, plain, section
from offpolicy.report.html.numbers import (
    count,
    percent,
    places_for,
    rounded,
    short,
    signed,
    with_interval,
)
from offpolicy.report.sections.page_data import MOST_POLICIES, PageData
from offpolicy.report.svg.charts import Row, forest
from offpolicy.report.svg.drawing import Draw, Mark, figure, table
from offpolicy.report.svg.scales import around, with_room_for
from offpolicy.results import (
    FEW_EFFECTIVE,
    IDENTICAL,
    IMPUTED,
    TOO_HEAVY,
    WORTH,
    Comparison,
    Headline,
    Result,
    shown_estimator,
)

if TYPE_CHECKING:
    from offpolicy.ranking.evaluation import RankingResult
    from offpolicy.results import Difference, Estimate, Logged, ResultTable

    AnyEstimate: TypeAlias = Estimate | Headline | Difference

_ROOM = 0.15


def estimators(data: PageData) -> Markup:
    """Section (3) of the page: the answer and all estimators; if compared, the answers."""
    result = data.result
    parts: list[Child] = []
    if result is None:
        parts.append(_forest_of(list(data.main.headlines), data, by_policy=True))
        title = "The policies side by side"
    else:
        title = "Estimators side by side"
        for policy in data.policies[:MOST_POLICIES]:
            if len(data.policies) > 1:
                parts.append(element("h3", name(policy)))
            rows = [row for row in data.rows if row.policy == policy]
            parts.append(_forest_of(rows, data, by_policy=False))
        parts.append(left_out(len(data.policies) - MOST_POLICIES))
    said = f"Bars are {percent(data.level)} intervals."
    if result is not None and result.headlines:
        said = (
            f"The first line is the answer; the others are the same question put to other "
            f"estimators, each with a {percent(data.level)} interval of its own: long where the "
            f"number leans on the model, or on nothing, for much of the policy's probability. The "
            f"last column says how far a row is from the answer, in standard errors (se) of the "
            f"difference between the two; chance alone seldom makes it more than 3."
        )
    return section("estimators", title, element("p", said), *parts)


def left_out(more: int) -> Markup | None:
    """What a page says where not all is drawn."""
    return element("p", f"{more} more are in the JSON.", class_="soft") if more > 0 else None


def forest_row(
    label: str, row: AnyEstimate, note: str = "", *, strong: bool, dim: bool = False
) -> Row:
    """A line of a forest plot."""
    said = with_interval(row.value, row.interval)
    return Row(label, row.value, *row.interval, said, note, strong=strong, dim=dim)


def cells_of(row: AnyEstimate, *values: float) -> list[str]:
    """Numbers for the table behind a forest plot, one digit more than in it."""
    places = places_for(*row.interval) + 1
    return [rounded(value, places) for value in values]


def described(rows: Sequence[Row]) -> str:
    """A forest plot in words."""
    return "; ".join(f"{plain(row.label, 80)}: {row.said} {row.note}".rstrip() for row in rows)


def forest_chart(
    rows: Sequence[Row],
    alt: str,
    axis: str,
    mark: Mark | None = None,
    *,
    inside: tuple[float, ...] = (),
) -> Draw:
    """What draws a forest plot, with the values ``inside``, and the mark if there is room."""
    values = [row.value for row in rows]
    # One wild interval must not flatten the rest: it is cut, and ends in a tip.
    reach = 2.0 * max(max(values) - min(values), median(row.high - row.low for row in rows))
    least, most = min(values) - reach, max(values) + reach
    ends = [min(max(end, least), most) for row in rows for end in (row.low, row.high)]
    limits = around([*inside, *values, *ends], _ROOM)
    if mark is not None:
        limits = with_room_for(limits, mark.value)
    notes = "from the answer" if any(row.note for row in rows) else ""
    return partial(forest, rows, alt=alt, axis=axis, mark=mark, limits=limits, notes=notes)


def _imputed(row: Estimate | Headline) -> str:
    """What is left to a model: by the value, and in the answer by the interval, if that is around
    another M."""
    mass = percent(row.imputed_mass)
    if not isinstance(row, Headline) or row.interval_M == row.M:
        return mass
    return f"{mass} (interval: {percent(row.interval_imputed_mass)})"


def _forest_of(rows: Sequence[Estimate | Headline], data: PageData, *, by_policy: bool) -> Markup:
    def draw(lines: Sequence[Row]) -> Draw:
        return _with_logged(lines, data.main.logged)

    return forest_of(rows, draw, what="policy" if by_policy else "estimator")


def forest_of(
    rows: Sequence[Estimate | Headline], draw: Callable[[Sequence[Row]], Draw], *, what: str
) -> Markup:
    """Estimates, or answers about what is named (a "policy", a "ranker"), as a forest plot with
    the numbers behind it."""
    lines = _lines(rows, by_policy=what != "estimator")
    far = ["from the answer"] if what == "estimator" else []
    head = [what, "value", "stderr", "low", "high", *far,
            "bias allowed for", "bias at most", "imputed", "effective rows",
            "largest weight"]  # fmt: skip
    body: list[list[Child]] = []
    for row, line in zip(rows, lines, strict=True):
        ess, largest = getattr(row, "ess", None), getattr(row, "largest_weight", None)
        numbers = cells_of(row, row.value, row.stderr, *row.interval)
        rest = [
            *(line.note or "–" for _ in far),
            *cells_of(row, row.plausible_bias, row.bias_bound),
            _imputed(row),
            "–" if ess is None else count(ess),
            "–" if largest is None else short(largest),
        ]
        body.append([name(line.label), *numbers, *rest])
    heavy = any(_too_heavy(row) for row in rows)
    caption = f"{TOO_HEAVY} {FEW_EFFECTIVE} " if heavy else ""
    caption += f"In the numbers, imputed: {IMPUTED}; effective rows: {WORTH}."
    return figure(draw(lines), caption, table(head, body, "The numbers"))


def _lines(rows: Sequence[Estimate | Headline], *, by_policy: bool) -> list[Row]:
    lines = []
    for k, row in enumerate(rows):
        headline = isinstance(row, Headline)
        label = row.policy if by_policy else shown_estimator(row.estimator)
        if headline and not by_policy:
            label = "The answer"
        far = None if isinstance(row, Headline) else row.from_headline
        lines.append(
            forest_row(
                f"{label} {TOO_HEAVY}" if _too_heavy(row) else label,
                row,
                "" if far is None else f"{signed(far, 1)} se",
                strong=headline and (not by_policy or k == 0),
            )
        )
    return lines


def _too_heavy(row: Estimate | Headline) -> bool:
    return not isinstance(row, Headline) and row.too_heavy


def _with_logged(lines: Sequence[Row], logged: Logged) -> Draw:
    ran = short(logged.value)
    alt = f"Forest plot. {described(lines)}. What ran: {ran}."
    return forest_chart(lines, alt, "mean reward", Mark(logged.value, f"what ran: {ran}"))


def notebook_forest(results: ResultTable[Any], width: float) -> Markup:
    """A forest plot in a notebook: of the first policy, of all compared, or of a ranker."""
    if isinstance(results, Result):
        rows: list[Estimate | Headline] = [*results.headlines, *results.estimates]
        lines = _lines([row for row in rows if row.policy == rows[0].policy], by_policy=False)
    elif isinstance(results, Comparison):
        lines = _lines(results.headlines, by_policy=True)
    else:
        ranked = cast("RankingResult", results)
        lines = _lines([*ranked.headlines, *ranked], by_policy=False)
        return forest_chart(lines, f"Forest plot. {described(lines)}.", ranked.metric)(width)
    return _with_logged(lines, results.logged)(width)


# -- differences -------------------------------------------------------------------------------


def differences(data: PageData) -> Markup | None:
    """Section (9) of the page: policies against each other, if there are several."""
    comparison = data.comparison
    if comparison is None:
        if len(data.policies) < 2:
            return None
        text = element(
            "p",
            "Above, each policy is compared with what ran, by itself. ",
            element("code", "offpolicy compare"),
            " with the same policies compares them with each other as well: their differences are "
            "known more exactly than their values, as luck is common to both.",
        )
        return section("differences", "Policies against each other", text)
    rows = comparison.differences[:40]
    lines = [
        forest_row(
            f"{plain(row.first, 60)} − {plain(row.second, 60)}",
            row, strong=row.decided, dim=not row.decided,
        )
        for row in rows
    ]  # fmt: skip
    lines = [
        line._replace(said=IDENTICAL) if row.verdict == IDENTICAL else line
        for line, row in zip(lines, rows, strict=True)
    ]
    head = ["first", "second", "difference", "stderr", "low", "high", "p", "adjusted p",
            "rows needed", "verdict"]  # fmt: skip
    body: list[list[Child]] = []
    for row in rows:
        numbers = cells_of(row, row.value, row.stderr, *row.interval)
        needed = "–" if row.rows_needed is None else count(row.rows_needed)
        chances = [f"{row.p_value:.2g}", f"{row.adjusted_p_value:.2g}"]
        body.append([name(row.first), name(row.second), *numbers, *chances, needed, row.verdict])
    alt = "Forest plot of differences. " + "; ".join(
        f"{plain(line.label, 120)}: {line.said}, {plain(row.verdict, 120)}"
        for line, row in zip(lines, rows, strict=True)
    )
    draw = forest_chart(lines, alt, "difference", Mark(0.0, "no difference"), inside=(0.0,))
    together = len(comparison.differences) > 1 and comparison.multiplicity != "none"
    return section(
        "differences",
        "Policies against each other",
        element(
            "p",
            "Each line is one policy less another on the same decisions; where it is decided which "
            'is better, it is bold. "logged" is what ran.'
            + (" All intervals hold together." if together else " Each stands for itself."),
        ),
        *(element("p", row.sentence()) for row in rows[:6]),
        figure(draw, None, table(head, body, "The numbers")),
    )
