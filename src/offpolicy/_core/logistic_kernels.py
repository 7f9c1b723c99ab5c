"""The numba loops of the logistic curve: over tiles of scores, and the derivatives of its fit."""

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core import fastmath as elementary
from offpolicy._core.kernels import SUMS

TILE = 512
"""Scores that are held at a time."""


@njit(**SUMS)
def squash(score, low, span):
    """Turns an array into values between ``low`` and ``low + span``, by the logistic curve."""
    for k in range(len(score)):
        x = score[k]
        x = x if x > -40.0 else -40.0
        x = x if x < 40.0 else 40.0
        score[k] = low + span / (1.0 + elementary.exp(-x))


@njit(**SUMS)
def logistic_derivatives(beta, X, y, omega, gradient, hessian):
    """For the logistic solver, adds gradient and Hessian of the weighted cross-entropy of shares
    ``y`` on the rows of ``X`` (columns, rows). NumPy twin: `_core.logistic.fit`."""
    columns, rows = X.shape
    p, curvature = np.empty(TILE), np.empty(TILE)
    for first in range(0, rows, TILE):
        size = min(TILE, rows - first)
        p[:] = 0.0
        for a in range(columns):
            column = X[a, first : first + size]
            for k in range(size):
                p[k] += beta[a] * column[k]
        squash(p[:size], 0.0, 1.0)
        for k in range(size):
            curvature[k] = omega[first + k] * p[k] * (1.0 - p[k])
            p[k] = omega[first + k] * (p[k] - y[first + k])
        for a in range(columns):
            left = X[a, first : first + size]
            total = 0.0
            for k in range(size):
                total += left[k] * p[k]
            gradient[a] += total
            for b in range(a + 1):
                right = X[b, first : first + size]
                total = 0.0
                for k in range(size):
                    total += left[k] * right[k] * curvature[k]
                hessian[a, b] += total
    for a in range(columns):
        for b in range(a):
            hessian[b, a] = hessian[a, b]
