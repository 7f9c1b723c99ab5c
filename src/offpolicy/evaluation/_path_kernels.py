"""The exact path of `sweep` over M: error-free sums, and the walk down the sorted weights."""

from __future__ import annotations

import numpy as np

from offpolicy._core.double_double_kernels import EXACT, add_product, get, plus, product, quotient
from offpolicy._core.fastmath import float_bits
from offpolicy._core.kernels import SUMS, compiled

# What `walk_path` sums over decisions, in rows of ``sums``; the last two never change. Of NumPy's
# integers: for each of Python's, numba would compile every function that takes one anew.
_A, _B, _AA, _AB, _BB, _WA, _WB, _W, _WW = np.arange(9)


_REBUILD = 1e-6
"""`walk_path` sums afresh whenever M has fallen by this factor."""


@compiled(**EXACT)
def _book(sums, sign, weighted, omega, a, b):
    """Add (sign 1) or take out (sign −1) one decision's terms on the exact path of `sweep`."""
    add_product(sums, _A, sign, a)
    add_product(sums, _B, sign, b)
    add_product(sums, _AA, sign * a, a)
    add_product(sums, _AB, sign * a, b)
    add_product(sums, _BB, sign * b, b)
    if weighted:
        add_product(sums, _WA, sign * omega, a)
        add_product(sums, _WB, sign * omega, b)


@compiled(**EXACT)
def _moments_exactly(sums, weighted, M, right):
    """Moments at one M of the exact path of `sweep`, in double-doubles throughout."""
    A, B, AA, AB, BB = (
        get(sums, _A), get(sums, _B), get(sums, _AA), get(sums, _AB), get(sums, _BB)
    )  # fmt: skip
    W, WW = get(sums, _W), get(sums, _WW)
    WA, WB = (get(sums, _WA), get(sums, _WB)) if weighted else (A, B)
    at, off_by = (M, 0.0), (right - M, 0.0)
    mean = quotient(plus(A, product(B, at)), W)
    minus = (-mean[0], -mean[1])
    cross = plus(WA, product(WB, at))
    ABM = plus(AB, product(BB, at))
    square = plus(AA, product(plus(AB, ABM), at))
    off = plus(cross, product(minus, WW))
    second = plus(square, product(minus, plus(cross, off)))
    if np.isinf(right):
        return mean[0], max(second[0], 0.0), max(second[0], 0.0)
    # Σω²(g − mean)(b − mean b), by which the joint moment changes as h moves away from g.
    tilt = plus(ABM, product(minus, WB))
    if weighted:
        slope = quotient(B, W)
        tilt = plus(tilt, product((-slope[0], -slope[1]), off))
    joint = plus(second, product(tilt, off_by))
    return mean[0], max(second[0], 0.0), joint[0]


_SAFE = 1e-3
"""A difference is trusted to plain doubles if it is no smaller than this share of its terms."""


@compiled(**EXACT)
def _moments_at(sums, weighted, M, right):
    """At one M of the exact path of `sweep`: mean, Σω²(g − mean)², Σω²(g − mean)(h − mean h).

    h are the same sums at ``right``. Where nothing cancels, plain doubles do.
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


@compiled(**SUMS)
def count_events(pi, pi0, counts):
    """How many events of the exact path of `sweep` (candidates, 0 < c < ∞) are in each bucket."""
    for k in range(len(pi)):
        if pi[k] > 0.0 and pi0[k] > 0.0:
            counts[float_bits(pi[k] / pi0[k]) >> _KEY_SHIFT] += 1


@compiled(**SUMS)
def place_events(offsets, chosen_index, pi, pi0, delta_hat, start, c, records, base):
    """Events of the exact path of `sweep`, by bucket; what has π₀ = 0 goes to ``base``.

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


# What `walk_path` keeps of a decision, side by side in memory: everything is times ω.
_P, _SUM_A, _SUM_B, _U, _C, _V, _OMEGA = range(7)

_AHEAD = 32
"""How many events `walk_path` looks ahead, to have their memory at hand when it gets there."""


@compiled(**EXACT)
def _decision(code):
    return np.int64(code if code >= 0.0 else -1.0 - code)


@compiled(**EXACT)
def walk_path(
    order, records, hard, c, base, residual, row_weight, scale,
    breakpoints, mean, variance, joint,
):  # fmt: skip
    """The exact path of `sweep` over M: Σω g/Σω and scale·Σω²(g − mean)², in one walk.

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
        add_product(sums, _W, omega, 1.0)
        add_product(sums, _WW, omega, omega)
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
