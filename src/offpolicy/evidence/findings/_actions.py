"""Which action a candidate is, and sums over a log that is read in blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.logs import BanditLog
from offpolicy.policies import Target


def number_of_actions(log: BanditLog) -> int:
    """All `action_codes` are below this."""
    return len(log.actions) if log.actions is not None else int(np.diff(log.offsets).max())


def positions(log: BanditLog) -> Ints:
    """Each candidate's position in its decision."""
    return np.arange(int(log.offsets[-1])) - np.repeat(log.offsets[:-1], np.diff(log.offsets))


def action_codes(log: BanditLog) -> Ints:
    """Each candidate's action; its position in the decision where actions have no names."""
    return positions(log) if log.actions is None else log.candidate_codes()


def chosen_codes(log: BanditLog) -> Ints:
    """Likewise the chosen candidates'."""
    return log.chosen if log.candidate is None else log.candidate[log.chosen_index]


def action_name(log: BanditLog, k: int) -> str:
    """What messages call it."""
    return f"position {k}" if log.actions is None else f"action {log.actions[k]!r}"


def the_logger(log: BanditLog) -> Target:
    """Stands in where no policy is asked about."""
    return Target("logging", None, log.propensity)


def rows_of(log: BanditLog, part: BanditLog) -> slice:
    """Where in ``log`` the rows of ``part`` are."""
    start = part.first_row - log.first_row
    return slice(start, start + len(part))


def added(parts: Iterator[Floats]) -> Floats:
    """The sum of what blocks gave, in their order."""
    total = next(parts)
    for part in parts:
        total = total + part
    return total
