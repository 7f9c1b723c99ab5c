"""What the rows themselves show: clusters, size, rewards, copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.parallel import each_block
from offpolicy._core.ragged import position_in_decision
from offpolicy._core.types import Floats
from offpolicy.evidence._blocks import Block, blocks
from offpolicy.evidence._limits import (
    FALSE_ALARM,
    FEW_EFFECTIVE,
    TOO_FEW_EFFECTIVE,
    percent,
    tail,
)
from offpolicy.evidence._plan import usual_reward
from offpolicy.evidence.findings._actions import the_logger
from offpolicy.evidence.findings._chance import Rows, kish
from offpolicy.evidence.findings._from_numbers import effective_size, how_few
from offpolicy.logs import BanditLog, Dropped, listed_reasons, sample_ranges
from offpolicy.logs.labels import encode
from offpolicy.results import Finding, Severity, finding

FEW_CLUSTERS = 30
"""With fewer, 95 % intervals covered less than 95 % in simulation (docs/logs.md)."""
OUTLIER = 1000.0
"""A reward is worth a look if it is this many times as far from the median as nine in ten."""
MANY_DROPPED = 0.01
"""Share of rows that were left out from which on those that are left may be of another kind."""
FEW_VALUES, REPEATED = 10, 5
"""Rewards of few values, each seen several times, may be codes rather than amounts."""


def about_clusters(rows: Rows) -> list[Finding]:
    """The finding of too few clusters."""
    if rows.cluster is None:
        return []
    sizes = rows.sizes()
    count, effective = len(sizes), kish(sizes)
    if effective >= FEW_CLUSTERS:
        return []
    if count == 1:
        sentence = "There is 1 cluster. Alone it says nothing of the spread: errors are infinite."
    else:
        worth = "" if effective > count - 0.5 else f", worth {effective:.1f} of equal size"
        sentence = (
            f"There are {count:,} clusters{worth}. With fewer than {FEW_CLUSTERS}, normal "
            f"intervals are too short."
        )
    severity: Severity = "problem" if count == 1 else "warning"
    return finding("clusters", severity, sentence, clusters=count, effective=effective)


def about_dropped(dropped: Dropped | None) -> list[Finding]:
    """The finding of rows that were left out because they are malformed."""
    if dropped is None or not dropped.rows:
        return []
    share = dropped.rows / dropped.of
    severity: Severity = "warning" if share >= MANY_DROPPED else "note"
    reasons = listed_reasons(dropped.reasons)
    return finding(
        "dropped", severity, f"{dropped}.", rows=dropped.rows, of=dropped.of, reasons=reasons
    )


def about_sample(n: int, size: int) -> list[Finding]:
    """The finding that a log was too large to be looked at whole."""
    if n <= size:
        return []
    places = len(sample_ranges(n, size))
    sentence = f"Of {n:,} decisions, {size:,} were looked at, in {places} places of the log."
    return finding("sample", "note", sentence, n=n, looked_at=size)


def about_size(log: BanditLog, rows: Rows, c: Floats, name: str | None) -> list[Finding]:
    """Findings on how many rows, and how many rewarded ones, stand behind an answer."""
    who, n = "the log" if name is None else name, len(log)
    w = rows.omega * c
    found = effective_size(name, kish(w), n)
    usual = usual_reward(log.reward)
    if usual is None or (usual != 0.0 and (log.reward == usual).all()):
        return found
    rewarded = log.reward != usual
    count, ess = int(rewarded.sum()), kish(w[rewarded])
    severity = how_few(ess)
    few, tells = (
        (TOO_FEW_EFFECTIVE, "next to nothing")
        if severity == "problem"
        else (FEW_EFFECTIVE, "little")
    )
    sentence = (
        f"{count:,} of {n:,} rewards differ from {usual:g}; for {who} they count as {ess:,.1f}. "
        f"Fewer than {few} tell {tells}, whatever the estimator."
    )
    return found + finding(
        "rare-rewards", severity, sentence, name, ess=ess, rows=count, usual=usual
    )


def about_rewards(reward: Floats, limits: tuple[float, float] | None) -> list[Finding]:
    """Findings on rewards: are they amounts, within their range, and more than one?"""
    n, low, high = len(reward), float(reward.min()), float(reward.max())
    found = []
    if limits is not None and (low < limits[0] or high > limits[1]):
        outside = (reward < limits[0]) | (reward > limits[1])
        count, row = int(outside.sum()), int(np.argmax(outside))
        sentence = (
            f"{count:,} of {n:,} rewards are outside the declared range from {limits[0]:g} to "
            f"{limits[1]:g}; row {row} has {reward[row]:g}, and they go from {low:g} to {high:g}."
        )
        found += finding(
            "reward-range", "problem", sentence, f"row {row}",
            rows=count, row=row, low=low, high=high,
        )  # fmt: skip
    if low == high:
        sentence = f"All {n:,} rewards are {low:g}."
        return found + finding(
            "constant-reward", "warning" if n > 1 else None, sentence, reward=low
        )
    found += _outlier(reward)
    values, counts = np.unique(reward, return_counts=True)
    repeated = n - int(counts.max()) >= REPEATED * (len(values) - 1)
    binary = values.tolist() == [0.0, 1.0]
    if limits is None and not binary and len(values) <= FEW_VALUES and repeated:
        listed = ", ".join(f"{value:g}" for value in values)
        sentence = f"The rewards take only {len(values)} values: {listed}."
        found += finding("reward-values", "note", sentence, count=len(values), values=listed)
    return found


def _outlier(reward: Floats) -> list[Finding]:
    median = float(np.median(reward))
    apart = np.abs(reward - median)
    usual = float(np.quantile(apart[apart > 0.0], 0.9, method="higher"))
    row = int(np.argmax(apart))
    value = float(reward[row])
    sentence = (
        f"The reward of row {row}, {value:g}, is {apart[row] / usual:,.0f} times as far from the "
        f"median ({median:g}) as nine in ten of the others."
    )
    severity: Severity | None = "note" if apart[row] > OUTLIER * usual else None
    numbers = {"row": row, "reward": value, "median": median}
    return finding("reward-outlier", severity, sentence, f"row {row}", **numbers)


# -- copies ----------------------------------------------------------------------------------


def about_duplicates(log: BanditLog) -> list[Finding]:
    """The finding of rows that repeat others more often than chance allows.

    Rows with the same context, time, cluster and probabilities are paired. Honest rows are drawn
    anew, so the second of a pair repeats the first one's action with its propensity at most. (Where
    probabilities differ unseen, less often: Σ_y π₀π₀′ is at most the mean of Σ_y π₀² and Σ_y π₀′².)
    """
    if log.propensity is None:
        return []
    situation = _situations(log)
    row = situation
    for values in (log.chosen_codes(), log.propensity, log.reward):
        row = _mixed(row, _bits(values))
    order = np.argsort(situation, kind="stable")
    ordered, index = situation[order], np.arange(len(log))
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    inside = index - np.maximum.accumulate(np.where(starts, index, 0))
    second = np.flatnonzero(inside % 2 == 1)
    first, second = order[second - 1], order[second]
    p = 0.5 * (log.propensity[first] + log.propensity[second])
    alike, expected = int((row[first] == row[second]).sum()), float(p.sum())
    if float(tail(alike - expected, (p * (1.0 + p)).sum(), 1.0)) >= FALSE_ALARM:
        return []
    count, n = len(log) - len(np.unique(row)), len(log)
    sentence = (
        f"{count:,} of {n:,} rows ({percent(count / n)}) are exact copies of another. Of "
        f"{len(p):,} pairs of rows in one situation {alike:,} are alike; drawn anew, at most "
        f"{expected:,.0f} or so would be."
    )
    return finding(
        "duplicates", "note" if log.cluster is not None else "warning", sentence,
        rows=count, share=count / n, pairs=len(p), alike=alike, expected=expected,
    )  # fmt: skip


def _situations(log: BanditLog) -> NDArray[np.uint64]:
    """For the finding of duplicates: a hash of what is known of each decision before the choice."""

    def of_block(block: Block) -> NDArray[np.uint64]:
        part = block.log
        if part.logging is None:
            return np.zeros(len(part), dtype=np.uint64)
        values = _mixed(_bits(part.logging), _bits(position_in_decision(part.offsets)))
        return np.add.reduceat(values, part.offsets[:-1])

    parts = list(each_block(of_block, blocks(log, the_logger(log), None)))
    state = _mixed(np.concatenate(parts), _bits(np.diff(log.offsets)))
    context = [] if log.context is None else list(log.context.T)
    for column in (log.cluster, log.time, *context):
        if column is not None:
            state = _mixed(state, _bits(column))
    return state


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """For the finding of duplicates: an integer for each value, the same for equal ones."""
    if values.dtype.kind == "f":
        return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    if values.dtype.kind in "biumM":
        return np.ascontiguousarray(values).astype(np.int64).view(np.uint64)
    return encode(values, "column", "")[1].view(np.uint64)


def _mixed(state: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For the finding of duplicates: two hashes as one (multiply and shift, as in MurmurHash3)."""
    x = state * np.uint64(0x9E3779B97F4A7C15) + bits
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x ^= x >> np.uint64(33)
        x *= np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(33)))
