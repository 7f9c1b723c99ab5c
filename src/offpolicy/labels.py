"""Names of actions, candidates and clusters: from any hashable to positions and back."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy.errors import LogError, did_you_mean
from offpolicy.softmax import Ints, decision_of_candidate
from offpolicy.validation import check_length, count_of, where

GROUPS = 256
"""Clusters are hashed into this many groups, whose totals the moments keep."""


def encode(names: NDArray[Any], column: str, source: str) -> tuple[tuple[Hashable, ...], Ints]:
    """The different names, in order, and each value's position among them."""
    refuse_missing(names, column, source)
    if names.dtype == object:
        order: dict[Hashable, int] = {}
        codes = np.fromiter((order.setdefault(name, len(order)) for name in names), np.int64)
        return tuple(order), codes
    unique, inverse = np.unique(names, return_inverse=True)
    return tuple(unique.tolist()), inverse.reshape(-1).astype(np.int64)


def positions(action: ArrayLike, names: tuple[Hashable, ...], n: int, source: str) -> Ints:
    """Position of each action among ``names``."""
    given = np.asarray(action)
    if given.ndim != 1:
        raise LogError(f"action has shape {given.shape}; it must have one dimension.")
    check_length(given, n, "action")
    if names == tuple(range(len(names))) and np.issubdtype(given.dtype, np.integer):
        bad = (given < 0) | (given >= len(names))
        if bad.any():
            row = int(np.argmax(bad))
            raise LogError(
                f"{where(source, 'action', row)}: {given[row]}, but there are {len(names)} "
                f"actions, 0 to {len(names) - 1} ({count_of(int(bad.sum()), n)} are outside). "
                f"If these are names rather than positions, list them in actions=."
            )
        return np.ascontiguousarray(given, dtype=np.int64)
    unique, codes = encode(given, "action", source)
    place = {name: k for k, name in enumerate(names)}
    missing = [name for name in unique if name not in place]
    if missing:
        row = int(np.argmax(codes == unique.index(missing[0])))
        raise LogError(
            f"{where(source, 'action', row)}: {missing[0]!r} is not among the {len(names)} actions."
            f"{did_you_mean(str(missing[0]), map(str, names))} Every chosen action must be listed."
        )
    return np.array([place[name] for name in unique], dtype=np.int64)[codes]


def find_among(
    action: NDArray[Any], codes: Ints, names: tuple[Hashable, ...], offsets: Ints, source: str
) -> Ints:
    """Position of each action among its own decision's candidates."""
    n = len(offsets) - 1
    check_length(action, n, "action")
    unique, inverse = encode(action, "action", source)
    place = {name: k for k, name in enumerate(names)}
    wanted = np.array([place.get(name, -1) for name in unique], dtype=np.int64)[inverse]
    hits = np.flatnonzero(codes == np.repeat(wanted, np.diff(offsets)))
    rows = decision_of_candidate(offsets)[hits]
    if len(rows) < n:
        row = int(np.setdiff1d(np.arange(n), rows)[0])
        raise LogError(
            f"{where(source, 'action', row)}: {action[row]!r} is not among the decision's "
            f"candidates ({count_of(n - len(rows), n)} are like this). "
            f"The chosen action must be one of them."
        )
    return hits - offsets[:-1]


def refuse_twice(codes: Ints, offsets: Ints, names: tuple[Hashable, ...], source: str) -> None:
    """No decision may list one candidate twice."""
    rows = decision_of_candidate(offsets)
    order = np.lexsort((codes, rows))
    twice = (np.diff(codes[order]) == 0) & (np.diff(rows[order]) == 0)
    if twice.any():
        at = order[int(np.argmax(twice))]
        raise LogError(
            f"{where(source, 'candidate', int(rows[at]))}: {names[codes[at]]!r} is listed twice. "
            f"Merge the two entries and add up their probabilities."
        )


def refuse_missing(values: NDArray[Any], column: str, source: str) -> None:
    """No None and no NaN among names."""
    if values.dtype == object:
        missing = np.fromiter((v is None or v != v for v in values), bool, len(values))
    elif np.issubdtype(values.dtype, np.floating):
        missing = np.isnan(values)
    else:
        return
    if missing.any():
        row = int(np.argmax(missing))
        raise LogError(
            f"{where(source, column, row)}: the value is missing "
            f"({count_of(int(missing.sum()), len(values))}). Fill it in or leave these rows out."
        )


def hash_groups(cluster: NDArray[Any]) -> Ints:
    """Each row's group, 0 … 255, by a hash of its cluster that is the same on every machine."""
    unique, codes = encode(cluster, "cluster", "")
    group = [
        hashlib.blake2b(str(name).encode(), digest_size=1, person=b"cluster").digest()[0]
        for name in unique
    ]
    return np.array(group, dtype=np.int64)[codes]
