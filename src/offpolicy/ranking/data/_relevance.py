r"""Models of relevance: δ̂ of every document, from judgements or from clicks.

As in the paper, gradient-boosted trees calibrated by a sigmoid. From clicks, relevance is hidden:
a document that was not clicked may be relevant, only not examined, with probability
:math:`(1-p)\delta/(1-p\delta)`. So trees are fitted to these expectations, and the expectations
are taken again (expectation-maximisation), a few times over; clicks are corrected for position
without ever being divided by a small propensity. On the way a few trees are added at a time, so
that they do not learn the first expectations by heart.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.parameters import Parameters, need_fitted
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, MissingColumnError, ParameterError
from offpolicy.logs.labels import encode
from offpolicy.ranking.data._log import RankingLog, as_features, need_rankings

_MANY = 200_000
_CLASSES = 255
_LEAVES, _TREES = 8, 10
"""Of a tree, and trees that a step of expectation-maximisation adds."""


@final
@dataclass(eq=False)
class RelevanceModel(Parameters):
    """Predicts the probability of relevance from features.

    Parameters
    ----------
    classifier : scikit-learn classifier, optional
        By default `HistGradientBoostingClassifier` with trees of 8 leaves: judged documents are
        few, and larger trees learn them by heart.
    folds : int
        For the calibration, and for cross-fitting on clicks; queries are never divided.
    steps : int
        Of expectation-maximisation, for clicks.
    seed : int
    """

    classifier: Any = None
    _: KW_ONLY
    folds: int = 3
    steps: int = 16
    seed: int = 0

    def fit(self, X: ArrayLike, relevance: ArrayLike, query: ArrayLike | None = None) -> Self:
        """On judged documents: relevance 0 or 1, and which query each is of."""
        features = as_features(X)
        y = check.as_vector(relevance, "relevance")
        check.check_length(y, len(features), "relevance", "documents")
        if not ((y == 0.0) | (y == 1.0)).all():
            raise ParameterError(
                "relevance must be 0 or 1. Turn grades into these first, say relevance >= 1.",
                column="relevance",
            )
        groups = np.arange(len(y)) if query is None else encode(np.asarray(query), "query", "")[1]
        check.check_length(groups, len(y), "query", "documents")
        self.model_ = self._calibrated(features, y.astype(np.int64), groups)
        return self

    def fit_clicks(self, log: RankingLog) -> Self:
        """On the clicks of a log, which must have features and propensities."""
        X, p = _needed(log)
        self.model_ = self._from_clicks(X, p, log.click, log.cluster[log.impression])
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """The probability of relevance of every document."""
        need_fitted(self, "model_", "fit, or fit_clicks,")
        return _probability(self.model_, as_features(X))

    def cross_fit(self, log: RankingLog) -> RankingLog:
        """The log with predictions learnt from its own clicks, of each query from the others'."""
        X, p = _needed(log)
        fold = log.fold(checked_folds(self.folds))[log.impression]
        query = log.cluster[log.impression]
        prediction = np.empty(log.documents)
        for k in np.unique(fold):
            held, rest = fold == k, fold != k
            if not rest.any():
                sentence = "Cross-fitting needs at least two queries, in different folds."
                raise LogError(sentence, column="query")
            model = self._from_clicks(X[rest], p[rest], log.click[rest], query[rest])
            prediction[held] = _probability(model, X[held])
        return log.replace(prediction=prediction)

    # -- parts -----------------------------------------------------------------------------

    def _base(self) -> Any:
        from sklearn.base import clone
        from sklearn.ensemble import HistGradientBoostingClassifier

        if self.classifier is None:
            return HistGradientBoostingClassifier(max_leaf_nodes=_LEAVES, random_state=self.seed)
        return clone(self.classifier)

    def _step(self, model: Any, X: NDArray[Any], y: Ints, weight: Floats) -> Any:
        """The model with some more trees, or another one of these weights."""
        if self.classifier is None:
            if model is None:
                model = self._base().set_params(warm_start=True, early_stopping=False, max_iter=0)
            model.set_params(max_iter=model.max_iter + _TREES)
        else:
            model = self._base()
        with _threads(len(X)):
            return model.fit(X, y, sample_weight=weight)

    def _calibrated(
        self, X: NDArray[Any], y: Ints, groups: Ints, weight: Floats | None = None
    ) -> Any:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.model_selection import StratifiedGroupKFold

        if len(np.unique(y)) < 2:
            raise LogError(
                f"All {len(y):,} documents are of relevance {y[0]}: there is nothing to tell "
                f"apart.",
                column="relevance",
            )
        folds = min(checked_folds(self.folds), len(np.unique(groups)))
        if folds < 2:
            sentence = "Calibration needs the documents of at least two queries."
            raise LogError(sentence, column="query")
        split = StratifiedGroupKFold(folds, shuffle=True, random_state=self.seed)
        places = [
            (train, test)
            for train, test in split.split(X, y, groups)
            if len(np.unique(y[train])) == 2 and len(np.unique(y[test])) == 2
        ]
        if not places:
            raise LogError(
                "There are too few relevant documents, in too few queries, to calibrate a model."
            )
        model = CalibratedClassifierCV(self._base(), method="sigmoid", cv=places)
        with _threads(len(X)):
            return model.fit(X, y, sample_weight=weight)

    def _from_clicks(self, X: NDArray[Any], p: Floats, click: Floats, query: Ints) -> Any:
        shown = p > 0.0
        X, p, click, query = X[shown], p[shown], click[shown], query[shown]
        if not click.any():
            raise LogError("There is not one click to learn from.", column="click")
        delta = np.full(len(p), min(float(click.sum() / p.sum()), 0.5))
        edges: list[Floats] | None = None
        if self.classifier is None:
            # Boosted trees make classes of features themselves, as many documents in each, but of
            # weighted documents so slowly that it takes most of their time.
            shares = np.linspace(0.0, 1.0, _CLASSES + 1)[1:-1]
            edges = [np.unique(np.quantile(column, shares)) for column in X.T]
            X = _classes(X, edges)
        both = np.concatenate([X, X])
        y = np.repeat([1, 0], len(p))
        groups = np.concatenate([query, query])
        model = None
        last = max(self.steps, 1) - 1
        for step in range(last + 1):
            chance = np.where(
                click > 0.0, 1.0, (1.0 - p) * delta / np.maximum(1.0 - p * delta, 1e-9)
            )
            weight = np.concatenate([chance, 1.0 - chance])
            if step < last:
                model = self._step(model, both, y, weight)
                delta = _probability(model, X)
        used = weight > 1e-6
        model = self._calibrated(both[used], y[used], groups[used], weight[used])
        return model if edges is None else _OfClasses(edges, model)


@dataclass(frozen=True, eq=False)
class _OfClasses:
    """A model that sees of each feature only in which of its classes it lies."""

    edges: list[Floats]
    model: Any

    def predict_proba(self, X: NDArray[Any]) -> Any:
        return self.model.predict_proba(_classes(X, self.edges))


def _classes(X: NDArray[Any], edges: list[Floats]) -> NDArray[Any]:
    classes = np.empty(X.shape, dtype=np.float32)
    for j, bounds in enumerate(edges):
        classes[:, j] = np.searchsorted(bounds, X[:, j], side="right")
    return classes


def _probability(model: Any, X: NDArray[Any]) -> Floats:
    with _threads(len(X)):
        chance = model.predict_proba(X)[:, 1]
    return np.clip(np.asarray(chance, dtype=np.float64), 0.0, 1.0)


def _threads(rows: int) -> Any:
    """One thread for a relevance model of few documents: several would wait for each other."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1 if rows < _MANY else None)


def checked_folds(folds: int) -> int:
    """The folds of queries, for relevance models and rankers, if they are enough."""
    if folds < 2:
        raise ParameterError(f"folds is {folds}; there must be at least 2.", column="folds")
    return folds


def _needed(log: RankingLog) -> tuple[NDArray[Any], Floats]:
    need_rankings(log)
    if log.X is None or log.propensity is None:
        missing = "X" if log.X is None else "propensity"
        sentence = f"To learn relevance from clicks the log needs {missing}."
        raise MissingColumnError(sentence, column=missing)
    return log.X, log.propensity
