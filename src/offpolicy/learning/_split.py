"""`split`: decisions to learn from, and decisions to find out on what the policy is worth.

Buckets of decisions (`BanditLog.bucket`) go to one side or the other: whole clusters, so that no
user is on both.
"""

from __future__ import annotations

import functools
from typing import overload

import numpy as np

from offpolicy._core.door import Door
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Ints
from offpolicy._core.validation import need
from offpolicy.errors import ParameterError
from offpolicy.evidence import without_bad_rows
from offpolicy.logs import BLOCK, BanditLog, Buckets, Distributed, LogScan, Part
from offpolicy.logs.labels import GROUPS, hash_rows


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
    parts = [(Buckets(tuple(these.tolist())), counts[:, these]) for these in (rest, held)]
    one, other = (Part(scan, kept, inside.sum(axis=1)) for kept, inside in parts)
    return one, other


def _bucket(scan: LogScan, start: int) -> Ints:
    return scan.read([(start, min(start + BLOCK, len(scan)))], ()).bucket.astype(np.int64)
