"""What the rows themselves show: clusters, size, rewards, copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.contexts import cell_bits
from offpolicy._core.door import Door
from offpolicy._core.ragged import position_in_decision
from offpolicy._core.types import Floats
from offpolicy.evidence._limits import (
    FALSE_ALARM,
    FEW_EFFECTIVE,
    FEW_EFFECTIVE_SHARE,
    TOO_FEW_EFFECTIVE,
    percent,
    tail,
)
from offpolicy.evidence._plan import usual_reward
from offpolicy.evidence._sources import Source
from offpolicy.evidence.findings._chance import Rows, kish
from offpolicy.logs import (
    BanditLog,
    Dropped,
    FoundArms,
    LogScan,
    listed,
    listed_reasons,
    sample_ranges,
)
from offpolicy.logs.labels import hash_rows
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


def about_arms(log: BanditLog | LogScan) -> list[Finding]:
    """The finding of arms that nobody named; none is missing where one propensity for each of them
    sums to 1, which was checked."""
    columns = log.columns
    arms = None if columns is None or columns.constants else columns.actions
    if not isinstance(arms, FoundArms):
        return []
    sentence = f"The arms are those found in the log: {listed(arms)}."
    return finding("arms-found", "note", sentence, arms=len(arms))


def about_filter(log: BanditLog | LogScan) -> list[Finding]:
    """The finding of rows that were picked by what came of them."""
    if log.condition is None or log.columns is None:
        return []
    reward = log.columns.reward or "reward"
    sentence = f"Rows were picked by their reward: {Door.named('where')} names {reward}."
    picked = log.condition.depends_on(reward)
    return finding("reward-filter", "warning" if picked else None, sentence, reward=reward)


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


def about_sample(n: int, looked_at: int) -> list[Finding]:
    """The finding that a log was too large for all of its rows to be looked at one by one."""
    if n <= looked_at:
        return []
    places = len(sample_ranges(n, looked_at))
    sentence = f"Of {n:,} decisions, {looked_at:,} were looked at, in {places} places of the log."
    return finding("sample", "note", sentence, n=n, looked_at=looked_at)


def _how_few(ess: float) -> Severity | None:
    """How bad a finding it is that so few effective rows stand behind a number."""
    if ess >= FEW_EFFECTIVE:
        return None
    return "problem" if ess < TOO_FEW_EFFECTIVE else "warning"


def about_size(policy: str | None, ess: float, n: int) -> list[Finding]:
    """The finding of too few effective rows by a policy's weights, or by the log's own."""
    severity = _how_few(ess) or ("note" if ess < FEW_EFFECTIVE_SHARE * n else None)
    if policy is None:
        worth = "" if ess > n - 0.05 else f", worth {ess:,.1f} of equal weight"
        sentence = f"The log has {n:,} decision{'s' * (n > 1)}{worth}."
    elif ess > 0.0:
        sentence = (
            f"Of {n:,} decision{'s' * (n > 1)}, {ess:,.1f} effective ones stand behind {policy} "
            f"({percent(ess / n)})."
        )
    else:
        sentence = (
            f"{policy} gives probability 0 to every action that was chosen: no reward in the log "
            f"says anything about it."
        )
    return finding("effective-size", severity, sentence, policy, ess=ess, n=n, share=ess / n)


def about_rare_rewards(policy: str | None, reward: Floats, w: Floats, n: int) -> list[Finding]:
    """The finding of too few rewards behind an answer, by the weight of each; of ``n`` decisions,
    of which these may be a sample."""
    usual = usual_reward(reward)
    if usual is None or (usual != 0.0 and (reward == usual).all()):
        return []
    rewarded, grown = reward != usual, n / len(reward)
    count, ess = round(grown * int(rewarded.sum())), grown * kish(w[rewarded])
    severity = _how_few(ess)
    few, tells = (
        (TOO_FEW_EFFECTIVE, "next to nothing")
        if severity == "problem"
        else (FEW_EFFECTIVE, "little")
    )
    sentence = (
        f"{'About ' if grown > 1.0 else ''}{count:,} of {n:,} rewards differ from {usual:g}; for "
        f"{policy or 'the log'} they count as {ess:,.1f}. Fewer than {few} tell {tells}, whatever "
        f"the estimator."
    )
    numbers = {"ess": ess, "rows": count, "usual": usual}
    return finding("rare-rewards", severity, sentence, policy, **numbers)


def about_rewards(
    source: Source, reward: Floats, limits: tuple[float, float] | None
) -> list[Finding]:
    """Findings on rewards: are they amounts, within their range, and more than one? ``reward`` are
    those of the sample."""
    low, high, binary = source.log.rewards
    found = []
    if limits is not None and (low < limits[0] or high > limits[1]):
        place, value = source.log.find_reward_outside(*limits)
        where = str(place._replace(column=""))
        sentence = (
            f"Rewards go from {low:g} to {high:g}, outside the declared range from {limits[0]:g} "
            f"to {limits[1]:g}; the first outside is {value:g}, in {where}.{place.counting}"
        )
        numbers = {"reward": value, "low": low, "high": high}
        found += finding("reward-range", "problem", sentence, where, **numbers)
    if low == high:
        sentence, alike = f"All {source.n:,} rewards are {low:g}.", source.n > 1
        return found + finding(
            "constant-reward", "warning" if alike else None, sentence, reward=low
        )
    found += _outlier(source, reward)
    values, counts = np.unique(reward, return_counts=True)
    repeated = len(reward) - int(counts.max()) >= REPEATED * (len(values) - 1)
    if limits is None and not binary and 1 < len(values) <= FEW_VALUES and repeated:
        listed = ", ".join(f"{value:g}" for value in values)
        sentence = f"The rewards take only {len(values)} values: {listed}."
        found += finding("reward-values", "note", sentence, count=len(values), values=listed)
    return found


def _outlier(source: Source, reward: Floats) -> list[Finding]:
    low, high, _ = source.log.rewards
    median = float(np.median(reward))
    apart = np.abs(reward - median)
    if not apart.any():
        return []
    usual = float(np.quantile(apart[apart > 0.0], 0.9, method="higher"))
    far = max(high - median, median - low)
    if not far > OUTLIER * usual:
        return []
    inside = far * (1.0 - 1e-6)
    place, value = source.log.find_reward_outside(median - inside, median + inside)
    where = str(place._replace(column=""))
    sentence = (
        f"The reward of {where}, {value:g}, is {far / usual:,.0f} times as far from the median "
        f"({median:g}) as nine in ten of the others.{place.counting}"
    )
    return finding("reward-outlier", "note", sentence, where, reward=value, median=median)


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

    state = np.zeros(len(log), dtype=np.uint64)
    if log.logging is not None:
        values = _mixed(_bits(log.logging), _bits(position_in_decision(log.offsets)))
        state = np.add.reduceat(values, log.offsets[:-1])
    state = _mixed(state, _bits(np.diff(log.offsets)))
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
    return cell_bits(values)


def _mixed(state: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For the finding of duplicates: two hashes as one."""
    both = state * np.uint64(0x9E3779B97F4A7C15) + bits
    return hash_rows(both.view(np.int64), buckets=2**64).view(np.uint64)
