"""The numba loops over candidates: the grid of M, the recalibrated model, and sums by action."""

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core import fastmath as elementary
from offpolicy._core.fastmath import float_bits
from offpolicy._core.kernels import SUMS
from offpolicy._core.logistic_kernels import TILE, squash

LANES = 32
"""How many decisions the grid kernels carry side by side, so that their scans vectorise."""


def bucket_table(grid: np.ndarray) -> np.ndarray:
    """For each leading 16 bits of a weight c, how many M of a grid (or bins) lie surely below it.

    A start from which few steps up lead to the bucket.
    """
    first = (np.arange(1 << 15, dtype=np.int64) << 48).view(np.float64)
    return np.searchsorted(grid, first, side="left").astype(np.uint32)


@njit(**SUMS)
def _find_buckets(pi, pi0, edges, table, buckets):
    """Fills in how many M of a grid lie below each candidate's c = π/π₀; returns the largest.

    None if π = 0, and all, be one of them ∞, if π₀ = 0. ``edges`` are the grid and ∞.
    """
    highest = 0
    for k in range(len(pi)):
        p, q = pi[k], pi0[k]
        weight = p / q
        bucket = np.int64(table[(float_bits(weight) >> 48) & 0x7FFF])
        # Where a branch could go either way, none is taken: on most grids one step is enough.
        bucket += edges[bucket] < weight
        while edges[bucket] < weight:
            bucket += 1
        bucket = 0 if p == 0.0 else len(edges) - 1 if q == 0.0 else bucket
        buckets[k] = bucket
        highest = max(highest, bucket)
    return highest


@njit(**SUMS)
def _fill_buckets(starts, pi, pi0, delta_hat, row_weight, buckets, sums, all_pi, all_pi0):
    """Drops the candidates of up to `LANES` decisions into their buckets of a grid of M."""
    with_model = len(delta_hat) > 0
    weighted = len(row_weight) > 0
    first = np.uint64(starts[0])
    for lane in range(len(starts) - 1):
        omega = row_weight[lane] if weighted else 1.0
        # Unsigned indices cannot count from the end, which would have to be looked at.
        for k in range(np.uint64(starts[lane]), np.uint64(starts[lane + 1])):
            p, q = pi[k], pi0[k]
            bucket = np.int64(buckets[k - first])
            all_pi[bucket] += omega * p
            all_pi0[bucket] += omega * q
            if with_model:
                at = 2 * LANES * bucket + lane
                sums[at] += p * delta_hat[k]
                sums[at + LANES] += q * delta_hat[k]


@njit(**SUMS)
def _scan_buckets(sums, highest, state, grid, ceiling, values, first):
    """Adds a grid's buckets up from the highest M down, and empties them: fills part of ``values``.

    Everything is laid out by lanes: ``state`` holds what has been added up of πδ̂ and of π₀δ̂,
    then base, c and residual; each bucket of ``sums`` holds Σπδ̂, then Σπ₀δ̂. With constant
    distances in few arrays LLVM can be sure cheaply that nothing overlaps, and vectorises.
    """
    lanes = min(LANES, values.shape[1] - first)
    for m in range(highest, len(grid)):
        M, most = grid[m], ceiling[m]
        row = values[m, first : first + lanes]
        for lane in range(lanes):
            c = state[3 * LANES + lane]
            used = most if c > M else c
            row[lane] = state[2 * LANES + lane] + used * state[4 * LANES + lane]
    for m in range(highest - 1, -1, -1):
        M, most = grid[m], ceiling[m]
        row = values[m, first : first + lanes]
        bucket = sums[2 * LANES * (m + 1) : 2 * LANES * (m + 2)]
        for lane in range(lanes):
            P = state[lane] + bucket[lane]
            Q = state[LANES + lane] + bucket[LANES + lane]
            state[lane] = P
            state[LANES + lane] = Q
            bucket[lane] = 0.0
            bucket[LANES + lane] = 0.0
            c = state[3 * LANES + lane]
            used = most if c > M else c
            imputed = P - most * Q
            row[lane] = state[2 * LANES + lane] + imputed + used * state[4 * LANES + lane]


@njit(**SUMS)
def grid_values(
    offsets, first_row, pi, pi0, delta_hat, grid, table, hard, c, base, residual, row_weight,
    values, left,
):  # fmt: skip
    """A block's contributions on a grid of M, O(K + G) a decision: fills ``values`` (grid, rows).

    For as many decisions as ``values`` has room for, from ``first_row`` on:
    base + f(c, M)·residual + Σ share(M)·δ̂, with f(c, M) = min(c, M) and share = max(π − Mπ₀, 0),
    or, if ``hard``, f = c·1{c ≤ M} and share = π·1{c > M}. With an empty ``delta_hat`` the last
    sum is left out (CIPS, CAB-DR, SWITCH-DR); with an empty ``pi0`` nothing is read of the
    candidates. The row-weighted totals of the shares are added to ``left``.

    A candidate is clipped for every M below its c = π/π₀: it is dropped into the bucket of its
    c, and a scan from the largest M down adds the buckets up. NumPy twin:
    `evaluation._sweep._grid_each`.
    """
    G, n = values.shape
    edges = np.append(grid, np.inf)
    # What is left of c where it is clipped; at M = ∞ that is only where π₀ = 0.
    ceiling = np.where(hard | np.isinf(grid), 0.0, grid)
    # Bucket m holds the candidates with c <= grid[m], which are clipped from m - 1 down; so
    # what is in the first does not matter, and is never emptied.
    sums = np.zeros(2 * LANES * (G + 1))
    all_pi = np.zeros(G + 1)
    all_pi0 = np.zeros(G + 1)
    state = np.zeros(5 * LANES)
    with_logging = len(pi0) > 0
    with_model = len(delta_hat) > 0
    candidates = offsets[first_row + n] - offsets[first_row] if with_logging else 0
    buckets = np.empty(candidates, table.dtype)
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        rows = slice(first_row + first, first_row + first + lanes)
        state[: 2 * LANES] = 0.0
        state[2 * LANES : 2 * LANES + lanes] = base[rows]
        state[3 * LANES : 3 * LANES + lanes] = c[rows]
        state[4 * LANES : 4 * LANES + lanes] = residual[rows]
        highest = 0
        if with_logging:
            starts = offsets[rows.start : rows.stop + 1]
            tile = slice(starts[0], starts[-1])
            highest = _find_buckets(pi[tile], pi0[tile], edges, table, buckets)
            _fill_buckets(
                starts, pi, pi0, delta_hat, row_weight[rows], buckets, sums, all_pi, all_pi0
            )
        _scan_buckets(sums, highest if with_model else 0, state, grid, ceiling, values, first)
    for m in range(G - 1, -1, -1):
        left[m] += all_pi[m + 1] - ceiling[m] * all_pi0[m + 1]
        all_pi[m] += all_pi[m + 1]
        all_pi0[m] += all_pi0[m + 1]


@njit(**SUMS)
def _bent_policy(p, trace, bent):
    for k in range(len(p)):
        bent[k] = elementary.log(p[k] + trace)


@njit(**SUMS)
def _bent_model(d, low, scale, share, bent):
    """What the recalibration sees of predictions: their share of the range, and that bent."""
    for k in range(len(d)):
        x = (d[k] - low) * scale
        x = x if x > 0.0 else 0.0
        x = x if x < 1.0 else 1.0
        share[k] = x
        bent[k] = elementary.log((x + 0.01) / (1.01 - x))


@njit(**SUMS)
def _largest(values):
    best = values[0]
    for k in range(len(values)):
        best = best if best > values[k] else values[k]
    return best


@njit(**SUMS)
def recalibrated_sums(
    offsets, chosen, pi, pi0, delta_hat, row_weight, fold, beta, kept, limits, edges, table,
    modelled, at_chosen, sums, unsupported,
):  # fmt: skip
    """The headline's model d on every candidate, and what the bins of the weight need of it.

    ``beta`` holds, per fold, the intercept and the coefficients of share, bent and top, of δ̂ and
    then of π; ``limits`` are the least and the highest reward and prediction, and the trace.
    ``pi0`` and ``delta_hat`` may be empty. Fills Σ πd and d of the chosen candidate of every
    decision; adds to ``sums``, per bin of the weight, Σωπ, Σωπ₀, Σωπ²/π₀, and to
    ``unsupported`` Σωπ and Σωπd where π₀ = 0. NumPy twin: `Recalibration.predict`,
    `_weight_bins.sums_of_candidates`.

    What costs most, logarithms and exponentials, runs over a whole tile of candidates at once,
    whichever decisions they belong to.
    """
    low, high, d_low, d_high, trace = limits
    n = len(offsets) - 1
    with_model, with_logging, weighted = len(delta_hat) > 0, len(pi0) > 0, len(row_weight) > 0
    d_all, share = np.zeros(TILE), np.zeros(TILE)
    bent, bent_d = np.zeros(TILE), np.zeros(TILE)
    bins = np.zeros(TILE, table.dtype)
    beyond = len(sums)
    modelled[:] = 0.0
    i = 0
    best = best_d = 0.0
    first = offsets[0]
    fresh = True
    while first < offsets[n]:
        last = min(first + TILE, offsets[n])
        p = pi[first:last]
        d = delta_hat[first:last] if with_model else p
        q = pi0[first:last] if with_logging else p
        _bent_policy(p, trace, bent)
        if with_model:
            _bent_model(d, d_low, 1.0 / (d_high - d_low), share, bent_d)
        if with_logging:
            _find_bins(p, q, edges, table, bins)
        begun = i
        while i < n and offsets[i] < last:
            # A decision may have begun in the tile before, or end in the next.
            if fresh:
                best = _largest(pi[offsets[i] : offsets[i + 1]])
                best_d = _largest(delta_hat[offsets[i] : offsets[i + 1]]) if with_model else 0.0
            b = beta[fold[i]]
            start, stop = max(offsets[i], first) - first, min(offsets[i + 1], last) - first
            for k in range(np.uint64(start), np.uint64(stop)):
                score = b[0] + b[4] * p[k] + b[5] * bent[k] + (b[6] if p[k] == best else 0.0)
                if with_model:
                    score += b[1] * share[k] + b[2] * bent_d[k]
                    score += b[3] if d[k] == best_d else 0.0
                d_all[k] = score
            fresh = offsets[i + 1] <= last
            if not fresh:
                break
            i += 1
        squash(d_all[: last - first], low, high - low)
        for j in range(begun, min(i + 1, n)):
            if offsets[j] >= last:
                break
            omega = row_weight[j] if weighted else 1.0
            w = kept[fold[j]]
            start, stop = max(offsets[j], first) - first, min(offsets[j + 1], last) - first
            total = 0.0
            for k in range(np.uint64(start), np.uint64(stop)):
                if with_model:
                    given = d[k] if d[k] > low else low
                    given = given if given < high else high
                    share_kept = 1.0 if with_logging and q[k] == 0.0 else w
                    d_all[k] -= share_kept * (d_all[k] - given)
                total += p[k] * d_all[k]
            modelled[j] += total
            at = offsets[j] + chosen[j] - first
            if start <= at < stop:
                at_chosen[j] = d_all[at]
            if with_logging:
                for k in range(np.uint64(start), np.uint64(stop)):
                    place = np.uint64(bins[k])
                    mass, logged = omega * p[k], omega * q[k]
                    if place == beyond:
                        unsupported[0] += mass
                        unsupported[1] += mass * d_all[k]
                    else:
                        sums[place, 0] += mass
                        sums[place, 1] += logged
                        sums[place, 2] += mass * (p[k] / q[k])
        first = last


@njit(**SUMS)
def _find_bins(pi, pi0, edges, table, bins):
    """Fills in each candidate's bin of the weight c; one more than the last if π₀ = 0."""
    for k in range(len(pi)):
        c = pi[k] / pi0[k]
        place = np.int64(table[(float_bits(c) >> 48) & 0x7FFF])
        place += edges[place] <= c
        while edges[place] <= c < np.inf:
            place += 1
        bins[k] = len(edges) if pi0[k] == 0.0 else place


@njit(**SUMS)
def action_tallies(offsets, codes, pi, pi0, row_weight, sums):
    """Adds to ``sums``, per action, what is known of every candidate: Σωπ, Σωπ₀, Σωπ where π₀ = 0
    and Σω²π₀(1 − π₀); without ``codes``, positions are actions. NumPy twin:
    `_summary_sums._candidate_sums`."""
    weighted, named = len(row_weight) > 0, len(codes) > 0
    for i in range(len(offsets) - 1):
        omega = row_weight[i] if weighted else 1.0
        first = offsets[i]
        for k in range(first, offsets[i + 1]):
            at = codes[k] if named else k - first
            p, q = omega * pi[k], pi0[k]
            sums[at, 0] += p
            sums[at, 1] += omega * q
            if q == 0.0:
                sums[at, 2] += p
            sums[at, 3] += omega * omega * q * (1.0 - q)
