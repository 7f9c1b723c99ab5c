"""The page of rankers: metric by metric, estimator by estimator, and the curve over M."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from offpolicy.ranking.evaluation import RankingResult
from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, name, plain, section
from offpolicy.report.html.numbers import counted, percent
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.sections.answer import answers, kicker, large_number, warnings_section
from offpolicy.report.sections.curve import curve_over_M, curves_section
from offpolicy.report.sections.estimates import described, forest_chart, forest_of, left_out
from offpolicy.report.sections.reproduction import reproduction
from offpolicy.report.svg.charts import Row
from offpolicy.report.svg.drawing import Draw
from offpolicy.results import Estimate, Headline

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
        row = ranked.headline
        covers = f"The {percent(row.level)} interval covers {row.covers}."
        covers += f" {row.how}" if isinstance(row, Headline) else ""
        covered = element("p", covers, class_="soft")
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
        parts.append(_forest([ranked.headline for ranked in group], metric, "ranker"))
    lead = element(
        "p",
        "Intervals that overlap do not mean that two rankers are alike: the queries are the same "
        "for both, and what is luck in one is luck in the other.",
    )
    return section("rankers", "The rankers side by side", lead, *parts)


def _estimators(rankers: Rankers) -> Markup:
    parts: list[Child] = []
    for ranked in rankers.drawn:
        parts.append(_title_of(ranked, rankers))
        parts.append(_forest([*ranked.headlines, *ranked], ranked.metric, "estimator"))
    lead = element(
        "p",
        f"The first line is the answer; the others are the same question put to other estimators, "
        f"each with a {percent(rankers.level)} interval of its own: long where the number leans on "
        f"the model, or on nothing, for much of what the documents count. The last column says how "
        f"far a row is from the answer, in standard errors (se) of the difference between the two.",
    )
    return section("estimators", "Estimators side by side", lead, *parts, _left_out(rankers))


def _forest(rows: Sequence[Estimate | Headline], metric: str, what: str) -> Markup:
    """A forest plot on the page about rankers."""

    def draw(lines: Sequence[Row]) -> Draw:
        return forest_chart(lines, f"Forest plot, {metric}. {described(lines)}.", metric)

    return forest_of(rows, draw, what=what)


# -- the curve over M --------------------------------------------------------------------------


def _curves(rankers: Rankers) -> Markup:
    drawn = [
        curve_over_M(row, _title_of(ranked, rankers), ranked.metric)
        for ranked in rankers.drawn
        for row in ranked.headlines
    ]
    lead = (
        "What the answer's estimator, CAB, says for every M. A click at a rank that few examine "
        "stands for many that were not made: it counts 1/p times, but no more than M times; the "
        "rest is left to the model of relevance. Left edge: the model decides. Right edge: the "
        "clicks decide. Where the curve is flat the choice of M matters little; where it climbs or "
        "falls, the model and the clicks disagree."
    )
    if not drawn:
        lead = "Without propensities and clicks there are no weights, and no curve."
    return curves_section(lead, *drawn, _left_out(rankers))
