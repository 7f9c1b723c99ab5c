"""The Open Bandit logs: of two policies that both ran, each is estimated from the other's log.

A campaign was served by a uniformly random policy and by Thompson sampling. What each earned is
known from its own log, up to chance, and is what the estimates from the other log are held
against. Where the Thompson policy's probabilities of all items are needed (as the target; and as
π₀ for SWITCH and CAB) they are estimated: see `offpolicy.experiments.real.campaigns`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy.datasets import open_bandit_file
from offpolicy.estimators import parse
from offpolicy.evaluation import evaluate
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.real.campaigns import (
    ITEMS,
    ByPosition,
    Completed,
    Rates,
    Survey,
    completed,
    frequencies,
    others,
    survey,
)
from offpolicy.experiments.tables import markdown
from offpolicy.intervals import normal_quantile
from offpolicy.logs import BanditLog, LogScan
from offpolicy.logs.files import read_log
from offpolicy.policies import Uniform
from offpolicy.results import Estimate, Headline

BY_CHOSEN = ("DM", "IPS", "SNIPS", "CIPS", "SB", "DR", "CAB-DR")
BY_ALL = ("SWITCH", "CAB")
"""Those that need the logger's probability of every item."""


# -- estimates ---------------------------------------------------------------------------------


def run_cell(campaign: str, random: str, bts: str, stamp: str) -> list[dict[str, Any]]:
    """Both directions of a campaign, as JSON can hold them; ``stamp`` changes with the files."""
    items = ITEMS[campaign]
    logs = {"random": read_log(random), "bts": read_log(bts)}
    found = {name: survey(log, items) for name, log in logs.items()}
    target = ByPosition(frequencies(found["bts"].shown.sum(axis=0)))
    by_random, by_bts = Rates.of(found["random"]), Rates.of(found["bts"])
    estimate = frequencies(others(found["bts"].shown))
    known = completed(logs["random"], Completed(items, uniform=True))
    logged = completed(logs["bts"], Completed(items))
    estimated = completed(logs["bts"], Completed(items, logging=estimate))
    of_bts = _estimates(known, target, by_random, [*BY_CHOSEN, *BY_ALL], "known")
    of_uniform = _estimates(logged, Uniform(), by_bts, BY_CHOSEN, "logged")
    of_uniform += _estimates(estimated, Uniform(), by_bts, BY_ALL, "estimated")[1:]
    return [
        _direction(campaign, "uniform → Thompson", found["random"], found["bts"], of_bts),
        _direction(campaign, "Thompson → uniform", found["bts"], found["random"], of_uniform),
    ]


def _estimates(
    log: BanditLog | LogScan, policy: Any, model: Rates, names: Sequence[str], propensities: str
) -> list[dict[str, Any]]:
    """The default first."""
    result = evaluate(
        log, policy, prediction=model, estimators=list(names), reward_range=(0.0, 1.0)
    )
    (headline,) = result.headlines
    rows: list[tuple[str, Headline | Estimate]] = [("default (headline)", headline)]
    rows += zip(names, result, strict=True)
    return [
        {
            "method": name,
            "estimator": row.estimator,
            "propensities": propensities,
            "value": row.value,
            "stderr": row.stderr,
            "low": row.interval.low,
            "high": row.interval.high,
            "refused": isinstance(row, Headline) and row.refusal is not None,
        }
        for name, row in rows
    ]


def _direction(
    campaign: str, direction: str, log: Survey, target: Survey, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    low, high = target.interval
    return {
        "campaign": campaign,
        "direction": direction,
        "rows": log.n,
        "clicks": log.clicks,
        "logged_rate": log.rate,
        "target_rows": target.n,
        "target_clicks": target.clicks,
        "target_rate": target.rate,
        "target_low": low,
        "target_high": high,
        "estimates": rows,
    }


def run(folder: Path | None, cells: Cells) -> Iterator[list[dict[str, Any]]]:
    """Both directions of every campaign.

    ``folder`` is that of the full release; without it, the small sample is looked for.
    """
    wanted = []
    for campaign in ITEMS:
        files = [
            open_bandit_file(behaviour, campaign, folder=folder) for behaviour in ("random", "bts")
        ]
        stamp = " ".join(f"{f.stat().st_size} {f.stat().st_mtime_ns}" for f in files)
        wanted.append((campaign, *map(str, files), stamp))
    return cells.each(run_cell, wanted)


# -- what it tells -----------------------------------------------------------------------------


def settled_pairs(values: Sequence[float], low: float, high: float) -> tuple[int, int]:
    """Of how many pairs of estimates, of how many, the same one is nearer to every rate from
    ``low`` to ``high``: those whose middle is not between them."""
    pairs = list(itertools.combinations(values, 2))
    return sum(not low <= (a + b) / 2.0 <= high for a, b in pairs), len(pairs)


def is_off(row: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether an estimate is further from the rate than the noise of both would have it."""
    apart = row["value"] - found["target_rate"]
    own = normal_quantile(0.95) * row["stderr"]
    side = "target_high" if apart > 0.0 else "target_low"
    return bool(abs(apart) > np.hypot(own, found[side] - found["target_rate"]))


def verdict(found: dict[str, Any]) -> str:
    """Whether this log can rank the estimators: widths against differences."""
    rate, low, high = found["target_rate"], found["target_low"], found["target_high"]
    rows = found["estimates"]
    values = [row["value"] for row in rows]
    apart = np.median([abs(a - b) for a, b in itertools.combinations(values, 2)])
    settled, pairs = settled_pairs(values, low, high)
    widths = [normal_quantile(0.95) * row["stderr"] / rate for row in rows]
    off = [row["method"] for row in rows if is_off(row, found)]
    text = (
        f"{found['campaign']}, {found['direction']}: the rate to be found is known to "
        f"±{(high - low) / 2.0 / rate:.0%} ({found['target_clicks']:,} clicks) and the estimates "
        f"to ±{np.median(widths):.0%} in the median; two of them are {apart / rate:.0%} of the "
        f"rate apart in the median. Which of two is nearer, their own noise left aside, is settled "
        f"for {settled} of {pairs} pairs, and "
    )
    if not off:
        return text + "none is off by more than the noise: this log cannot rank the estimators."
    return text + (
        f"{', '.join(off)} {'is' if len(off) == 1 else 'are'} off by more than the noise; the "
        f"others cannot be ranked."
    )


HOW = (
    "The Thompson policy's probabilities are estimated from its own log, as frequencies of the "
    "items by position: as the target (uniform → Thompson), and as π̂₀ for SWITCH and CAB "
    "(Thompson → uniform), which need π₀ of every item; that log has it for the item shown only. "
    "The other estimators use the logged propensities."
)


def to_markdown(found: Sequence[dict[str, Any]]) -> str:
    """A table for each direction, and whether it can rank the estimators."""
    head = ["estimator", "π₀", "estimate", "standard error", "95% interval", "error"]
    parts = [HOW]
    for one in found:
        rows = [
            [
                row["method"] if row["method"] == row["estimator"] else _shown(row),
                row["propensities"],
                f"{row['value']:.3%}",
                f"{row['stderr']:.3%}",
                f"[{row['low']:.3%}, {row['high']:.3%}]",
                f"{row['value'] - one['target_rate']:+.3%}",
            ]
            for row in one["estimates"]
        ]
        parts += [
            f"{one['campaign']}, {one['direction']}: {one['rows']:,} rows, {one['clicks']:,} "
            f"clicks ({one['logged_rate']:.3%}). The target's own log: {one['target_rows']:,} "
            f"rows, {one['target_clicks']:,} clicks, {one['target_rate']:.3%} "
            f"[{one['target_low']:.3%}, {one['target_high']:.3%}].",
            markdown(head, rows),
            verdict(one),
        ]
    return "\n\n".join(parts) + "\n"


def _shown(row: dict[str, Any]) -> str:
    """With its parameter, and whether it was refused."""
    member = parse(row["estimator"])
    name = f"{member.name}({member.parameter_name}={member.parameter:.3g})"
    if row["method"] == member.name:
        return name
    return f"{row['method']}: {name}{', refused' if row['refused'] else ''}"
