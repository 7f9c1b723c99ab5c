"""What is known of all rewards of a log before any is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from offpolicy._core.types import Floats


class RewardSummary(NamedTuple):
    """What is known of all rewards before any is used."""

    low: float
    high: float
    binary: bool
    """Whether all are 0 or 1."""

    @classmethod
    def of(cls, reward: Floats) -> RewardSummary:
        low, high = float(reward.min()), float(reward.max())
        inside = low >= 0.0 and high <= 1.0
        return cls(low, high, inside and bool(((reward == 0.0) | (reward == 1.0)).all()))

    @classmethod
    def together(cls, parts: Sequence[RewardSummary]) -> RewardSummary:
        """Of all parts of a log."""
        low, high, binary = zip(*parts, strict=True)
        return cls(min(low), max(high), all(binary))
