"""Bias, variance and mean squared error of estimators over their parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.estimators import Estimator, parse


@dataclass(frozen=True, eq=False)
class Grid:
    """The values of M; and as many of τ, so that SB can be drawn on the same axis, as in the
    paper."""

    M: Floats

    @classmethod
    def up_to(cls, largest: float, values: int) -> Grid:
        """From 0.1 on, evenly on a logarithmic axis, with 0 and ∞ at the ends."""
        return cls(np.concatenate([[0.0], np.geomspace(0.1, largest, values), [np.inf]]))

    @property
    def tau(self) -> Floats:
        return np.linspace(0.0, 1.0, len(self.M))

    def of(self, estimator: str) -> Floats:
        """The values of the estimator's parameter; one NaN if it has none."""
        name = parse(estimator).parameter_name
        return self.M if name == "M" else self.tau if name == "tau" else np.array([np.nan])

    def members(self, estimator: str) -> list[Estimator]:
        """The estimator at each value of its parameter."""
        return members_at(estimator, self.M.tolist(), self.tau.tolist())


def members_at(estimator: str, Ms: Sequence[float], taus: Sequence[float]) -> list[Estimator]:
    """The estimator at the values of its parameter that an experiment tries."""
    bare = parse(estimator)
    if bare.parameter_name is None:
        return [bare]
    return [bare.at(value) for value in (Ms if bare.parameter_name == "M" else taus)]


@dataclass(frozen=True)
class Accuracy:
    """Bias and variance by estimator, at each value of its parameter (or the one there is)."""

    bias: dict[str, Floats]
    variance: dict[str, Floats]
    M: Floats

    def mse(self, estimator: str) -> Floats:
        return self.bias[estimator] ** 2 + self.variance[estimator]

    def best(self, estimator: str) -> float:
        """The least mean squared error over the parameter: what hindsight would choose."""
        return float(self.mse(estimator).min())

    def at(self, n: int) -> Accuracy:
        """Of logs of n decisions, if this is of logs of one."""
        return replace(self, variance={name: v / n for name, v in self.variance.items()})

    def above(self, M: float) -> Accuracy:
        """With values of M from this one on only."""
        kept = self.M >= M

        def cut(curves: dict[str, Floats]) -> dict[str, Floats]:
            return {k: v[kept] if parse(k).parameter_name == "M" else v for k, v in curves.items()}

        return Accuracy(cut(self.bias), cut(self.variance), self.M[kept])
