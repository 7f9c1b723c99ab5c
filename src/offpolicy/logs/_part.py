"""Parts of logs: the decisions of some buckets, the first ones, or a sample drawn by chance."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy._core.checkpoint import digest
from offpolicy._core.door import Door
from offpolicy._core.types import Bools, Ints
from offpolicy._core.validation import need
from offpolicy.errors import LogError, ParameterError
from offpolicy.logs._arms import FoundArms
from offpolicy.logs._bad_rows import source_of_kept
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._scan import BLOCK, Derived, Distributed, LogScan
from offpolicy.logs.labels import hash_rows

_SALT = 1000
"""Samples are drawn by another hash than buckets."""


@dataclass(frozen=True)
class Buckets:
    """Those of these buckets."""

    buckets: tuple[int, ...]

    def of(self, log: BanditLog) -> Bools:
        """Of each decision of any stretch of the log."""
        return np.isin(log.bucket, self.buckets)


@dataclass(frozen=True)
class First:
    """The first ones, and of these a share, drawn by chance."""

    rows: int
    share: float
    seed: int

    def among(self, positions: Ints) -> Bools:
        """Of decisions at these positions in the log."""
        inside = positions < self.rows
        if self.share >= 1.0:
            return inside
        drawn = hash_rows(positions, salt=_SALT + self.seed, buckets=2**32)
        return inside & (drawn < self.share * 2**32)

    def of(self, log: BanditLog) -> Bools:
        return self.among(log.position)


def portion(
    log: BanditLog | LogScan, limit: int | None, sample: float | None, seed: int
) -> BanditLog | LogScan:
    """The first rows of a log, or a sample of them: a share, or about so many."""
    n = len(log)
    if limit is not None:
        need(limit >= 1, Door.named("limit"), limit, "at least 1")
        n = min(n, limit)
    share = 1.0
    if sample is not None:
        fine = sample > 0.0 and sample != 1.0
        need(fine, Door.named("sample"), sample, "a share below 1, or a number of rows above 1")
        share = sample if sample < 1.0 else sample / n
    if isinstance(log, Distributed):
        name = "limit" if sample is None else "sample"
        raise ParameterError(
            f"{Door.named(name)} is for logs read by this process, and Spark reads this one. Pick "
            f"rows with {Door.spelled('where')}, or leave it out.",
            column=name,
        )
    if n == len(log) and share >= 1.0:
        return log
    kept = First(n, share, seed)
    starts = range(0, n, BLOCK)
    counts = [int(kept.among(np.arange(a, min(a + BLOCK, n))).sum()) for a in starts]
    if not sum(counts):
        raise LogError("No row is in the sample: draw a larger one.", log.source, column="sample")
    if isinstance(log, LogScan):
        whole = log.without_bad_rows("", (), lambda _: None)
        if len(whole) != len(log):
            return portion(whole, limit, sample, seed)
        empty = -(-len(log) // BLOCK) - len(counts)
        return Part(log, kept, np.array(counts + [0] * empty))
    rows = np.flatnonzero(kept.among(np.arange(len(log))))
    return log.take(rows).replace(source=source_of_kept(rows, log.source), trusted=True)


class Part(Derived):
    """Some of the decisions of a log that is larger than memory."""

    def __init__(self, base: LogScan, kept: Buckets | First, counts: Ints) -> None:
        super().__init__(base)
        self.kept, self.progress, self.dropped = kept, base.progress, base.dropped
        self.condition = base.condition
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        """Which of its decisions is the first in every block of the log."""

    def __len__(self) -> int:
        return int(self._starts[-1])

    def with_found_arms(self, arms: FoundArms) -> LogScan:
        part = copy.copy(self)
        part.base = self.base.with_found_arms(arms)
        part.columns = part.base.columns
        part.__dict__.pop("width", None)
        return part

    def fingerprint(self) -> str:
        return digest(self.base.fingerprint(), self.kept)

    def read(self, ranges: Sequence[tuple[int, int]], extra: Sequence[str]) -> BanditLog:
        """By way of the blocks of the log that hold them."""
        wanted = np.concatenate([np.arange(start, stop) for start, stop in ranges])
        held = np.unique(np.searchsorted(self._starts, wanted, side="right") - 1)
        runs = np.split(held, np.flatnonzero(np.diff(held) != 1) + 1)
        n = len(self.base)
        log = self.base.read(
            [(int(run[0]) * BLOCK, min((int(run[-1]) + 1) * BLOCK, n)) for run in runs], extra
        )
        positions = np.concatenate([np.arange(*self._starts[[k, k + 1]]) for k in held])
        kept = np.flatnonzero(self.kept.of(log))
        return log.take(kept[np.searchsorted(positions, wanted)])

    def walk(self, extra: Sequence[str], skip: int = 0) -> Iterator[Callable[[], BanditLog]]:
        """What there is of every block of the log, in order."""
        bounds = np.unique(self._starts)
        for start, stop in zip(bounds[skip:-1].tolist(), bounds[skip + 1 :].tolist(), strict=True):
            yield functools.partial(self.read, [(start, stop)], extra)
            if self.progress is not None:
                self.progress(stop, len(self))
