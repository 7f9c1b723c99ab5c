"""Leaving malformed rows out: which, how many, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar, final

import numpy as np

from offpolicy._core.types import Ints
from offpolicy._core.validation import RowsOfFiles, need
from offpolicy.errors import LogError, OffpolicyError

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 100_000
"""Rows that are dropped at most: beyond, it is no slip but the export."""

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
    count: Callable[[pa.Table, Ints], int] | None = None,
) -> Kept[Made]:
    """What ``make`` makes of a log's table without the rows that it finds malformed.

    An error that names no rows is not about single ones, and is raised. ``count`` says how many
    decisions some rows are, if not as many.
    """
    import pyarrow as pa

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
            reasons[problem.column] += (
                len(problem.rows) if count is None else count(table, problem.rows)
            )
            table, rows = table.filter(pa.array(good)), rows[good]
    return Kept(None, rows, reasons)


def refuse_many(reasons: Counter[str], left: int, source: str) -> None:
    """Raise if no row of a log is left, or if more are malformed than a slip explains."""
    total = reasons.total()
    if total <= MOST and (left or not total):
        return
    what = (
        f"more than {MOST:,} rows are malformed ({listed_reasons(reasons)}). That many are no "
        f"slip: fix the export."
        if total > MOST
        else f"all {total:,} rows are malformed ({listed_reasons(reasons)}): none is left."
    )
    column = max(reasons, key=reasons.__getitem__)
    raise LogError(f"{what} Without dropping, the first of them is named.", source, column=column)


def source_of_kept(rows: Ints, source: str) -> str:
    """The source of a log of which only these rows were kept: messages name them as they were."""
    if isinstance(source, RowsOfFiles):
        begun, first = np.array([part[:2] for part in source.parts]).T
        part = np.searchsorted(begun, rows, side="right") - 1
        rows = rows - begun[part] + first[part]
    return RowsOfFiles.of([(start, row, str(source)) for start, row in runs_of_rows(rows)])


def runs_of_rows(rows: Ints) -> list[tuple[int, int]]:
    """Where each stretch of consecutive rows of a log begins, and with which row."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(rows) != 1) + 1])
    return [(int(start), int(rows[start])) for start in starts]


def check_on_bad_row(on_bad_row: str) -> None:
    """Raise unless malformed rows of a log are to be an "error" or to be "drop"ped."""
    need(on_bad_row in ("error", "drop"), "on_bad_row", repr(on_bad_row), '"error" or "drop"')


def listed_reasons(reasons: Mapping[str, int]) -> str:
    """Why rows of a log were dropped: 'reward 2, logging 1', the most frequent first."""
    by_count = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count:,}" for reason, count in by_count)
