"""From a log to strata: what was seen at different ranks, all else being equal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.door import Door
from offpolicy._core.ragged import position_in_decision
from offpolicy._core.types import Ints
from offpolicy.errors import LogError, MissingColumnError, Place
from offpolicy.logs import labels
from offpolicy.ranking.data._log import RankingLog

_BLOCK = 2**18
_LARGEST = 2**62


class Packed(NamedTuple):
    """Sorted rows, each ((stratum · top) + rank − 1) · 2 + click; a stratum's number is
    ``owner · per_owner`` and more, its owner being a cluster or a part of one."""

    rows: Ints
    per_owner: int
    top: int


def packed(log: RankingLog, owner: Ints, within: Ints, kept: NDArray[np.bool_], top: int) -> Packed:
    """Shown documents that are ``kept``, by stratum: ``owner`` of the impression, what of it."""
    owner, within = owner[log.impression[kept]], within[kept]
    per_owner = int(within.max()) + 1 if len(within) else 1
    if (float(owner.max(initial=0)) + 1.0) * per_owner * 2.0 * top >= _LARGEST:
        within = np.unique(within, return_inverse=True)[1].reshape(-1)
        per_owner = int(within.max()) + 1
    click = log.click[kept].astype(np.int64)
    rows = ((owner * per_owner + within) * top + log.rank[kept] - 1) * 2 + click
    rows.sort()
    return Packed(rows, per_owner, top)


def within_top(log: RankingLog, top: int) -> NDArray[np.bool_]:
    """Which documents were shown at the first ``top`` ranks."""
    return (log.rank > 0) & (log.rank <= top)


def document_codes(log: RankingLog) -> Ints:
    """A number for each document, equal for the same document of the same query.

    Without labels, documents are told apart by their place in the impression, if the features
    say that the impressions of a query list the same documents in the same order.
    """
    if log.query is None:
        raise MissingColumnError(
            "The log has no query labels, so it is not known which impressions are of the same "
            f"query. Name the column that holds them ({Door.spelled('query')}).",
            column="query",
        )
    if log.document is not None:
        return _codes(log.document, log.source)
    if log.X is None:
        raise MissingColumnError(
            "The log has neither document labels nor features, so the same document cannot be "
            f"found again at another rank. Name the column that holds the labels "
            f"({Door.spelled('document')}).",
            column="document",
        )
    return _places(log)


def _codes(names: NDArray[Any], source: str) -> Ints:
    if names.dtype.kind in "iu" and len(names):
        low, high = int(names.min()), int(names.max())
        if high - low < 2**40:
            return np.asarray(names - low, dtype=np.int64)
    return labels.encode(names, "document", source)[1]


def _places(log: RankingLog) -> Ints:
    """The place of each document in its impression, where it identifies the document."""
    assert log.X is not None
    places = position_in_decision(log.offsets)
    first = np.unique(log.cluster, return_index=True)[1]
    model = first[log.cluster]
    alike = log.sizes == log.sizes[model]
    if alike.all():
        twin = np.repeat(log.offsets[model], log.sizes) + places
        for start in range(0, log.documents, _BLOCK):
            part = slice(start, start + _BLOCK)
            same = (log.X[part] == log.X[twin[part]]).all(axis=1)
            alike[log.impression[part][~same]] = False
    if not alike.all():
        bad = int(np.argmin(alike))
        raise LogError(
            f"impression {int(model[bad])} is of the same query but lists other documents, or in "
            f"another order, and there are no document labels to tell which is which. Name the "
            f"column that holds them ({Door.spelled('document')}).",
            Place(log.source, "document", part=f"impression {bad}"),
        )
    return places
