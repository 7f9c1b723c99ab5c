"""The numba loops over candidates: contributions on a grid of M, and the recalibrated model."""

from __future__ import annotations

import numpy as np

from offpolicy._core import fastmath as elementary
from offpolicy._core.fastmath import float_bits
from offpolicy._core.kernels import SUMS, compiled


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


@compiled(**SUMS)
def recalibrated_sums(
    offsets, chosen, pi, pi0, delta_hat, row_weight, fold, beta, kept, limits, edges, table,
    modelled, at_chosen, flat, sums, unsupported,
):  # fmt: skip
    """The headline's model d on every candidate, and what the bins of the weight need of it.

    ``beta`` holds, per fold, the intercept and the coefficients of share, bent and top, of δ̂ and
    then of π; ``limits`` are the least and the highest reward and prediction, and the trace.
    ``pi0`` and ``delta_hat`` may be empty. Fills Σ πd and d of the chosen candidate of every
    decision, and d of every candidate unless ``flat`` is empty; adds to ``sums``, per bin of the
    weight, Σωπ, Σωπ₀, Σωπ²/π₀, and to ``unsupported`` Σωπ and Σωπd where π₀ = 0. NumPy twin:
    `Recalibration.predict`, `_weight_bins.sums_of_candidates`.

    Logarithms and exponentials have loops of their own, without branches, so that they vectorise.
    """
    low, high, d_low, d_high, trace = limits
    n, scale, longest = len(offsets) - 1, 1.0 / (d_high - d_low), 0
    with_model, with_logging, weighted = len(delta_hat) > 0, len(pi0) > 0, len(row_weight) > 0
    for i in range(n):
        longest = max(longest, offsets[i + 1] - offsets[i])
    d = np.empty(longest)
    for i in range(n):
        first, last = np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        b0, b1, b2, b3, b4, b5, b6 = beta[fold[i]]
        best = pi[first]
        for k in range(first, last):
            best = best if best > pi[k] else pi[k]
        for k in range(first, last):
            p = pi[k]
            top = b6 if p == best else 0.0
            d[k - first] = b0 + b4 * p + b5 * elementary.log(p + trace) + top
        if with_model:
            best = delta_hat[first]
            for k in range(first, last):
                best = best if best > delta_hat[k] else delta_hat[k]
            for k in range(first, last):
                x = (delta_hat[k] - d_low) * scale
                x = x if x > 0.0 else 0.0
                x = x if x < 1.0 else 1.0
                top = b3 if delta_hat[k] == best else 0.0
                d[k - first] += b1 * x + b2 * elementary.log((x + 0.01) / (1.01 - x)) + top
        for k in range(last - first):
            x = d[k] if d[k] > -40.0 else -40.0
            x = x if x < 40.0 else 40.0
            d[k] = low + (high - low) / (1.0 + elementary.exp(-x))
        omega, share = row_weight[i] if weighted else 1.0, kept[fold[i]]
        total = 0.0
        for k in range(first, last):
            p, q = pi[k], pi0[k] if with_logging else 1.0
            if with_model:
                given = min(max(delta_hat[k], low), high)
                d[k - first] += (share if q > 0.0 else 1.0) * (given - d[k - first])
            total += p * d[k - first]
            if with_logging and q > 0.0:
                c = p / q
                place = table[(float_bits(c) >> 48) & 0x7FFF]
                while edges[place] <= c < np.inf:
                    place += 1
                sums[place, 0] += omega * p
                sums[place, 1] += omega * q
                sums[place, 2] += omega * p * c
            elif with_logging:
                unsupported[0] += omega * p
                unsupported[1] += omega * p * d[k - first]
        modelled[i], at_chosen[i] = total, d[chosen[i]]
        if len(flat) > 0:
            flat[first:last] = d[: last - first]
