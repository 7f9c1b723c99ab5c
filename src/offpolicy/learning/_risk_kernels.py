"""The loss of a dense log in one walk over the scores, for the members of the paper.

`Dense` (of `policies`) and `DenseRisk` say the same in a chain of NumPy calls; here the columns go
through softmax, objective and gradient a few hundred at a time, while they are in the cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from offpolicy._core import fastmath as elementary
from offpolicy._core.kernels import COMMON, compiled
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Floats, Ints, Singles
from offpolicy.learning._risk import PLAIN, DenseRisk
from offpolicy.policies.learned import LOWEST, Dense

_COLUMNS = 512
_PART = 10_000_000
"""Multiplications from which on columns are shared out to threads."""
_LARGEST = float(np.finfo(np.float32).max)


class Fused:
    """Value of the objective, and its gradient in the weights of the policy."""

    def __init__(self, scores: Dense, risk: DenseRisk) -> None:
        reward, propensity, delta_hat, share = risk.observed
        n, member = len(reward), risk.member
        self.scores, self.action = scores, risk.place[0].astype(np.int64)
        residual = reward - delta_hat if member.imputes == "all" else reward
        scale, clip = PLAIN[member.weight](member.parameter or 0.0)
        self.slope = scale * share * residual / propensity if clip > 0.0 else np.zeros(n)
        with np.errstate(over="ignore"):
            self.cap = (clip * propensity).astype(np.float32)
        self.delta_hat = self.kept = np.zeros((1, len(scores.phi)), dtype=np.float32)
        if risk.delta_hat is not None:
            of_column = np.full(risk.delta_hat.shape[1], 1.0 / n)
            of_column[:n] = share if risk.logging is not None else share * member.fixed_share
            self.delta_hat = (risk.delta_hat * of_column).astype(np.float32)
            if risk.logging is not None:
                self.kept = (min(clip, _LARGEST) * risk.logging).astype(np.float32)

    def __call__(self, w: Floats) -> tuple[float, Floats]:
        return gains_together([self], [w])[0]


def gains_together(gains: Sequence[Fused], weights: Sequence[Floats]) -> list[tuple[float, Floats]]:
    """Every objective with its own weights, as if called one by one, if all see the same contexts:
    one multiplication for all. Columns are summed in parts that depend on the size alone."""
    scores = gains[0].scores
    K = scores.actions
    W = np.concatenate(weights).reshape(len(gains) * K, -1).astype(np.float32)

    def of_columns(part: slice) -> tuple[list[float], Floats]:
        table = W @ scores.transposed[:, part]
        values = [
            _walk(table[k * K : (k + 1) * K], part.start, g.action, g.slope, g.cap, g.delta_hat,
                  g.kept)
            for k, g in enumerate(gains)
        ]  # fmt: skip
        return values, (table @ scores.phi[part]).astype(np.float64)

    total, slopes = np.zeros(len(gains)), np.zeros(W.shape)
    for values, slope in each_block(of_columns, _parts(len(scores.phi), W.size)):
        total += values
        slopes += slope
    return list(zip(total.tolist(), slopes.reshape(len(gains), -1), strict=True))


def _parts(columns: int, weights: int) -> list[Callable[[], slice]]:
    """The objective's columns in parts of about as many multiplications, a few walks each."""
    size = -(-_PART // (weights * _COLUMNS)) * _COLUMNS
    return [
        functools.partial(slice, first, min(first + size, columns))
        for first in range(0, columns, size)
    ]


_ONE, _NONE = np.float32(1.0), np.float32(0.0)


@compiled(**COMMON, fastmath={"contract", "nsz"})
def _walk(
    scores: Singles,
    begin: int,
    action: Ints,
    slope: Floats,
    cap: Singles,
    delta_hat: Singles,
    kept: Singles,
) -> float:
    """The learner's objective; ``scores`` of the softmax, the columns from ``begin`` on, become
    its gradient.

    A chosen action adds slope·min(π, cap). ``delta_hat`` has the shares of the decisions in it.
    ``delta_hat`` and ``kept``, which is not left to the model, may have one row for all actions.
    """
    K, columns = scores.shape
    n = len(action) - begin
    top = np.empty(_COLUMNS, dtype=np.float32)
    total = np.empty(_COLUMNS, dtype=np.float32)
    mean = np.empty(_COLUMNS, dtype=np.float32)
    gained = np.empty(_COLUMNS, dtype=np.float32)
    value = 0.0
    for first in range(0, columns, _COLUMNS):
        size = min(_COLUMNS, columns - first)
        row = scores[0, first : first + size]
        for j in range(size):
            top[j] = row[j]
            total[j] = mean[j] = gained[j] = _NONE
        for k in range(1, K):
            row = scores[k, first : first + size]
            for j in range(size):
                top[j] = max(top[j], row[j])
        for k in range(K):
            row = scores[k, first : first + size]
            for j in range(size):
                x = max(row[j] - top[j], LOWEST)
                e = elementary.exp_single(x)
                row[j] = e
                total[j] += e
        for j in range(size):
            total[j] = _ONE / total[j]
        for k in range(K):
            row = scores[k, first : first + size]
            modelled = delta_hat[min(k, len(delta_hat) - 1), begin + first : begin + first + size]
            floor = kept[min(k, len(kept) - 1), begin + first : begin + first + size]
            for j in range(size):
                pi = row[j] * total[j]
                row[j] = pi
                free = modelled[j] if pi > floor[j] or floor[j] == _NONE else _NONE
                mean[j] += pi * free
                gained[j] += (pi - floor[j]) * free
        for j in range(size):
            value += gained[j]
        for j in range(min(size, n - first)):
            row_of = begin + first + j
            pi = scores[action[row_of], first + j]
            below = min(pi, cap[row_of])
            value += slope[row_of] * below
            # top is free now: what the chosen action adds to its gradient.
            top[j] = np.float32(slope[row_of]) * pi if pi == below else _NONE
            mean[j] += top[j]
        for k in range(K):
            row = scores[k, first : first + size]
            modelled = delta_hat[min(k, len(delta_hat) - 1), begin + first : begin + first + size]
            floor = kept[min(k, len(kept) - 1), begin + first : begin + first + size]
            for j in range(size):
                free = modelled[j] if row[j] > floor[j] or floor[j] == _NONE else _NONE
                row[j] *= free - mean[j]
        for j in range(min(size, n - first)):
            scores[action[begin + first + j], first + j] += top[j]
    return value
