"""The Open Bandit logs: of two policies that both ran, each is estimated from the other's log.

A campaign was served by a uniformly random policy and by Thompson sampling. What each earned is
known from its own log, up to chance, and is what the estimates from the other log are held
against. Where the Thompson policy's probabilities of all items are needed (as the target; and as
π₀ for SWITCH and CAB) they are estimated: see `offpolicy.experiments.real.campaigns`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy.datasets import open_bandit_file
from offpolicy.datasets.catalogue import ITEMS
from offpolicy.estimators import NAMED, parse
from offpolicy.evaluation import evaluate
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.real import campaigns
from offpolicy.experiments.real.campaigns import ByPosition, Completed, Survey, completed
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


DEFAULT = "default (headline)"


def run_cell(campaign: str, random: str, bts: str) -> list[dict[str, Any]]:
    """A cell of the experiment: both directions of a campaign, as JSON can hold them."""
    items = ITEMS[campaign]
    by_random, by_bts = read_log(random), read_log(bts)
    in_random, in_bts = campaigns.survey(by_random, items), campaigns.survey(by_bts, items)
    shown = in_bts.shown
    target = ByPosition(np.broadcast_to(campaigns.frequencies(shown.sum(axis=0)), shown.shape))
    pi0 = ByPosition(campaigns.frequencies(campaigns.from_other_folds(shown)))
    known = completed(by_random, Completed(items, uniform=True))
    logged = completed(by_bts, Completed(items))
    estimated = completed(by_bts, Completed(items, logging=pi0))
    of_random, model = map(campaigns.reward_model, (in_random, in_bts))
    of_bts = _estimates(known, target, of_random, [*BY_CHOSEN, *BY_ALL], "known")
    of_uniform = _estimates(logged, Uniform(), model, BY_CHOSEN, "logged")
    of_uniform += _estimates(estimated, Uniform(), model, BY_ALL, "estimated")[1:]
    return [
        _direction(campaign, "uniform → Thompson", in_random, in_bts, of_bts),
        _direction(campaign, "Thompson → uniform", in_bts, in_random, of_uniform),
    ]


def _estimates(
    log: BanditLog | LogScan, policy: Any, model: ByPosition, names: Sequence[str], pi0: str
) -> list[dict[str, Any]]:
    """A table of the experiment on Open Bandit logs, the default first."""
    result = evaluate(
        log, policy, prediction=model, estimators=list(names), reward_range=(0.0, 1.0)
    )
    (headline,) = result.headlines
    rows: list[tuple[str, Headline | Estimate]] = [(DEFAULT, headline)]
    rows += zip(names, result, strict=True)
    return [
        {
            "method": name,
            "estimator": row.estimator,
            "propensities": pi0,
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
    return {
        "campaign": campaign,
        "direction": direction,
        **log.facts(),
        **{f"target_{name}": value for name, value in target.facts().items()},
        "estimates": rows,
    }


def run(folder: Path | None, cells: Cells) -> list[dict[str, Any]]:
    """The experiment on Open Bandit logs: both directions of every campaign.

    ``folder`` is that of the full release; without it, the small sample is looked for.
    """
    files = {
        campaign: [open_bandit_file(name, campaign, folder=folder) for name in ("random", "bts")]
        for campaign in ITEMS
    }
    work = [(campaign, *map(str, paths)) for campaign, paths in files.items()]
    both = cells.all("Open Bandit logs", run_cell, work, files)
    return [direction for pair in both for direction in pair]


# -- what it tells -----------------------------------------------------------------------------


def settled_pairs(values: Sequence[float], low: float, high: float) -> tuple[int, int]:
    """In the experiment's verdict, of how many pairs of estimates, of how many, the same one is
    nearer to every rate from ``low`` to ``high``: those whose middle is not between them."""
    pairs = list(itertools.combinations(values, 2))
    return sum(not low <= (a + b) / 2.0 <= high for a, b in pairs), len(pairs)


def is_off(row: dict[str, Any], direction: dict[str, Any]) -> bool:
    """For the experiment's verdict: whether an estimate is off the rate by more than the noise."""
    apart = row["value"] - direction["target_rate"]
    half = normal_quantile(0.95) * row["stderr"]
    side = "target_high" if apart > 0.0 else "target_low"
    return bool(abs(apart) > np.hypot(half, direction[side] - direction["target_rate"]))


def verdict(direction: dict[str, Any]) -> str:
    """Whether an Open Bandit log can rank the estimators: widths against differences."""
    rate, low, high = direction["target_rate"], direction["target_low"], direction["target_high"]
    rows = direction["estimates"]
    values = [row["value"] for row in rows]
    apart = np.median([abs(a - b) for a, b in itertools.combinations(values, 2)])
    settled, pairs = settled_pairs(values, low, high)
    widths = [normal_quantile(0.95) * row["stderr"] / rate for row in rows]
    off = [row["method"] for row in rows if is_off(row, direction)]
    text = (
        f"{direction['campaign']}, {direction['direction']}: the rate to be found is known to "
        f"±{(high - low) / 2.0 / rate:.0%} ({direction['target_clicks']:,} clicks) and the "
        f"estimates to ±{np.median(widths):.0%} in the median; two of them are {apart / rate:.0%} "
        f"of the rate apart in the median. Which of two is nearer, their own noise left aside, is "
        f"settled for {settled} of {pairs} pairs, and "
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


def to_markdown(directions: Sequence[dict[str, Any]]) -> str:
    """The experiment's tables: of all directions, whether each can rank the estimators, and every
    estimate."""
    verdicts = "\n".join(f"- {verdict(direction)}" for direction in directions)
    parts = ["## Open Bandit logs", _summary(directions), verdicts,
             "## Open Bandit logs, every estimate", HOW]  # fmt: skip
    for direction in directions:
        about = (
            "{campaign}, {direction}: {rows:,} rows, {clicks:,} clicks ({rate:.3%}). The "
            "target's own log: {target_rows:,} rows, {target_clicks:,} clicks, {target_rate:.3%} "
            "[{target_low:.3%}, {target_high:.3%}]."
        )
        parts += [about.format(**direction), _estimates_table(direction)]
    return "\n\n".join(parts) + "\n"


def _summary(directions: Sequence[dict[str, Any]]) -> str:
    """A row for each direction: the target's own rate, the default, and some estimates."""
    shown = ("IPS", "DR", "CAB-DR", "SWITCH", "CAB")
    lines = []
    for direction in directions:
        of = {row["method"]: row for row in direction["estimates"]}
        default = of[DEFAULT]
        rate, low, high = (direction[f"target_{name}"] for name in ("rate", "low", "high"))
        lines.append([
            direction["campaign"], direction["direction"], f"{rate:.2%} [{low:.2%}, {high:.2%}]",
            f"{default['value']:.2%}{', refused' if default['refused'] else ''}",
            f"[{default['low']:.2%}, {default['high']:.2%}]",
            *(f"{of[name]['value']:.2%}" for name in shown),
        ])  # fmt: skip
    head = ["campaign", "from → to", "the target's own rate", "default", "its interval", *shown]
    return markdown(head, lines)


def _estimates_table(direction: dict[str, Any]) -> str:
    rows = [
        [
            _shown(row),
            row["propensities"],
            f"{row['value']:.3%}",
            f"{row['stderr']:.3%}",
            f"[{row['low']:.3%}, {row['high']:.3%}]",
            f"{row['value'] - direction['target_rate']:+.3%}",
        ]
        for row in direction["estimates"]
    ]
    return markdown(
        ["estimator", "π₀", "estimate", "standard error", "95% interval", "error"], rows
    )


def _shown(row: dict[str, Any]) -> str:
    """A method in the experiment's table, with its parameter, and whether it was refused."""
    if row["method"] not in NAMED:
        return f"{row['method']}{', refused' if row['refused'] else ''}"
    member = parse(row["estimator"])
    if member.parameter_name is None:
        return member.name
    return f"{member.name}({member.parameter_name}={member.parameter:.3g})"
