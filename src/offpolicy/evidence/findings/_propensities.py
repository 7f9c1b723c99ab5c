"""What the logged probabilities show: are they those of what was chosen?"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.ragged import decision_of_candidate, row_sums
from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._limits import FALSE_ALARM, PROBABILITY_ERROR, grade, percent, tail
from offpolicy.evidence._summary_sums import CHOSEN, LOGGING, SPREAD, action_name, shown
from offpolicy.evidence._walk import Scanned
from offpolicy.evidence.findings._chance import LARGEST, RECHECKED, Rows
from offpolicy.logs import BanditLog, LogScan
from offpolicy.results import Finding, finding

DETERMINISTIC = (1e-9, 0.1, 1.0)
"""Share of the rows that had no choice."""
COARSE, FEWEST_ON_GRID = 0.1, 10
"""Rounding to d decimals moves a propensity by up to 0.5·10⁻ᵈ: more than 10 % of it below 5·10⁻ᵈ.
Fewer than 10 different values may well be meant as they are."""
EDGES = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99)
"""Limits of the classes of probability whose frequencies are compared."""
_AT_ONCE = 32_768
"""Candidates that are looked at together, so that what is made of them stays in the cache."""


def about_propensities(log: BanditLog) -> list[Finding]:
    """Findings on propensities: are they there, do they look like probabilities of a draw?"""
    if log.propensity is None:
        sentence = "The log has no propensities: nothing says how likely each choice was."
        return finding("no-propensity", "problem", sentence)
    certain = log.propensity >= 1.0 - 1e-9
    if log.candidates_known:
        certain = certain & (np.diff(log.offsets) > 1)
    count, share = int(certain.sum()), float(certain.mean())
    sentence = (
        f"{count:,} of {len(log):,} decisions ({percent(share)}) have propensity 1: the logger "
        f"had no choice."
    )
    found = finding("deterministic", grade(share, DETERMINISTIC), sentence, rows=count, share=share)
    return found + _constant(log, log.propensity) + _rounded(log.propensity)


def about_rounding(log: BanditLog) -> list[Finding]:
    """The finding of propensities that were given rounded beside exact ones."""
    count = log.rounded_propensities
    sentence = f"{count:,} propensities are what logging says of the chosen candidate, but rounded."
    return finding("propensity-rounded", "warning" if count else None, sentence, rows=count)


def _constant(log: BanditLog, propensity: Floats) -> list[Finding]:
    """The finding of one propensity for all rows that is not one over the number of candidates."""
    p = float(propensity[0])
    if log.logging is not None or not log.candidates_known or len(log) < FEWEST_ON_GRID:
        return []
    lengths = np.diff(log.offsets)
    fewest, most = int(lengths.min()), int(lengths.max())
    fits = fewest == most and abs(p * most - 1.0) < 1e-3
    likely = p ** len(log) >= FALSE_ALARM  # the likeliest action every time
    if fits or likely or not (propensity == p).all():
        return []
    impossible = p * float(lengths.mean()) < 1.0 - 1e-3
    candidates = f"{most}" if fewest == most else f"{fewest} to {most}"
    even = f"{1.0 / most:.3g}" if fewest == most else f"{1.0 / most:.3g} to {1.0 / fewest:.3g}"
    sentence = f"Every propensity is {p:g}, but decisions have {candidates} candidates: " + (
        "they cannot all be that unlikely." if impossible else f"drawn alike, each has {even}."
    )
    return finding(
        "constant-propensity", "problem" if impossible else "warning", sentence,
        propensity=p, fewest_candidates=fewest, most_candidates=most,
    )  # fmt: skip


def _rounded(propensity: Floats) -> list[Finding]:
    for decimals in (2, 3):
        steps = propensity * 10**decimals
        if not (np.abs(steps - np.round(steps)) < 1e-5).all():
            continue
        error = 0.5 * 10.0**-decimals
        limit, least = error / COARSE, float(propensity.min())
        count, values = int((propensity < limit).sum()), len(np.unique(np.round(steps)))
        sentence = (
            f"All propensities have at most {decimals} decimals, and {count:,} of "
            f"{len(propensity):,} are below {limit:g}, where rounding may be off by more than "
            f"{percent(COARSE)} (the least, {least:g}, by {percent(error / least)})."
        )
        bad = count > 0 and values >= FEWEST_ON_GRID
        return finding(
            "rounded-propensities", "warning" if bad else None, sentence,
            decimals=decimals, rows=count, least=least, values=values,
        )  # fmt: skip
    return []


# -- frequencies -----------------------------------------------------------------------------


def about_frequencies(log: BanditLog, rows: Rows) -> list[Finding]:
    """Findings on frequencies: were actions, or candidates of like π₀, chosen as logged?"""
    if log.propensity is None:
        return []
    if log.logging is None:
        return _inverse_propensities(log, rows, log.propensity)
    n, K, B = len(log), log.number_of_actions, len(EDGES) + 1
    codes, at, sums = log.candidate_codes(), log.chosen_index, np.zeros((3, K + B))
    step = max(1, max(_AT_ONCE, 4 * K) * n // len(codes))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        first, last = int(log.offsets[start]), int(log.offsets[part.stop])
        decision, p, classes = _looked_at(log, part)
        omega, kinds, chosen = rows.omega[part], codes[first:last], at[part]
        each = omega[decision] * p
        shares = np.bincount(decision * B + classes, p, len(omega) * B).reshape(-1, B)
        spreads = shares * np.maximum(1.0 - shares, 0.0)
        sums[0, :K] += np.bincount(codes[chosen], omega, K)
        sums[0, K:] += np.bincount(classes[chosen - first], omega, B)
        sums[1, :K] += np.bincount(kinds, each, K)
        sums[1, K:] += omega @ shares
        sums[2, :K] += np.bincount(kinds, omega[decision] * each * (1.0 - p), K)
        sums[2, K:] += omega**2 @ spreads
    counts, omega = Counts(*sums), rows.omega
    whole = functools.cache(lambda: _looked_at(log, slice(0, n)))

    def deviation(k: int) -> Floats:
        """Was one of kind ``k`` chosen, less its probability."""
        _, p, classes = whole()
        member = codes == k if k < K else classes == k - K
        return np.asarray(member[at] - row_sums(np.where(member, p, 0.0), log.offsets))

    chance, spread = counts.chance(float(omega.max())), np.sqrt(counts.variance)
    if not rows.plain:
        again = np.lexsort((-counts.off, chance))[:RECHECKED]
        chance = np.ones_like(chance)
        for k in again:
            x = deviation(int(k))
            chance[k] = rows.chance(x, float(counts.variance[k]), 1.0)
            spread[k] = rows.spread(x)

    def what(k: int) -> str:
        return action_name(log, k) if k < K else f"candidates with {_bin(k - K)}"

    return counts.least_likely(chance, spread, what)


def _looked_at(log: BanditLog, rows: slice) -> tuple[Ints, Floats, Ints]:
    """Of some rows' candidates: the decision, π₀ without the rounding that sums of probabilities
    are allowed, and its class."""
    offsets, logging = log.offsets[rows.start : rows.stop + 1], log.logging
    assert logging is not None
    decision, p = decision_of_candidate(offsets), logging[offsets[0] : offsets[-1]]
    p = p / row_sums(p, offsets - offsets[0])[decision]
    return decision, p, _class_of(p)


def _class_of(p: Floats) -> Ints:
    """Between which of the `EDGES` probabilities lie."""
    place = np.zeros(len(p), dtype=np.int64)
    for edge in EDGES:  # few: faster than a search
        place += p > edge
    return place


def about_actions(scanned: Scanned) -> list[Finding]:
    """The finding on frequencies from the walk, for independent rows: was every action chosen as
    often as logged probabilities say?"""
    actions, reward = scanned.tally.actions, scanned.reward
    if actions.others or reward.group_weight is not None:
        return []
    chosen, logging, variance = (actions.sums[:, j] for j in (CHOSEN, LOGGING, SPREAD))
    # Without the rounding that sums of probabilities are allowed.
    counts = Counts(chosen, logging * (chosen.sum() / logging.sum()), variance)
    weighted = reward.weight2 != reward.count
    chance = counts.chance(math.sqrt(reward.weight2) if weighted else 1.0)
    spread = np.sqrt(variance)
    return counts.least_likely(chance, spread, lambda k: f"action {shown(actions.names[k])}")


class Counts(NamedTuple):
    """Of each kind of candidates: how often they were chosen, the mean of that by the logged
    probabilities, and its variance."""

    observed: Floats
    expected: Floats
    variance: Floats

    @property
    def off(self) -> Floats:
        return np.abs(self.observed - self.expected)

    def chance(self, largest: float) -> Floats:
        """How likely each is as far off; no row counts more than ``largest``."""
        return 2.0 * tail(self.off, self.variance, largest)

    def least_likely(
        self, chance: Floats, spread: Floats, what: Callable[[int], str]
    ) -> list[Finding]:
        """The finding of the kind that is the least likely to be as far off as it is."""
        tests = max(int(np.count_nonzero(self.variance > 0.0)), 1)
        failing = int(np.count_nonzero(chance * tests < FALSE_ALARM))
        if not failing:
            return []
        k = int(np.lexsort((-self.off, chance))[0])
        observed, expected, kind = float(self.observed[k]), float(self.expected[k]), what(k)
        also = "" if failing == 1 else f" {failing} of {tests} such comparisons fail."
        sentence = (
            f"{kind[0].upper()}{kind[1:]} {'were' if kind.startswith('candidates') else 'was'} "
            f"chosen {observed:,.0f} times; the logged probabilities add up to {expected:,.0f} "
            f"(give or take {spread[k]:,.0f}).{also}"
        )
        return finding(
            "frequencies", grade(self.off[k] / expected, PROBABILITY_ERROR), sentence,
            what=kind, observed=observed, expected=expected, stderr=float(spread[k]),
            chance=float(chance[k]), failing=failing, tests=tests,
        )  # fmt: skip


def _bin(k: int) -> str:
    if k == 0:
        return f"a logged probability up to {EDGES[0]:g}"
    if k == len(EDGES):
        return f"a logged probability above {EDGES[-1]:g}"
    return f"a logged probability from {EDGES[k - 1]:g} to {EDGES[k]:g}"


def _inverse_propensities(log: BanditLog, rows: Rows, propensity: Floats) -> list[Finding]:
    """The finding where only propensities are known: Σ 1{chosen k}/π₀ estimates how many
    decisions could have chosen k, and Σ 1/π₀ how many candidates there were. Too few may be for
    lack of support, or by chance; too many cannot be."""
    codes, n = log.chosen_codes(), len(log)
    inverse = 1.0 / np.maximum(propensity, 1.0 / LARGEST)
    total = np.bincount(codes, weights=rows.omega * inverse)
    squares = np.bincount(codes, weights=(rows.omega * inverse) ** 2)
    suspicion = (total - n) / np.sqrt(np.maximum(squares, 1.0))
    tests = int(np.count_nonzero(total)) + 1
    worst = ("", 1.0, 1.0, 1.0)
    for k in np.argsort(-suspicion, kind="stable")[:RECHECKED]:
        if suspicion[k] > 1.0:
            chance = rows.chance_above(np.where(codes == k, inverse, 0.0) - 1.0, -1.0)
            this = (action_name(log, int(k)), chance, float(total[k]) / n, 1.0)
            worst = min(worst, this, key=_second)
    if log.candidates_known:
        lengths = np.diff(log.offsets).astype(np.float64)
        chance = rows.chance_above(inverse - lengths, -float(lengths.max()))
        mean, most = float((rows.omega * inverse).mean()), float((rows.omega * lengths).mean())
        worst = min(worst, ("all actions together", chance, mean, most), key=_second)
    who, chance, mean, most = worst
    if chance * tests >= FALSE_ALARM:
        return []
    sentence = (
        f"For {who}, 1/propensity averages {mean:.4g}, where {most:.4g} is the most there can be: "
        f"it was chosen more often than the propensities say."
    )
    return finding(
        "frequencies", grade(mean / most - 1.0, PROBABILITY_ERROR), sentence, what=who,
        mean=mean, most=most, chance=chance, tests=tests,
    )  # fmt: skip


def _second(item: tuple[Any, ...]) -> Any:
    return item[1]


def about_estimated(log: BanditLog | LogScan) -> list[Finding]:
    """Propensities that nobody logged."""
    model = log.estimated_by if isinstance(log, BanditLog) else None
    if model is None:
        return []
    from_context = isinstance(log, BanditLog) and log.context is not None
    source = "the context" if from_context else "how often each action was chosen"
    return finding(
        "estimated-propensities", "warning",
        f"The propensities were estimated from {source}, cross-fitted in {model.folds} folds. "
        f"Intervals allow for the noise of that, and not for what the logger looked at besides.",
        folds=model.folds,
    )  # fmt: skip
