"""Reward models δ̂ and estimated logging policies π̂₀, from any scikit-learn estimator, cross-fitted.

Every decision has a fold (`BanditLog.fold`) and is predicted by a model that was fitted without
that fold, so nothing is ever predicted from its own reward or its own choice. Slices of a log keep
their folds; a log that was never fitted on has folds too, and uses the models in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from offpolicy._core import validation as check
from offpolicy._core.parameters import Parameters
from offpolicy._core.ragged import candidates_of, offsets_of
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import (
    ParameterError,
    PredictionError,
    PropensityError,
    did_you_mean,
)
from offpolicy.logs import SMALLEST_PROPENSITY, BanditLog, need_log
from offpolicy.logs.labels import GROUPS
from offpolicy.models._contexts import Given
from offpolicy.models._fits import (
    LEAST_ROWS,
    Chooser,
    Examples,
    OneForAll,
    PerAction,
    Recipe,
    Training,
    Weighting,
    fit_weights,
    is_a_classifier,
    need_estimator,
    need_probabilities,
)
from offpolicy.models._inputs import (
    Inputs,
    Mode,
    by_action,
    feature_width,
    known_of,
    need_width,
)
from offpolicy.models._predictions import remember_prediction, resolve_prediction
from offpolicy.models._probabilities import floored, mapped, monotone, normalised, sigmoid
from offpolicy.models._ridge import Linear, RidgeFolds, from_sums
from offpolicy.models._scaled_ridge import ScaledRidge

ENOUGH_ROWS = 50
"""Mode "auto" gives every action a model of its own if each was chosen at least this often."""

MOST_CLASSES = 20
"""A classifier takes rewards of at most this many different values."""

Calibration = Literal["sigmoid", "isotonic"]


@dataclass(eq=False)
class _CrossFitted(Parameters, ABC):
    """What the two models share: their parameters, as scikit-learn has them, and the folds."""

    model: Any = None
    _: KW_ONLY
    folds: int = 5
    seed: int = 0
    models_: Sequence[Any] = field(init=False, repr=False)
    maps_: Sequence[Any] = field(init=False, repr=False)
    given_: Given | None = field(init=False, repr=False)

    @abstractmethod
    def predict(self, log: BanditLog) -> Floats:
        """One number for every candidate of ``log``, flat."""

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_folds(self, nested: bool, why: str) -> None:
        least, reason = (3, f" with {why}") if nested else (2, "")
        fine = _is_whole(self.folds) and least <= self.folds <= GROUPS
        rule = f"a whole number from {least} to {GROUPS}{reason}"
        check.need(fine, "folds", self.folds, rule)
        fine = _is_whole(self.seed) and self.seed >= 0
        check.need(fine, "seed", self.seed, "a whole number, 0 or more")

    def _by_fold(self, log: BanditLog) -> Iterator[tuple[Any, Any, Ints, Ints]]:
        """Each fold's model and map, with the decisions and candidates that they answer for."""
        fold = log.fold(len(self.models_))
        for f, (model, map_) in enumerate(zip(self.models_, self.maps_, strict=True)):
            rows = np.flatnonzero(fold == f)
            if len(rows):
                yield model, map_, rows, log.candidates_of(rows)

    def _need_fitted(self) -> None:
        if not hasattr(self, "models_"):
            raise ParameterError(f"This {self._name} is not fitted yet: call fit(log) first.")


@final
@dataclass(eq=False)
class RewardModel(_CrossFitted):
    """A reward model δ̂, fitted on the log itself and cross-fitted.

    Parameters
    ----------
    model : scikit-learn regressor or classifier
        Cloned for every fit, never changed. A classifier takes the different rewards (at most
        20) as classes and predicts Σ class · probability. ``random_state``, where there is one
        and it is None, is set from ``seed``.
    folds : int
        A decision is predicted without its own fold's data.
    mode : "auto", "per-action", "shared" or "recalibrate"
        "per-action": one model per action, on the context. An action chosen fewer than 10 times
        outside the fold (or, for a classifier, with one reward only) gets its shrunken mean
        (Σ r + 10 m)/(rows + 10) instead, m being the mean of all rows.
        "shared": one model for all, on context and ``candidate_features``; without these, on
        context and one column per action (1 where the candidate is that action).
        "recalibrate": no model; a monotone map of the predictions given to `fit`.
        "auto": "shared" if the log has ``candidate_features`` or an action chosen fewer than 50
        times, else "per-action".
    weighting : "none", "ips" or "mrdr"
        Rows weigh 1, c = π/π₀, or π²(1 − π₀)/π₀² (π and π₀ of the chosen candidate), times their
        ``row_weight``. The latter two need ``policy`` in `fit`, and are clipped at the 99%
        quantile of those above 0. With "mrdr", DR is the estimator MRDR.
    recalibrate : bool
        Also learn a monotone map from predictions to rewards, from decisions that neither the
        map nor its model is used for. Takes folds·(folds − 1)/2 more fits.
    seed : int

    Notes
    -----
    DR's variance depends on the model's error e = δ − δ̂ through

    .. math::
        E_x \\Big[ \\sum_a \\frac{\\pi_a^2 (1 - \\pi_{0a})}{\\pi_{0a}} e_a^2
        - \\sum_{a \\ne b} \\pi_a \\pi_b e_a e_b \\Big] .

    "mrdr" minimises the first sum; dividing by π₀ once more makes up for how often the action is
    in the log. The second sum is left out. It is 0 for a deterministic policy, for which this is
    the estimator of Farajtabar, Chow and Ghavamzadeh (2018); for others DR's variance is about 1%
    above the least that the model could reach (9% at most in 600 random problems).

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> log = BanditLog.from_arrays(
    ...     action=rng.integers(0, 2, 500), actions=2, reward=rng.random(500),
    ...     context=rng.random((500, 3)), propensity=np.full(500, 0.5),
    ... )
    >>> RewardModel(Ridge()).fit(log).predict(log).shape
    (1000,)
    """

    mode: Mode = "auto"
    weighting: Weighting = "none"
    recalibrate: bool = False
    mode_: Mode = field(init=False, repr=False)
    actions_: tuple[Hashable, ...] | None = field(init=False, repr=False)
    context_width_: int | None = field(init=False, repr=False)
    feature_width_: int | None = field(init=False, repr=False)
    prediction_: Any = field(init=False, repr=False)

    def fit(self, log: BanditLog, policy: Any = None, prediction: Any = None) -> Self:
        """Fit one model per fold, each without that fold's decisions; returns itself.

        Parameters
        ----------
        log : BanditLog
        policy : optional
            The target policy, for ``weighting``: anything that `evaluate` takes as one.
        prediction : optional
            For mode "recalibrate": an array of predictions for every candidate, a column name,
            or an object with ``predict(log)``.
        """
        need_log(log)
        mode = self._checked_mode(log, prediction)
        weight = fit_weights(log, self.weighting, policy)
        fold = log.fold(self.folds)
        training = Training(log, fold, self.folds, weight)
        chosen = log.chosen_index
        models: list[PerAction | OneForAll | Linear | None] = [None] * self.folds
        remembered = scores = given = None
        if mode == "recalibrate":
            remembered = remember_prediction(log, prediction)
            score = _predictions(log, remembered)[chosen]
            scores = np.broadcast_to(score, (self.folds, len(log)))
        else:
            given = Given.to(self.model, log)
            inputs = Inputs.of(log, self._name, mode, log.actions, given)
            learn = self._learner(log, training, inputs, mode, given)
            models = [learn((f,)) for f in range(self.folds)]
            if self.recalibrate:
                scores = training.out_of_fold(
                    learn, lambda model, rows: model.predict(inputs, chosen[rows])
                )
        maps: list[Any] = [None] * self.folds
        if scores is not None:
            for f in range(self.folds):
                rows = training.rows(f)
                maps[f] = monotone(scores[f][rows], log.reward[rows], training.weight(rows))
        self.mode_, self.models_, self.maps_, self.given_ = mode, models, maps, given
        self.actions_, self.prediction_ = log.actions, remembered
        self.context_width_ = None if log.context is None else log.context.shape[1]
        self.feature_width_ = feature_width(log)
        return self

    def predict(self, log: BanditLog, prediction: Any = None) -> Floats:
        """δ̂ of every candidate of ``log``, flat, each by the model fitted without its fold.

        ``prediction`` is for mode "recalibrate" only: what to recalibrate, if not what was given
        to `fit`. (An array given to `fit` serves that log and its slices.)
        """
        self._need_fitted()
        need_log(log)
        if self.mode_ == "recalibrate":
            recalibrated = self.prediction_ if prediction is None else prediction
            flat = _predictions(log, recalibrated).copy()
        else:
            _refuse_prediction(prediction)
            inputs = self._inputs(log)
            if inputs.is_a_table and self._is_linear:
                return self._table(inputs)
            flat = np.empty(int(log.offsets[-1]))
        for model, map_, _, candidates in self._by_fold(log):
            if model is not None:
                flat[candidates] = model.predict(inputs, candidates)
            if map_ is not None:
                flat[candidates] = map_.predict(flat[candidates])
        return flat

    def held_out(self, log: BanditLog, folds: Iterable[int]) -> Iterator[tuple[Ints, Floats]]:
        """The decisions of each of these folds, and what a model fitted without it predicts of what
        was chosen in them."""
        mode = self._checked_mode(log, None)
        fold = log.fold(self.folds)
        given = Given.to(self.model, log)
        inputs = Inputs.of(log, self._name, mode, log.actions, given)
        training = Training(log, fold, self.folds, fit_weights(log, self.weighting, None))
        learn = self._learner(log, training, inputs, mode, given)
        for f in map(int, folds):
            model, rows = learn((f,)), np.flatnonzero(fold == f)
            if isinstance(model, Linear):
                assert inputs.context is not None
                yield rows, model.at(inputs.context[rows], inputs.chosen_code[rows])
            else:
                yield rows, model.predict(inputs, log.chosen_index[rows])

    def score(self, log: BanditLog) -> float:
        """R² of the predicted rewards of what was chosen: 1 is exact, 0 no better than the mean."""
        from sklearn.metrics import r2_score

        predicted = self.predict(log)[log.chosen_index]
        return float(r2_score(log.reward, predicted, sample_weight=log.weights))

    def _checked_mode(self, log: BanditLog, prediction: Any) -> Mode:
        _need_option(self.mode, "mode", ("auto", "per-action", "shared", "recalibrate"))
        _need_option(self.weighting, "weighting", ("none", "ips", "mrdr"))
        if self.mode == "recalibrate":
            self._check_folds(False, "")
            if prediction is None:
                raise ParameterError(
                    'mode="recalibrate" needs prediction=, the predictions to recalibrate.'
                )
            return "recalibrate"
        self._check_folds(self.recalibrate, "recalibrate=True")
        _refuse_prediction(prediction)
        if not isinstance(self.model, ScaledRidge):
            need_estimator(self.model)
        if self.mode != "auto":
            return self.mode
        if log.candidate_features is not None:
            return "shared"
        actions = log.need_names(self._name)
        counts = np.bincount(log.chosen_codes(), minlength=len(actions))
        return "per-action" if counts.min() >= ENOUGH_ROWS else "shared"

    def _learner(
        self,
        log: BanditLog,
        training: Training,
        inputs: Inputs,
        mode: Mode,
        given: Given | None,
    ) -> Callable[[tuple[int, ...]], PerAction | OneForAll | Linear]:
        """A function that fits the model on everything outside the given folds."""
        values, y, model = None, None, self.model
        if isinstance(model, ScaledRidge):
            if from_sums(inputs, self.folds * (inputs.actions if mode == "per-action" else 1)):
                return self._from_sums(log, training, inputs, mode)
            model = model.pipeline()
        if is_a_classifier(model):
            need_probabilities(self.model)
            values, y = np.unique(log.reward, return_inverse=True)
            if len(values) > MOST_CLASSES:
                raise ParameterError(
                    f"{type(self.model).__name__} is a classifier, but the rewards have "
                    f"{len(values):,} different values; at most {MOST_CLASSES} can be classes. "
                    f"Use a regressor."
                )
        kind = PerAction if mode == "per-action" else OneForAll
        recipe = Recipe(model, int(self.seed), values, given)
        labels = log.reward if y is None else y.reshape(-1)

        def learn(without: tuple[int, ...]) -> PerAction | OneForAll:
            rows = training.rows(*without)
            examples = Examples(
                log.chosen_index[rows], labels[rows], log.reward[rows], training.weight(rows)
            )
            return kind.learned(recipe, inputs, examples, (without[0], without[-1]))

        return learn

    def _from_sums(
        self, log: BanditLog, training: Training, inputs: Inputs, mode: Mode
    ) -> Callable[[tuple[int, ...]], Linear]:
        """The same for a `ScaledRidge`, whose fits share one pass over the rows."""
        weight = training.weight_of_each
        rows = np.arange(len(log)) if weight is None else np.flatnonzero(weight > 0.0)
        training.rows(0)  # or an error if there are hardly any
        assert inputs.context is not None
        sums = RidgeFolds(
            self.model.alpha,
            np.asarray(inputs.context, dtype=np.float64)[rows],
            log.reward[rows],
            None if weight is None else weight[rows],
            training.fold[rows] * inputs.actions + inputs.chosen_code[rows],
            (self.folds, inputs.actions),
            shared=mode == "shared",
        )

        def learn(without: tuple[int, ...]) -> Linear:
            training.rows(*without)  # or an error if they are too few
            return sums.without(*without)

        return learn

    @property
    def _is_linear(self) -> bool:
        return self.maps_[0] is None and isinstance(self.models_[0], Linear)

    def _table(self, inputs: Inputs) -> Floats:
        """`predict` where all decisions have all actions: a product of matrices for each fold."""
        assert inputs.context is not None
        made = np.empty((len(inputs.context), inputs.actions))
        fold = inputs.log.fold(len(self.models_))
        for f, model in enumerate(self.models_):
            rows = np.flatnonzero(fold == f)
            made[rows] = model.table(inputs.context[rows])
        return made.reshape(-1)

    def _inputs(self, log: BanditLog) -> Inputs:
        width = None if log.context is None else log.context.shape[1]
        inputs = Inputs.of(log, self._name, self.mode_, self.actions_, self.given_)
        need_width(width, self.context_width_, "context")
        if self.mode_ == "shared":
            need_width(feature_width(log), self.feature_width_, "candidate_features")
        return inputs


@final
@dataclass(eq=False)
class PropensityModel(_CrossFitted):
    """An estimate π̂₀ of the logging policy: which action is chosen, given the context.

    Parameters
    ----------
    model : scikit-learn classifier, optional
        Of the chosen action, on the context. Cloned for every fit, never changed.
        ``random_state``, where there is one and it is None, is set from ``seed``. Left out, it is
        a logistic regression on the scaled context; of a log without one, how often each action
        was chosen.
    folds : int
        A decision is predicted without its own fold's data.
    calibration : "sigmoid", "isotonic" or None
        Each action's probability is mapped to how often it was chosen at such a probability, by
        a logistic curve of the log-odds or by a monotone step function. The map is learned from
        decisions that neither it nor its model is used for, which takes folds·(folds − 1)/2 more
        fits. Actions chosen fewer than 10 times (or all but fewer) outside a fold stay as they
        are.
    floor : float
        The least π̂₀ of a candidate whose action was ever chosen (in any fold); what is missing
        is taken from the others in proportion. Candidates whose action was never chosen get 0.
        A floor of 0 may leave a chosen candidate with π̂₀ = 0, which no log can hold: `apply`
        then raises.
    seed : int

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> log = BanditLog.from_arrays(
    ...     action=rng.integers(0, 2, 500), actions=2, reward=rng.random(500),
    ...     context=rng.random((500, 3)),
    ... )
    >>> PropensityModel(LogisticRegression()).fit(log).apply(log)
    BanditLog(500 decisions, 2 candidates each, logging, propensity, context)
    """

    calibration: Calibration | None = "sigmoid"
    floor: float = 1e-6
    actions_: tuple[Hashable, ...] = field(init=False, repr=False)
    was_chosen_: NDArray[np.bool_] = field(init=False, repr=False)
    context_width_: int = field(init=False, repr=False)

    def fit(self, log: BanditLog) -> Self:
        """Fit one classifier per fold, each without that fold's decisions; returns itself."""
        need_log(log)
        self._check_parameters()
        log = self._with_context(log)
        given = Given.to(self._classifier, log)
        inputs = self._checked_inputs(log, log.actions, given)
        assert inputs.context is not None
        assert log.context is not None
        training = Training(log, log.fold(self.folds), self.folds, log.row_weight)
        y = inputs.code[log.chosen_index]
        was_chosen = np.bincount(y, minlength=inputs.actions) > 0
        context = inputs.context

        def learn(without: tuple[int, ...]) -> Chooser:
            rows = training.rows(*without)
            recipe = Recipe(self._classifier, int(self.seed), None, given)
            key = (without[0], without[-1], 0)
            return Chooser.learned(recipe, context[rows], y[rows], training.weight(rows), key)

        def flat(model: Chooser, rows: Ints) -> Floats:
            return model.probabilities(inputs, rows, was_chosen)

        models = [learn((f,)) for f in range(self.folds)]
        maps: list[dict[int, Any]] = [{} for _ in models]
        if self.calibration is not None:
            scores = training.out_of_fold(learn, flat, inputs.offsets)
            for f in range(self.folds):
                maps[f] = self._calibration(training, f, inputs, log.chosen_index, scores[f])
        self.models_, self.maps_, self.was_chosen_ = models, maps, was_chosen
        self.actions_, self.context_width_ = log.actions or (), log.context.shape[1]
        self.given_ = given
        return self

    def predict(self, log: BanditLog) -> Floats:
        """π̂₀ of every candidate of ``log``, flat; each decision sums to 1."""
        self._need_fitted()
        need_log(log)
        return self._predicted(log, self._by_fold(log))

    def replicates(self, log: BanditLog) -> Iterator[Floats]:
        """For each fold, π̂₀ of every candidate of ``log`` by the model without that fold: how they
        differ is the noise of the estimate."""
        self._need_fitted()
        every = np.arange(len(log)), np.arange(int(log.offsets[-1]))
        for model, maps in zip(self.models_, self.maps_, strict=True):
            yield self._predicted(log, [(model, maps, *every)])

    def _predicted(self, log: BanditLog, pieces: Iterable[tuple[Any, Any, Ints, Ints]]) -> Floats:
        """π̂₀ of every candidate: of each piece's decisions and candidates by its model and map."""
        log = self._with_context(log)
        inputs = self._checked_inputs(log, self.actions_, self.given_)
        assert log.context is not None
        need_width(log.context.shape[1], self.context_width_, "context")
        open_ = known_of(inputs.code, self.was_chosen_)
        check.refuse(
            ~np.logical_or.reduceat(open_, log.offsets[:-1]),
            "none of the decision's candidates was ever chosen in the log that the model was "
            "fitted on ({count} are like this).",
            "candidate", log.source, PropensityError,
        )  # fmt: skip
        estimate = np.empty(int(log.offsets[-1]))
        for model, maps, rows, candidates in pieces:
            offsets = offsets_of(np.diff(log.offsets)[rows])
            p = model.probabilities(inputs, rows, self.was_chosen_)
            if maps:
                p = normalised(mapped(p, inputs.code[candidates], maps), offsets, open_[candidates])
            estimate[candidates] = floored(p, offsets, open_[candidates], self.floor)
        return estimate

    def apply(self, log: BanditLog) -> BanditLog:
        """A copy of ``log`` with the estimate as ``logging``, and as ``propensity``. Intervals from
        it allow for the noise of the estimate."""
        estimate = self.predict(log)
        bad = estimate[log.chosen_index] < SMALLEST_PROPENSITY
        if bad.any():
            action = log.need_names(self._name)[int(log.chosen_codes()[np.argmax(bad)])]
            sentence = (
                f"the estimate for the chosen action {action!r} is 0 ({check.count_of(bad)} are "
                f"like this). Set floor above 0, and fit on a log in which every such action was "
                f"chosen."
            )
            raise check.malformed(bad, "propensity", log.source, sentence, PropensityError)
        return log.replace(logging=estimate, propensity=None, estimated_by=self)

    def _check_parameters(self) -> None:
        if self.calibration is not None:
            _need_option(self.calibration, "calibration", ("sigmoid", "isotonic"))
        self._check_folds(self.calibration is not None, f'calibration="{self.calibration}"')
        check.need(0.0 <= self.floor < 1.0, "floor", self.floor, "from 0 to below 1")
        need_estimator(self._classifier)
        need_probabilities(self._classifier)

    @property
    def _classifier(self) -> Any:
        """The classifier to be fitted, if none was given a plain one."""
        if self.model is not None:
            return self.model
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))

    def _with_context(self, log: BanditLog) -> BanditLog:
        """Without a context, the classifier left out sees the same of every decision."""
        if self.model is not None or log.context is not None:
            return log
        return log.replace(context=np.zeros((len(log), 1)), trusted=True)

    def _checked_inputs(
        self, log: BanditLog, actions: tuple[Hashable, ...] | None, given: Given | None
    ) -> Inputs:
        log.need_candidates(self._name)
        return Inputs.of(log, self._name, "per-action", actions, given)

    def _calibration(
        self, training: Training, f: int, inputs: Inputs, chosen_index: Ints, score: Floats
    ) -> dict[int, Any]:
        """For each action, how often it was chosen where a model gave it such a probability."""
        candidates = candidates_of(inputs.offsets, training.rows(f))
        taken = np.zeros(len(score), dtype=bool)
        taken[chosen_index] = True
        weight = training.weight_of_each
        maps = {}
        for action, mine in by_action(inputs.code[candidates], inputs.actions):
            here = candidates[mine]
            hits = int(taken[here].sum())
            if min(hits, len(here) - hits) >= LEAST_ROWS:
                w = None if weight is None else weight[inputs.decision[here]]
                fit = sigmoid if self.calibration == "sigmoid" else monotone
                maps[action] = fit(score[here], taken[here].astype(np.float64), w)
        return maps


# -- checks --------------------------------------------------------------------------------------


def _predictions(log: BanditLog, prediction: Any) -> Floats:
    """What a reward model is to recalibrate: predictions of every candidate, flat and finite."""
    flat = resolve_prediction(log, prediction)
    assert flat is not None
    check.check_finite(flat, "prediction", log.source, PredictionError, log.offsets)
    return flat


def _need_option(value: Any, name: str, options: tuple[str, ...]) -> None:
    if value not in options:
        listed = ", ".join(f'"{option}"' for option in options)
        guess = did_you_mean(str(value), options)
        raise ParameterError(
            f'{name} is "{value}"; it must be one of {listed}.{guess}', column=name
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _refuse_prediction(prediction: Any) -> None:
    if prediction is not None:
        raise ParameterError('prediction= is only for mode="recalibrate".', column="prediction")
