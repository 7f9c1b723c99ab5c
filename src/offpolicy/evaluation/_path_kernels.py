"""The exact path over M: error-free sums, and the walk down the sorted weights.

Nothing here may be re-associated by the compiler: the errors of additions and products are
computed by operations that would then be simplified to 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from offpolicy._core.fastmath import float_bits
from offpolicy._core.kernels import COMMON, SUMS

_EXACT = COMMON | {"fastmath": False}


@intrinsic
def fma(typing_context, a, b, c):
    """a·b + c with one rounding."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@njit(**_EXACT)
def _two_sum(a, b):
    """a + b as a rounded sum and its exact error (Knuth)."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


@njit(**_EXACT)
def _plus(x, y):
    """x + y of two double-doubles (high, low)."""
    s, e = _two_sum(x[0], y[0])
    e += x[1] + y[1]
    high = s + e
    return high, e - (high - s)


@njit(**_EXACT)
def _times(x, factor):
    """A double-double times a double."""
    p = x[0] * factor
    e = fma(x[0], factor, -p) + x[1] * factor
    high = p + e
    return high, e - (high - p)


@njit(**_EXACT)
def _product(x, y):
    """x·y of two double-doubles."""
    p = x[0] * y[0]
    e = fma(x[0], y[0], -p) + (x[0] * y[1] + x[1] * y[0])
    high = p + e
    return high, e - (high - p)


@njit(**_EXACT)
def _quotient(x, y):
    """x/y of two double-doubles."""
    high = x[0] / y[0]
    rest = _plus(x, _times(y, -high))
    return high, rest[0] / y[0]


@njit(**_EXACT)
def _add(sums, j, x):
    """sums[j] += x; the rounding error goes to the second place."""
    s, e = _two_sum(sums[j, 0], x)
    sums[j, 0] = s
    sums[j, 1] += e


@njit(**_EXACT)
def _add_product(sums, j, a, b):
    """sums[j] += a·b, the product taken exactly."""
    p = a * b
    s, e = _two_sum(sums[j, 0], p)
    sums[j, 0] = s
    sums[j, 1] += e + fma(a, b, -p)


# What `walk` sums over decisions, in rows of ``sums``; the last two never change.
_A, _B, _AA, _AB, _BB, _WA, _WB, _W, _WW = range(9)


@njit(**_EXACT)
def _get(sums, j):
    """A sum as a double-double."""
    return _two_sum(sums[j, 0], sums[j, 1])


_REBUILD = 1e-6
"""`walk` sums afresh whenever M has fallen by this factor."""


@njit(**_EXACT)
def _book(sums, sign, weighted, omega, a, b):
    """Add (sign 1) or take out (sign −1) one decision's terms."""
    _add(sums, _A, sign * a)
    _add(sums, _B, sign * b)
    _add_product(sums, _AA, sign * a, a)
    _add_product(sums, _AB, sign * a, b)
    _add_product(sums, _BB, sign * b, b)
    if weighted:
        _add_product(sums, _WA, sign * omega, a)
        _add_product(sums, _WB, sign * omega, b)


@njit(**_EXACT)
def _moments_exactly(sums, weighted, M, right):
    """`_moments_at` in double-doubles throughout."""
    A, B, AA, AB, BB = (
        _get(sums, _A), _get(sums, _B), _get(sums, _AA), _get(sums, _AB), _get(sums, _BB)
    )  # fmt: skip
    W, WW = _get(sums, _W), _get(sums, _WW)
    WA, WB = (_get(sums, _WA), _get(sums, _WB)) if weighted else (A, B)
    mean = _quotient(_plus(A, _times(B, M)), W)
    minus = (-mean[0], -mean[1])
    cross = _plus(WA, _times(WB, M))
    ABM = _plus(AB, _times(BB, M))
    square = _plus(AA, _times(_plus(AB, ABM), M))
    off = _plus(cross, _product(minus, WW))
    second = _plus(square, _product(minus, _plus(cross, off)))
    if np.isinf(right):
        return mean[0], max(second[0], 0.0), max(second[0], 0.0)
    # Σω²(g − mean)(b − mean b), by which the joint moment changes as h moves away from g.
    tilt = _plus(ABM, _product(minus, WB))
    if weighted:
        slope = _quotient(B, W)
        tilt = _plus(tilt, _product((-slope[0], -slope[1]), off))
    joint = _plus(second, _times(tilt, right - M))
    return mean[0], max(second[0], 0.0), joint[0]


_SAFE = 1e-3
"""A difference is trusted to plain doubles if it is no smaller than this share of its terms."""


@njit(**_EXACT)
def _moments_at(sums, weighted, M, right):
    """(mean, Σω²(g − mean)², Σω²(g − mean)(h − mean h)) at M, with h the same sums at ``right``.

    Where nothing cancels, plain doubles do; elsewhere double-doubles.
    """
    if weighted:
        return _moments_exactly(sums, weighted, M, right)
    A, B = sums[_A, 0] + sums[_A, 1], sums[_B, 0] + sums[_B, 1]
    AA, AB, BB = (
        sums[_AA, 0] + sums[_AA, 1], sums[_AB, 0] + sums[_AB, 1], sums[_BB, 0] + sums[_BB, 1]
    )  # fmt: skip
    BM = B * M
    total = A + BM
    mean = total / sums[_W, 0]
    ABM = AB + BB * M
    second = AA + (AB + ABM) * M - mean * total
    tilt = ABM - mean * B
    gap = 0.0 if np.isinf(right) else right - M
    size = AA + (2.0 * abs(AB) + BB * M) * M
    lever = abs(AB) + BB * M + abs(mean * B)
    mean_safe = abs(total) >= _SAFE * (abs(A) + abs(BM))
    if mean_safe and second >= _SAFE * size and second >= _SAFE * gap * lever:
        return mean, second, second + tilt * gap
    return _moments_exactly(sums, weighted, M, right)


_KEY_SHIFT = 45
EVENT_KEYS = 1 << (63 - _KEY_SHIFT)
"""Events are first put into buckets by the leading bits of c: sign, exponent, 7 of the mantissa."""


@njit(**SUMS)
def count_events(pi, pi0, counts):
    """How many candidates with 0 < c < ∞ fall into each bucket."""
    for k in range(len(pi)):
        if pi[k] > 0.0 and pi0[k] > 0.0:
            counts[float_bits(pi[k] / pi0[k]) >> _KEY_SHIFT] += 1


@njit(**SUMS)
def place_events(offsets, chosen_index, pi, pi0, delta_hat, start, c, records, base):
    """Events for `walk`, bucket by bucket; what has π₀ = 0 goes to ``base``.

    ``start`` says where each bucket starts, and is moved on. An event's record holds c, π·δ̂,
    π₀·δ̂ and the decision, which is written −1 − i for the chosen candidate of decision i; ``c``
    holds the first of these alone, for sorting.
    """
    for i in range(len(offsets) - 1):
        lost = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            if pi[k] == 0.0:
                continue
            if pi0[k] == 0.0:
                lost += pi[k] * delta_hat[k]
                continue
            weight = pi[k] / pi0[k]
            key = float_bits(weight) >> _KEY_SHIFT
            place = start[key]
            start[key] += 1
            c[place] = weight
            records[place, 0] = weight
            records[place, 1] = pi[k] * delta_hat[k]
            records[place, 2] = pi0[k] * delta_hat[k]
            records[place, 3] = -1.0 - i if k == chosen_index[i] else float(i)
        base[i] = lost


# What `walk` keeps of a decision, side by side in memory: everything is times ω.
_P, _SUM_A, _SUM_B, _U, _C, _V, _OMEGA = range(7)

_AHEAD = 32
"""How many events `walk` looks ahead, to have their memory at hand when it gets there."""


@njit(**_EXACT)
def _decision(code):
    return np.int64(code if code >= 0.0 else -1.0 - code)


@njit(**_EXACT)
def walk(
    order, records, hard, c, base, residual, row_weight, scale,
    breakpoints, mean, variance, joint,
):  # fmt: skip
    """The whole path over M of Σω g/Σω and scale·Σω²(g − mean)², exactly, in one walk.

    One *event* per candidate with 0 < c < ∞: below M = c it is clipped. ``records`` are those of
    `place_events`; ``order`` sorts them by c. Between two events decision i contributes a + b·M
    with

        a = P + u,  P = base + Σ_{clipped} π δ̂,  u = c·residual until the chosen one is clipped,
        b = v − Q,  Q = Σ_{clipped} π₀ δ̂,        v = residual from then on

    (all times ω; if ``hard`` then Q = v = 0). Walking from M = ∞ down, an event changes one
    decision's terms, hence O(1) work.

    Sums carry their rounding errors along, so taking a term out again costs 2⁻¹⁰⁴ of it. Terms
    shrink or vanish as they are clipped; after M has fallen by a factor of 10⁶, or Σa² by 10¹²,
    everything is summed afresh, so that what is left of a removed term is negligible beside
    those that remain. A stretch without events is broken at the same factor, so that none spans
    more.

    Fills the outputs from their end; returns how many breakpoints there are. Position j holds
    mean and variance at breakpoints[j], and the joint moment with those at breakpoints[j + 1],
    from which all that lies between follows; ∞ where squares overflow. The outputs must have
    room for one entry per event and 128 more. NumPy twin: `evaluate` at each M.
    """
    n = len(c)
    weighted = len(row_weight) > 0
    state = np.zeros((n, 8))
    sums = np.zeros((9, 2))
    for i in range(n):
        omega = row_weight[i] if weighted else 1.0
        state[i, _OMEGA] = omega
        state[i, _C] = c[i]
        state[i, _V] = omega * residual[i]
        state[i, _U] = omega * (c[i] * residual[i])
        state[i, _P] = omega * base[i]
        state[i, _SUM_A] = state[i, _P] + state[i, _U]
        _add(sums, _W, omega)
        _add_product(sums, _WW, omega, omega)
    rebuild_below = np.inf
    right = np.inf
    peak = 0.0
    touched = 0.0
    ahead = len(order)
    position = len(breakpoints)
    j = len(order) - 1
    while True:
        if j < ahead:
            # Reads that do not depend on each other overlap; those of the walk itself would not.
            ahead = max(j - _AHEAD, -1)
            for t in range(j, ahead, -1):
                touched += state[_decision(records[order[t], 3]), _P]
        M = records[order[j], 0] if j >= 0 else 0.0
        if 0.0 < M < right * _REBUILD < np.inf:
            M = right * _REBUILD
        if rebuild_below > M:
            sums[:_W] = 0.0
            for i in range(n):
                _book(sums, 1.0, weighted, state[i, _OMEGA], state[i, _SUM_A], state[i, _SUM_B])
            rebuild_below = M * _REBUILD
            peak = sums[_AA, 0]
        position -= 1
        m, second, both = _moments_at(sums, weighted, M, right)
        breakpoints[position] = M
        mean[position] = m
        variance[position] = np.inf if np.isnan(second * scale) else second * scale
        joint[position] = np.inf if np.isnan(both * scale) else both * scale
        right = M
        if j < 0:
            break
        while j >= 0 and records[order[j], 0] == M:
            event = order[j]
            code = records[event, 3]
            i = _decision(code)
            omega = state[i, _OMEGA]
            _book(sums, -1.0, weighted, omega, state[i, _SUM_A], state[i, _SUM_B])
            state[i, _P] += omega * records[event, 1]
            if not hard:
                state[i, _SUM_B] -= omega * records[event, 2]
                if code < 0.0:
                    state[i, _SUM_B] += state[i, _V]
            unclipped = state[i, _C] < M
            state[i, _SUM_A] = state[i, _P] + (state[i, _U] if unclipped else 0.0)
            _book(sums, 1.0, weighted, omega, state[i, _SUM_A], state[i, _SUM_B])
            j -= 1
        peak = max(peak, sums[_AA, 0])
        if not sums[_AA, 0] >= peak * _REBUILD * _REBUILD:
            rebuild_below = np.inf
    # Always true; it only keeps the reads ahead from being optimised away.
    return len(breakpoints) - position if touched != np.inf else -1
