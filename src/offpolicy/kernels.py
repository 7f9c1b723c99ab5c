"""The numba loops over the ragged layout. Everything here is exact and free of I/O.

Each has a plain NumPy twin elsewhere (named in its docstring) that serves small inputs, where
compiling would cost more than it saves, and against which it is tested.

Sums over one decision's candidates may be re-associated, so that they vectorise; their result
does not depend on threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from offpolicy import elementary
from offpolicy.elementary import float_bits

COMMON: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
SUMS = COMMON | {"fastmath": {"reassoc", "nsz", "contract"}}

KINDS = {
    "all": 0,
    "scaled": 1,
    "static": 2,
    "clip": 3,
    "switch": 4,
    "optimistic": 5,
    "subgaussian": 6,
    "unsupported": 7,
}
"""Codes of the shares that `candidate_sums` knows (`offpolicy.estimators.Share`)."""

LANES = 32
"""How many decisions the grid kernels carry side by side, so that their scans vectorise."""


@njit(**SUMS)
def candidate_sums(
    offsets, chosen, pi, pi0, delta_hat, kinds, parameters,
    mass, dot, total, lowest, pi_chosen, delta_hat_chosen,
):  # fmt: skip
    """Σ share and Σ share·δ̂ of every decision, for every requested share of π.

    ``pi0`` and ``delta_hat`` may be empty where no share needs them. Fills ``mass`` and ``dot``
    of shape (shares, decisions); on the way, π and δ̂ of the chosen candidates, and the sum and
    the least of π, by which it is checked. NumPy twin: `Estimator.masses`, `softmax.row_sums`.
    """
    with_model = len(delta_hat) > 0
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        pi_chosen[i] = pi[start + chosen[i]]
        delta_hat_chosen[i] = delta_hat[start + chosen[i]] if with_model else 0.0
        p = pi[start:stop]
        whole = 0.0
        least = p[0]
        for k in range(len(p)):
            whole += p[k]
            least = least if least < p[k] else p[k]
        total[i] = whole
        lowest[i] = least
        d = delta_hat[start:stop] if with_model else p
        q = pi0[start:stop] if len(pi0) > 0 else p
        for j in range(len(kinds)):
            kind, parameter = kinds[j], parameters[j]
            share_sum = 0.0
            modelled = 0.0
            if kind == 0 or kind == 1:
                for k in range(len(p)):
                    share_sum += p[k]
                    modelled += p[k] * d[k]
                if kind == 1:
                    share_sum *= 1.0 - parameter
                    modelled *= 1.0 - parameter
            elif kind == 2:
                for k in range(len(p)):
                    share = p[k] if q[k] == 0.0 else (1.0 - parameter) * p[k]
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 7 or ((kind == 3 or kind == 4) and np.isinf(parameter)):
                for k in range(len(p)):
                    share = p[k] if q[k] == 0.0 else 0.0
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 3:
                for k in range(len(p)):
                    share = max(p[k] - parameter * q[k], 0.0)
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 4:
                for k in range(len(p)):
                    share = p[k] if p[k] / q[k] > parameter else 0.0
                    share_sum += share
                    modelled += share * d[k]
            elif kind == 5:
                for k in range(len(p)):
                    c = p[k] / q[k] if q[k] > 0.0 else 0.0
                    observed = 0.0 if parameter == 0.0 else c / (1.0 + c * (c / parameter))
                    share = max(p[k] - q[k] * observed, 0.0)
                    share_sum += share
                    modelled += share * d[k]
            else:
                for k in range(len(p)):
                    c = p[k] / q[k] if q[k] > 0.0 else 0.0
                    observed = c / (1.0 - parameter + parameter * c) if c > 0.0 else 0.0
                    share = max(p[k] - q[k] * observed, 0.0)
                    share_sum += share
                    modelled += share * d[k]
            mass[j, i] = share_sum
            dot[j, i] = modelled


def bucket_table(grid: np.ndarray) -> np.ndarray:
    """For each leading 16 bits of a positive double, how many grid values lie surely below it.

    A start from which few steps up lead to the bucket.
    """
    first = (np.arange(1 << 15, dtype=np.int64) << 48).view(np.float64)
    return np.searchsorted(grid, first, side="left").astype(np.uint32)


@njit(**SUMS)
def _find_buckets(pi, pi0, edges, table, buckets):
    """Fills in how many grid values lie below each candidate's c = π/π₀; returns the largest.

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
    """Drops the candidates of up to `LANES` decisions into their buckets."""
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
    """Adds the buckets up from the highest down, and empties them: fills a tile of ``values``.

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
    """Contributions on a whole grid of M, O(K + G) a decision: fills ``values`` (grid, decisions).

    For as many decisions as ``values`` has room for, from ``first_row`` on:
    base + f(c, M)·residual + Σ share(M)·δ̂, with f(c, M) = min(c, M) and share = max(π − Mπ₀, 0),
    or, if ``hard``, f = c·1{c ≤ M} and share = π·1{c > M}. With an empty ``delta_hat`` the last
    sum is left out (CIPS, CAB-DR, SWITCH-DR); with an empty ``pi0`` nothing is read of the
    candidates. The row-weighted totals of the shares are added to ``left``.

    A candidate is clipped for every M below its c = π/π₀: it is dropped into the bucket of its
    c, and a scan from the largest M down adds the buckets up. NumPy twin:
    `curves._grid_numpy`.
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


TILE = 256
"""Candidates whose predictions are held at a time."""


@njit(**SUMS)
def _refit_without_model(p, best, b, low, span, trace, tilde):
    """Fills in what the regression says, from π alone."""
    intercept, of_share, of_bent, of_top = b[0], b[4], b[5], b[6]
    for k in range(len(p)):
        score = intercept + of_share * p[k] + of_bent * elementary.log(p[k] + trace)
        score += of_top if p[k] == best else 0.0
        score = score if score > -40.0 else -40.0
        score = score if score < 40.0 else 40.0
        tilde[k] = low + span / (1.0 + elementary.exp(-score))


@njit(**SUMS)
def _refit(p, d, best, best_d, b, kept, low, span, d_low, d_scale, trace, tilde, gap):
    """Fills in δ̃, and how far the regression is from the model."""
    intercept, d_share, d_bent, d_top, of_share, of_bent, of_top = b
    high = low + span
    for k in range(len(p)):
        share = (d[k] - d_low) * d_scale
        share = share if share > 0.0 else 0.0
        share = share if share < 1.0 else 1.0
        score = intercept + of_share * p[k] + of_bent * elementary.log(p[k] + trace)
        score += d_share * share + d_bent * elementary.log((share + 0.01) / (1.01 - share))
        score += of_top if p[k] == best else 0.0
        score += d_top if d[k] == best_d else 0.0
        score = score if score > -40.0 else -40.0
        score = score if score < 40.0 else 40.0
        refitted = low + span / (1.0 + elementary.exp(-score))
        given = d[k] if d[k] > low else low
        given = given if given < high else high
        gap[k] = refitted - given
        tilde[k] = refitted - kept * (refitted - given)


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
    """The recalibrated model δ̃ on every candidate, and what the bands of the weight need of it.

    ``beta`` holds, per fold, the intercept and the coefficients of share, bent and top, of δ̂ and
    then of π; ``limits`` are the least and the highest reward and prediction, and the trace.
    ``pi0`` and ``delta_hat`` may be empty. Fills Σ πδ̃ and δ̃ of the chosen candidate of every
    decision; adds to ``sums``, per band, Σωπ, Σωπ₀, Σωπ²/π₀, Σωπ·gap, Σωπ₀·gap, and to
    ``unsupported`` Σωπ and Σωπδ̃ where π₀ = 0. NumPy twin: `Recalibration.predict`, `Bands.of`.
    """
    low, high, d_low, d_high, trace = limits
    with_model, with_logging = len(delta_hat) > 0, len(pi0) > 0
    weighted = len(row_weight) > 0
    tilde, gap = np.zeros(TILE), np.zeros(TILE)
    bands = np.zeros(TILE, table.dtype)
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        omega = row_weight[i] if weighted else 1.0
        b, w = beta[fold[i]], kept[fold[i]]
        best = _largest(pi[start:stop])
        best_d = _largest(delta_hat[start:stop]) if with_model else 0.0
        total = 0.0
        for first in range(start, stop, TILE):
            p = pi[first : min(first + TILE, stop)]
            if with_model:
                d = delta_hat[first : first + len(p)]
                scale = 1.0 / (d_high - d_low)
                _refit(p, d, best, best_d, b, w, low, high - low, d_low, scale, trace, tilde, gap)
            else:
                _refit_without_model(p, best, b, low, high - low, trace, tilde)
            for k in range(len(p)):
                total += p[k] * tilde[k]
            at = start + chosen[i] - first
            if 0 <= at < len(p):
                at_chosen[i] = tilde[at]
            if with_logging:
                q = pi0[first : first + len(p)]
                _find_bands(p, q, edges, table, bands)
                _fill_bands(p, q, omega, tilde, gap, bands, sums, unsupported)
        modelled[i] = total


@njit(**SUMS)
def _find_bands(pi, pi0, edges, table, bands):
    """Fills in how many edges are at most each candidate's c; one more than all if π₀ = 0."""
    for k in range(len(pi)):
        c = pi[k] / pi0[k]
        band = np.int64(table[(float_bits(c) >> 48) & 0x7FFF])
        band += edges[band] <= c
        while edges[band] <= c < np.inf:
            band += 1
        bands[k] = len(edges) if pi0[k] == 0.0 else band


@njit(**SUMS)
def _fill_bands(pi, pi0, omega, tilde, gap, bands, sums, unsupported):
    """Adds the candidates of one decision to their bands."""
    beyond = len(sums)
    for k in range(len(pi)):
        band = bands[k]
        mass, logged = omega * pi[k], omega * pi0[k]
        if band == beyond:
            unsupported[0] += mass
            unsupported[1] += mass * tilde[k]
        else:
            row = sums[band]
            row[0] += mass
            row[1] += logged
            row[2] += mass * (pi[k] / pi0[k])
            row[3] += mass * gap[k]
            row[4] += logged * gap[k]


@njit(**SUMS)
def column_moments(x, row_weight, mean, cross, second, low, high):
    """Weighted mean, Σω²(x − mean), Σω²(x − mean)², least and largest of every row of ``x``.

    NumPy twin: `Moments.of`.
    """
    rows = x.shape[1]
    weighted = len(row_weight) > 0
    weight = float(rows)
    if weighted:
        weight = row_weight.sum()
    for m in range(x.shape[0]):
        column = x[m]
        total = 0.0
        if weighted:
            for i in range(rows):
                total += row_weight[i] * column[i]
        else:
            for i in range(rows):
                total += column[i]
        centre = total / weight
        least = column[0]
        largest = column[0]
        for i in range(rows):
            least = least if least < column[i] else column[i]
            largest = largest if largest > column[i] else column[i]
        low[m] = least
        high[m] = largest
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
        mean[m] = centre + shift
        cross[m] = first - shift * weight2
        second[m] = max(squares - shift * (2.0 * first - shift * weight2), 0.0)
