"""The numba loops that take moments of columns."""

from __future__ import annotations

import numpy as np
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


@njit(**SUMS)
def joint_moments(x, row_weight, moments, second):
    """Fills `column_moments`, and the matrix of co-moments. NumPy twin: `Moments.of`."""
    weighted = len(row_weight) > 0
    for m in range(len(x)):
        _keep(moments, m, x[m], row_weight)
        second[m, m] = moments[2, m]
        for other in range(m):
            left, right = x[m], x[other]
            a, b = moments[0, m], moments[0, other]
            total = 0.0
            if weighted:
                for i in range(len(left)):
                    deviation = row_weight[i] * (left[i] - a)
                    total += deviation * (row_weight[i] * (right[i] - b))
            else:
                for i in range(len(left)):
                    total += (left[i] - a) * (right[i] - b)
            second[m, other] = second[other, m] = total


@njit(**SUMS)
def _fourth(column, centre, row_weight):
    """Σω⁴(x − centre)⁴ of an array."""
    weighted = len(row_weight) > 0
    total = 0.0
    if weighted:
        for i in range(len(column)):
            square = (row_weight[i] * (column[i] - centre)) ** 2
            total += square * square
    else:
        for i in range(len(column)):
            square = (column[i] - centre) ** 2
            total += square * square
    return total


@njit(**SUMS)
def clipped_moments(base, c, residual, grid, row_weight, centres, moments, fourth):
    """Fills moments (5, values of M): `_moments_of` each base + min(c, M)·residual, not kept; and
    ``fourth``, its fourth powers about ``centres``.

    Beyond the largest c all values of an increasing grid are alike, and are taken once.
    """
    column = np.empty(len(base))
    largest = c[0]
    for i in range(len(c)):
        largest = largest if largest > c[i] else c[i]
    for m in range(len(grid)):
        if m > 0 and grid[m - 1] >= largest:
            moments[:, m] = moments[:, m - 1]
            same = centres[m] == centres[m - 1]
            fourth[m] = fourth[m - 1] if same else _fourth(column, centres[m], row_weight)
            continue
        M = grid[m]
        for i in range(len(base)):
            column[i] = base[i] + (c[i] if c[i] < M else M) * residual[i]
        _keep(moments, m, column, row_weight)
        fourth[m] = _fourth(column, centres[m], row_weight)
