"""The page of rankers: metric by metric, estimator by estimator, and the curve over M."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, name, plain
from offpolicy.report.html.numbers import count, percent, places_for, rounded, short, span
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.sections.clipping import Swept, curve_over_M
from offpolicy.report.sections.closing import reproduction
from offpolicy.report.sections.estimates import shown_estimator
from offpolicy.report.sections.opening import warning_of
from offpolicy.report.svg.charts import Row, forest
from offpolicy.report.svg.drawing import Drawn, figure, table
from offpolicy.report.svg.scales import around

if TYPE_CHECKING:
    from offpolicy.ranking.evaluation import RankingEstimate, RankingResult

MOST_RESULTS = 12
"""Rankers times metrics that are drawn; a page of more would be too long to read."""
_ROOM = 0.15


class Ranked(NamedTuple):
    """A ranker by its name, and what was found of it."""

    ranker: str
    result: RankingResult


class Rankers(NamedTuple):
    """What a page of rankers is made of; ``twin`` is the same as JSON."""

    results: tuple[Ranked, ...]
    provenance: Provenance | None
    twin: str
    held_out: bool = False
    """Whether the ranker was learned, and these queries kept from it."""

    @property
    def drawn(self) -> tuple[Ranked, ...]:
        return self.results[:MOST_RESULTS]

    @property
    def level(self) -> float:
        return self.results[0].result.headline.level


def ranking_page(found: Rankers, *further: Child, verb: str = "rank evaluate") -> str:
    """All of it, as one HTML file; ``further`` sections stand before the last."""
    title = f"{plain(found.results[0].ranker, 60)}: ranking evaluation"
    sections: list[Child] = [
        _answer(found),
        _warnings(found),
        _side_by_side(found),
        _estimators(found),
        _curves(found),
        *further,
        reproduction(found.provenance, verb),
    ]
    return framed(title, sections, found.twin)


def _title_of(one: Ranked, found: Rankers) -> Markup | None:
    """The ranker and the metric, where there are several of either."""
    if len(found.results) == 1:
        return None
    return element("h3", name(one.ranker), f", {one.result.metric}")


def _left_out(found: Rankers) -> Markup | None:
    more = len(found.results) - len(found.drawn)
    return element("p", f"{more} more are in the JSON.", class_="soft") if more > 0 else None


# -- the answer --------------------------------------------------------------------------------


def _answer(found: Rankers) -> Markup:
    """A sentence for every ranker and metric, the first one large."""
    first, *rest = found.drawn
    files = () if found.provenance is None else found.provenance.files
    result = first.result
    of = "held-out " if found.held_out else ""
    kicker = joined(
        f"Ranking evaluation · {_counted(result.impressions, f'{of}impression')}",
        *([" · ", name(files[0].name)] if len(files) == 1 else []),
        *([f" · {len(files)} files"] if len(files) > 1 else []),
    )
    return element(
        "section",
        element("p", kicker, class_="kicker"),
        element("h1", _sentence(first)),
        element("p", _rests_on(result, held_out=found.held_out), class_="lead"),
        element("p", _covered(result), class_="soft"),
        *(
            joined(element("h2", _sentence(one)), element("p", _covered(one.result), class_="soft"))
            for one in rest
        ),
        _left_out(found),
        id="answer",
    )


def _counted(number: int, what: str, many: str | None = None) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {many or what + 's'}"


def _sentence(one: Ranked) -> Markup:
    row = one.result.headline
    places = places_for(*row.interval)
    better = "higher" if one.result.higher_is_better else "lower"
    told = f"{rounded(row.value, places)} {span(*row.interval, places)}"
    return joined(
        name(one.ranker),
        f": {one.result.metric} ",
        element("span", told, class_="number"),
        f", {better} is better.",
    )


def _rests_on(result: RankingResult, *, held_out: bool) -> str:
    said = (
        f"From {_counted(result.impressions, 'impression')} of "
        f"{_counted(result.queries, 'query', 'queries')} with {_counted(result.clicks, 'click')}"
    )
    return f"{said}, none of which the ranker was learned from." if held_out else f"{said}."


def _covered(result: RankingResult) -> str:
    row = result.headline
    said = f"The {percent(row.level)} interval covers {row.covers}."
    if row.reason is None:
        return said
    around_model = " around the model recalibrated on clicks" if row.recalibrated else ""
    return f"{said} Estimated by {shown_estimator(row.estimator)}{around_model}; {row.reason}."


# -- warnings ----------------------------------------------------------------------------------


def _warnings(found: Rankers) -> Markup:
    """Each once: what the log lacks is the same for all rankers."""
    every = (finding for one in found.drawn for finding in one.result.findings)
    parts: list[Child] = [warning_of(one) for one in {str(one): one for one in every}.values()]
    if not parts:
        parts.append(
            element(
                "p",
                "No warnings. There are propensities, clicks and queries enough, and all candidate "
                "documents were shown.",
            )
        )
    parts.append(
        element(
            "p",
            "All rests on the propensities: where a document was examined more or less often than "
            "they say, every number but the model's own is off, and nothing here can tell. ",
            element("code", "offpolicy rank propensities"),
            " estimates them from the log.",
            class_="soft",
        )
    )
    return element("section", element("h2", "Before you use it"), *parts, id="warnings")


# -- forest plots ------------------------------------------------------------------------------


def _side_by_side(found: Rankers) -> Markup | None:
    """The answers about several rankers, for each metric."""
    metrics = dict.fromkeys(one.result.metric for one in found.drawn)
    groups = [[one for one in found.drawn if one.result.metric == m] for m in metrics]
    if all(len(group) < 2 for group in groups):
        return None
    parts: list[Child] = []
    for metric, group in zip(metrics, groups, strict=True):
        if len(metrics) > 1:
            parts.append(element("h3", metric))
        rows = [(one.ranker, one.result.headline) for one in group]
        parts.append(_forest(rows, metric, strong=(), what="ranker"))
    return element(
        "section",
        element("h2", "The rankers side by side"),
        element(
            "p",
            "Intervals that overlap do not mean that two rankers are alike: the queries are the "
            "same for both, and what is luck in one is luck in the other.",
        ),
        *parts,
        id="rankers",
    )


def _estimators(found: Rankers) -> Markup:
    parts: list[Child] = []
    for one in found.drawn:
        result = one.result
        rows = [(shown_estimator(row.estimator), row) for row in result.estimates]
        apart = result.headline not in result.estimates
        if apart:
            rows.insert(0, ("The answer", result.headline))
        parts.append(_title_of(one, found))
        parts.append(_forest(rows, result.metric, strong=(0,) if apart else (), what="estimator"))
    parts.append(_left_out(found))
    return element(
        "section",
        element("h2", "Estimators side by side"),
        element(
            "p",
            f"Dots are what each estimator says. Bars are {percent(found.level)} intervals for the "
            f"ranker's value; where an estimator is thought to be biased, its bar is moved and "
            f"made longer by that, so that the dot need not lie in its middle. The first line is "
            f"the answer; the others are the same question put to other estimators.",
        ),
        *parts,
        id="estimators",
    )


def _forest(
    rows: Sequence[tuple[str, RankingEstimate]], metric: str, *, strong: tuple[int, ...], what: str
) -> Markup:
    ends = [end for _, row in rows for end in (row.value, *row.interval)]
    limits = around(ends, _ROOM)
    lines = []
    for k, (shown, row) in enumerate(rows):
        places = places_for(*row.interval)
        said = f"{rounded(row.value, places)} {span(*row.interval, places)}"
        lines.append(Row(shown, row.value, *row.interval, said, strong=k in strong))
    alt = f"Forest plot, {metric}. " + "; ".join(
        f"{plain(line.label, 80)}: {line.said}" for line in lines
    )

    def draw(width: float) -> Drawn:
        return forest(lines, width, alt=f"{alt}.", axis=metric, limits=limits)

    head = [what, "value", "stderr", "low", "high", "thinkable bias", "by the model",
            "effective clicks", "largest weight"]  # fmt: skip
    body: list[list[Child]] = []
    for shown, row in rows:
        places = places_for(*row.interval) + 1
        cells = [row.value, row.stderr, *row.interval, row.bias]
        clicks = "–" if row.clicks is None else count(row.clicks)
        body.append(
            [name(shown), *(rounded(cell, places) for cell in cells), percent(row.imputed_mass),
             clicks, short(row.largest_weight)]
        )  # fmt: skip
    return figure(draw, None, table(head, body, "The numbers"))


# -- the curve over M --------------------------------------------------------------------------


def _curves(found: Rankers) -> Markup:
    drawn: list[Child] = []
    for one in found.drawn:
        swept = _swept(one)
        if swept is not None:
            drawn.append(curve_over_M(swept, _title_of(one, found), key=one.result.metric))
    text = (
        "A click at a rank that few examine stands for many that were not made: it counts 1/p "
        "times, but no more than M times, and what is beyond M is left to the model of relevance. "
        "Far left all is the model's word, far right all is the clicks'. Where the curve is flat "
        "the choice matters little; where it climbs or falls, model and clicks disagree."
    )
    if not drawn:
        text = "No M was chosen from this log, so there is no curve."
    return element(
        "section",
        element("h2", "How far to trust the weights"),
        element("p", text),
        *drawn,
        _left_out(found),
        id="curve",
    )


def _swept(one: Ranked) -> Swept | None:
    """The curve that the headline's M was chosen from."""
    row = one.result.headline
    for choice in one.result.tuned:
        if choice.estimator == row.estimator and choice.parameter == "M":
            break
    else:
        return None
    if len(choice.grid) < 4:
        return None
    return Swept(
        one.ranker, choice.grid.tolist(), choice.value.tolist(),
        [math.sqrt(v) for v in choice.variance.tolist()],
        [math.sqrt(v) for v in choice.mse.tolist()],
        choice.chosen, row.value, row.level, measure=one.result.metric,
    )  # fmt: skip
