"""Findings that `check` makes of the rows and `evaluate` of the scan's sums: from their numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evidence._limits import (
    FALSE_ALARM,
    FEW_EFFECTIVE,
    FEW_EFFECTIVE_SHARE,
    HEAVIEST_SHARE,
    LEAST_DRIFT,
    PROBABILITY_ERROR,
    TENTHS,
    TOO_FEW_EFFECTIVE,
    UNSUPPORTED_MASS,
    grade,
    percent,
)
from offpolicy.results import Finding, Severity, finding


def support(policy: str, mass: float, where: str = "", **numbers: int) -> list[Finding]:
    """The finding of a policy's probability where the logger has none."""
    sentence = f"{policy} puts {percent(mass)} of its probability where the logger has none{where}."
    return finding("support", grade(mass, UNSUPPORTED_MASS), sentence, policy, mass=mass, **numbers)


def how_few(ess: float) -> Severity | None:
    """How bad a finding it is that so few effective rows stand behind a number."""
    if ess >= FEW_EFFECTIVE:
        return None
    return "problem" if ess < TOO_FEW_EFFECTIVE else "warning"


def effective_size(policy: str | None, ess: float, n: int) -> list[Finding]:
    """The finding of too few effective rows by a policy's weights, or by the log's own."""
    severity = how_few(ess) or ("note" if ess < FEW_EFFECTIVE_SHARE * n else None)
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


def heavy_weights(
    policy: str, which: str, share: float, rows: float, largest: float
) -> list[Finding]:
    """The finding of how much of a policy's weight the heaviest rows hold."""
    sentence = (
        f"The {which} hold {percent(share)} of all weight for {policy}; the largest weight is "
        f"{largest:,.4g}."
    )
    return finding(
        "heavy-weights", grade(share, HEAVIEST_SHARE), sentence, policy,
        share=share, rows=rows, largest=largest,
    )  # fmt: skip


def frequencies(
    what: str, observed: float, expected: float, spread: float, chance: float,
    *, were: str = "was", also: str = "", **numbers: int,
) -> list[Finding]:  # fmt: skip
    """The finding of how often something was chosen, against the logged probabilities."""
    sentence = (
        f"{what[0].upper()}{what[1:]} {were} chosen {observed:,.0f} times; the logged "
        f"probabilities add up to {expected:,.0f} (give or take {spread:,.0f}).{also}"
    )
    severity = grade(abs(observed - expected) / expected, PROBABILITY_ERROR)
    return finding(
        "frequencies", severity, sentence, None,
        what=what, observed=observed, expected=expected, stderr=spread, chance=chance, **numbers,
    )  # fmt: skip


def miscalibration(predicted: float, reward: float, stderr: float, chance: float) -> list[Finding]:
    """The finding of a reward model whose mean prediction is not the log's mean reward."""
    sentence = (
        f"For what was chosen, the model predicts {predicted:.4g} on average; the mean reward is "
        f"{reward:.4g} (the difference is known to ±{stderr:.2g})."
    )
    return finding(
        "prediction-calibration", "warning", sentence,
        predicted=predicted, reward=reward, stderr=stderr, chance=chance,
    )  # fmt: skip


class Move(NamedTuple):
    """The part of the log whose mean stands out most."""

    chance: float
    share: float
    """How far it is from the mean, as a share of the mean or of the spread, whichever is less."""
    text: str
    there: float
    elsewhere: float

    @classmethod
    def of(cls, chance: Floats, there: float, elsewhere: float, mean: float, spread: float) -> Move:
        """From the chance of every tenth, and of the first half, to be as far off as it is."""
        at = int(np.argmin(chance))
        where = "the first half" if at == TENTHS else f"tenth {at + 1} of {TENTHS}"
        return cls(
            2.0 * len(chance) * float(chance[at]),
            abs(there - mean) / min(abs(mean) or spread, spread),
            f"is {there:.4g} in {where} and {elsewhere:.4g} in the rest",
            there,
            elsewhere,
        )

    def matters(self, tests: float) -> bool:
        return self.chance * tests < FALSE_ALARM and self.share >= LEAST_DRIFT
