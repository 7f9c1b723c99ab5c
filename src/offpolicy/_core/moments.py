r"""Mergeable moments of per-decision contributions: accumulate, merge, finish.

Rows carry a weight :math:`\omega` (1 unless the log was sub-sampled) and, optionally, a group.
The mean is the weighted one, and its covariance is the sandwich estimate

.. math::
    \hat m = \frac{\sum_i \omega_i x_i}{\sum_i \omega_i}, \qquad
    \widehat{\mathrm{Cov}}(\hat m) = \frac{n}{n-1}
    \frac{\sum_i \omega_i^2 (x_i - \hat m)(x_i - \hat m)^\top}{(\sum_i \omega_i)^2},

which for :math:`\omega = 1` is the textbook :math:`s^2/n`. With groups, the sum runs over the
groups' totals of :math:`\omega_i (x_i - \hat m)` instead, so rows of one group may be dependent.

All sums are kept about the running mean and shifted when two parts are merged (Chan, Golub and
LeVeque 1979), so a mean of 1e8 costs no digits of the variance.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.types import Floats, Ints


def added(a: Any, b: Any) -> Any:
    """Two sums over different rows as one, of tuples entry by entry; None if either is."""
    if a is None or b is None:
        return None
    if type(a) is tuple:
        return tuple(map(added, a, b))
    with np.errstate(over="ignore", invalid="ignore"):
        return a + b


@dataclass(frozen=True, slots=True)
class Sums:
    """Fields that are sums over rows; ``a + b`` is the union of the rows."""

    def __add__(self, other: Self) -> Self:
        pairs = ((getattr(self, item.name), getattr(other, item.name)) for item in fields(self))
        return type(self)(*(added(a, b) for a, b in pairs))


@storable
@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of ``columns`` quantities over ``count`` rows; ``a + b`` is the union of the rows.

    ``second`` is the full matrix of co-moments, or only its diagonal (for long grids).
    """

    count: int
    weight: float
    weight2: float
    mean: Floats
    cross: Floats
    second: Floats
    low: Floats
    high: Floats
    group_weight: Floats | None = None
    group_total: Floats | None = None

    @classmethod
    def of(
        cls,
        x: Floats,
        row_weight: Floats | None = None,
        group: Ints | None = None,
        *,
        groups: int = 0,
        diagonal: bool = False,
    ) -> Moments:
        """Moments of ``x``, one row per column quantity: shape (columns, rows)."""
        rows = x.shape[1]
        weight = float(rows if row_weight is None else row_weight.sum())
        weight2 = float(rows if row_weight is None else (row_weight * row_weight).sum())

        def total(values: Floats) -> Floats:
            # Plain sums rather than matrix products: those may depend on BLAS's threads.
            return np.asarray((values if row_weight is None else values * row_weight).sum(axis=1))

        with np.errstate(over="ignore", invalid="ignore"):
            mean = total(x) / weight
            deviation = x - mean[:, None]
            correction = total(deviation) / weight
            mean = mean + correction
            deviation -= correction[:, None]
            if row_weight is not None:
                deviation *= row_weight
            sums = "ir,ir->i" if diagonal else "ir,jr->ij"
            second = np.einsum(sums, deviation, deviation, optimize=False)
            cross = total(deviation)
            group_weight = group_total = None
            if group is not None:
                omega = np.ones(rows) if row_weight is None else row_weight
                group_weight, group_total = _group_totals(deviation, omega, group, groups)
        low, high = x.min(axis=1), x.max(axis=1)
        return cls(rows, weight, weight2, mean, cross, second, low, high, group_weight, group_total)

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean + (other.mean - self.mean) * (other.weight / weight)
            cross_a, second_a = self._about(mean)
            cross_b, second_b = other._about(mean)
            group_weight = group_total = None
            if self.group_weight is not None:
                assert other.group_weight is not None
                assert self.group_total is not None
                assert other.group_total is not None
                group_weight = self.group_weight + other.group_weight
                group_total = (
                    self.group_total
                    + np.outer(self.group_weight, self.mean - mean)
                    + other.group_total
                    + np.outer(other.group_weight, other.mean - mean)
                )
        return Moments(
            count=self.count + other.count,
            weight=weight,
            weight2=self.weight2 + other.weight2,
            mean=mean,
            cross=cross_a + cross_b,
            second=second_a + second_b,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            group_weight=group_weight,
            group_total=group_total,
        )

    def parts(self, *parts: slice | Ints) -> list[Moments]:
        """Those of some of the quantities each, where co-moments are not kept."""
        return [self._part(part) for part in parts]

    def _part(self, part: slice | Ints) -> Moments:
        names = ("mean", "cross", "second", "low", "high")
        some = {name: getattr(self, name)[part] for name in names}
        if self.group_total is not None:
            some["group_total"] = self.group_total[:, part]
        return replace(self, **some)

    def _about(self, centre: Floats) -> tuple[Floats, Floats]:
        """``cross`` and ``second`` about another centre."""
        shift = self.mean - centre
        cross = self.cross + shift * self.weight2
        if self.second.ndim == 1:
            return cross, self.second + shift * (self.cross + cross)
        both = np.outer(shift, self.cross)
        return cross, self.second + both + both.T + np.outer(shift, shift) * self.weight2

    def covariance(self, *, grouped: bool = True) -> Floats:
        """Covariance of `mean` (its diagonal only, if that is all that was kept).

        ``grouped=False`` leaves the groups aside, as if all rows were independent.
        """
        count, total = self.count, None
        if grouped and self.group_weight is not None and self.group_total is not None:
            total = self.group_total[self.group_weight > 0.0]
            count = len(total)
        if count == 1:  # one row, or one group, says nothing about the spread
            return np.full_like(self.second, np.inf)
        small_sample = count / (count - 1) if count else np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            if total is None:
                second = np.where(self.second == 0.0, 0.0, small_sample * self.second)
                return second / self.weight / self.weight
            diagonal = self.second.ndim == 1
            second = np.einsum("gi,gi->i", total, total) if diagonal else total.T @ total
            return np.asarray(small_sample * second / self.weight**2)

    def variance_of(self, gradient: Floats) -> float:
        r"""Variance of :math:`f(\hat m)` with gradient ``gradient``, by the delta method."""
        covariance = self.covariance()
        used = np.flatnonzero(gradient)
        slope = gradient[used]
        with np.errstate(over="ignore", invalid="ignore"):
            if covariance.ndim == 1:
                assert len(used) == 1, "a combination of columns needs their co-moments"
                variance = float(slope[0] ** 2 * covariance[used[0]])
            else:
                inner = covariance[np.ix_(used, used)]
                variance = float((slope[:, None] * inner * slope).sum())
        # Only an overflow of the squares gives NaN here: the spread is beyond 1e154.
        return np.inf if np.isnan(variance) else max(variance, 0.0)

    def stderr(self, row: int) -> float:
        """Standard error of the mean of one column, groups allowed for."""
        variance = self.covariance()
        variance = variance if variance.ndim == 1 else np.diag(variance)
        return float(np.sqrt(variance[row])) if not np.isnan(variance[row]) else np.inf

    def sample_variance(self, row: int) -> float:
        """Variance of one column between rows: n times that of its mean, were rows independent."""
        second = self.second[row] if self.second.ndim == 1 else self.second[row, row]
        return float(second) / self.weight2

    def sum_of_squares(self) -> Floats:
        """Σ ω²x² of every column (for effective sample sizes)."""
        second = self.second if self.second.ndim == 1 else np.diag(self.second)
        with np.errstate(over="ignore", invalid="ignore"):
            total = second + 2.0 * self.mean * self.cross + self.mean**2 * self.weight2
        return np.where(np.isnan(total), np.inf, total)

    def effective(self) -> Floats:
        """Effective rows behind the mean of every column, Kish's (Σωx)²/Σω²x²; 0 if all are 0."""
        squares = self.sum_of_squares()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rows = np.where(np.isfinite(squares), (self.mean * self.weight) ** 2 / squares, 1.0)
        return np.where((self.mean > 0.0) & (squares > 0.0), rows, 0.0)


def merged(parts: Iterable[Moments]) -> Moments:
    """The `Moments` of the union of all parts, added in the order given."""
    return functools.reduce(Moments.__add__, parts)


def _group_totals(
    deviation: Floats, omega: Floats, group: Ints, groups: int
) -> tuple[Floats, Floats]:
    """Moments by group: Σω and Σω(x − mean); ``deviation`` is the array ω(x − mean)."""
    weight = np.bincount(group, weights=omega, minlength=groups).astype(np.float64)
    total = [np.bincount(group, weights=row, minlength=groups) for row in deviation]
    return weight, np.stack(total, axis=1)
