"""What an action is called, and sums over a log that is read in blocks."""

from __future__ import annotations

from collections.abc import Iterator

from offpolicy._core.types import Floats
from offpolicy.logs import BanditLog
from offpolicy.policies import Target


def action_name(log: BanditLog, k: int) -> str:
    """What findings call the k-th action of a log."""
    return f"position {k}" if log.actions is None else f"action {log.actions[k]!r}"


def the_logger(log: BanditLog) -> Target:
    """The logger as the policy of blocks, for findings where no policy is asked about."""
    return Target("logging", None, log.propensity)


def rows_of(log: BanditLog, part: BanditLog) -> slice:
    """Where in a log that findings look at the rows of a block of it are."""
    start = part.first_row - log.first_row
    return slice(start, start + len(part))


def added(parts: Iterator[Floats]) -> Floats:
    """The sum of what blocks of a log gave for a finding, in their order."""
    total = next(parts)
    for part in parts:
        total = total + part
    return total
