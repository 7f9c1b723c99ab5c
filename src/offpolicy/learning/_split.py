"""`split`: decisions to learn from, and decisions to find out on what the policy is worth.

Buckets of decisions (`BanditLog.bucket`) go to one side or the other: whole clusters, so that no
user is on both.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.checkpoint import digest
from offpolicy._core.door import Door
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Ints
from offpolicy._core.validation import need
from offpolicy.errors import ParameterError, Place
from offpolicy.evidence import without_bad_rows
from offpolicy.logs import BLOCK, BanditLog, Distributed, FoundArms, LogScan, RewardSummary
from offpolicy.logs.labels import GROUPS, hash_rows

if TYPE_CHECKING:
    import pyarrow as pa


@overload
def split(log: BanditLog, share: float = 0.2, *, seed: int = 0) -> tuple[BanditLog, BanditLog]: ...
@overload
def split(log: LogScan, share: float = 0.2, *, seed: int = 0) -> tuple[LogScan, LogScan]: ...
def split(
    log: BanditLog | LogScan,
    share: float = 0.2,
    *,
    seed: int = 0,
) -> tuple[BanditLog | LogScan, BanditLog | LogScan]:
    """A log to learn from, without about ``share`` of the decisions, and these to evaluate on.

    Decisions of one cluster stay together. Of a log that is larger than memory, both parts are
    read when they are used.

    Examples
    --------
    >>> log = BanditLog.from_arrays(action=[0, 1] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100)
    >>> [len(part) for part in split(log, 0.2)]
    [80, 20]
    """
    need(0.0 < share < 1.0, "share", share, "between 0 and 1")
    if isinstance(log, LogScan):
        whole = without_bad_rows(log, {}, None)
        assert isinstance(whole, LogScan)
        return _split_scan(whole, share, seed)
    # Few decisions do not fill buckets of a size.
    few = log.cluster is None and len(log) < 4 * GROUPS
    unit = np.arange(len(log)) if few else log.bucket
    held = np.isin(unit, _held(np.unique(unit), share, seed))
    return log.take(np.flatnonzero(~held)), log.take(np.flatnonzero(held))


def _held(units: Ints, share: float, seed: int) -> Ints:
    """Which buckets, clusters or decisions are held out from learning."""
    if len(units) < 2:
        sentence = "There is one decision or cluster only: nothing can be held out."
        raise ParameterError(sentence, column="log")
    count = min(max(round(share * len(units)), 1), len(units) - 1)
    return np.random.default_rng([seed, 4]).permutation(units)[:count]


def _split_scan(scan: LogScan, share: float, seed: int) -> tuple[LogScan, LogScan]:
    if isinstance(scan, Distributed):
        raise ParameterError(
            f"{scan.source} is on many machines, where decisions cannot be held out: read Parquet "
            f"files with {Door.given('engine', 'embedded')}."
        )
    starts = range(0, len(scan), BLOCK)
    if scan.read([(0, 1)], ()).cluster is None:
        buckets = [hash_rows(np.arange(a, min(a + BLOCK, len(scan)))) for a in starts]
    else:
        makers = [functools.partial(_bucket, scan, a) for a in starts]
        buckets = list(each_block(lambda bucket: bucket, makers))
    counts = np.stack([np.bincount(bucket, minlength=GROUPS) for bucket in buckets])
    held = _held(np.flatnonzero(counts.sum(axis=0)), share, seed)
    rest = np.setdiff1d(np.arange(GROUPS), held)
    return Part(scan, rest, counts[:, rest]), Part(scan, held, counts[:, held])


def _bucket(scan: LogScan, start: int) -> Ints:
    return scan.read([(start, min(start + BLOCK, len(scan)))], ()).bucket.astype(np.int64)


class Part(LogScan):
    """The decisions of some buckets of a log that is larger than memory."""

    def __init__(self, base: LogScan, buckets: Ints, counts: Ints) -> None:
        self.base, self.buckets = base, buckets
        self.source, self.columns = base.source, base.columns
        self.progress, self.dropped = base.progress, base.dropped
        self._starts = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        """Which of its decisions is the first in every block of the log."""

    def __len__(self) -> int:
        return int(self._starts[-1])

    @functools.cached_property
    def rewards(self) -> RewardSummary:
        return self.base.rewards

    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        return self.base.find_reward_outside(low, high)

    @property
    def column_names(self) -> Sequence[str]:
        return self.base.column_names

    def column_of(self, role: str) -> str | None:
        return self.base.column_of(role)

    def type_of(self, column: str) -> pa.DataType:
        return self.base.type_of(column)

    def distinct(self, column: str, most: int) -> NDArray[Any]:
        return self.base.distinct(column, most)

    def with_found_arms(self, arms: FoundArms) -> LogScan:
        part = copy.copy(self)
        part.base = self.base.with_found_arms(arms)
        part.columns = part.base.columns
        part.__dict__.pop("width", None)
        return part

    def fingerprint(self) -> str:
        return digest(self.base.fingerprint(), np.sort(self.buckets))

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
        kept = np.flatnonzero(np.isin(log.bucket, self.buckets))
        return log.take(kept[np.searchsorted(positions, wanted)])

    def walk(self, extra: Sequence[str], skip: int = 0) -> Iterator[Callable[[], BanditLog]]:
        """What there is of every block of the log, in order."""
        bounds = np.unique(self._starts)
        for start, stop in zip(bounds[skip:-1].tolist(), bounds[skip + 1 :].tolist(), strict=True):
            yield functools.partial(self.read, [(start, stop)], extra)
            if self.progress is not None:
                self.progress(stop, len(self))
