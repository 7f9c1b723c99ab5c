"""What a policy shows: where the logger allows its actions, and its weights."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

import numpy as np

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats
from offpolicy.estimators import GRID, weights
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._limits import (
    FALSE_ALARM,
    FEW_EFFECTIVE,
    PROBABILITY_ERROR,
    UNSUPPORTED_MASS,
    grade,
    percent,
    tail,
)
from offpolicy.evidence._summary_sums import UNSUPPORTED, shown
from offpolicy.evidence._walk import Scanned
from offpolicy.evidence.findings._chance import LARGEST, Rows
from offpolicy.evidence.findings._drift import FEWEST_FOR_DRIFT, moved, order_in_time
from offpolicy.logs import BanditLog
from offpolicy.results import Finding, finding

HEAVIEST, HEAVIEST_SHARE = 0.01, (0.2, 0.3, 0.7)
"""The heaviest hundredth of the rows, and the share of all weight it may hold. Of log-normal
weights it holds 9 % with σ = 1, 37 % with σ = 2, and 75 % with σ = 3."""
THIN = (1e-3, 0.01, 0.1)
"""Likewise the mass on actions so rare that their weights must be clipped: better than none."""
THIN_ROWS, THIN_WEIGHT = 100, 10.0
"""Weights must be clipped where one row would stand for more than a hundredth of the log, but not
below 10, the M that is the default elsewhere."""
CLIPS = (0.5, 2.0, 10.0, 100.0, 1000.0)
"""Values of M at which the mean of min(c, M) is tested: small ones see many rows."""
DRIFT_CLIP = 10.0
"""Weights are clipped, so that one row is not taken for drift."""
_AT_ONCE = 32_768
"""Candidates that are looked at together: as many as stay in the cache."""


# -- from the walk's sums --------------------------------------------------------------------


def about_support(name: str, scanned: Scanned) -> list[Finding]:
    """The finding of a policy's probability where the logger has none, of all candidates."""
    actions, bins = scanned.tally.actions, scanned.path.bins
    mass, by_action = bins.unsupported[0] / bins.weight, actions.sums[:, UNSUPPORTED] / bins.weight
    most = [int(k) for k in np.argsort(-by_action, kind="stable")[:3] if by_action[k] > 0.0]
    listed = [f"action {shown(actions.names[k])} ({percent(by_action[k])})" for k in most]
    count = int(np.count_nonzero(by_action))
    more = f" and {count - len(most)} more" if count > len(most) else ""
    sentence = (
        f"{name} puts {percent(mass)} of its probability where the logger has none"
        f"{': on ' if most else ''}{', '.join(listed)}{more}."
    )
    severity = grade(mass, UNSUPPORTED_MASS)
    return finding("support", severity, sentence, name, mass=float(mass), actions=count)


def about_thin_support(name: str, scanned: Scanned, *, exact: bool) -> list[Finding]:
    """The finding of a policy's probability where the logger has next to none."""
    bins, reward = scanned.path.bins, scanned.reward
    least = max(reward.weight**2 / reward.weight2 / THIN_ROWS, THIN_WEIGHT)
    k = int(np.searchsorted(GRID, least, side="right")) - 1
    thin, M = float(bins.mass[k]), float(GRID[k])
    if not exact:
        thin = min(thin, 1.0 - float(bins.kept[k]))
    sentence = (
        f"{percent(thin)} of the probability of {name} is on actions so rare in the log that "
        f"their weights go beyond {M:,.4g}."
    )
    return finding("thin-support", grade(thin, THIN), sentence, name, mass=thin, M=M)


# -- from the sample's rows ------------------------------------------------------------------


def about_training(policy: str, trained_here: Container[str]) -> list[Finding]:
    """The finding of a policy that is asked about on what it was learned from."""
    if policy not in trained_here:
        return []
    sentence = f"{policy} was learned from these decisions, or some of them."
    return finding("training-rows", "warning", sentence, policy)


def about_heavy_weights(block: Block, rows: Rows) -> list[Finding]:
    """The finding of how much of a policy's weight the heaviest rows hold."""
    if block.log.propensity is None:
        return []
    w = rows.omega * np.minimum(block.c, LARGEST)
    w = w[w > 0.0]
    if len(w) < FEW_EFFECTIVE:  # effective-size speaks
        return []
    name, top, largest = block.target.name, math.ceil(HEAVIEST * len(w)), float(block.c.max())
    share = float(np.partition(w, -top)[-top:].sum() / w.sum())
    sentence = (
        f"The heaviest {top:,} of {len(w):,} rows hold {percent(share)} of all weight for {name}; "
        f"the largest weight is {largest:,.4g}."
    )
    return finding(
        "heavy-weights", grade(share, HEAVIEST_SHARE), sentence, name,
        share=share, rows=top, largest=largest,
    )  # fmt: skip


def about_weight_mean(block: Block, rows: Rows) -> list[Finding]:
    """The finding of a policy's weights that do not average what they should."""
    if block.log.propensity is None or not block.c.any():  # refused, or refusing, elsewhere
        return []
    if block.log.logging is not None and block.target.flat is not None:
        return _weight_mean(block, rows)
    name, c = block.target.name, np.minimum(block.c, LARGEST)
    return _missing_mass(name, rows, c) + _weights_above_one(name, rows, c)


def _missing_mass(name: str, rows: Rows, c: Floats) -> list[Finding]:
    """The finding of lacking support where only propensities are known: from the mean of c."""
    mass = 1.0 - float((rows.omega * c).mean())
    spread = rows.spread(c - 1.0)
    bound = float(c.max()) * float(rows.sizes().max())
    if float(tail(mass * len(c), spread**2, bound)) >= FALSE_ALARM:
        return []
    stderr = spread / len(c)
    sentence = (
        f"The weights of {name} average {1.0 - mass:.3g}, not 1: about {percent(mass)} (give or "
        f"take {percent(stderr)}) of its probability is on actions that the log shows never, or "
        f"hardly ever."
    )
    return finding(
        "support", grade(mass, UNSUPPORTED_MASS), sentence, name, mass=mass, stderr=stderr
    )


def _weight_mean(block: Block, rows: Rows) -> list[Finding]:
    """The finding of weights that do not fit: min(c, M) against its exact mean, Σ_y min(π, Mπ₀)."""
    name, pi, pi0, offsets = (
        block.target.name, block.target.flat, block.log.logging, block.log.offsets,
    )  # fmt: skip
    assert pi is not None
    assert pi0 is not None
    n = len(block.log)
    mean, variance, off = np.empty((3, len(CLIPS), n))
    rows_at_once = max(1, _AT_ONCE * n // len(pi))
    for start in range(0, n, rows_at_once):
        part = slice(start, min(start + rows_at_once, n))
        flat = slice(int(offsets[start]), int(offsets[part.stop]))
        p, q, starts = pi[flat], pi0[flat], offsets[start : part.stop + 1] - offsets[start]
        c, total, mass = weights.ratio(p, q), row_sums(q, starts), np.empty((2, len(p)))
        for j, M in enumerate(CLIPS):
            np.multiply(np.minimum(p, M * q, out=mass[0]), np.minimum(c, M), out=mass[1])
            mean[j, part], variance[j, part] = row_sums(mass, starts) / total
    for j, M in enumerate(CLIPS):
        # Never 0 through rounding alone: the rarest choice must count as possible.
        np.maximum(variance[j] - mean[j] * mean[j], 1e-15 * variance[j], out=variance[j])
        off[j] = np.minimum(block.c, M) - mean[j]
    means, variances = (rows.omega * mean).mean(axis=1), (rows.omega**2 * variance).sum(axis=1)
    chances = rows.chances(off, variances, np.array(CLIPS))
    failing = np.flatnonzero(chances * len(CLIPS) < FALSE_ALARM)
    if not len(failing):
        return []
    j = failing[-1]  # the nearest to the weights as they are
    expected = float(means[j])
    found = expected + float((rows.omega * off[j]).mean())
    stderr = (math.sqrt(variances[j]) if rows.plain else rows.spread(off[j])) / n
    sentence = (
        f"The weights of {name}, clipped at {CLIPS[j]:g}, average {found:.4g}; by the "
        f"logged probabilities it should be {expected:.4g} (give or take {stderr:.2g})."
    )
    return finding(
        "weight-mean", grade(abs(found / expected - 1.0), PROBABILITY_ERROR), sentence, name,
        M=CLIPS[j], mean=found, expected=expected, stderr=stderr, chance=float(chances[j]),
    )  # fmt: skip


def _weights_above_one(name: str, rows: Rows, c: Floats) -> list[Finding]:
    """The finding of weights that average above 1, where only propensities are known."""
    chance, mean = rows.chance_above(c - 1.0, -1.0), float((rows.omega * c).mean())
    if chance >= FALSE_ALARM:
        return []
    stderr = rows.spread(c - mean) / len(c)
    sentence = (
        f"The weights of {name} average {mean:.4g} (give or take {stderr:.2g}), where 1 is the "
        f"most there can be."
    )
    return finding(
        "weight-mean", grade(mean - 1.0, PROBABILITY_ERROR), sentence, name,
        mean=mean, expected=1.0, stderr=stderr, chance=chance,
    )  # fmt: skip


def about_weight_drift(block: Block, rows: Rows) -> list[Finding]:
    """The finding of a policy's weights that average more at one time than at another."""
    if len(block.log) < FEWEST_FOR_DRIFT:
        return []
    name, clipped = block.target.name, np.minimum(block.c, DRIFT_CLIP)
    move = moved(rows, clipped, order_in_time(block.log))
    if move is None or not move.matters(1.0):
        return []
    sentence = f"The mean weight of {name} (clipped at {DRIFT_CLIP:g}) {move.text}."
    numbers = {"there": move.there, "elsewhere": move.elsewhere}
    return finding("weight-drift", "note", sentence, name, **numbers)


def about_unknown_categories(log: BanditLog, name: str, policy: Any) -> list[Finding]:
    """Categories that a learned policy does not know by name."""
    learned = getattr(policy, "policy_", policy)
    counts = learned.unknown(log) if hasattr(learned, "unknown") else {}
    if not counts:
        return []
    n = len(log)
    listed = ", ".join(f"{column} in {count:,}" for column, count in counts.items())
    return finding(
        "unknown-categories", "note",
        f"Of {n:,} decisions, {name} does not know the category of {listed}: it was rare, or not "
        f"there, where the policy was learned. All such categories are one to it.",
        name, of=n, unknown=max(counts.values()),
    )  # fmt: skip
