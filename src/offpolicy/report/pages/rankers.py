"""The page of rankers: metric by metric, estimator by estimator, and the curve over M."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from offpolicy.ranking.evaluation import RankingEstimate, RankingResult
from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, name, plain, section
from offpolicy.report.html.numbers import count, counted, percent, short
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.sections.answer import answers, kicker, large_number, warnings_section
from offpolicy.report.sections.curve import Swept, curve_over_M, curves_section
from offpolicy.report.sections.estimates import (
    cells_of,
    described,
    forest_chart,
    forest_row,
    left_out,
)
from offpolicy.report.sections.reproduction import reproduction
from offpolicy.report.svg.drawing import figure, table
from offpolicy.results import shown_estimator

MOST_RESULTS = 12
"""Rankers times metrics that are drawn; a page of more would be too long to read."""


class Rankers(NamedTuple):
    """What a page of rankers is made of; ``twin`` is the same as JSON."""

    results: tuple[RankingResult, ...]
    provenance: Provenance | None
    twin: str
    held_out: bool = False
    """Whether the ranker was learned, and these queries kept from it."""

    @property
    def drawn(self) -> tuple[RankingResult, ...]:
        return self.results[:MOST_RESULTS]

    @property
    def level(self) -> float:
        return self.results[0].headline.level


def ranking_page(rankers: Rankers, *further: Child, verb: str = "rank evaluate") -> str:
    """The page about rankers, as one HTML file; ``further`` sections stand before the last."""
    title = f"{plain(rankers.results[0].ranker, 60)}: ranking evaluation"
    sections: list[Child] = [
        _answer(rankers),
        _warnings(rankers),
        _side_by_side(rankers),
        _estimators(rankers),
        _curves(rankers),
        *further,
        reproduction(rankers.provenance, verb),
    ]
    return framed(title, sections, rankers.twin)


def _title_of(ranked: RankingResult, rankers: Rankers) -> Markup | None:
    """Heading on the page: the ranker and the metric, where there are several of either."""
    if len(rankers.results) == 1:
        return None
    return element("h3", name(ranked.ranker), f", {ranked.metric}")


def _left_out(rankers: Rankers) -> Markup | None:
    return left_out(len(rankers.results) - len(rankers.drawn))


# -- the answer --------------------------------------------------------------------------------


def _answer(rankers: Rankers) -> Markup:
    """Section of the page: a sentence for every ranker and metric, the first one large."""
    result = rankers.results[0]
    held_out = "held-out " if rankers.held_out else ""
    top = f"Ranking evaluation · {counted(result.impressions, f'{held_out}impression')}"
    learned = ", none of which the ranker was learned from" if rankers.held_out else ""
    lead = (
        f"From {counted(result.impressions, 'impression')} of "
        f"{counted(result.queries, 'query', 'queries')} with {counted(result.clicks, 'click')}"
        f"{learned}."
    )
    sentences = []
    for k, ranked in enumerate(rankers.drawn):
        covered = element("p", _covered(ranked), class_="soft")
        explained = [covered] if k else [element("p", lead, class_="lead"), covered]
        sentences.append((_sentence(ranked), explained))
    return answers(kicker(top, rankers.provenance), sentences, _left_out(rankers))


def _sentence(ranked: RankingResult) -> Markup:
    row = ranked.headline
    better = "higher" if ranked.higher_is_better else "lower"
    return joined(
        name(ranked.ranker),
        f": {ranked.metric} ",
        large_number(row.value, row.interval),
        f", {better} is better.",
    )


def _covered(result: RankingResult) -> str:
    row = result.headline
    said = f"The {percent(row.level)} interval covers {row.covers}."
    if row.reason is None:
        return said
    around_model = " around the model recalibrated on clicks" if row.recalibrated else ""
    return f"{said} Estimated by {shown_estimator(row.estimator)}{around_model}; {row.reason}."


# -- warnings ----------------------------------------------------------------------------------


def _warnings(rankers: Rankers) -> Markup:
    """Section of the page: each warning once, as what the log lacks is the same for all rankers."""
    every = (finding for ranked in rankers.drawn for finding in ranked.findings)
    findings = {str(finding): finding for finding in every}
    nothing = element(
        "p",
        "No warnings. There are propensities, clicks and queries enough, and all candidate "
        "documents were shown.",
    )
    propensities = element(
        "p",
        "All rests on the propensities: where a document was examined more or less often than "
        "they say, every number but the model's own is off, and nothing here can tell. ",
        element("code", "offpolicy rank propensities"),
        " estimates them from the log.",
        class_="soft",
    )
    return warnings_section(findings.values(), None if findings else nothing, propensities)


# -- forest plots ------------------------------------------------------------------------------


def _side_by_side(rankers: Rankers) -> Markup | None:
    """Section of the page: the answers about several rankers, for each metric."""
    groups: dict[str, list[RankingResult]] = {}
    for ranked in rankers.drawn:
        groups.setdefault(ranked.metric, []).append(ranked)
    if all(len(group) < 2 for group in groups.values()):
        return None
    parts: list[Child] = []
    for metric, group in groups.items():
        if len(groups) > 1:
            parts.append(element("h3", metric))
        rows = [(ranked.ranker, ranked.headline) for ranked in group]
        parts.append(_forest(rows, metric, strong=False, what="ranker"))
    lead = element(
        "p",
        "Intervals that overlap do not mean that two rankers are alike: the queries are the same "
        "for both, and what is luck in one is luck in the other.",
    )
    return section("rankers", "The rankers side by side", lead, *parts)


def _estimators(rankers: Rankers) -> Markup:
    parts: list[Child] = []
    for ranked in rankers.drawn:
        rows = [(shown_estimator(row.estimator), row) for row in ranked.estimates]
        extra = ranked.headline not in ranked.estimates
        if extra:
            rows.insert(0, ("The answer", ranked.headline))
        parts.append(_title_of(ranked, rankers))
        parts.append(_forest(rows, ranked.metric, strong=extra, what="estimator"))
    lead = element(
        "p",
        f"Dots are what each estimator says. Bars are {percent(rankers.level)} intervals for the "
        f"ranker's value; where an estimator is thought to be biased, its bar is moved and made "
        f"longer by that, so that the dot need not lie in its middle. The first line is the "
        f"answer; the others are the same question put to other estimators.",
    )
    return section("estimators", "Estimators side by side", lead, *parts, _left_out(rankers))


def _forest(
    rows: Sequence[tuple[str, RankingEstimate]], metric: str, *, strong: bool, what: str
) -> Markup:
    """A forest plot on the page about rankers; the first line strong, if it is the answer."""
    lines = [
        forest_row(label, row, strong=strong and k == 0) for k, (label, row) in enumerate(rows)
    ]
    draw = forest_chart(lines, f"Forest plot, {metric}. {described(lines)}.", metric)
    head = [what, "value", "stderr", "low", "high", "thinkable bias", "by the model",
            "effective clicks", "largest weight"]  # fmt: skip
    body: list[list[Child]] = []
    for label, row in rows:
        numbers = cells_of(row, row.value, row.stderr, *row.interval, row.bias)
        clicks = "–" if row.clicks is None else count(row.clicks)
        rest = [percent(row.imputed_mass), clicks, short(row.largest_weight)]
        body.append([name(label), *numbers, *rest])
    return figure(draw, None, table(head, body, "The numbers"))


# -- the curve over M --------------------------------------------------------------------------


def _curves(rankers: Rankers) -> Markup:
    drawn = [
        curve_over_M(swept, _title_of(ranked, rankers), key=ranked.metric)
        for ranked in rankers.drawn
        if (swept := _swept(ranked)) is not None
    ]
    lead = (
        "A click at a rank that few examine stands for many that were not made: it counts 1/p "
        "times, but no more than M times, and what is beyond M is left to the model of relevance. "
        "Far left all is the model's word, far right all is the clicks'. Where the curve is flat "
        "the choice matters little; where it climbs or falls, model and clicks disagree."
    )
    if not drawn:
        lead = "No M was chosen from this log, so there is no curve."
    return curves_section(lead, *drawn, _left_out(rankers))


def _swept(ranked: RankingResult) -> Swept | None:
    """For a chart on the page, the curve that the headline's M was chosen from."""
    row = ranked.headline
    for choice in ranked.tuned:
        if choice.estimator == row.estimator and choice.parameter == "M":
            break
    else:
        return None
    if len(choice.grid) < 4:
        return None
    return Swept(
        ranked.ranker, choice.grid.tolist(), choice.value.tolist(),
        [math.sqrt(v) for v in choice.variance.tolist()],
        [math.sqrt(v) for v in choice.mse.tolist()],
        choice.chosen, row.value, row.level,
        f"M = {short(choice.chosen)} has the least of both together.", measure=ranked.metric,
    )  # fmt: skip
