"""The numba loops that take moments of columns."""

from __future__ import annotations

from numba import njit

from offpolicy._core.kernels import SUMS


@njit(**SUMS)
def _moments_of(column, row_weight):
    """Moments of an array: weighted mean, Σω²(x − mean), Σω²(x − mean)², least and largest."""
    rows = len(column)
    weighted = len(row_weight) > 0
    weight = float(rows)
    total = 0.0
    least = column[0]
    largest = column[0]
    if weighted:
        weight = 0.0
        for i in range(rows):
            weight += row_weight[i]
            total += row_weight[i] * column[i]
            least = least if least < column[i] else column[i]
            largest = largest if largest > column[i] else column[i]
    else:
        for i in range(rows):
            total += column[i]
            least = least if least < column[i] else column[i]
            largest = largest if largest > column[i] else column[i]
    centre = total / weight
    off = 0.0
    first = 0.0
    squares = 0.0
    weight2 = 0.0
    if weighted:
        for i in range(rows):
            deviation = row_weight[i] * (column[i] - centre)
            off += deviation
            first += row_weight[i] * deviation
            squares += deviation * deviation
            weight2 += row_weight[i] * row_weight[i]
    else:
        for i in range(rows):
            deviation = column[i] - centre
            off += deviation
            squares += deviation * deviation
        first = off
        weight2 = weight
    # The first centre is rounded: move everything to the corrected one.
    shift = off / weight
    second = squares - shift * (2.0 * first - shift * weight2)
    return centre + shift, first - shift * weight2, max(second, 0.0), least, largest


@njit(**SUMS)
def _keep(moments, m, column, row_weight):
    mean, cross, second, least, largest = _moments_of(column, row_weight)
    moments[0, m], moments[1, m], moments[2, m] = mean, cross, second
    moments[3, m], moments[4, m] = least, largest


@njit(**SUMS)
def column_moments(x, row_weight, moments):
    """Fills moments (5, rows of ``x``): `_moments_of` each row. NumPy twin: `Moments.of`."""
    for m in range(len(x)):
        _keep(moments, m, x[m], row_weight)
