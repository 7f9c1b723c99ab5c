"""The well-formed rows of a scan: malformed ones are found by a pass of their own, then left out.

Only the numbers of the malformed rows are kept. What is left is read, sampled and counted as if
there had been no others, so that the answers are those of the same files without them.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.late import pa
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Ints
from offpolicy._core.validation import where
from offpolicy.errors import Place
from offpolicy.logs import labels
from offpolicy.logs._bad_rows import Dropped, Kept, keep_well_formed, refuse_many, runs_of_rows
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._rewards import RewardSummary
from offpolicy.logs._scan import ColumnCheck
from offpolicy.logs.files._parquet import ParquetScan, in_blocks


class _Sifted(NamedTuple):
    """What was found in a block: the rows that are malformed, and what is to be known of the
    others."""

    bad: Ints
    reasons: Counter[str]
    rewards: RewardSummary | None
    clusters: tuple[Hashable, ...]

    @classmethod
    def of(cls, kept: Kept[BanditLog], row: int, n: int) -> _Sifted:
        """Of ``n`` rows of a file, from ``row`` on."""
        bad = np.setdiff1d(np.arange(n), kept.rows, assume_unique=True) + row
        log = kept.made
        if log is None:
            return cls(bad, kept.reasons, None, ())
        clusters = () if log.cluster is None else labels.encode(log.cluster, "cluster", "")[0]
        return cls(bad, kept.reasons, RewardSummary.of(log.reward), clusters)


class WellFormed(ParquetScan):
    """The rows of a scan that are not malformed, as if there were no others."""

    def __init__(
        self, scan: ParquetScan, key: str, extra: Sequence[str], check: ColumnCheck
    ) -> None:
        self.__dict__.update(scan.__dict__)
        self._scan = scan
        for name in ("_counts", "_clusters", "rewards", "width"):
            self.__dict__.pop(name, None)
        self._drops = False
        self._fingerprint = repr((scan.fingerprint(), key))
        self._all = scan._counts
        bad: list[list[Ints]] = [[] for _ in self.files]
        reasons = Counter(scan.lost)
        summaries, clusters = [], set[Hashable]()
        for k, sifted in _sifted(scan, extra, check):
            bad[k].append(sifted.bad)
            reasons += self.columns.by_role(sifted.reasons)
            if sifted.rewards is not None:
                summaries.append(sifted.rewards)
            if len(clusters) <= labels.GROUPS:
                clusters.update(sifted.clusters)
        self._bad = [np.concatenate([np.empty(0, np.int64), *parts]) for parts in bad]
        self.dropped = Dropped(len(scan) + sum(scan.lost.values()), dict(reasons))
        refuse_many(self.dropped, self.source, scan.max_dropped)
        self.rewards = RewardSummary.together(summaries)
        self._clusters = self._known(clusters)

    def __getstate__(self) -> dict[str, Any]:
        # These are not found again, unlike another log's.
        return super().__getstate__() | {"rewards": self.rewards, "_clusters": self._clusters}

    def _known(self, clusters: set[Hashable]) -> tuple[Hashable, ...] | None:
        if self._roles.of("cluster") is None:
            return None
        if len(clusters) > labels.GROUPS:
            return ()
        return labels.encode(labels.as_names(list(clusters), "cluster"), "cluster", "")[0]

    @functools.cached_property
    def _counts(self) -> list[int]:
        return [rows - len(bad) for rows, bad in zip(self._all, self._bad, strict=True)]

    def _before(self, k: int, row: int) -> int:
        """Where the ``row``-th of the well-formed rows of the k-th file is among all."""
        bad = self._bad[k]
        return row + int(np.searchsorted(bad - np.arange(len(bad)), row, side="right"))

    def _kept(self, k: int, start: int, stop: int) -> Ints:
        """Which of the rows ``start`` to ``stop`` of the k-th file are well-formed."""
        low, high = np.searchsorted(self._bad[k], [start, stop])
        return np.delete(np.arange(start, stop), self._bad[k][low:high] - start)

    def _stretches(
        self, k: int, names: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> pa.Table:
        among_all = [(self._before(k, a), self._before(k, b - 1) + 1) for a, b in spans]
        rows = np.concatenate([np.arange(start, stop) for start, stop in among_all])
        table = super()._stretches(k, names, among_all)
        return table.take(np.flatnonzero(np.isin(rows, self._bad[k], invert=True)))

    def _blocks(self, k: int, names: Sequence[str], row: int = 0) -> Iterator[pa.Table]:
        first = self._before(k, row) if row else 0

        def well_formed(row: int) -> Iterator[pa.Table]:
            for table in super(WellFormed, self)._blocks(k, names, row):
                yield table.take(self._kept(k, row, row + len(table)) - row)
                row += len(table)

        return in_blocks(well_formed(first))

    def _label(self, file: int) -> str:
        return self._scan._label(file)

    def _place(self, file: int, row: int) -> Place:
        return self._scan._place(file, row)

    def _parts(self, k: int, row: int, stop: int) -> list[tuple[int, int, str]]:
        first, last = self._before(k, row), self._before(k, stop - 1)
        kept = runs_of_rows(self._kept(k, first, last + 1))
        return [(begin, row, self._label(k)) for begin, row in kept]

    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        for make in self.walk(()):
            log = make()
            outside = (log.reward < low) | (log.reward > high)
            if outside.any():
                row = int(np.argmax(outside))
                return where(log.source, "reward", row), float(log.reward[row])
        return Place(self.source, "reward"), math.nan

    def fingerprint(self) -> str:
        return hashlib.sha256(self._fingerprint.encode()).hexdigest()


def _sifted(
    scan: ParquetScan, extra: Sequence[str], check: ColumnCheck
) -> Iterator[tuple[int, _Sifted]]:
    """What is malformed in every block of a log that is scanned, and the file it is of."""
    names = scan._selected(extra)

    def sift(k: int, table: pa.Table, row: int) -> tuple[int, _Sifted]:
        def make(part: pa.Table) -> BanditLog:
            log = BanditLog.from_frame(part, scan.columns, scan._label(k))
            check(log)
            return log

        return k, _Sifted.of(keep_well_formed(table, make), row, len(table))

    def makers() -> Iterator[Callable[[], tuple[int, _Sifted]]]:
        position = 0
        for k in range(len(scan.files)):
            row = 0
            for table in scan._blocks(k, names):
                yield functools.partial(sift, k, table, row)
                row, position = row + len(table), position + len(table)
                if scan.progress is not None:
                    scan.progress(position, len(scan))

    return each_block(lambda sifted: sifted, makers())
