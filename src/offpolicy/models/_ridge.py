"""The ridge regression on scaled numbers that is trained where no model was given.

What scikit-learn's `StandardScaler` and `Ridge` fit to the rows of every action outside every fold
follows from sums by fold and action. So one pass over the rows serves all fits, and these are
solved together. Sums are about the mean of their own rows, and only ever added: nothing cancels,
whatever a fold that is left out holds.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import PredictionError
from offpolicy.models._fits import LEAST_ROWS, PRIOR_ROWS
from offpolicy.models._inputs import MOST_CELLS, Inputs, parts

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """One fold's fits: slopes (of every action, or for all the same), and a level for each action;
    last, for actions never seen."""

    slopes: Floats
    levels: Floats

    def predict(self, inputs: Inputs, candidates: Ints) -> Floats:
        assert inputs.context is not None
        out = np.empty(len(candidates))
        for part in parts(len(candidates), 2 * inputs.context.shape[1]):
            some = candidates[part]
            out[part] = self.at(inputs.context[inputs.decision[some]], inputs.code[some])
        return out

    def at(self, X: Floats, code: Ints) -> Floats:
        """What it says of one action in each context."""
        slopes = self.slopes if self.slopes.ndim == 1 else self.slopes[code]
        return np.asarray((X * slopes).sum(axis=1) + self.levels[code])

    def table(self, X: Floats) -> Floats:
        """What it says of every action in these contexts: (contexts, actions)."""
        if self.slopes.ndim == 1:
            return np.asarray((X @ self.slopes)[:, None] + self.levels[:-1])
        made = X @ self.slopes[:-1].T
        made += self.levels[:-1]
        return np.asarray(made)


def from_sums(inputs: Inputs, groups: int) -> bool:
    """Whether fits follow from sums: squares of contexts are held for so many groups."""
    if inputs.features is not None or inputs.context is None:
        return False
    return bool(groups * inputs.context.shape[1] ** 2 <= MOST_CELLS)


class _Groups(NamedTuple):
    """Sums over rows by fold and action, (folds, actions, …), each about its own mean."""

    weight: Floats
    mean: Floats
    reward: Floats
    """Its mean."""
    cross: Floats
    """Of context and reward."""
    gram: Floats
    """Of the context with itself; 1 in the place of actions, added up, where slopes are shared."""

    def without(self, folds: Ints) -> _Groups:
        """All other folds together: sums by action."""
        weight, mean, reward, cross, gram = (np.delete(each, folds, axis=0) for each in self)
        total = weight.sum(axis=0)
        part = weight / np.where(total > 0.0, total, 1.0)
        centre = (part[..., None] * mean).sum(axis=0)
        level = (part * reward).sum(axis=0)
        shift, up = mean - centre, reward - level
        weighted = weight[..., None] * shift
        cross = cross.sum(axis=0) + (weighted * up[..., None]).sum(axis=0)
        kinds = "gki,gkj->ij" if gram.shape[1] < weight.shape[1] else "gki,gkj->kij"
        gram = gram.sum(axis=0) + np.einsum(kinds, weighted, shift, optimize=False)
        return _Groups(total, centre, level, cross, gram)


class RidgeFolds:
    """All that the fits without one fold, or two, need of the rows."""

    def __init__(
        self, alpha: float, X: Floats, y: Floats, weight: Floats | None, place: Ints,
        shape: tuple[int, int], *, shared: bool,
    ) -> None:  # fmt: skip
        """Rows with their ``place``, fold · actions + action; ``shape`` is (folds, actions)."""
        self.alpha, self.shared = alpha, shared
        # A power of two for each column: squares cannot overflow, and nothing is rounded.
        self.unit = np.exp2(np.frexp(np.abs(X).max(axis=0))[1] - 1.0)
        X = X / self.unit
        order = np.argsort(place, kind="stable")
        rows = np.ascontiguousarray(X[order].T), y[order], place[order]
        self.plain = _summed(*rows, None, shape, shared)
        self.weighted = self.plain
        if weight is not None:
            self.weighted = _summed(*rows, weight[order], shape, shared)

    def without(self, *folds: int) -> Linear:
        """The fits on the rows outside these folds."""
        left_out = np.array(sorted(set(folds)))
        plain = self.plain.without(left_out)
        sums = plain if self.weighted is self.plain else self.weighted.without(left_out)
        slopes, levels = (self._shared if self.shared else self._per_action)(plain, sums)
        slopes = slopes / self.unit
        if not (np.isfinite(slopes).all() and np.isfinite(levels).all()):
            raise PredictionError(
                "The ridge regression on the contexts has no finite solution: some are not finite, "
                "or too large."
            )
        return Linear(slopes, levels)

    def _per_action(self, plain: _Groups, sums: _Groups) -> tuple[Floats, Floats]:
        count, weight = plain.weight, sums.weight
        some = np.flatnonzero(count >= LEAST_ROWS)
        d = plain.mean.shape[1]
        squares = np.diagonal(plain.gram, axis1=1, axis2=2)
        scale = self._scale(squares[some], plain.mean[some], count[some][:, None])
        ridge = self.alpha * weight[some] / count[some]
        slopes, levels = np.zeros((len(count) + 1, d)), np.empty(len(count) + 1)
        slopes[some] = _solved(sums.gram[some], sums.cross[some], scale, ridge)
        overall = float((weight * sums.reward).sum() / weight.sum())
        seen = weight * (count.sum() / weight.sum())
        levels[:-1] = (PRIOR_ROWS * overall + seen * sums.reward) / (PRIOR_ROWS + seen)
        levels[-1] = overall
        levels[some] = sums.reward[some] - (slopes[some] * sums.mean[some]).sum(axis=1)
        return slopes, levels

    def _shared(self, plain: _Groups, sums: _Groups) -> tuple[Floats, Floats]:
        """One fit on the context and a column per action, whose coefficients are eliminated: what
        is left of an action is its mean, counting as ``kept``."""
        count, weight = plain.weight, sums.weight
        n, total = count.sum(), weight.sum()
        mean = (count[:, None] * plain.mean).sum(axis=0) / n
        squares = np.diagonal(plain.gram[0]) + (count[:, None] * (plain.mean - mean) ** 2).sum(
            axis=0
        )
        scale = self._scale(squares[None], mean[None], n)
        ridge = self.alpha * total / n
        share = count / n
        spread = np.where((count > 0) & (count < n), share * (1.0 - share), 1.0)
        kept = weight * (ridge * spread / (weight + ridge * spread))
        middle = (kept[:, None] * sums.mean).sum(axis=0) / kept.sum()
        level = float((kept * sums.reward).sum() / kept.sum())
        apart, up = sums.mean - middle, sums.reward - level
        gram = sums.gram + np.einsum("ki,kj->ij", kept[:, None] * apart, apart, optimize=False)
        cross = sums.cross.sum(axis=0) + (kept[:, None] * apart * up[:, None]).sum(axis=0)
        slopes = _solved(gram, cross[None], scale, np.array([ridge]))[0]
        base = level - float(slopes @ middle)
        of_action = weight * (sums.reward - base - sums.mean @ slopes)
        of_action /= weight + ridge * spread
        return slopes, base + np.append(of_action, 0.0)

    @staticmethod
    def _scale(squares: Floats, mean: Floats, count: Any) -> Floats:
        """The standard deviation of every column, by scikit-learn's rule infinite here (1 there)
        where it is constant but for rounding."""
        variance = squares / count
        constant = variance <= count * _EPS * variance + (count * mean * _EPS) ** 2
        return np.where(constant, np.inf, np.sqrt(variance))


def _solved(gram: Floats, cross: Floats, scale: Floats, ridge: Floats) -> Floats:
    """Slopes of one ridge regression for each first index."""
    scaled = gram / scale[:, :, None] / scale[:, None, :]
    d = gram.shape[-1]
    scaled[:, np.arange(d), np.arange(d)] += ridge[:, None]
    return np.asarray(np.linalg.solve(scaled, (cross / scale)[..., None])[..., 0] / scale)


def _summed(
    X: Floats, y: Floats, place: Ints, weight: Floats | None, shape: tuple[int, int], shared: bool
) -> _Groups:
    """Of columns (d, rows) in the order of places."""
    d, groups = len(X), shape[0] * shape[1]
    counts = np.bincount(place, minlength=groups)
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]

    def by_group(values: Floats) -> Floats:
        made = np.zeros((*values.shape[:-1], groups))
        made[..., filled] = np.add.reduceat(values, starts, axis=-1)
        return made

    total = counts.astype(np.float64) if weight is None else by_group(weight)
    one = np.where(total > 0.0, total, 1.0)
    mean = by_group(X if weight is None else weight * X) / one
    reward = by_group(y if weight is None else weight * y) / one
    X, y = X - mean[:, place], y - reward[place]
    weighted = X if weight is None else weight * X
    cross = by_group(weighted * y)
    if shared:
        ends = np.append(0, np.cumsum(counts.reshape(shape).sum(axis=1)))
        gram = np.stack([
            X[:, a:b] @ weighted[:, a:b].T for a, b in itertools.pairwise(ends)
        ])[:, None]  # fmt: skip
    else:
        gram = np.empty((d, d, groups))
        for j in range(d):
            gram[j, j:] = gram[j:, j] = by_group(weighted[j:] * X[j])
        gram = np.moveaxis(gram, -1, 0).reshape(*shape, d, d)
    return _Groups(
        total.reshape(shape),
        mean.T.reshape(*shape, d),
        reward.reshape(shape),
        cross.T.reshape(*shape, d),
        gram,
    )
