"""The page of propensities: how far down a ranking people look."""

from __future__ import annotations

import math

from offpolicy.ranking.propensities import Propensities
from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, name, section
from offpolicy.report.html.numbers import count, places_for, rounded, short
from offpolicy.report.html.provenance import Provenance
from offpolicy.report.sections.answer import answers, kicker, large_number, warnings_section
from offpolicy.report.sections.reproduction import reproduction
from offpolicy.report.svg.drawing import figure, table
from offpolicy.report.svg.lines import Line, line_chart

_METHODS = {
    "pairs": "Clicks on the same document of the same query are compared where it was shown at "
    "different ranks. What the document is worth then cancels, and what is left is the rank. It "
    "needs documents that moved, and that moved for reasons other than their relevance that day.",
    "em": "Relevance is taken to be a logistic function of the features, and examination to depend "
    "on the rank alone; both are fitted together. Where the features do not explain relevance, and "
    "good documents stand high, part of relevance is taken for examination: the curve is then too "
    "steep.",
    "swaps": "Documents were put at random into ranks, so that the clicks at two ranks differ by "
    "the rank alone. This is the surest method; it is as good as the randomisation was.",
    "contextual": "As by pairs, but examination may depend on the context. The curve here is that "
    "of the mean context; the JSON holds how it changes.",
    "known": "The curve was given, not estimated: it is drawn as if there were no doubt of it.",
}

_ASSUMED = (
    "It is assumed that a click is an examination, which depends on the rank, times a relevance, "
    "which depends on query and document. Where people trust a result because it stands high, or "
    "stop at the first good one, that is not so, and the curve takes in what it should leave out."
)


def examination_page(curve: Propensities, provenance: Provenance | None, twin: str) -> str:
    """The page about how ranks are examined, as one HTML file."""
    sections: list[Child] = [
        _answer(curve, provenance),
        _warnings(curve),
        _drawn(curve),
        _meaning(),
        _method(curve),
        reproduction(provenance, "rank propensities"),
    ]
    return framed("Examination by rank", sections, twin)


def _known(curve: Propensities) -> list[int]:
    """Ranks, from 0, that have a number to be drawn on the page."""
    return [k for k, p in enumerate(curve.propensity.tolist()) if math.isfinite(p)]


def _answer(curve: Propensities, provenance: Provenance | None) -> Markup:
    top = kicker(joined("Examination by rank · method ", name(curve.method)), provenance)
    known, p = _known(curve), curve.propensity.tolist()
    if len(known) < 2:
        return answers(top, [("No rank can be compared with the first.", [])])
    last = known[-1]
    low, high = curve.interval()[last].tolist()
    number = large_number(p[last], (low, high))
    sentence = joined(f"Rank {last + 1} is examined ", number, " times as often as rank 1.")
    half = next((k for k in known if p[k] < 0.5), None)
    said = (
        f"Less than half as often as rank 1 is examined from rank {half + 1} on."
        if half is not None and all(p[k] < 0.5 for k in known if k >= half)
        else "At no rank is it clearly less than half as often."
        if half is None
        else f"Rank {half + 1} is the first that is examined less than half as often."
    )
    shown, clicks = float(curve.shown.sum()), float(curve.clicks.sum())
    if shown > 0.0:
        said += f" From {count(clicks)} clicks on {count(shown)} documents shown there."
    return answers(top, [(sentence, [element("p", said, class_="lead")])])


def _warnings(curve: Propensities) -> Markup:
    nothing = element("p", "No warnings: every rank could be compared with the first.")
    return warnings_section(curve.findings, None if curve.findings else nothing)


def _drawn(curve: Propensities) -> Markup:
    p = curve.propensity.tolist()
    low, high = (side.tolist() for side in curve.interval().T)
    known = _known(curve)
    top = len(p)
    x = [float(k + 1) for k in range(top)]
    rates = _click_rates(curve)
    inside = [high[k] for k in known if high[k] <= 2.0 * max(p[j] for j in known)]
    tallest = max([1.0, *(p[k] for k in known), *inside, *(r for r in rates if r <= 2.0)])
    told = "; ".join(f"rank {k + 1}: {short(p[k])}" for k in known[:20])
    alt = f"Line chart: examination of each rank relative to the first. {told}."

    at_known = [x[k] for k in known]
    rest = [k for k in range(top) if math.isfinite(rates[k])]

    def draw(width: float) -> Markup:
        wide = width > 500.0  # on a phone labels would lie on the lines; the caption says it all
        lines = [
            Line([high[k] for k in known], "noise", low=[low[k] for k in known], x=at_known),
            Line([1.0 / v for v in x], "second", "1/rank" if wide else ""),
            Line(p, "line", "examination" if wide else ""),
            Line([p[k] for k in known], "points", dots=True, x=at_known),
            Line([rates[k] for k in rest], "ring", "click-through" if wide else "", dots=True,
                 x=[x[k] for k in rest]),
        ]  # fmt: skip
        ticks = [(rank, f"{rank:.0f}") for rank in x[:: max(1, -(-top // (20 if wide else 10)))]]
        return line_chart(
            x, lines, width, alt=alt, x_limits=(1.0, float(top)), x_ticks=ticks, x_label="rank",
            y_limits=(0.0, 1.06 * tallest), y_label="relative to rank 1", margin=12.0,
        )  # fmt: skip

    caption = (
        "Line and band: examination with 95% intervals, rank by rank, relative to rank 1, which is "
        "1 by definition. Dashed: 1/rank, for comparison."
    )
    if any(map(math.isfinite, rates)):
        caption += (
            " Rings: clicks per document shown, relative to rank 1; these fall for two reasons, as "
            "lower ranks are looked at less and hold worse documents."
        )
    head = ["rank", "examination", "low", "high", "a click counts", "shown", "clicks"]
    body: list[list[Child]] = []
    for k in range(top):
        if k in known:
            places = min(places_for(low[k], high[k]) + 1, 4)
            cells = [rounded(v, places) for v in (p[k], low[k], high[k])]
            cells.append(f"{short(1.0 / min(p[k], 1.0))} times" if p[k] > 0.0 else "–")
        else:
            cells = ["not known", "–", "–", "–"]
        seen = [count(float(curve.shown[k])), count(float(curve.clicks[k]))]
        body.append([str(k + 1), *cells, *seen])
    drawn = figure(draw, caption, table(head, body, "The curve in numbers"))
    return section("curve", "How far down people look", drawn)


def _click_rates(curve: Propensities) -> list[float]:
    """On the page: clicks per document shown, relative to rank 1; NaN where there are none."""
    shown, clicks = curve.shown.tolist(), curve.clicks.tolist()
    first = clicks[0] / shown[0] if shown and shown[0] > 0.0 else 0.0
    if not first > 0.0:
        return [math.nan] * len(shown)
    return [c / n / first if n > 0.0 else math.nan for c, n in zip(clicks, shown, strict=True)]


def _meaning() -> Markup:
    return section(
        "meaning",
        "What it means",
        element(
            "p",
            "A document can only be clicked where it is looked at. The curve says how often each "
            "rank is, in units of the first. A click at a rank with examination p stands for 1/p "
            "documents as good that were not seen: that is how often the evaluation of rankers "
            "counts it. Where p is small a few clicks decide much, and an error of p is multiplied "
            "with them.",
        ),
        element(
            "p",
            element("code", "offpolicy rank evaluate LOG --propensities FILE.json --ranker …"),
            " uses the curve.",
        ),
    )


def _method(curve: Propensities) -> Markup:
    parts: list[Child] = [element("p", _METHODS.get(curve.method, ""))]
    if curve.method != "known":
        parts.append(element("p", _ASSUMED))
    if (end := curve.convergence) is not None:
        ended = "Converged" if end.converged else "Not converged"
        text = f"{ended} after {end.em_steps:,} steps of EM and {end.scoring_steps:,} of scoring, "
        text += f"{short(end.distance)} standard errors from the maximum."
        parts.append(element("p", text))
    return section("method", "How it was found", *parts)
