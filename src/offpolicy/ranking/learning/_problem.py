"""What is minimised, from features and a weight on every document: checked, collapsed, centred."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core.ragged import candidates_of, offsets_of
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import as_vector, check_length
from offpolicy.errors import LogError, ParameterError, Place, SupportError
from offpolicy.ranking.data._log import as_features, as_offsets
from offpolicy.ranking.learning._objective import Objective

_FLOOR = 0.01
"""A feature is divided by no less than this share of its largest deviation: it is rarely not 0."""
_CONSTANT = 1e-12
"""A deviation below this share of the feature's largest value is rounding."""
_LARGEST = 1e100
"""Of features and of the objective at w = 0: squares of anything larger would overflow."""


class Problem(NamedTuple):
    """Everything that does not depend on C."""

    X: Floats
    """Features of the documents that count, each impression's mean taken off, over ``scale``."""
    offsets: Ints
    c: Floats
    n: int
    """Impressions, with all that are repeated or count for nothing: C/n keeps its meaning."""
    scale: Floats
    pairs: float
    """1/n Σ_ij c_ij (m_i − 1): the weight of all pairs of a mean impression."""

    def objective(self, C: float) -> Objective:
        """P(w) for this C."""
        if not C * self.pairs <= _LARGEST:
            raise ParameterError(
                f"C = {C:g} makes the objective too large to compute with: the pairs of an "
                f"impression have a mean weight of {self.pairs:g}. Choose a smaller C.",
                column="C",
            )
        return Objective(self.X, self.offsets, self.c, C / self.n)


def matching_offsets(offsets: ArrayLike, X: NDArray[Any]) -> Ints:
    """Where each impression's rows of X start, and the last end."""
    bounds = as_offsets(offsets)
    if bounds[-1] != len(X):
        raise LogError(f"offsets end at {bounds[-1]}, but X has {len(X)} rows.", column="offsets")
    return bounds


def as_weights(values: ArrayLike, offsets: Ints) -> Floats:
    """The weights of the documents to be ranked, of 0 or more."""
    c = as_vector(values, "weights")
    check_length(c, int(offsets[-1]), "weights", "documents")
    bad = ~(np.isfinite(c) & (c >= 0.0))
    if bad.any():
        row = int(np.argmax(bad))
        impression = int(np.searchsorted(offsets, row, side="right")) - 1
        raise LogError(
            f"{c[row]} is not a finite number of 0 or more ({int(bad.sum()):,} of {len(c):,} are "
            f"not). The loss bounds a risk from above only where no document counts negatively.",
            Place(column="weights", row=row, part=f"impression {impression}"),
        )
    return c


def bounded_features(X: ArrayLike) -> NDArray[Any]:
    """Features of the documents to be ranked, (N, d), finite and not too large to compute with."""
    features = as_features(X)
    if not _largest(features).max(initial=0.0) <= _LARGEST:  # NaN included
        row, column = np.argwhere(~(np.abs(features).astype(np.float64) <= _LARGEST))[0]
        raise LogError(
            f"{features[row, column]} is not a finite number of at most {_LARGEST:g}. Correct it, "
            f"or leave the impression out.",
            Place(column="X", row=int(row), part=f"column {column}"),
        )
    return features


def _largest(X: NDArray[Any]) -> Floats:
    """The largest magnitude of every feature of the documents, without a copy of X."""
    ends = X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0)
    return np.asarray(np.maximum(*ends), dtype=np.float64)


def prepare(X: ArrayLike, offsets: ArrayLike, weights: ArrayLike, *, scale: bool) -> Problem:
    """What the ranking SVM is to solve: features and weights of documents, by impression.

    Scores matter by their differences within an impression, so its mean is taken off each
    feature. With ``scale`` features are divided by their deviations within impressions, repeated
    impressions counting once.
    """
    features = bounded_features(X)
    bounds = matching_offsets(offsets, features)
    c = as_weights(weights, bounds)
    n = len(bounds) - 1
    first, c = collapse(features, bounds, c)
    centred, bounds = _centred(features, bounds, first)
    scales = _scales(centred, _largest(features)) if scale else np.ones(centred.shape[1])
    sizes = np.diff(bounds)
    total = np.add.reduceat(c, bounds[:-1])
    pairs = float(total @ (sizes - 1.0)) / n
    if not pairs > 0.0:
        raise SupportError(
            "No document that could be ranked above another has a weight: there is nothing to "
            "learn from. With IPS or CIPS, this is a log without clicks.",
            column="weights",
        )
    counts = (sizes > 1) & (total > 0.0)
    if not counts.all():
        rows = np.repeat(counts, sizes)
        centred, c, bounds = centred[rows], c[rows], offsets_of(sizes[counts])
    centred /= scales
    return Problem(centred, bounds, c, n, scales, pairs)


def collapse(X: NDArray[Any], offsets: Ints, c: Floats) -> tuple[Ints, Floats]:
    """The impressions with different documents, and the weights summed over their repetitions.

    The loss is linear in c, so impressions whose features are equal, row by row, are as good as
    one. Returns each such impression's first occurrence, and the weights of their documents.
    """
    sums: dict[bytes, Floats] = {}
    first: list[int] = []
    for i, (start, stop) in enumerate(pairwise(offsets.tolist())):
        features = hashlib.blake2b(X[start:stop].tobytes()).digest()
        if features in sums:
            sums[features] += c[start:stop]
        else:
            first.append(i)
            sums[features] = c[start:stop].copy()
    return np.array(first, dtype=np.int64), np.concatenate([*sums.values()])


def _centred(X: NDArray[Any], offsets: Ints, which: Ints) -> tuple[Floats, Ints]:
    """Documents of some impressions, less the means of these; and their offsets."""
    sizes = np.diff(offsets)[which]
    bounds = offsets_of(sizes)
    if len(which) == len(offsets) - 1:
        rows = X.astype(np.float64)
    else:
        rows = X[candidates_of(offsets, which)].astype(np.float64)
    means = np.add.reduceat(rows, bounds[:-1], axis=0) / sizes[:, None]
    rows -= np.repeat(means, sizes, axis=0)
    return rows, bounds


def _scales(centred: Floats, largest: Floats) -> Floats:
    """Root mean squares of the features within impressions, or a share of the largest; where a
    feature never differs but by rounding, its largest value."""
    tops = np.abs(centred).max(axis=0, initial=0.0)
    moving = tops > _CONSTANT * largest
    unit = np.where(moving, tops, 1.0)
    scales = unit * np.maximum(np.sqrt(np.mean((centred / unit) ** 2, axis=0)), _FLOOR)
    return np.asarray(np.where(moving, scales, np.maximum(largest, 1.0)), dtype=np.float64)
