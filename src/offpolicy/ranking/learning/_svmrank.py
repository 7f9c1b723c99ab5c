r"""`PropensitySVMRank`: a linear ranker from clicks, or from any weights on documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core.parameters import Parameters, need_fitted
from offpolicy._core.saved import read_both, write_both
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import need
from offpolicy.errors import LogError, ParameterError
from offpolicy.estimators import Estimator
from offpolicy.ranking.data._log import need_rankings
from offpolicy.ranking.data._ranks import ranks
from offpolicy.ranking.data._weights import document_weights
from offpolicy.ranking.learning._problem import Problem, bounded_features, matching_offsets, prepare
from offpolicy.ranking.learning._solver import solve
from offpolicy.results import finding

SCHEMA = "offpolicy.ranker/1"
WHAT = "ranker"
_FITTED = ("C_", "objective_", "gap_", "passes_", "n_iter_")


@final
@dataclass(eq=False)
class PropensitySVMRank(Parameters):
    r"""Learns scores :math:`w\cdot\phi(x, d)` that minimise an estimator's bound on the rank.

    .. math:: \tfrac12\|w\|^2 + \tfrac Cn \sum_i\sum_j
              \big[w^\alpha_{ij}\hat\delta_{ij} + w^\beta_{ij}\,\mathrm{click}_{ij}/p_{ij}\big]
              \sum_{k\ne j}\max(0,\, 1 - w\cdot\phi_{ij} + w\cdot\phi_{ik})

    Su et al. (2019), generalized Propensity SVM-Rank. With IPS it is Propensity SVM-Rank, and
    with judgements of relevance as weights plain SVM-Rank.

    Parameters
    ----------
    C : float, optional
        As in the formula. Without it, ``loss`` over the mean weight of an impression's pairs,
        1/n Σ c_ij (m_i − 1), so that w does not grow with the length of lists or the size of the
        weights; ``C_`` says what it was.
    loss : float
        Without C, what the second term is at w = 0.
    estimator : str or Estimator
        Which weights `fit` gives to the documents of a log.
    scale : bool
        Whether ‖w‖ is of the weights on features divided by their deviations within impressions.
        ``coef_`` always belongs to features as they are; with False so does ‖w‖, as in the paper.
    tol : float
        Relative gap, certified, at which the search ends: no w has an objective that is smaller
        than (1 − tol)·``objective_``.
    max_iter : int
        Most steps of Newton's. If they were not enough, there is a warning, and ``gap_`` says
        how much is missing.
    warm_start : bool
        Whether to start from the last fit's weights.

    Attributes
    ----------
    coef_ : (d,) weights of the features
    C_, objective_, gap_, passes_, n_iter_
        What was minimised, how closely, and with how much work: one pass is one evaluation of
        objective and gradient.

    Examples
    --------
    Two queries; the first feature tells what is relevant:

    >>> X = [[3, 0], [1, 1], [0, 0], [2, 1], [1, 0]]
    >>> ranker = PropensitySVMRank().fit_weights(X, offsets=[0, 3, 5], weights=[1, 0, 0, 1, 0])
    >>> ranker.rank(X, [0, 3, 5]).tolist()
    [1, 2, 3, 1, 2]
    >>> ranker.gap_ <= 1e-3
    True
    """

    C: float | None = None
    _: KW_ONLY
    estimator: str | Estimator = "CAB(M=10)"
    scale: bool = True
    tol: float = 1e-3
    max_iter: int = 500
    warm_start: bool = False
    loss: float = 100.0

    def fit(self, log: Any) -> Self:
        """Learn from a `RankingLog` with features, weighing documents by ``estimator``."""
        self.check()
        return self.fit_weights(*self.arrays(log))

    def fit_weights(self, X: ArrayLike, offsets: ArrayLike, weights: ArrayLike) -> Self:
        """Learn from features (N, d) and a weight of 0 or more on each document (N,).

        The documents of impression i are the rows offsets[i] : offsets[i + 1]. Impressions with
        the same documents, in the same order, cost no more than one.
        """
        self.check()
        return self._fit(prepare(X, offsets, weights, scale=self.scale))

    def path(self, log: Any, Cs: Iterable[float]) -> list[PropensitySVMRank]:
        """A fitted learner for every C, as `path_weights`, from a `RankingLog`."""
        return self.path_weights(*self.arrays(log), Cs)

    def path_weights(
        self, X: ArrayLike, offsets: ArrayLike, weights: ArrayLike, Cs: Iterable[float]
    ) -> list[PropensitySVMRank]:
        """A fitted learner for every C, each search starting where that of the next smaller C
        ended."""
        learners = [self.copy(C=C) for C in Cs]
        if any(learner.C is None for learner in learners):
            raise ParameterError("Cs must hold numbers above 0.", column="Cs")
        fit_in_turn(learners, X, offsets, weights)
        return learners

    def decision_function(self, X: ArrayLike) -> Floats:
        """The score of every document: higher is better."""
        need_fitted(self, "coef_", "fit(log) or fit_weights")
        features = bounded_features(X)
        if features.shape[1] != self.n_features_in_:
            raise ParameterError(
                f"X has {features.shape[1]} features; the ranker learned from "
                f"{self.n_features_in_}.",
                column="X",
            )
        return np.asarray(features @ self.coef_, dtype=np.float64)

    def rank(self, X: ArrayLike, offsets: ArrayLike) -> Ints:
        """Every document's rank in its impression, 1 for the best; ties keep their order."""
        scores = self.decision_function(X)
        return ranks(scores, matching_offsets(offsets, scores))

    def save(self, path: str | Path) -> None:
        """Write the ranker to a JSON file, and its weights to a NumPy file beside it."""
        need_fitted(self, "coef_", "fit(log) or fit_weights")
        body = {
            "parameters": self.get_params() | {"estimator": str(self.estimator)},
            "fitted": {name: getattr(self, name) for name in _FITTED},
        }
        write_both(path, body, {"coef": self.coef_}, SCHEMA, WHAT)

    @classmethod
    def load(cls, path: str | Path) -> PropensitySVMRank:
        """The ranker that `save` wrote, to the last bit; a damaged file is a `PolicyError`."""
        return read_both(path, SCHEMA, WHAT, cls._built)

    @classmethod
    def _built(cls, body: dict[str, Any], arrays: dict[str, Floats]) -> PropensitySVMRank:
        learner = cls().set_params(**body["parameters"])
        learner.check()
        coef = arrays["coef"]
        if coef.ndim != 1 or not len(coef):
            raise ValueError(f"the weights have shape {coef.shape}")
        learner._set(coef, [body["fitted"][name] for name in _FITTED])
        return learner

    # -- parts -----------------------------------------------------------------------------------

    def _fit(self, problem: Problem, start: Floats | None = None) -> Self:
        C = self._C_for(problem)
        if start is None and self.warm_start and hasattr(self, "coef_"):
            if len(self.coef_) != len(problem.scale):
                raise ParameterError(
                    f"X has {len(problem.scale)} features, and the last fit, from which this one "
                    f"is to start, had {len(self.coef_)}.",
                    column="X",
                )
            start = self.coef_ * problem.scale
        best = solve(
            problem.objective(C), tolerance=self.tol, start=start, most_steps=self.max_iter
        )
        self._set(best.w / problem.scale, (C, best.objective, best.gap, best.passes, best.steps))
        if best.gap > self.tol:
            self._warn()
        return self

    def _C_for(self, problem: Problem) -> float:
        return self.loss / problem.pairs if self.C is None else float(self.C)

    def _warn(self) -> None:
        import warnings

        from sklearn.exceptions import ConvergenceWarning

        sentence = (
            f"After {self.max_iter} steps of Newton's, the objective may still be {self.gap_:.2g} "
            f"of itself above its least value."
        )
        (warning,) = finding("not-converged", "warning", sentence, gap=self.gap_)
        warnings.warn(str(warning), ConvergenceWarning, stacklevel=4)

    def _set(self, coef: Floats, fitted: Sequence[float]) -> None:
        self.coef_, self.n_features_in_ = coef, len(coef)
        self.C_, self.objective_, self.gap_, self.passes_ = map(float, fitted[:4])
        self.n_iter_ = int(fitted[4])

    def arrays(self, log: Any) -> tuple[Any, Any, Floats]:
        """What is learned from a log: features, offsets and weights."""
        need_rankings(log)
        if log.X is None:
            sentence = "The log has no features (X): there is nothing to score documents by."
            raise LogError(sentence, column="X")
        return log.X, log.offsets, document_weights(log, self.estimator)

    def check(self) -> None:
        """Raise unless the parameters make sense."""
        for name, fine, wanted in (
            ("C", self.C is None or 0.0 < self.C < np.inf, "a number above 0"),
            ("loss", 0.0 < self.loss < np.inf, "a number above 0"),
            ("tol", 1e-9 <= self.tol < 1.0, "from 1e-9 to below 1"),
            ("max_iter", self.max_iter >= 1, "1 or more"),
        ):
            need(fine, name, getattr(self, name), wanted)


def fit_in_turn(
    learners: Sequence[PropensitySVMRank], X: ArrayLike, offsets: ArrayLike, weights: ArrayLike
) -> None:
    """Fit ranking SVMs that differ in C only, each search starting where that of the next smaller C
    ended."""
    for learner in learners:
        learner.check()
    if not learners:
        return
    problem = prepare(X, offsets, weights, scale=learners[0].scale)
    start = None
    for learner in sorted(learners, key=lambda learner: learner._C_for(problem)):
        learner._fit(problem, start)
        start = learner.coef_ * problem.scale
