"""How a policy or a ranker was learned: the course of the search, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from offpolicy.learning import LearnedPolicy, Trial
from offpolicy.ranking.learning import LearnedRanker
from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, name, plain, section
from offpolicy.report.html.numbers import count, decimals, percent, rounded, short
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.pages.evaluation import page
from offpolicy.report.pages.rankers import Rankers, ranking_page
from offpolicy.report.sections.answer import Said, answers, kicker
from offpolicy.report.sections.page_data import PageData
from offpolicy.report.sections.reproduction import reproduction
from offpolicy.report.svg.drawing import Mark, facts, figure, table
from offpolicy.report.svg.lines import Line, line_chart
from offpolicy.report.svg.scales import around

_MOST_ROWS = 100


def learned_page(
    learned: LearnedPolicy | LearnedRanker, provenance: Provenance | None, twin: str
) -> str:
    """The page of the evaluation with what it took to learn the policy or the ranker; that alone,
    if nothing was held out."""
    if isinstance(learned, LearnedPolicy):
        how, verb, what = _search(learned), "learn", "policy"
        seen, held, others = f"{learned.decisions:,} decisions", "decision", "decisions"
        if learned.result is not None:
            data = PageData(learned.result, learned.comparison, None, provenance, twin)
            return page(data, how, verb=verb, also=_beside_constant(learned))
    else:
        how, verb, what = _fitted(learned), "rank learn", "ranker"
        seen, held, others = f"{learned.impressions:,} impressions", "query", "queries"
        if learned.result is not None:
            rankers = Rankers((learned.result,), provenance, twin, held_out=True)
            return ranking_page(rankers, how, verb=verb)
    lead = element(
        "p",
        f"No {held} was held out, and what a {what} was learned from is no place to find out what "
        f"it is worth. Evaluate it on other {others}.",
        class_="lead",
    )
    sentence = joined(name(learned.name), ": learned, not yet evaluated.")
    opening = answers(kicker(f"A learned {what} · {seen}", None), [(sentence, [lead])])
    sections: list[Child] = [opening, how, reproduction(provenance, verb)]
    return framed(f"{plain(learned.name, 60)}: learned {what}", sections, twin)


def _beside_constant(learned: LearnedPolicy) -> list[Said]:
    """How the policy does beside the best single action."""
    if learned.constant is None:
        return []
    verdict, _, value = str(learned.constant).partition("\n")
    return [(verdict, [element("p", value.strip(), class_="lead")])]


def _search(learned: LearnedPolicy) -> Markup:
    text = (
        "The search looks for the policy of which the objective says the most, on the decisions "
        "that it is learned from. What the objective says there flatters"
    )
    if learned.evaluated is not None:
        text += ": the answer is what decisions say that were held out"
    course = element("p", "Its steps were not kept with this result.", class_="soft")
    if any(learned.course):
        course = _course(learned.course)
    lines = [
        ("objective", str(learned.parameters["estimator"])),
        ("learned from", f"{learned.decisions:,} decisions"),
        ("it says there", f"{short(learned.report.value)}, less penalties"),
        ("steps", f"{learned.report.steps:,}, {learned.begun}"),
        ("ended", learned.ended),
    ]
    if learned.evaluated is not None and learned.evaluated != learned.decisions:
        seen = f"{learned.evaluated:,} decisions"
        lines.append(("evaluated", f"the policy learned from {seen}, not this one"))
    return section("search", "How it was learned", element("p", f"{text}."), course, facts(lines))


def _course(course: Sequence[Sequence[tuple[int, float]]]) -> Markup:
    """Chart of the value over steps; a later search goes on where the one before ended."""
    x: list[float] = []
    lines: list[Line] = []
    for search in course:
        if search:
            begun = x[-1] if x else 0.0
            steps = [begun + step for step, _ in search]
            style, label = ("second", "") if lines else ("line", "objective")
            lines.append(Line([value for _, value in search], style, label, x=steps))
            x += steps
    values = [value for line in lines for value in line.y]
    # The first steps may be far off; the axis shows where the search spent its time.
    ordered = sorted(values)
    limits = around(ordered[len(ordered) // 20 :])
    places = decimals((limits[1] - limits[0]) / 10.0) + 1
    every = max(1, -(-len(x) // _MOST_ROWS))
    rows = [
        [count(step), rounded(value, places)]
        for step, value in zip(x[::every], values[::every], strict=True)
    ]
    alt = (
        f"Line chart: the objective over {count(x[-1])} steps of the search, from "
        f"{short(values[0])} to {short(values[-1])}."
    )

    draw = partial(
        line_chart, x, lines, alt=alt, x_limits=(min(0.0, x[0]), max(x[-1], 1.0)), y_limits=limits,
        x_label="step", y_label="the objective, less penalties",
    )  # fmt: skip
    said = []
    if len(lines) > 1:
        said.append(
            "Dashed: what came after the first search, be it another start, or passes over all "
            "decisions, of which each point is about some."
        )
    if any(value < limits[0] for value in values):
        said.append("Some steps lie below the picture; the table has them.")
    return figure(draw, " ".join(said), table(["step", "objective"], rows, "The search in numbers"))


def _fitted(learned: LearnedRanker) -> Markup:
    report = learned.report
    gap = f"at most {percent(report.gap)} of the objective"
    ended = "converged" if report.converged else "not converged: more steps may help, --max-iter"
    lines = [
        ("minimised", str(learned.parameters["estimator"])),
        ("C", short(report.C)),
        ("learned from", f"{learned.impressions:,} impressions, {learned.features:,} features"),
        ("steps", f"{report.steps:,}, {ended}"),
        ("certified gap", f"{gap} above the least there can be"),
    ]
    if learned.modelled:
        lines.append(("model of relevance", "learned from the same clicks, cross-fitted"))
    if learned.evaluated is not None and learned.evaluated != learned.impressions:
        seen = f"{learned.evaluated:,} impressions"
        lines.append(("evaluated", f"the ranker learned from {seen}, not this one"))
    parts: list[Child] = [facts(lines)]
    if learned.trials:
        parts += [
            element("h3", "What was tried"),
            element(
                "p",
                f"{learned.metric[:1].upper()}{learned.metric[1:]} on queries that a ranker was "
                f"fitted without, by the rule {learned.rule}; the best was taken.",
            ),
            _tried(learned),
        ]
    return section("search", "How it was learned", *parts)


def _tried(learned: LearnedRanker) -> Markup:
    """Chart of scores over estimators, or over other parameters if there is one estimator only."""

    def kind_of(tried: Trial) -> str:
        return str(tried.params.get("estimator", learned.parameters["estimator"]))

    head = ["estimator", "other parameters", learned.metric, "steps"]
    rows: list[list[Child]] = [
        [
            name(kind_of(tried)),
            _other_parameters(tried) or "–",
            rounded(tried.score, 5) if math.isfinite(tried.score) else "–",
            count(float(tried.steps)),
        ]
        for tried in learned.trials[:_MOST_ROWS]
    ]
    behind = table(head, rows, "All that was tried, in numbers")
    finite = [tried for tried in learned.trials if math.isfinite(tried.score)]
    if len(finite) < 2:
        return behind
    kinds = list(map(kind_of, finite))
    several = len(set(kinds)) > 1
    groups: dict[str, list[float]] = {}
    for kind, tried in zip(kinds, finite, strict=True):
        groups.setdefault(kind if several else _other_parameters(tried), []).append(tried.score)
    pick = max if learned.higher_is_better else min
    best = [pick(scores) for scores in groups.values()]
    x = [float(k) for k in range(len(best))]
    others = [
        (place, score)
        for place, most, scores in zip(x, best, groups.values(), strict=True)
        for score in scores
        if score != most
    ]
    every = [tried.score for tried in finite]
    parameter = kinds[0].partition("(")[2].partition("=")[0] or "estimator"
    alt = (
        f"Line chart: {learned.metric} of {len(finite)} rankers that were tried, between "
        f"{short(min(every))} and {short(max(every))}."
    )
    lines = [
        Line([y for _, y in others], "ring", dots=True, x=[place for place, _ in others]),
        Line(best, "line"),
        Line(best, "points", dots=True),
    ]
    draw = partial(
        line_chart, x, lines, alt=alt, y_limits=around(every, 0.1), y_label=learned.metric,
        x_limits=(0.0, x[-1]), x_ticks=list(zip(x, map(_parameter, groups), strict=True)),
        x_label=parameter if several else "what was tried", margin=14.0,
        marks=[Mark(x[best.index(pick(best))], "best")],
    )  # fmt: skip
    caption = "The best for each; rings are the same with other values of the other parameters."
    return figure(draw, caption if others else None, behind)


def _other_parameters(tried: Trial) -> str:
    """Label in a chart: loss 10, or what else was tried beside the estimator."""
    rest = [(key, v) for key, v in tried.params.items() if key != "estimator"]
    return ", ".join(f"{key} {_number(str(v))}" for key, v in rest)


def _parameter(estimator: str) -> str:
    """Label on a chart's axis: 10 of CAB(M=10); the name where there is none."""
    inner = estimator.partition("(")[2].rstrip(")").partition("=")[2]
    return _number(inner) if inner else plain(estimator, 16)


def _number(text: str) -> str:
    try:
        return short(float(text))
    except ValueError:
        return plain(text, 16)
