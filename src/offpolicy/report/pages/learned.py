"""How a policy or a ranker was learned: the course of the search, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, name, plain
from offpolicy.report.html.numbers import count, decimals, percent, rounded, short
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.pages.evaluation import page
from offpolicy.report.pages.rankers import Rankers, ranking_page
from offpolicy.report.sections.closing import reproduction
from offpolicy.report.svg.drawing import Drawn, Mark, bare_table, figure, table
from offpolicy.report.svg.lines import Line, line_chart
from offpolicy.report.svg.scales import Scale, around, linear

if TYPE_CHECKING:
    from offpolicy.report.sections.material import Material

_MOST_ROWS = 100
STARTS = {
    "model": "from the reward model's scores",
    "logger": "from a policy like the logger's",
    "zero": "from the uniform policy",
    "random": "from random weights",
}
"""Where a search began, in words."""


class Searched(NamedTuple):
    """A learned policy: what was maximised, how far the search came, and its steps."""

    name: str
    estimator: str
    decisions: int
    evaluated: int | None
    """Decisions that the evaluated policy was learned from; None if nothing was held out."""
    value: float
    steps: int
    converged: bool
    message: str
    start: str
    course: tuple[tuple[tuple[int, float], ...], ...]
    """Step and value of each search, one after the other; empty if they were not kept."""

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """From JSON of the schema ``offpolicy.learned/1``."""
        report, evaluated = body["report"], body["evaluated"]
        return cls(
            PurePath(str(body["policy"])).stem,
            str(body["parameters"]["estimator"]),
            int(body["decisions"]),
            None if evaluated is None else int(evaluated),
            float(report["value"]),
            int(report["steps"]),
            bool(report["converged"]),
            str(report["message"]),
            str(report["start"]),
            tuple(
                tuple((int(step), float(value)) for step, value in search)
                for search in body.get("course") or ()
            ),
        )  # fmt: skip


def learned_page(
    found: Searched, material: Material | None, provenance: Provenance | None, twin: str
) -> str:
    """The page of the evaluation with what it took to learn the policy; that alone, if nothing was
    held out."""
    section = _search(found)
    if material is not None:
        return page(material, section, verb="learn")
    opening = _not_evaluated(
        found.name, "policy", f"{found.decisions:,} decisions", "decision", "decisions"
    )
    sections: list[Child] = [opening, section, reproduction(provenance, "learn")]
    return framed(f"{plain(found.name, 60)}: learned policy", sections, twin)


def _not_evaluated(learned: str, what: str, seen: str, one: str, others: str) -> Markup:
    """In the place of the answer: nothing (no decision, no query) was held out."""
    return element(
        "section",
        element("p", f"A learned {what} · {seen}", class_="kicker"),
        element("h1", name(learned), ": learned, not yet evaluated."),
        element(
            "p",
            f"No {one} was held out, and what a {what} was learned from is no place to find out "
            f"what it is worth. Evaluate it on other {others}.",
            class_="lead",
        ),
        id="answer",
    )


def _facts(rows: Sequence[tuple[str, str]]) -> Markup:
    cells: list[list[Child]] = [list(row) for row in rows]
    return element("div", bare_table(["", ""], cells), class_="scroll left", tabindex="0")


def _search(found: Searched) -> Markup:
    text = (
        "The search looks for the policy of which the objective says the most, on the decisions "
        "that it is learned from. What the objective says there flatters"
    )
    if found.evaluated is not None:
        text += ": the answer is what decisions say that were held out"
    parts: list[Child] = [element("p", f"{text}.")]
    if any(found.course):
        parts.append(_course(found.course))
    else:
        parts.append(element("p", "Its steps were not kept with this result.", class_="soft"))
    ended = f"not converged ({found.message}): more steps may help, --max-iter"
    if found.converged:
        ended = f"converged; {found.message}" if found.message else "converged"
    begun = STARTS.get(found.start.partition(" ")[0], f"from {found.start}")
    facts = [
        ("objective", found.estimator),
        ("learned from", f"{found.decisions:,} decisions"),
        ("it says there", f"{short(found.value)}, less penalties"),
        ("steps", f"{found.steps:,}, {begun}"),
        ("ended", ended),
    ]
    if found.evaluated is not None and found.evaluated != found.decisions:
        facts.append(
            ("evaluated", f"the policy learned from {found.evaluated:,} decisions, not this one")
        )
    parts.append(_facts(facts))
    return element("section", element("h2", "How it was learned"), *parts, id="search")


def _course(course: Sequence[Sequence[tuple[int, float]]]) -> Markup:
    """Value over steps; a later search goes on where the one before ended."""
    x: list[float] = []
    lines: list[Line] = []
    rows: list[list[Child]] = []
    begun = 0
    for k, search in enumerate(one for one in course if one):
        own = [float(begun + step) for step, _ in search]
        lines.append(
            Line(
                [value for _, value in search],
                "second" if k else "line",
                "" if k else "objective",
                x=own,
            )
        )
        x += own
        begun = int(own[-1])
    values = [value for line in lines for value in line.y]
    # The first steps may be far off; the axis shows where the search spent its time.
    ordered = sorted(values)
    limits = around(ordered[len(ordered) // 20 :])
    places = decimals((limits[1] - limits[0]) / 10.0) + 1
    every = max(1, -(-len(x) // _MOST_ROWS))
    for at, value in list(zip(x, values, strict=True))[::every]:
        rows.append([count(at), rounded(value, places)])
    alt = (
        f"Line chart: the objective over {count(x[-1])} steps of the search, from "
        f"{short(values[0])} to {short(values[-1])}."
    )

    def draw(width: float) -> Drawn:
        return line_chart(
            x, lines, width, alt=alt,
            x_axis=lambda start, stop: linear(min(0.0, x[0]), max(x[-1], 1.0), start, stop),
            y_limits=limits, x_label="step", y_label="the objective, less penalties",
        )  # fmt: skip

    said = []
    if len(lines) > 1:
        said.append(
            "Dashed: what came after the first search, be it another start, or passes over all "
            "decisions, of which each point is about some."
        )
    if any(value < limits[0] for value in values):
        said.append("Some steps lie below the picture; the table has them.")
    caption = " ".join(said) or None
    return figure(draw, caption, table(["step", "objective"], rows, "The search in numbers"))


# -- rankers -----------------------------------------------------------------------------------


class Tried(NamedTuple):
    """A combination of parameters, and what queries that it was not fitted on say of it."""

    params: Mapping[str, str]
    score: float
    steps: int


class LearnedRanker(NamedTuple):
    """A learned ranker: what was minimised, how close it came, and what else was tried."""

    name: str
    estimator: str
    features: int
    impressions: int
    evaluated: int | None
    modelled: bool
    C: float
    gap: float
    steps: int
    converged: bool
    metric: str
    higher_is_better: bool
    rule: str | None
    tried: tuple[Tried, ...]

    @classmethod
    def from_body(cls, body: Mapping[str, Any], *, higher_is_better: bool) -> Self:
        """From JSON of the schema ``offpolicy.learned-ranker/1``; the metric says what is
        better."""
        report, evaluated, rule = body["report"], body["evaluated"], body["rule"]
        return cls(
            PurePath(str(body["ranker"])).stem,
            str(body["parameters"]["estimator"]),
            int(body["features"]),
            int(body["impressions"]),
            None if evaluated is None else int(evaluated),
            bool(body["modelled"]),
            float(report["C"]),
            float(report["gap"]),
            int(report["steps"]),
            bool(report["converged"]),
            str(body["metric"]),
            higher_is_better,
            None if rule is None else str(rule),
            tuple(
                Tried(
                    {str(key): str(value) for key, value in one["params"].items()},
                    float(one["score"]),
                    int(one["steps"]),
                )
                for one in body["candidates"]
            ),
        )


def learned_ranker_page(
    found: LearnedRanker, rankers: Rankers | None, provenance: Provenance | None, twin: str
) -> str:
    """The page of the evaluation with what it took to learn the ranker; that alone, if nothing was
    held out."""
    section = _fitted(found)
    if rankers is not None:
        return ranking_page(rankers._replace(held_out=True), section, verb="rank learn")
    opening = _not_evaluated(
        found.name, "ranker", f"{found.impressions:,} impressions", "query", "queries"
    )
    sections: list[Child] = [opening, section, reproduction(provenance, "rank learn")]
    return framed(f"{plain(found.name, 60)}: learned ranker", sections, twin)


def _fitted(found: LearnedRanker) -> Markup:
    gap = f"at most {percent(found.gap)} of the objective"
    ended = "converged" if found.converged else "not converged: more steps may help, --max-iter"
    facts = [
        ("minimised", found.estimator),
        ("C", short(found.C)),
        ("learned from", f"{found.impressions:,} impressions, {found.features:,} features"),
        ("steps", f"{found.steps:,}, {ended}"),
        ("certified gap", f"{gap} above the least there can be"),
    ]
    if found.modelled:
        facts.append(("model of relevance", "learned from the same clicks, cross-fitted"))
    if found.evaluated is not None and found.evaluated != found.impressions:
        facts.append(
            ("evaluated", f"the ranker learned from {found.evaluated:,} impressions, not this one")
        )
    parts: list[Child] = [_facts(facts)]
    if found.tried:
        parts += [
            element("h3", "What was tried"),
            element(
                "p",
                f"{found.metric[:1].upper()}{found.metric[1:]} on queries that a ranker was fitted "
                f"without, by the rule {found.rule}; the best was taken.",
            ),
            _tried(found),
        ]
    return element("section", element("h2", "How it was learned"), *parts, id="search")


def _tried(found: LearnedRanker) -> Markup:
    """Scores over estimators, one line for each of the other parameters' values."""
    finite = [one for one in found.tried if math.isfinite(one.score)]
    kinds = list(dict.fromkeys(one.params.get("estimator", found.estimator) for one in finite))
    groups: dict[str, dict[str, float]] = {}
    for one in finite:
        rest = ", ".join(
            f"{key} {_number(v)}" for key, v in one.params.items() if key != "estimator"
        )
        groups.setdefault(rest, {})[one.params.get("estimator", found.estimator)] = one.score
    head = ["estimator", "other parameters", found.metric, "steps"]
    rows: list[list[Child]] = [
        [
            name(one.params.get("estimator", found.estimator)),
            _others(one) or "–",
            rounded(one.score, 5) if math.isfinite(one.score) else "–",
            count(float(one.steps)),
        ]
        for one in found.tried[:_MOST_ROWS]
    ]
    behind = table(head, rows, "All that was tried, in numbers")
    if len(finite) < 2:
        return behind
    overs = kinds if len(kinds) > 1 else list(groups)
    values = [
        [own[kind] for own in groups.values() if kind in own] for kind in kinds
    ] if len(kinds) > 1 else [list(own.values()) for own in groups.values()]  # fmt: skip
    pick = max if found.higher_is_better else min
    best = [pick(own) for own in values]
    others = [(float(k), one) for k, own in enumerate(values) for one in own if one != best[k]]
    x = [float(k) for k in range(len(overs))]
    scores = [one.score for one in finite]
    taken = best.index(pick(best))
    parameter = kinds[0].partition("(")[2].partition("=")[0] or "estimator"
    alt = (
        f"Line chart: {found.metric} of {len(finite)} rankers that were tried, between "
        f"{short(min(scores))} and {short(max(scores))}."
    )

    def scale(start: float, stop: float) -> Scale:
        width = max(len(overs) - 1, 1)
        ticks = tuple((float(k), _parameter(over)) for k, over in enumerate(overs))
        return Scale(lambda v: start + 14.0 + (stop - start - 28.0) * v / width, ticks, start, stop)

    def draw(width: float) -> Drawn:
        return line_chart(
            x,
            [
                Line([y for _, y in others], "ring", dots=True, x=[at for at, _ in others]),
                Line(best, "line"),
                Line(best, "points", dots=True),
            ],
            width, alt=alt, x_axis=scale, y_limits=around(scores, 0.1),
            x_label=parameter if len(kinds) > 1 else "what was tried", y_label=found.metric,
            marks=[Mark(x[taken], "best")],
        )  # fmt: skip

    caption = "The best for each; rings are the same with other values of the other parameters."
    return figure(draw, caption if others else None, behind)


def _others(one: Tried) -> str:
    """loss 10, or what else was tried beside the estimator."""
    return ", ".join(f"{key} {_number(v)}" for key, v in one.params.items() if key != "estimator")


def _parameter(estimator: str) -> str:
    """10 of CAB(M=10); the name where there is none."""
    inner = estimator.partition("(")[2].rstrip(")").partition("=")[2]
    return _number(inner) if inner else plain(estimator, 16)


def _number(text: str) -> str:
    try:
        return short(float(text))
    except ValueError:
        return plain(text, 16)
