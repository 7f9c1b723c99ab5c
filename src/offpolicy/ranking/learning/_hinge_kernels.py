"""The numba loops of the ranking hinge: Σ_j c_j Σ_{k≠j} h(1 − s_j + s_k), O(m log m) an impression.

With the scores of an impression in ascending order, the k that j has a loss with are those from
some place a(j) on, which moves up with j: sums over them are differences of running sums, and what
they give to each k is laid down at a(j) and summed once. h is the hinge max(0, u), or Huber's,

    h(u) = 0 for u ≤ 0,   u²/2ε for 0 < u < ε,   u − ε/2 for u ≥ ε,      0 < ε ≤ 1.

The pairs with 0 < u < ε are *in the band*: a second place b(j) ends them. Every document is
compared with itself as if it were another (u = 1, never in the band), and this is taken off again.

The logistic loss has no such order: its loop is over all pairs.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import numpy as np

from offpolicy._core.kernels import COMMON, SUMS, compiled


@compiled(**COMMON)
def _band(places, s, c, eps, low, high):
    """Where the pairs of each document begin, and where those in its band end, in the order
    ``places`` of the scores; nothing is between where it has no weight."""
    a, b = 0, 0
    for j in range(len(places)):
        if c[places[j]] != 0.0:
            r = 1.0 - s[places[j]]
            while a < j and r + s[places[a]] <= 0.0:
                a += 1
            b = max(a, b)
            while b < j and r + s[places[b]] < eps:
                b += 1
        low[j], high[j] = a, b if c[places[j]] != 0.0 else a


@compiled(**COMMON)
def _losses(key, weight, low, high, eps, up, up2, full, flat, steep, g):
    """Over an impression's documents: hinge, Huber's, Σα, Σαu and the band's pairs; fills ``g``.

    α_jk = c_j h′(u_jk), so that g = Σ_jk α_jk (e_k − e_j).
    """
    m = len(key)
    up[m], up2[m] = 0.0, 0.0
    for k in range(m - 1, -1, -1):
        up[k] = up[k + 1] + key[k]
        up2[k] = up2[k + 1] + key[k] * key[k]
        full[k], flat[k], steep[k] = 0.0, 0.0, 0.0
    inverse = 1.0 / eps if eps > 0.0 else 0.0
    hinge, huber, alphas, products, pairs = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(m):
        c, a, b = weight[j], low[j], high[j]
        g[j] = 0.0
        if c == 0.0:
            continue
        r = 1.0 - key[j]
        beyond = (m - b) * r + up[b] - 1.0
        hinge += c * beyond
        huber += c * (beyond - 0.5 * eps * (m - b - 1))
        alphas += c * (m - b - 1)
        products += c * beyond
        g[j] = -c * (m - b)
        full[b] += c
        if b > a:
            pairs += b - a
            within = up[a] - up[b]
            u = (b - a) * r + within
            u2 = max((b - a) * r * r + 2.0 * r * within + (up2[a] - up2[b]), 0.0) * inverse
            hinge += c * u
            huber += 0.5 * c * u2
            alphas += c * u * inverse
            products += c * u2
            g[j] -= c * u * inverse
            flat[a] += c * r * inverse
            steep[a] += c * inverse
            flat[b] -= c * r * inverse
            steep[b] -= c * inverse
    of_full, of_flat, of_steep = 0.0, 0.0, 0.0
    for k in range(m):
        of_full += full[k]
        of_flat += flat[k]
        of_steep += steep[k]
        g[k] += of_full + of_flat + of_steep * key[k]
    return hinge, huber, alphas, products, pairs


@compiled(**COMMON)
def _longest(offsets):
    m = 0
    for i in range(len(offsets) - 1):
        m = max(m, offsets[i + 1] - offsets[i])
    return m


@compiled(**SUMS)
def _dot(x, w):
    total = 0.0
    for f in range(len(w)):
        total += x[f] * w[f]
    return total


@compiled(**SUMS)
def _add(x, times, total):
    for f in range(len(total)):
        total[f] += times * x[f]


@compiled(**COMMON)
def pair_losses(X, w, offsets, c, eps, s, order, g, gradient):
    """Over pairs of documents: hinge, Huber's hinge (ε = 0: the same), Σα, Σαu, pairs in the band.

    With features, ``s`` is filled with X·w, and Xᵀg is added to ``gradient``, in one pass: each
    impression's rows are still near when they are needed again. With X of no columns, ``s`` is
    taken as it is. Fills ``g``, the slopes in the scores. ``order`` holds each impression's
    documents in some order, and afterwards in that of their scores.
    """
    m = _longest(offsets)
    room, (low, high) = np.empty((8, m + 1)), np.empty((2, m), np.int64)
    totals, with_features = np.zeros(5), X.shape[1] > 0
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        m = stop - start
        if with_features:
            for row in range(start, stop):
                s[row] = _dot(X[row], w)
        places = order[start:stop]
        key, weight, slopes = room[0, :m], room[1, :m], room[2, :m]
        places[:] = places[np.argsort(s[start:stop][places], kind="mergesort")]
        for k in range(m):
            key[k], weight[k] = s[start + places[k]], c[start + places[k]]
        _band(places, s[start:stop], c[start:stop], eps, low, high)
        losses = _losses(
            key, weight, low, high, eps, room[3], room[4], room[5], room[6], room[7], slopes
        )
        for k in range(5):
            totals[k] += losses[k]
        for k in range(m):
            g[start + places[k]] = slopes[k]
        if with_features:
            for row in range(start, stop):
                if g[row] != 0.0:
                    _add(X[row], g[row], gradient)
    return totals[0], totals[1], totals[2], totals[3], totals[4]


@compiled(**COMMON)
def band_product(offsets, c, eps, s, order, t, product):
    """L·t, L being the second derivative of Huber's hinge in the scores of the documents.

    L = 1/ε Σ c_j (e_j − e_k)(e_j − e_k)ᵀ over the pairs in the band. ``order`` must be that of
    ``s``, as `pair_losses` left it.
    """
    m = _longest(offsets)
    room, (low, high) = np.empty((3, m + 1)), np.empty((2, m), np.int64)
    inverse = 1.0 / eps
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        m = stop - start
        places = order[start:stop]
        up, count, sums = room[0], room[1], room[2]
        up[m] = 0.0
        for k in range(m - 1, -1, -1):
            up[k] = up[k + 1] + t[start + places[k]]
            count[k], sums[k] = 0.0, 0.0
        _band(places, s[start:stop], c[start:stop], eps, low, high)
        for j in range(m):
            row, a, b = start + places[j], low[j], high[j]
            product[row] = 0.0
            if b > a:
                by = c[row] * inverse
                product[row] = by * ((b - a) * t[row] - (up[a] - up[b]))
                count[a] += by
                count[b] -= by
                sums[a] += by * t[row]
                sums[b] -= by * t[row]
        of_count, of_sums = 0.0, 0.0
        for k in range(m):
            row = start + places[k]
            of_count += count[k]
            of_sums += sums[k]
            product[row] += of_count * t[row] - of_sums


@compiled(**COMMON)
def band_rows(first, X, offsets, c, eps, s, order, rows, half):
    """Fills ``rows`` and ``half`` so that XᵀLX = rowsᵀhalf + halfᵀrows, for some impressions.

    Those from ``first`` on for which there is room: returns the one after the last, and how many
    rows were filled. Documents in no pair of the band are left out. ``half`` holds, of each such
    document j, ½L_jj x_j − c_j/ε Σ x_k, the sum being over the k of its band: it is carried from
    one j to the next.
    """
    m = _longest(offsets)
    room, (low, high) = np.empty((2, m + 1)), np.empty((2, m), np.int64)
    carried = np.empty(X.shape[1])
    inverse = 1.0 / eps
    filled = 0
    i = first
    while i < len(offsets) - 1:
        start, stop = offsets[i], offsets[i + 1]
        m = stop - start
        if filled + m > len(rows):
            break
        places = order[start:stop]
        size, more = room[0], room[1]
        _band(places, s[start:stop], c[start:stop], eps, low, high)
        size[:m], more[:m], carried[:] = 0.0, 0.0, 0.0
        for j in range(m):
            if high[j] > low[j]:
                size[j] = c[start + places[j]] * inverse
                more[low[j]] += size[j]
                more[high[j]] -= size[j]
        begin, end, pairs = 0, 0, 0.0
        for j in range(m):
            row, a, b = start + places[j], low[j], high[j]
            pairs += more[j]
            diagonal = pairs + size[j] * (b - a)
            if not diagonal > 0.0:
                continue
            x, y = rows[filled], half[filled]
            filled += 1
            for f in range(X.shape[1]):
                x[f] = X[row, f]
                y[f] = 0.5 * diagonal * x[f]
            if b > a:
                if a >= end:
                    carried[:] = 0.0
                    begin, end = a, a
                while end < b:
                    _add(X[start + places[end]], 1.0, carried)
                    end += 1
                while begin < a:
                    _add(X[start + places[begin]], -1.0, carried)
                    begin += 1
                _add(carried, -size[j], y)
        i += 1
    return i, filled


@compiled(**COMMON)
def pair_logistic(s, offsets, c, gradient, curvature):
    """Pairs of documents: Σ_j c_j Σ_{k≠j} log(1 + exp(s_k − s_j)); fills both derivatives."""
    gradient[:] = 0.0
    curvature[:] = 0.0
    loss = 0.0
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            if c[j] == 0.0:
                continue
            slopes, bends = 0.0, 0.0
            for k in range(offsets[i], offsets[i + 1]):
                if k == j:
                    continue
                z = s[k] - s[j]
                small = np.exp(-abs(z))
                loss += c[j] * (max(z, 0.0) + np.log1p(small))
                p = (1.0 if z >= 0.0 else small) / (1.0 + small)
                bend = small / ((1.0 + small) * (1.0 + small))
                slopes += p
                bends += bend
                gradient[k] += c[j] * p
                curvature[k] += c[j] * bend
            gradient[j] -= c[j] * slopes
            curvature[j] += c[j] * bends
    return loss
