"""Leaving malformed rows out: which, how many, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar, final

import numpy as np

from offpolicy._core.door import Door
from offpolicy._core.late import pa, pc
from offpolicy._core.types import Ints
from offpolicy._core.validation import RowsOfFiles, need
from offpolicy.errors import LogError, OffpolicyError, SupportError

MAX_DROPPED = 0.05
"""The share of rows that is dropped unasked: beyond, what is left answers another question."""

Made = TypeVar("Made")


@final
@dataclass(frozen=True, slots=True)
class Dropped:
    """Malformed rows that were left out, ``of`` how many, and how many for which reason: the
    column in which the first thing wrong was found.

    Examples
    --------
    >>> print(Dropped(10_000, {"logging": 1, "reward": 2}))
    3 of 10,000 rows were dropped: reward 2, logging 1
    """

    derived: ClassVar[tuple[str, ...]] = ("rows",)

    of: int
    reasons: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> int:
        """How many."""
        return sum(self.reasons.values())

    def __str__(self) -> str:
        text = f"{self.rows:,} of {self.of:,} rows {'was' if self.rows == 1 else 'were'} dropped"
        return f"{text}: {listed_reasons(self.reasons)}" if self.rows else text

    def __add__(self, other: Dropped) -> Dropped:
        """After these, others of what was left."""
        return Dropped(self.of, dict(Counter(self.reasons) + Counter(other.reasons)))


class Kept(NamedTuple, Generic[Made]):
    """What could be made of the rows that are well-formed."""

    made: Made | None
    """None if there is no such row."""
    rows: Ints
    """Which they are."""
    reasons: Counter[str]
    """How many others there are, by what is malformed."""


def keep_well_formed(
    table: pa.Table,
    make: Callable[[pa.Table], Made],
    decision: str | None = None,
) -> Kept[Made]:
    """What ``make`` makes of a log's table without the rows that it finds malformed.

    An error that names no rows is not about single ones, and is raised. In the long format the
    column ``decision`` says which rows count as one.
    """
    rows = np.arange(len(table))
    reasons: Counter[str] = Counter()
    while len(rows):
        try:
            return Kept(make(table), rows, reasons)
        except OffpolicyError as problem:
            if problem.rows is None or not len(problem.rows):
                raise
            good = np.ones(len(rows), dtype=bool)
            good[problem.rows] = False
            count = len(problem.rows)
            if decision is not None:
                ids = table.column(decision).take(problem.rows)
                count = pc.count_distinct(ids, mode="only_valid").as_py() + ids.null_count
            reasons[problem.column] += count
            table, rows = table.filter(pa.array(good)), rows[good]
    return Kept(None, rows, reasons)


def refuse_many(dropped: Dropped, source: str, most: float) -> None:
    """Raise if no row of a log is left, or if a larger share than ``most`` is malformed."""
    rows, of, reasons = dropped.rows, dropped.of, dropped.reasons
    if not rows or (rows < of and rows <= most * of):
        return
    column, listed = max(reasons, key=reasons.__getitem__), listed_reasons(reasons)
    if rows == of:
        raise LogError(
            f"all {of:,} rows are malformed ({listed}): none is left. Without dropping, the first "
            f"of them is named.",
            source,
            column=column,
        )
    enough = min(math.ceil(rows / of * 100.0 + 1e-9) / 100.0, 1.0)
    fill = " If a missing reward means that there was none, fill in 0." * ("reward" in reasons)
    raise SupportError(
        f"{rows:,} of {of:,} rows ({rows / of:.1%}) are malformed ({listed}), more than the "
        f"{100.0 * most:.4g}% that may be dropped: an answer would be about the others.{fill} To "
        f"see what is wrong, do not drop: the first row is then named. To answer all the same, "
        f"{Door.given('max_dropped', enough)}.",
        source,
        column=column,
    )


def source_of_kept(rows: Ints, source: str) -> str:
    """The source of a log of which only these rows were kept: messages name them as they were."""
    file = source
    if isinstance(source, RowsOfFiles):
        file = source.parts[0][2]
        begun, first = np.array([part[:2] for part in source.parts]).T
        part = np.searchsorted(begun, rows, side="right") - 1
        rows = rows - begun[part] + first[part]
    return RowsOfFiles.of([(start, row, file) for start, row in runs_of_rows(rows)])


def runs_of_rows(rows: Ints) -> list[tuple[int, int]]:
    """Where each stretch of consecutive rows of a log begins, and with which row."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(rows) != 1) + 1])
    return [(int(start), int(rows[start])) for start in starts]


def check_on_bad_row(on_bad_row: str, max_dropped: float = MAX_DROPPED) -> None:
    """Raise unless malformed rows of a log are to be an "error", or "drop"ped up to a share."""
    need(on_bad_row in ("error", "drop"), "on_bad_row", repr(on_bad_row), '"error" or "drop"')
    need(0.0 <= max_dropped <= 1.0, "max_dropped", repr(max_dropped), "a share from 0 to 1")


def listed_reasons(reasons: Mapping[str, int]) -> str:
    """Why rows of a log were dropped: 'reward 2, logging 1', the most frequent first."""
    by_count = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count:,}" for reason, count in by_count)
