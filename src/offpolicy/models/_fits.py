"""Fits without a fold: which rows a model may learn from, their weights, and the fitted models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import validation as check
from offpolicy._core.ragged import candidates_of, decision_of_candidate, offsets_of
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, MissingColumnError, ParameterError, PredictionError
from offpolicy.estimators import weights
from offpolicy.logs import BanditLog
from offpolicy.models._contexts import ByName, Given
from offpolicy.models._inputs import Inputs, by_action, known_of, parts
from offpolicy.models._probabilities import normalised
from offpolicy.policies import resolve

LEAST_ROWS = 10
"""No model and no calibration is fitted to fewer rows than this."""

PRIOR_ROWS = 10.0
"""An action's mean is taken as if this many rows more had been seen, at the overall mean."""

CLIP_QUANTILE = 0.99
"""The weights of ``weighting=`` are clipped at this quantile of those above 0."""

MANY_ACTIONS = 50
"""From here on the columns that say which action it is are kept sparse, if the model allows."""

Weighting = Literal["none", "ips", "mrdr"]


# -- the rows ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Which rows a model may learn from."""

    log: BanditLog
    fold: Ints
    folds: int
    weight_of_each: Floats | None

    def rows(self, *without: int) -> Ints:
        """All rows outside these folds whose weight is above 0; an error if they are too few."""
        usable = ~np.isin(self.fold, without)
        if self.weight_of_each is not None:
            usable &= self.weight_of_each > 0.0
        rows = np.flatnonzero(usable)
        if len(rows) < LEAST_ROWS:
            out = " and ".join(map(str, without))
            weighty = "" if self.weight_of_each is None else " with weight above 0"
            kept = "" if self.log.cluster is None else " (a cluster is never split)"
            raise LogError(
                f"There are {len(rows)} decisions{weighty} to learn from outside "
                f"fold{'s' * (len(without) > 1)} {out} of {self.folds}{kept}; at least "
                f"{LEAST_ROWS} are needed. Use fewer folds, or a longer log."
            )
        return rows

    def weight(self, rows: Ints) -> Floats | None:
        """The rows' weights, of mean 1; None if all are equal by construction."""
        if self.weight_of_each is None:
            return None
        weight = self.weight_of_each[rows]
        return np.asarray(weight / weight.mean())

    def out_of_fold(
        self,
        learn: Callable[[tuple[int, ...]], Any],
        score: Callable[[Any, Ints], Floats],
        offsets: Ints | None = None,
    ) -> Floats:
        """For each fold f, scores of all rows outside f by models that saw neither f nor theirs.

        One model per pair of folds serves both. With ``offsets``, scores are per candidate.
        """
        bounds = np.arange(len(self.log) + 1) if offsets is None else offsets
        scores = np.full((self.folds, int(bounds[-1])), np.nan)
        members = [np.flatnonzero(self.fold == f) for f in range(self.folds)]
        for f in range(self.folds):
            for g in range(f):
                if not len(members[f]) + len(members[g]):
                    continue
                model = learn((g, f))
                for fold, rows in ((f, members[g]), (g, members[f])):
                    if len(rows):
                        scores[fold, candidates_of(bounds, rows)] = score(model, rows)
        return scores


def fit_weights(log: BanditLog, weighting: Weighting, policy: Any) -> Floats | None:
    """What each row weighs in the fit of a reward model; None if all weigh alike."""
    if weighting == "none":
        return log.row_weight
    if policy is None:
        raise ParameterError(f'weighting="{weighting}" needs the policy: fit(log, policy).')
    if log.propensity is None:
        raise MissingColumnError(
            f'weighting="{weighting}" needs the propensity of the chosen action. Without it, use '
            f'weighting="none", or estimate it first: PropensityModel(…).fit(log).apply(log).'
        )
    target = resolve(log, policy)
    target.check(log)
    pi = target.chosen if target.flat is None else target.flat[log.chosen_index]
    assert pi is not None
    weight = weights.ratio(pi, log.propensity)
    if weighting == "mrdr":
        # Larger ones are clipped below in any case, and must not overflow here.
        weight = np.minimum(weight, 1e150) ** 2 * np.maximum(1.0 - log.propensity, 0.0)
    if (weight > 0.0).any():
        cap = np.quantile(weight[weight > 0.0], CLIP_QUANTILE, method="higher")
        weight = np.minimum(weight, cap) / cap
    return weight * log.weights


# -- fitted models -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What one model is fitted to: candidates, labels, rewards, weights."""

    candidate: Ints
    label: NDArray[Any]
    reward: Floats
    weight: Floats | None

    def only(self, rows: Ints) -> Examples:
        weight = None if self.weight is None else self.weight[rows]
        return Examples(self.candidate[rows], self.label[rows], self.reward[rows], weight)

    @property
    def weights(self) -> Floats:
        return np.ones(len(self.candidate)) if self.weight is None else self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How to make a fitted model: the user's, its seed, for a classifier what classes mean, and
    the form of contexts."""

    model: Any
    seed: int
    values: Floats | None
    given: Given | None = None

    def reward_model(
        self, X: NDArray[Any], y: NDArray[Any], weight: Floats | None, key: tuple[int, ...]
    ) -> _Fitted:
        model = self.fitted(X, y, weight, key)
        return _Fitted(model, None if self.values is None else self.values[np.unique(y)])

    def fitted(
        self, X: NDArray[Any], y: NDArray[Any], weight: Floats | None, key: tuple[int, ...]
    ) -> Any:
        """A clone of the model, fitted; its random states depend on ``seed`` and ``key`` alone."""
        from sklearn.base import clone

        model = clone(self.model)
        unset = sorted(
            name
            for name, value in model.get_params().items()
            if value is None and name.split("__")[-1] == "random_state"
        )
        states = np.random.SeedSequence([self.seed, *key]).generate_state(len(unset) + 1)
        model.set_params(**dict(zip(unset, map(int, states), strict=False)))
        extra = {} if weight is None else {_weight_argument(model): weight / weight.mean()}
        named = self.given is not None and self.given.form == "named"
        try:
            if named:
                assert self.given is not None
                return ByName(model.fit(self.given.frame(X), y, **extra), self.given)
            return model.fit(X, y, **extra)
        except (TypeError, ValueError) as problem:
            if X.dtype.kind in "biuf":
                raise
            reason = str(problem).strip().splitlines()[0].rstrip(".")
            raise LogError(
                f"The context is of dtype {X.dtype}, and {type(model).__name__} could not be "
                f"fitted to it: {reason}. Make it numbers, or give a pipeline that does."
            ) from problem


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """A fitted regressor or classifier of rewards."""

    model: Any
    values: Floats | None
    """For a classifier, the reward that each of its classes stands for."""

    def predict(self, X: NDArray[Any]) -> Floats:
        if self.values is not None:
            return np.asarray(_class_probabilities(self.model, X, len(self.values)) @ self.values)
        name = type(self.model).__name__
        predicted = check.as_floats(self.model.predict(X), name, PredictionError)
        if predicted.size != X.shape[0]:
            raise PredictionError(
                f"{name} predicted an array of shape {predicted.shape} for {X.shape[0]:,} rows; "
                f"there must be one number for each."
            )
        if not np.isfinite(predicted).all():
            raise PredictionError(
                f"{name} predicted {predicted[~np.isfinite(predicted)][0]} for a reward; "
                f"predictions must be finite."
            )
        return predicted.reshape(-1)


def _class_probabilities(model: Any, X: NDArray[Any], classes: int) -> Floats:
    name = f"{type(model).__name__}.predict_proba"
    table = check.as_floats(model.predict_proba(X), name, PredictionError)
    if table.shape != (X.shape[0], classes) or not ((table >= 0.0) & (table < np.inf)).all():
        raise PredictionError(
            f"{name} must give each of the {classes} classes a probability, an array of shape "
            f"({X.shape[0]:,}, {classes}); it gave shape {table.shape}, least value {table.min()}.",
            column=name,
        )
    return table


@dataclass(frozen=True, slots=True, eq=False)
class OneForAll:
    """One fold's model in mode "shared"; ``constant`` if all its rewards were of one class."""

    fitted: _Fitted | None
    constant: float
    sparse: bool = False
    additive: bool = False

    @classmethod
    def learned(
        cls, recipe: Recipe, inputs: Inputs, rows: Examples, key: tuple[int, int]
    ) -> OneForAll:
        if recipe.values is not None and (rows.label == rows.label[0]).all():
            return cls(None, float(rows.reward[0]))
        X = inputs.shared(rows.candidate)
        fitted = recipe.reward_model(X, rows.label, rows.weight, (*key, 0))
        numeric = inputs.context is not None and inputs.context.dtype.kind in "biuf"
        if inputs.features is None and numeric and _is_linear(fitted):
            return cls(fitted, 0.0, additive=True)
        return cls(fitted, 0.0, _takes_sparse(fitted, inputs, rows.candidate[:20]))

    def predict(self, inputs: Inputs, candidates: Ints) -> Floats:
        if self.additive and len(candidates):
            return self._added_up(inputs, candidates)
        out = np.full(len(candidates), self.constant)
        if self.fitted is not None:
            width = inputs.width - inputs.actions + 1 if self.sparse else inputs.width
            seen = inputs.sparse if self.sparse else inputs.shared
            for part in parts(len(candidates), width):
                out[part] = self.fitted.predict(seen(candidates[part]))
        return out

    def _added_up(self, inputs: Inputs, candidates: Ints) -> Floats:
        """What a linear model says of contexts without an action, plus what each action adds."""
        assert self.fitted is not None
        assert inputs.context is not None
        K, d = inputs.actions, inputs.context.shape[1]
        decision = inputs.decision[candidates]
        asked = np.zeros(len(inputs.context), dtype=np.bool_)
        asked[decision] = True
        rows, place = np.flatnonzero(asked), (np.cumsum(asked) - 1)[decision]
        of_context = np.empty(len(rows))
        for part in parts(len(rows), d + K):
            X = np.zeros((part.stop - part.start, d + K))
            X[:, :d] = inputs.context[rows[part]]
            of_context[part] = self.fitted.predict(X)
        X = np.zeros((K + 1, d + K))
        X[:, :d] = inputs.context[rows[0]]
        X[:K, d:] = np.eye(K)
        of_action = self.fitted.predict(X)
        of_action -= of_action[K]  # last, and found by −1: an action that the model has not seen
        return np.asarray(of_context[place] + of_action[inputs.code[candidates]])


def _is_linear(fitted: _Fitted) -> bool:
    """Whether a fitted model is one of scikit-learn's linear regressions, of numbers as they are
    or scaled: what it says of contexts and of actions then adds up."""
    from sklearn import linear_model
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    *before, last = (
        [step for _, step in fitted.model.steps]
        if type(fitted.model) is Pipeline
        else [fitted.model]
    )
    linear = (linear_model.Ridge, linear_model.LinearRegression, linear_model.Lasso,
              linear_model.ElasticNet, linear_model.RidgeCV)  # fmt: skip
    return type(last) in linear and all(type(step) is StandardScaler for step in before)


def _takes_sparse(fitted: _Fitted, inputs: Inputs, candidates: Ints) -> bool:
    """Whether a fitted reward model says the same of a sparse matrix.

    Then asking about every candidate is linear in their number, instead of quadratic.
    """
    context = inputs.context
    if inputs.features is not None or inputs.actions < MANY_ACTIONS or context is None:
        return False
    if context.dtype.kind not in "biuf":
        return False
    dense = fitted.predict(inputs.shared(candidates))
    try:
        apart = np.abs(fitted.predict(inputs.sparse(candidates)) - dense).max()
    except Exception:  # whatever a model may say to what it cannot take
        return False
    return bool(apart <= 1e-9 * np.abs(dense).max())


@dataclass(frozen=True, slots=True, eq=False)
class PerAction:
    """One fold's models in mode "per-action", and the means that stand in for missing ones."""

    fitted: dict[int, _Fitted]
    means: Floats
    """Of every action, shrunken; last, for actions never seen, of all."""

    @classmethod
    def learned(
        cls, recipe: Recipe, inputs: Inputs, rows: Examples, key: tuple[int, int]
    ) -> PerAction:
        assert inputs.context is not None
        overall = float(np.average(rows.reward, weights=rows.weights))
        means = np.full(inputs.actions + 1, overall)
        fitted = {}
        for action, which in by_action(inputs.code[rows.candidate], inputs.actions):
            mine = rows.only(which)
            total = PRIOR_ROWS + mine.weights.sum()
            means[action] = (PRIOR_ROWS * overall + (mine.weights * mine.reward).sum()) / total
            one_class = recipe.values is not None and (mine.label == mine.label[0]).all()
            if len(which) >= LEAST_ROWS and not one_class:
                X = inputs.context[inputs.decision[mine.candidate]]
                fitted[action] = recipe.reward_model(X, mine.label, mine.weight, (*key, action))
        return cls(fitted, means)

    def predict(self, inputs: Inputs, candidates: Ints) -> Floats:
        assert inputs.context is not None
        code = inputs.code[candidates]
        out = self.means[code]
        for action, mine in by_action(code, inputs.actions):
            if action in self.fitted:
                for part in parts(len(mine), inputs.context.shape[1]):
                    X = inputs.context[inputs.decision[candidates[mine[part]]]]
                    out[mine[part]] = self.fitted[action].predict(X)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Chooser:
    """One fold's classifier of the chosen action; no model if only one action was chosen."""

    model: Any
    classes: Ints

    @classmethod
    def learned(
        cls,
        recipe: Recipe,
        X: NDArray[Any],
        y: Ints,
        weight: Floats | None,
        key: tuple[int, int, int],
    ) -> Chooser:
        classes = np.unique(y)
        if len(classes) == 1:
            return cls(None, classes)
        return cls(recipe.fitted(X, y, weight, key), classes)

    def probabilities(self, inputs: Inputs, rows: Ints, was_chosen: NDArray[np.bool_]) -> Floats:
        """Of the candidates of the given rows, flat, each decision's summing to 1."""
        offsets = offsets_of(np.diff(inputs.offsets)[rows])
        code = inputs.code[candidates_of(inputs.offsets, rows)]
        column = np.full(inputs.actions + 1, -1)
        column[self.classes] = np.arange(len(self.classes))
        out = np.empty(len(code))
        for part in parts(len(rows), len(self.classes)):
            flat = slice(offsets[part.start], offsets[part.stop])
            table = self._table(inputs, rows[part])
            row = decision_of_candidate(offsets[part.start : part.stop + 1])
            out[flat] = table[row, column[code[flat]]] * (column[code[flat]] >= 0)
        return normalised(out, offsets, known_of(code, was_chosen))

    def _table(self, inputs: Inputs, rows: Ints) -> Floats:
        assert inputs.context is not None
        if self.model is None:
            return np.ones((len(rows), 1))
        return _class_probabilities(self.model, inputs.context[rows], len(self.classes))


# -- what the user's estimator can do ------------------------------------------------------------


def need_estimator(model: Any) -> None:
    """Raise unless this scikit-learn model is an instance that can be fitted, cloned and asked."""
    name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, type):
        raise ParameterError(f"{name} is a class; give an instance: {name}(…).", column=name)
    missing = [method for method in ("fit", "predict", "get_params") if not hasattr(model, method)]
    if missing:
        raise ParameterError(
            f"model is a {name}, which has no {missing[0]}; it must be a scikit-learn regressor "
            f"or classifier."
        )


def need_probabilities(model: Any) -> None:
    """Raise unless a model to be fitted gives probabilities."""
    if not hasattr(model, "predict_proba"):
        raise ParameterError(
            f"{type(model).__name__} has no predict_proba. Use a classifier that gives "
            f"probabilities, or wrap it in scikit-learn's CalibratedClassifierCV."
        )


def is_a_classifier(model: Any) -> bool:
    """Whether a model to be fitted is a classifier: as it says, or if it gives probabilities."""
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(model))
    except (AttributeError, TypeError):  # an estimator that does not say what it is
        return hasattr(model, "predict_proba")


def _weight_argument(model: Any) -> str:
    """What a scikit-learn model's fit calls row weights; a pipeline's last step takes them."""
    from sklearn.utils.validation import has_fit_parameter

    if has_fit_parameter(model, "sample_weight"):
        return "sample_weight"
    if getattr(model, "steps", None):
        name, last = model.steps[-1]
        return f"{name}__{_weight_argument(last)}"
    raise ParameterError(
        f"{type(model).__name__} cannot weigh its rows (its fit takes no sample_weight), which "
        f"row weights and weighting= need. Use another model."
    )
