"""Names of actions, candidates and clusters: from any hashable to positions and back."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.door import Door
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Ints
from offpolicy._core.validation import (
    MISSING,
    check_length,
    count_of,
    malformed,
    need_shape,
    refuse,
    refuse_masked,
    where,
)
from offpolicy.errors import LogError, OffpolicyError, did_you_mean
from offpolicy.logs._encoded import Encoded

GROUPS = 256
"""Clusters are hashed into this many groups, whose totals the moments keep."""


def as_names(
    values: Any, column: str, error: type[OffpolicyError] = LogError
) -> NDArray[Any] | Encoded:
    """A log's names (actions, clusters), one per row. Tuples and mixed types stay what they are."""
    if isinstance(values, Encoded):
        return values
    refuse_masked(values, column, error)
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise error(
            f"{column} is the single value {values!r}; there must be one for every row.",
            column=column,
        )
    if isinstance(values, (list, tuple)):
        kinds = {type(value) for value in values}
        if len(kinds) > 1 or not kinds <= {int, float, str, bytes, bool}:
            array = np.empty(len(values), dtype=object)
            for k, value in enumerate(values):
                array[k] = value.item() if isinstance(value, np.generic) else value
        else:
            array = np.array(values)
    else:
        array = np.asarray(values)
    if array.ndim == 1 and array.dtype == object and all(type(v) is list for v in array):
        raise error(
            f"{column} holds lists; there must be a single name in every row.", column=column
        )
    need_shape(array.ndim == 1, column, array, "of one dimension", error)
    return array


def as_action_names(actions: Iterable[Any]) -> tuple[Hashable, ...]:
    """The names of all actions of a log: plain Python values, each different and hashable."""
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in actions)
    try:
        different = len(set(names)) == len(names)
    except TypeError:
        raise LogError(
            "actions must hold hashable names (strings, numbers, tuples).", column="actions"
        ) from None
    if not different:
        sentence = "actions names one action twice; every name must be different."
        raise LogError(sentence, column="actions")
    if not names:
        raise LogError("There are no actions: at least one must be named.", column="actions")
    return names


def encode(
    names: NDArray[Any] | Encoded,
    column: str,
    source: str,
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
) -> tuple[tuple[Hashable, ...], Ints]:
    """The different names in a log's column, sorted if they can be, and each value's place."""
    if isinstance(names, Encoded):
        return names.names, names.codes
    refuse_missing(names, column, source, error, offsets)
    if names.dtype != object:
        unique, inverse = np.unique(names, return_inverse=True)
        return tuple(unique.tolist()), inverse.reshape(-1).astype(np.int64)
    first_seen: dict[Hashable, int] = {}
    try:
        codes = np.fromiter(
            (first_seen.setdefault(name, len(first_seen)) for name in names), np.int64
        )
    except TypeError:
        raise error(
            f"{column} must hold hashable names (strings, numbers, tuples), all of one kind.",
            column=column,
        ) from None
    try:
        ordered = sorted(first_seen)  # type: ignore[type-var]
    except TypeError:
        return tuple(first_seen), codes
    rank = {name: k for k, name in enumerate(ordered)}
    return tuple(ordered), np.array([rank[name] for name in first_seen], dtype=np.int64)[codes]


def places_among(names: Iterable[Hashable], known: Iterable[Hashable]) -> Ints:
    """The position of each name in a log among those that are ``known``; −1 if it is not there."""
    place = {name: k for k, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], dtype=np.int64)


def positions(
    action: Any,
    names: tuple[Hashable, ...],
    n: int,
    source: str,
    error: type[OffpolicyError] = LogError,
) -> Ints:
    """Position of each logged action among ``names``."""
    chosen = as_names(action, "action", error)
    check_length(chosen, n, "action", error=error)
    if (
        not isinstance(chosen, Encoded)
        and names == tuple(range(len(names)))
        and np.issubdtype(chosen.dtype, np.integer)
    ):
        refuse(
            (chosen < 0) | (chosen >= len(names)),
            f"{{value}}, but there are {len(names)} actions, 0 to {len(names) - 1} ({{count}} are "
            f"outside). If these are names rather than positions, list them in "
            f"{Door.spelled('actions')}.",
            "action", source, error, value=chosen,
        )  # fmt: skip
        return np.ascontiguousarray(chosen, dtype=np.int64)
    unique, codes = encode(chosen, "action", source, error)
    places = places_among(unique, names)[codes]
    bad = places < 0
    if bad.any():
        name = unique[codes[np.argmax(bad)]]
        sentence = (
            f"{name!r} is not among the {len(names)} actions.{suggestion(name, names)} Every "
            f"chosen action must be listed in {Door.spelled('actions')}."
        )
        raise malformed(bad, "action", source, sentence, error)
    return places


def find_among(
    action: Any,
    codes: Ints,
    names: tuple[Hashable, ...],
    offsets: Ints,
    source: str,
    error: type[OffpolicyError] = LogError,
) -> Ints:
    """Position of each logged action among its own decision's candidates."""
    n = len(offsets) - 1
    chosen = as_names(action, "action", error)
    check_length(chosen, n, "action", error=error)
    unique, inverse = encode(chosen, "action", source, error)
    wanted = places_among(unique, names)[inverse]
    hits = np.flatnonzero(codes == np.repeat(wanted, np.diff(offsets)))
    rows = decision_of_candidate(offsets)[hits]
    if len(rows) < n:
        absent = np.bincount(rows, minlength=n) == 0
        row = int(np.argmax(absent))
        name = unique[inverse[row]]
        listed = [names[code] for code in codes[offsets[row] : offsets[row + 1]]]
        sentence = (
            f"{name!r} is not among the decision's candidates ({count_of(absent)} are like this)."
            f"{suggestion(name, listed)} The chosen action must be one of them."
        )
        raise malformed(absent, "action", source, sentence, error)
    return hits - offsets[:-1]


def refuse_twice(codes: Ints, offsets: Ints, names: tuple[Hashable, ...], source: str) -> None:
    """No decision of a log may list one candidate twice."""
    rows = decision_of_candidate(offsets)
    each = rows * len(names) + codes
    if (np.diff(np.sort(each)) > 0).all():
        return
    order = np.argsort(each, kind="stable")
    twice = order[:-1][np.diff(each[order]) == 0]
    raise LogError(
        f"{names[codes[twice[0]]]!r} is listed twice. Merge the two entries and add up their "
        f"probabilities.",
        where(source, "candidate", rows[twice[0]]),
        np.unique(rows[twice]),
    )


def refuse_missing(
    values: NDArray[Any],
    column: str,
    source: str,
    error: type[OffpolicyError] = LogError,
    offsets: Ints | None = None,
) -> None:
    """No None, NaN or NaT among the names or times of a log."""
    if values.dtype == object:
        flat = values.reshape(len(values), -1)
        missing = np.array([any(_is_missing(v) for v in row) for row in flat])
    elif np.issubdtype(values.dtype, np.floating):
        missing = np.isnan(values)
    elif values.dtype.kind in "mM":
        missing = np.isnat(values)
    else:
        return
    missing = np.asarray(missing.reshape(len(values), -1).any(axis=1))
    refuse(missing, MISSING, column, source, error, offsets)


def hash_groups(cluster: NDArray[Any], known: Sequence[Hashable] | None = None) -> Ints:
    """Each row's group in a log, 0 … 255: its cluster's own, or, if there are more clusters than
    groups, one by a hash that is the same on every machine.

    ``known`` are the clusters of the whole log, if this is a part of it; none, if there are many.
    """
    unique, codes = encode(cluster, "cluster", "")
    if known is None and len(unique) <= GROUPS:
        return codes
    if known:
        return places_among(unique, known)[codes]
    group = [
        hashlib.blake2b(str(name).encode(), digest_size=1, person=b"cluster").digest()[0]
        for name in unique
    ]
    return np.array(group, dtype=np.int64)[codes]


def hash_rows(rows: Ints, salt: int = 0, buckets: int = GROUPS) -> Ints:
    """A bucket for each row, by a hash of its position in the log.

    The last step of MurmurHash3 for 64 bits: neighbours land in unrelated buckets.
    """
    x = rows.astype(np.uint64)
    x += np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % 2**64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x *= np.uint64(factor)
        x ^= x >> np.uint64(33)
    if buckets & (buckets - 1) == 0:
        x &= np.uint64(buckets - 1)  # The same remainder, without a division.
    else:
        x %= np.uint64(buckets)
    return x.view(np.int64)


def _is_missing(value: Any) -> bool:
    """Whether a name in a log is None, NaN, NaT or pandas' NA, which cannot be compared."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def suggestion(name: Hashable, names: Iterable[Hashable]) -> str:
    """The action of a log that was meant. Only text has near misses: 1 and "1" are no slip."""
    texts = [other for other in names if isinstance(other, str)]
    return did_you_mean(name, texts) if isinstance(name, str) else ""
