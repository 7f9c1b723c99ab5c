"""Logs that are read while they are walked over: files, or tables too large to hold."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.late import pa
from offpolicy._core.pickling import Portable
from offpolicy.errors import ParameterError, Place
from offpolicy.logs import labels
from offpolicy.logs._arms import MOST_ARMS, FoundArms, as_found
from offpolicy.logs._bad_rows import MAX_DROPPED, Dropped
from offpolicy.logs._bandit_log import FIRST, BanditLog
from offpolicy.logs._columns import Columns
from offpolicy.logs._rewards import RewardSummary
from offpolicy.logs.expressions import Expression
from offpolicy.logs.labels import hash_rows

BLOCK = 16_384
"""Decisions a block."""
PLACES, MOST_PLACES = 32, 128
"""In how many places a log is sampled, at least and at most; each is a row group to decode."""
ROWS_PER_PLACE = 3_000_000
"""Of a log with more than the least: the sample is then at most 5 % of a run (docs/large.md)."""


Sums = TypeVar("Sums")
ColumnCheck = Callable[[BanditLog], None]
"""Raises, naming the rows, unless columns hold probabilities and predictions."""


class LogScan(Portable, ABC):
    """A log that is read while it is walked over: files, or tables too large to hold.

    Made by `offpolicy.read_log`. Policies and the reward model are columns of it, or objects
    that answer for any part of a log.
    """

    source: str
    columns: Columns
    progress: Callable[[int, int], None] | None = None
    """Called while the log is walked over, with the decisions read so far and in all; copies of
    the log call nothing."""
    dropped: Dropped | None = None
    """Malformed rows that were left out; None if they are errors, or were not looked for yet."""
    max_dropped: float = MAX_DROPPED
    """The share of all rows that may be."""
    condition: Expression | None = None
    """What all its rows meet: others were left out."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of decisions."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source}: {len(self):,} decisions)"

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"progress": None}

    @functools.cached_property
    def width(self) -> float:
        """Candidates a decision, about."""
        return self.read([(0, min(len(self), FIRST))], ()).width

    @property
    def candidates_known(self) -> bool:
        """Whether decisions say what else could have been chosen."""
        return self.columns.actions is not None or bool(
            self.column_of("logging") or self.column_of("candidates")
        )

    @property
    @abstractmethod
    def column_names(self) -> Sequence[str]:
        """All columns that there are."""

    @abstractmethod
    def column_of(self, role: str) -> str | None:
        """The column that plays a role, if there is one."""

    @abstractmethod
    def type_of(self, column: str) -> pa.DataType:
        """What a column holds."""

    @abstractmethod
    def distinct(self, column: str, most: int) -> NDArray[Any]:
        """The different values of a column that are not missing: all of them, or ``most``."""

    def find_arms(self) -> FoundArms | None:
        """All actions that were ever chosen; None if they are too many to be arms."""
        values = self.distinct(str(self.column_of("action")), MOST_ARMS + 1)
        return as_found(labels.encode(values, "action", self.source)[0])

    def with_found_arms(self, arms: FoundArms) -> LogScan:
        """The log with these as the candidates of every decision."""
        log = copy.copy(self)
        log.__dict__.pop("width", None)
        log.columns = dataclasses.replace(self.columns, actions=arms)
        return log

    @property
    @abstractmethod
    def rewards(self) -> RewardSummary: ...

    @abstractmethod
    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        """The first reward that is not within these, and its place."""

    @abstractmethod
    def read(self, ranges: Sequence[tuple[int, int]], extra: Sequence[str]) -> BanditLog:
        """Some stretches of the log, in order, as one, with these columns besides its own."""

    @abstractmethod
    def walk(self, extra: Sequence[str], skip: int = 0) -> Iterator[Callable[[], BanditLog]]:
        """All decisions in order, `offpolicy.logs.BLOCK` at a time, yet to be made; without the
        first ``skip`` of these blocks."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that changes when the log does."""

    def rows_by_file(self) -> dict[str, int]:
        """How many rows are from which file; none where that is not known."""
        return {}

    def without_bad_rows(self, key: str, extra: Sequence[str], check: ColumnCheck) -> LogScan:
        """The log without its malformed rows, if they are to be dropped; ``check`` raises for rows
        that are malformed in these columns, and ``key`` says what it looks for."""
        return self


class Derived(LogScan):
    """A log made of another one piece by piece, of which all else is true that is of that."""

    def __init__(self, base: LogScan) -> None:
        self.base = base
        self.source, self.columns = base.source, base.columns

    @property
    def rewards(self) -> RewardSummary:
        return self.base.rewards

    @property
    def column_names(self) -> Sequence[str]:
        return self.base.column_names

    def column_of(self, role: str) -> str | None:
        return self.base.column_of(role)

    def type_of(self, column: str) -> pa.DataType:
        return self.base.type_of(column)

    def distinct(self, column: str, most: int) -> NDArray[Any]:
        return self.base.distinct(column, most)

    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        return self.base.find_reward_outside(low, high)


class Distributed(LogScan):
    """A log on many machines, which is not walked over but added up where it lies."""

    @abstractmethod
    def reduce(
        self,
        function: Callable[[BanditLog], Sums],
        add: Callable[[Sums, Sums], Sums],
        extra: Sequence[str],
    ) -> Sums:
        """``function`` of all pieces, with these columns besides the log's own, added up."""

    def walk(self, extra: Sequence[str], skip: int = 0) -> Iterator[Callable[[], BanditLog]]:
        raise ParameterError(f"{self.source} is not in one place: its rows cannot be walked over.")


def identity(log: BanditLog | LogScan) -> str:
    """By which the same decisions are known again, whatever they are stored in: a hash of how many
    they are, and of actions and rewards in some places."""
    n = len(log)
    places = sample_ranges(n, FIRST)
    if isinstance(log, LogScan):
        log, rows = log.read(places, ()), np.arange(min(n, FIRST))
    else:
        rows = np.concatenate([np.arange(start, stop) for start, stop in places])
    codes = log.chosen_codes()[rows].tolist()
    actions = [str(code if log.actions is None else log.actions[code]) for code in codes]
    told = repr((n, actions, log.reward[rows].tolist()))
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def sample_ranges(n: int, size: int) -> list[tuple[int, int]]:
    """Where to look at ``size`` of a log's ``n`` rows: all, or a stretch in every part of the log.

    Where in its part a stretch begins is as good as random, so that no period in the log meets
    them all. It depends on ``n`` and ``size`` alone: the rows are the same however they are stored.
    """
    if n <= size:
        return [(0, n)]
    parts = PLACES
    while 2 * parts * ROWS_PER_PLACE <= n and parts < MOST_PLACES:
        parts *= 2
    parts = min(parts, size)
    share = hash_rows(np.arange(parts), salt=1, buckets=2**32)
    ranges = []
    for part in range(parts):
        begin, end = part * size // parts, (part + 1) * size // parts
        least, most = part * (n - size) // parts, (part + 1) * (n - size) // parts
        before = least + int(share[part]) * (most - least + 1) // 2**32
        ranges.append((before + begin, before + end))
    return ranges
