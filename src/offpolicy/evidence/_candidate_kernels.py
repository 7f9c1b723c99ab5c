"""The numba loops over candidates: contributions on a grid of M, and the recalibrated model."""

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core import fastmath as elementary
from offpolicy._core.fastmath import float_bits
from offpolicy._core.kernels import SUMS, compiled

_TILE = 2048
"""Candidates that are looked at together: few enough for the nearest cache."""


@compiled(**SUMS)
def grid_values(
    offsets, pi, pi0, delta_hat, grid, ceiling, table, c, base, residual, row_weight, values, left
):
    """Some decisions' contributions on a grid of M, O(K + G) each: fills ``values`` (rows, grid).

    They are base + f(c, M)·residual + Σ share(M)·δ̂, where f is c up to M and from there on the
    ``ceiling``, and share = max(π − ceiling·π₀, 0) where c > M. With an empty ``delta_hat`` the
    last sum is left out (CIPS, CAB-DR, SWITCH-DR); with an empty ``pi0`` nothing is read of the
    candidates. The row-weighted totals of the shares are added to ``left``.

    A candidate is clipped for every M below its c = π/π₀: it is dropped into the bucket of its
    c, and a scan from the largest M down adds the buckets up; what is in bucket 0 is never
    clipped. NumPy twin: `evaluation._sweep._grid_each`.
    """
    n, G = values.shape
    with_model, with_logging, weighted = len(delta_hat) > 0, len(pi0) > 0, len(row_weight) > 0
    # By bucket: Σωπ and Σωπ₀ of all decisions, Σπδ̂ and Σπ₀δ̂ of the one at hand.
    sums = np.zeros((G + 1, 4))
    for i in range(n):
        omega = row_weight[i] if weighted else 1.0
        highest = 0
        if with_logging:
            # Unsigned indices cannot count from the end, which would have to be looked at.
            for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
                p, q = pi[k], pi0[k]
                weight = p / q
                bucket = table[(float_bits(weight) >> 48) & 0x7FFF]
                while bucket < G and grid[bucket] < weight:
                    bucket += 1
                bucket = 0 if p == 0.0 else G if q == 0.0 else bucket
                sums[bucket, 0] += omega * p
                sums[bucket, 1] += omega * q
                if with_model:
                    highest = max(highest, bucket)
                    sums[bucket, 2] += p * delta_hat[k]
                    sums[bucket, 3] += q * delta_hat[k]
        for m in range(G):
            values[i, m] = base[i] + (c[i] if c[i] <= grid[m] else ceiling[m]) * residual[i]
        P = Q = 0.0
        for m in range(highest - 1, -1, -1):
            P += sums[m + 1, 2]
            Q += sums[m + 1, 3]
            sums[m + 1, 2] = sums[m + 1, 3] = 0.0
            values[i, m] += P - ceiling[m] * Q
    P = Q = 0.0
    for m in range(G - 1, -1, -1):
        P += sums[m + 1, 0]
        Q += sums[m + 1, 1]
        left[m] += P - ceiling[m] * Q


@compiled(**SUMS)
def grid_moments(values, row_weight, mean, cross, second, low, high):
    """Of values (rows, grid): the weighted means, Σω²(x − mean), Σω²(x − mean)², all three given
    as 0, the least, given as ∞, and the largest. NumPy twin: `Moments.of`."""
    n, G = values.shape
    weighted = len(row_weight) > 0
    off, weight, weight2 = np.zeros(G), 0.0, 0.0
    for i in range(n):
        omega = row_weight[i] if weighted else 1.0
        weight += omega
        weight2 += omega * omega
        for m in range(G):
            x = values[i, m]
            mean[m] += omega * x
            low[m] = x if x < low[m] else low[m]
            high[m] = x if x > high[m] else high[m]
    for m in range(G):
        mean[m] /= weight
    for i in range(n):
        omega = row_weight[i] if weighted else 1.0
        for m in range(G):
            deviation = omega * (values[i, m] - mean[m])
            off[m] += deviation
            cross[m] += omega * deviation
            second[m] += deviation * deviation
    for m in range(G):
        # The first mean is rounded: everything is moved to the corrected one.
        shift = off[m] / weight
        mean[m] += shift
        second[m] = max(second[m] - shift * (2.0 * cross[m] - shift * weight2), 0.0)
        cross[m] -= shift * weight2


@njit(**SUMS)
def _bend(x, a, b, slope, bent):
    """log((x + a)/(b − slope·x))."""
    for k in range(len(x)):
        bent[k] = elementary.log((x[k] + a) / (b - slope * x[k]))


@njit(**SUMS)
def _add_scores(offsets, begin, end, values, share, bent, fold, beta, at, score):
    """To the scores of some decisions' candidates, what is from the three columns ``at``."""
    for i in range(begin, end):
        first = np.uint64(offsets[i] - offsets[begin])
        last = np.uint64(offsets[i + 1] - offsets[begin])
        b1, b2, b3 = beta[fold[i], at], beta[fold[i], at + 1], beta[fold[i], at + 2]
        best = values[first]
        for k in range(first, last):
            best = best if best > values[k] else values[k]
        for k in range(first, last):
            score[k] += b1 * share[k] + b2 * bent[k] + (b3 if values[k] == best else 0.0)


@compiled(**SUMS)
def recalibrated_sums(
    offsets, chosen, pi, pi0, delta_hat, row_weight, fold, beta, kept, limits, edges, table,
    modelled, at_chosen, flat, sums, unsupported,
):  # fmt: skip
    """The headline's model d on every candidate, and what the bins of the weight need of it.

    ``beta`` holds, per fold, the intercept and the coefficients of share, bent and top, of δ̂ and
    then of π; ``limits`` are the least and the highest reward and prediction, and the trace.
    ``pi0`` and ``delta_hat`` may be empty; the last of ``edges`` is NaN. Fills Σ πd and d of the
    chosen candidate of every decision, and d of every candidate unless ``flat`` is empty; adds to
    ``sums``, per bin of the weight, Σωπ, Σωπ₀, Σωπ²/π₀, and to ``unsupported`` Σωπ and Σωπd where
    π₀ = 0. NumPy twin: `Recalibration.predict`, `_weight_bins.sums_of_candidates`.

    Decisions are taken together, up to `_TILE` candidates: logarithms and exponentials have loops
    of their own over these, without branches, so that they vectorise however few a decision has.
    Neighbours go to copies of the sums of their own, so that no sum waits for the one before it.
    """
    low, high, d_low, d_high, trace = limits
    n, scale, size = len(offsets) - 1, 1.0 / (d_high - d_low), _TILE
    with_model, with_logging, weighted = len(delta_hat) > 0, len(pi0) > 0, len(row_weight) > 0
    for i in range(n):
        size = max(size, offsets[i + 1] - offsets[i])
    bent, d, share = np.empty(size), np.empty(size), np.empty(size)
    copies = np.zeros((4, len(sums), 3))
    begin = end = 0
    while begin < n:
        start = offsets[begin]
        while end < n and offsets[end + 1] - start <= size:
            end += 1
        m = offsets[end] - start
        p, given = pi[start : start + m], delta_hat[start : start + m]
        q = pi0[start : start + m] if with_logging else p
        for i in range(begin, end):
            b0 = beta[fold[i], 0]
            for k in range(np.uint64(offsets[i] - start), np.uint64(offsets[i + 1] - start)):
                d[k] = b0
        _bend(p, trace, 1.0, 0.0, bent)
        _add_scores(offsets, begin, end, p, p, bent, fold, beta, 4, d)
        if with_model:
            for k in range(m):
                x = (given[k] - d_low) * scale
                x = x if x > 0.0 else 0.0
                share[k] = x if x < 1.0 else 1.0
            _bend(share[:m], 0.01, 1.01, 1.0, bent)
            _add_scores(offsets, begin, end, given, share, bent, fold, beta, 1, d)
        for k in range(m):
            x = d[k] if d[k] > -40.0 else -40.0
            x = x if x < 40.0 else 40.0
            d[k] = low + (high - low) / (1.0 + elementary.exp(-x))
        for i in range(begin, end):
            first, last = np.uint64(offsets[i] - start), np.uint64(offsets[i + 1] - start)
            omega, own, total = row_weight[i] if weighted else 1.0, kept[fold[i]], 0.0
            if with_model:
                for k in range(first, last):
                    x = given[k] if given[k] > low else low
                    x = x if x < high else high
                    d[k] += (own if q[k] > 0.0 or not with_logging else 1.0) * (x - d[k])
            for k in range(first, last):
                total += p[k] * d[k]
            modelled[i], at_chosen[i] = total, d[np.int64(first) + chosen[i]]
            if with_logging:
                for k in range(first, last):
                    a = omega * p[k]
                    if q[k] > 0.0:
                        c = p[k] / q[k]
                        place = table[(float_bits(c) >> 48) & 0x7FFF]
                        place += 1 if edges[place] <= c else 0
                        copies[k & 3, place, 0] += a
                        copies[k & 3, place, 1] += omega * q[k]
                        copies[k & 3, place, 2] += a * c
                    else:
                        unsupported[0] += a
                        unsupported[1] += a * d[k]
        if len(flat) > 0:
            flat[start : start + m] = d[:m]
        begin = end
    for part in range(len(copies)):
        sums += copies[part]
