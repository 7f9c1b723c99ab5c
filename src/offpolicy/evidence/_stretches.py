"""Into which stretches a log is cut, in the order of its rows, for pictures of its course."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Ints
from offpolicy.logs import BanditLog

MOST = 50
"""Stretches of a log."""
FEWEST_ROWS = 20
"""Rows a stretch, but for the last of a short log."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Of ``n`` rows from ``first_row`` on."""

    first_row: int
    n: int

    @property
    def count(self) -> int:
        """How many there are."""
        return min(max(self.n // FEWEST_ROWS, 1), MOST)

    def starts(self, log: BanditLog) -> tuple[int, Ints]:
        """The stretch of the first row of a part of the log, and where in it the stretch and the
        next ones begin, and last its end."""
        first, rows = log.first_row - self.first_row, len(log)
        part, last = (row * self.count // self.n for row in (first, first + rows - 1))
        # The first row of stretch k is the least i with i·count ≥ k·n.
        begins = [-(-k * self.n // self.count) - first for k in range(part + 1, last + 1)]
        return part, np.array([0, *begins, rows], dtype=np.int64)

    def of_rows(self, log: BanditLog) -> Ints:
        """The stretch of every row of a part of the log."""
        part, starts = self.starts(log)
        return part + np.repeat(np.arange(len(starts) - 1), np.diff(starts))
