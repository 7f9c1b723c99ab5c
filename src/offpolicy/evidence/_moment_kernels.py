"""The numba loops that take moments of a block's columns, each made when its turn comes.

No table of all columns is ever held: one column at a time stays in the cache. NumPy twins are
named in the docstrings.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core.fastmath import float_bits
from offpolicy._core.kernels import SUMS
from offpolicy._core.moment_kernels import _keep
from offpolicy.estimators._kernels import KINDS

_ALL, _STATIC = KINDS["all"], KINDS["static"]
_CLIP, _SWITCH = KINDS["clip"], KINDS["switch"]
_OPTIMISTIC, _SUBGAUSSIAN = KINDS["optimistic"], KINDS["subgaussian"]


@njit(**SUMS)
def _observe(kind, parameter, c, observed):
    """For the walk: the weight on a reward of an estimator that leaves this share of π.

    NumPy twin: `Masses.observed`.
    """
    if kind == _ALL or (kind == _OPTIMISTIC and parameter == 0.0):
        observed[:] = 0.0
    elif kind == _STATIC:
        for i in range(len(c)):
            observed[i] = parameter * c[i]
    elif kind == _CLIP:
        for i in range(len(c)):
            observed[i] = c[i] if c[i] < parameter else parameter
    elif kind == _SWITCH:
        for i in range(len(c)):
            observed[i] = c[i] if c[i] <= parameter else 0.0
    elif kind == _OPTIMISTIC:
        for i in range(len(c)):
            observed[i] = c[i] / (1.0 + c[i] * (c[i] / parameter))
    elif kind == _SUBGAUSSIAN:
        for i in range(len(c)):
            shrunk = c[i] / (1.0 - parameter + parameter * c[i])
            observed[i] = shrunk if c[i] > 0.0 else 0.0
    else:
        observed[:] = c


@njit(**SUMS)
def _pair(z, centre, c, place, modelled, residual, row_weight, sums):
    """Adds how the contributions z of an estimator go with the headline's. NumPy twin:
    `_walk._pair`."""
    weighted = len(row_weight) > 0
    along = total = 0.0
    for i in range(len(z)):
        a = z[i] - centre
        if weighted:
            a *= row_weight[i] * row_weight[i]
        sums[place[i], 0] += a * residual[i] * c[i]
        sums[place[i], 1] += a * residual[i]
        along += a * (modelled[i] - centre)
        total += a
    sums[-1, 0] += along
    sums[-1, 1] += total


@njit(**SUMS)
def member_moments(
    c, place, answers, modelled, residual, mass, dot, kinds, parameters, leaves, imputes, answered,
    row_weight, centre, moments, paired,
):  # fmt: skip
    """The walk's moments of everything kept of the named estimators: `_walk.Rows` says where.

    The j-th leaves the share ``leaves[j]``, −1 for one that is not known here, imputes the share
    ``imputes[j]``, −1 for none, and adds its weight times ``answers[answered[j]]``: the rewards,
    or the residuals of δ̂. What several have in common is taken once. ``modelled`` and
    ``residual`` are Σ πd and r − d. NumPy twin: `contributions`, `Moments.of`, `_walk._pair`.
    """
    E, n = len(leaves), len(c)
    observed, column = np.empty(n), np.empty(n)
    for share in range(len(kinds)):
        done = -1
        for j in range(E):
            if leaves[j] != share:
                continue
            if done < 0:
                _observe(kinds[share], parameters[share], c, observed)
                _keep(moments, E + j, observed, row_weight)
                _keep(moments, 2 * E + j, mass[share], row_weight)
                done = j
            else:
                for block in range(1, 3):
                    moments[:, block * E + j] = moments[:, block * E + done]
            answer = answers[answered[j]]
            if imputes[j] < 0:
                for i in range(n):
                    column[i] = observed[i] * answer[i]
            else:
                added = dot[imputes[j]]
                for i in range(n):
                    column[i] = added[i] + observed[i] * answer[i]
            _keep(moments, j, column, row_weight)
            _pair(column, centre, c, place, modelled, residual, row_weight, paired[j])
    _pair(answers[0], centre, c, place, modelled, residual, row_weight, paired[E])
    _keep(moments, 3 * E, c, row_weight)
    _keep(moments, 3 * E + 1, answers[0], row_weight)


@njit(**SUMS)
def row_bins(c, residual, reward, usual, row_weight, edges, table, sums):
    """Adds a block to ``sums``, per bin of c, in the order of `_weight_bins.OF_ROWS`. NumPy twin:
    `_weight_bins.sums_of_rows`."""
    weighted = len(row_weight) > 0
    for i in range(len(c)):
        place = np.int64(table[(float_bits(c[i]) >> 48) & 0x7FFF])
        while edges[place] <= c[i] < np.inf:
            place += 1
        at = sums[place]
        omega = row_weight[i] if weighted else 1.0
        e = residual[i]
        weight, ce = c[i], c[i] * e
        at[0] += omega
        at[1] += omega * weight
        at[2] += omega * weight * weight
        at[3] += omega * e
        at[4] += omega * e * e
        at[5] += omega * ce
        at[6] += omega * ce * e
        square = omega * omega
        at[7] += square
        at[8] += square * weight
        at[9] += square * weight * weight
        at[10] += square * e * e
        at[11] += square * ce * e
        at[12] += square * ce * ce
        at[13] += reward[i] != usual


@njit(**SUMS)
def row_tallies(
    starts, part, c, modelled, residual, reward, row_weight, edges, table, by_part, by_bin
):
    """Adds a block's rows of each stretch to ``by_part[part, part + 1, …]`` and ``by_bin``: the
    first row of the k-th of them is ``starts[k]``. NumPy twin: `_summary_sums._row_sums`."""
    weighted = len(row_weight) > 0
    for k in range(len(starts) - 1):
        own, bins = by_part[part + k], by_bin[part + k]
        for i in range(starts[k], starts[k + 1]):
            place = np.int64(table[(float_bits(c[i]) >> 48) & 0x7FFF])
            while edges[place] <= c[i] < np.inf:
                place += 1
            omega = row_weight[i] if weighted else 1.0
            own[0] += omega
            own[1] += omega * omega
            own[2] += omega * reward[i]
            own[3] += omega * modelled[i]
            own[4] += omega * modelled[i] * modelled[i]
            one = omega * residual[i]
            at = bins[place]
            at[0] += omega * c[i]
            at[1] += one * c[i]
            at[2] += one
            at[3] += one * c[i] * modelled[i]
            at[4] += one * modelled[i]
            at[5] += one * c[i] * c[i] * residual[i]
            at[6] += one * residual[i]


@njit(**SUMS)
def model_tallies(given, recalibrated, reward, row_weight, cuts, sums):
    """Adds a block to the summary's sums by class of prediction.

    NumPy twin: `_summary_sums._model_sums`.
    """
    weighted = len(row_weight) > 0
    for i in range(len(given)):
        low, high = 0, len(cuts)
        while low < high:
            middle = (low + high) // 2
            if cuts[middle] <= given[i]:
                low = middle + 1
            else:
                high = middle
        omega = row_weight[i] if weighted else 1.0
        off = reward[i] - given[i]
        at = sums[low]
        at[0] += omega
        at[1] += omega * omega
        at[2] += omega * given[i]
        at[3] += omega * recalibrated[i]
        at[4] += omega * reward[i]
        at[5] += omega * reward[i] * reward[i]
        at[6] += omega * off * off


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
