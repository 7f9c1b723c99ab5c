"""Reward models δ̂ and estimated logging policies π̂₀, from any scikit-learn estimator, cross-fitted.

Every decision has a fold (`BanditLog.fold`) and is predicted by a model that was fitted without
that fold, so nothing is ever predicted from its own reward or its own choice. Slices of a log keep
their folds; a log that was never fitted on has folds too, and uses the models in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from offpolicy import validation as check
from offpolicy import weights
from offpolicy.errors import (
    LogError,
    MissingColumnError,
    ParameterError,
    PredictionError,
    PropensityError,
    did_you_mean,
)
from offpolicy.labels import GROUPS
from offpolicy.log import BanditLog
from offpolicy.policies import resolve
from offpolicy.softmax import Ints, decision_of_candidate, row_sums
from offpolicy.weights import Floats

LEAST_ROWS = 10
"""No model and no calibration is fitted to fewer rows than this."""

ENOUGH_ROWS = 50
"""Mode "auto" gives every action a model of its own if each was chosen at least this often."""

PRIOR_ROWS = 10.0
"""An action's mean is taken as if this many rows more had been seen, at the overall mean."""

MOST_CLASSES = 20
"""A classifier takes rewards of at most this many different values."""

CLIP_QUANTILE = 0.99
"""The weights of ``weighting=`` are clipped at this quantile of those above 0."""

MOST_ROWS = 200_000
MOST_CELLS = 20_000_000
"""A model is asked about at most so many rows, and numbers, at a time."""

MANY_ACTIONS = 50
"""From here on the columns that say which action it is are kept sparse, if the model allows."""

SMALLEST_SCORE = 1e-6
"""Sigmoid calibration looks at log-odds; probabilities nearer to 0 or 1 count as this near."""

SLOPE_PENALTY = 1e-3
"""On the slope of a sigmoid calibration, squared and halved."""

Mode = Literal["auto", "per-action", "shared", "recalibrate"]
Weighting = Literal["none", "ips", "mrdr"]
Calibration = Literal["sigmoid", "isotonic"]


@dataclass(eq=False)
class _CrossFitted(ABC):
    """What the two models share: their parameters, as scikit-learn has them, and the folds."""

    model: Any = None
    _: KW_ONLY
    folds: int = 5
    seed: int = 0

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; if ``deep``, those of ``model`` too, as ``model__name``."""
        params = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        if deep and hasattr(self.model, "get_params") and not isinstance(self.model, type):
            inner = self.model.get_params(deep=True)
            params |= {f"model__{name}": value for name, value in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; those of ``model`` as ``model__name``."""
        known = [item.name for item in fields(self) if item.init]
        inner = {name[7:]: value for name, value in params.items() if name.startswith("model__")}
        for name, value in params.items():
            if name.startswith("model__"):
                continue
            if name not in known:
                raise ParameterError(
                    f'{type(self).__name__} has no parameter "{name}".{did_you_mean(name, known)} '
                    f"The parameters are {', '.join(known)}."
                )
            setattr(self, name, value)
        if inner:
            self.model.set_params(**inner)
        return self

    @abstractmethod
    def predict(self, log: BanditLog) -> Floats:
        """One number for every candidate of ``log``, flat."""

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_folds(self, nested: bool, why: str) -> None:
        least, reason = (3, f" with {why}") if nested else (2, "")
        if not _is_whole(self.folds) or not least <= self.folds <= GROUPS:
            raise ParameterError(
                f"folds is {self.folds}; it must be a whole number from {least} to "
                f"{GROUPS}{reason}."
            )
        if not _is_whole(self.seed) or self.seed < 0:
            raise ParameterError(f"seed is {self.seed}; it must be a whole number, 0 or more.")

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
    in the log. The second sum needs two rewards of one decision, and is left out. It is 0 for a
    deterministic policy, for which this is the estimator of Farajtabar, Chow and Ghavamzadeh
    (2018); for others it is an approximation.

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
    models_: list[_PerAction | _OneForAll | None] = field(init=False, repr=False)
    maps_: list[Any] = field(init=False, repr=False)
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
        _need_log(log)
        mode = self._checked_mode(log, prediction)
        weight = _fit_weights(log, self.weighting, policy)
        fold = log.fold(self.folds)
        training = _Training(log, fold, self.folds, weight)
        chosen = log.chosen_index
        models: list[_PerAction | _OneForAll | None] = [None] * self.folds
        remembered = scores = None
        if mode == "recalibrate":
            remembered = _remembered(log, prediction)
            score = _predictions(log, remembered)[chosen]
            scores = np.broadcast_to(score, (self.folds, len(log)))
        else:
            inputs = _Inputs.of(log, self._name, mode, log.actions)
            learn = self._learner(log, training, inputs, mode)
            models = [learn((f,)) for f in range(self.folds)]
            if self.recalibrate:
                scores = training.out_of_fold(
                    learn, lambda model, rows: model.predict(inputs, chosen[rows])
                )
        maps: list[Any] = [None] * self.folds
        if scores is not None:
            for f in range(self.folds):
                rows = training.rows(f)
                maps[f] = _monotone(scores[f][rows], log.reward[rows], training.weight(rows))
        self.mode_, self.models_, self.maps_ = mode, models, maps
        self.actions_, self.prediction_ = log.actions, remembered
        self.context_width_ = None if log.context is None else log.context.shape[1]
        self.feature_width_ = _feature_width(log)
        return self

    def predict(self, log: BanditLog, prediction: Any = None) -> Floats:
        """δ̂ of every candidate of ``log``, flat, each by the model fitted without its fold.

        ``prediction`` is for mode "recalibrate" only: what to recalibrate, if not what was given
        to `fit`. (An array given to `fit` serves that log and its slices.)
        """
        self._need_fitted()
        _need_log(log)
        if self.mode_ == "recalibrate":
            given = self.prediction_ if prediction is None else prediction
            flat = _predictions(log, given).copy()
        else:
            _refuse_prediction(prediction)
            inputs = self._inputs(log)
            flat = np.empty(int(log.offsets[-1]))
        fold, lengths = log.fold(len(self.models_)), np.diff(log.offsets)
        for f, (model, map_) in enumerate(zip(self.models_, self.maps_, strict=True)):
            at = np.flatnonzero(np.repeat(fold == f, lengths))
            if not len(at):
                continue
            if model is not None:
                flat[at] = model.predict(inputs, at)
            if map_ is not None:
                flat[at] = map_.predict(flat[at])
        return flat

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
        _need_estimator(self.model)
        if self.mode != "auto":
            return self.mode
        if log.candidate_features is not None:
            return "shared"
        _need_names(log, self._name)
        counts = np.bincount(_chosen_codes(log), minlength=len(log.actions or ()))
        return "per-action" if counts.min() >= ENOUGH_ROWS else "shared"

    def _learner(
        self, log: BanditLog, training: _Training, inputs: _Inputs, mode: Mode
    ) -> Callable[[tuple[int, ...]], _PerAction | _OneForAll]:
        """A function that fits the model on everything outside the given folds."""
        values = y = None
        if _is_classifier(self.model):
            _need_probabilities(self.model)
            values, y = np.unique(log.reward, return_inverse=True)
            if len(values) > MOST_CLASSES:
                raise ParameterError(
                    f"{type(self.model).__name__} is a classifier, but the rewards have "
                    f"{len(values):,} different values; at most {MOST_CLASSES} can be classes. "
                    f"Use a regressor."
                )
        kind = _PerAction if mode == "per-action" else _OneForAll
        recipe = _Recipe(self.model, int(self.seed), values)
        labels = log.reward if y is None else y.reshape(-1)

        def learn(without: tuple[int, ...]) -> _PerAction | _OneForAll:
            rows = training.rows(*without)
            examples = _Examples(
                log.chosen_index[rows], labels[rows], log.reward[rows], training.weight(rows)
            )
            return kind.learned(recipe, inputs, examples, (without[0], without[-1]))

        return learn

    def _inputs(self, log: BanditLog) -> _Inputs:
        inputs = _Inputs.of(log, self._name, self.mode_, self.actions_)
        width = None if log.context is None else log.context.shape[1]
        _need_width(width, self.context_width_, "context")
        if self.mode_ == "shared":
            _need_width(_feature_width(log), self.feature_width_, "candidate_features")
        return inputs


@final
@dataclass(eq=False)
class PropensityModel(_CrossFitted):
    """An estimate π̂₀ of the logging policy: which action is chosen, given the context.

    Parameters
    ----------
    model : scikit-learn classifier
        Of the chosen action, on the context. Cloned for every fit, never changed.
        ``random_state``, where there is one and it is None, is set from ``seed``.
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
    models_: list[_Chooser] = field(init=False, repr=False)
    maps_: list[dict[int, Any]] = field(init=False, repr=False)
    actions_: tuple[Hashable, ...] = field(init=False, repr=False)
    was_chosen_: NDArray[np.bool_] = field(init=False, repr=False)
    context_width_: int = field(init=False, repr=False)

    def fit(self, log: BanditLog) -> Self:
        """Fit one classifier per fold, each without that fold's decisions; returns itself."""
        _need_log(log)
        self._check_parameters()
        inputs = self._checked_inputs(log, log.actions)
        assert inputs.context is not None
        training = _Training(log, log.fold(self.folds), self.folds, log.row_weight)
        y = inputs.code[log.chosen_index]
        was_chosen = np.bincount(y, minlength=inputs.actions) > 0
        context = inputs.context

        def learn(without: tuple[int, ...]) -> _Chooser:
            rows = training.rows(*without)
            recipe = _Recipe(self.model, int(self.seed), None)
            key = (without[0], without[-1], 0)
            return _Chooser.learned(recipe, context[rows], y[rows], training.weight(rows), key)

        def flat(model: _Chooser, rows: Ints) -> Floats:
            return model.probabilities(inputs, rows, was_chosen)

        models = [learn((f,)) for f in range(self.folds)]
        maps: list[dict[int, Any]] = [{} for _ in models]
        if self.calibration is not None:
            scores = training.out_of_fold(learn, flat, inputs.offsets)
            for f in range(self.folds):
                maps[f] = self._calibration(training, f, inputs, log.chosen_index, scores[f])
        self.models_, self.maps_, self.was_chosen_ = models, maps, was_chosen
        self.actions_, self.context_width_ = log.actions or (), context.shape[1]
        return self

    def predict(self, log: BanditLog) -> Floats:
        """π̂₀ of every candidate of ``log``, flat; each decision sums to 1."""
        self._need_fitted()
        _need_log(log)
        inputs = self._checked_inputs(log, self.actions_)
        assert inputs.context is not None
        _need_width(inputs.context.shape[1], self.context_width_, "context")
        open_ = _known(inputs.code, self.was_chosen_)
        hopeless = ~np.logical_or.reduceat(open_, log.offsets[:-1])
        if hopeless.any():
            row = int(np.argmax(hopeless))
            raise PropensityError(
                f"{check.where(log.source, 'candidate', row)}: none of the decision's candidates "
                f"was ever chosen in the log that the model was fitted on "
                f"({check.count_of(int(hopeless.sum()), len(log))} are like this)."
            )
        estimate = np.empty(int(log.offsets[-1]))
        fold, lengths = log.fold(len(self.models_)), np.diff(log.offsets)
        for f, (model, maps) in enumerate(zip(self.models_, self.maps_, strict=True)):
            rows = np.flatnonzero(fold == f)
            if not len(rows):
                continue
            at, offsets = np.flatnonzero(np.repeat(fold == f, lengths)), _offsets(lengths[rows])
            p = model.probabilities(inputs, rows, self.was_chosen_)
            if maps:
                p = _normalised(_mapped(p, inputs.code[at], maps), offsets, open_[at])
            estimate[at] = _floored(p, offsets, open_[at], self.floor)
        return estimate

    def apply(self, log: BanditLog) -> BanditLog:
        """A copy of ``log`` with the estimate as ``logging``, and as ``propensity``."""
        estimate = self.predict(log)
        bad = estimate[log.chosen_index] < check.SMALLEST_PROPENSITY
        if bad.any():
            row = int(np.argmax(bad))
            assert log.actions is not None
            action = log.actions[int(_chosen_codes(log)[row])]
            raise PropensityError(
                f"{check.where(log.source, 'propensity', row)}: the estimate for the chosen action "
                f"{action!r} is 0 ({check.count_of(int(bad.sum()), len(log))} are like this). "
                f"Set floor above 0, and fit on a log in which every such action was chosen."
            )
        copy = replace(log, logging=estimate, propensity=None)
        # What a slice was given by the whole log: found anew, the folds would change.
        copy.__dict__.update(group=log.group, bucket=log.bucket)
        return copy

    def _check_parameters(self) -> None:
        if self.calibration is not None:
            _need_option(self.calibration, "calibration", ("sigmoid", "isotonic"))
        self._check_folds(self.calibration is not None, f'calibration="{self.calibration}"')
        if not 0.0 <= self.floor < 1.0:
            raise ParameterError(f"floor is {self.floor}; it must be from 0 to below 1.")
        _need_estimator(self.model)
        _need_probabilities(self.model)

    def _checked_inputs(self, log: BanditLog, actions: tuple[Hashable, ...] | None) -> _Inputs:
        if not log.candidates_known:
            raise LogError(
                f"{self._name} needs to know the candidates of every decision, and this log lists "
                f"only what was chosen. Give actions= (names or number) when making the log."
            )
        return _Inputs.of(log, self._name, "per-action", actions)

    def _calibration(
        self, training: _Training, f: int, inputs: _Inputs, chosen_index: Ints, score: Floats
    ) -> dict[int, Any]:
        """For each action, how often it was chosen where a model gave it such a probability."""
        rows = training.rows(f)
        member = np.zeros(len(inputs.offsets) - 1, dtype=bool)
        member[rows] = True
        at = np.flatnonzero(np.repeat(member, np.diff(inputs.offsets)))
        taken = np.zeros(len(score), dtype=bool)
        taken[chosen_index] = True
        weight = training.weight_of_each
        maps = {}
        for action, mine in _by_action(inputs.code[at], inputs.actions):
            here = at[mine]
            hits = int(taken[here].sum())
            if min(hits, len(here) - hits) >= LEAST_ROWS:
                w = None if weight is None else weight[inputs.decision[here]]
                fit = _sigmoid if self.calibration == "sigmoid" else _monotone
                maps[action] = fit(score[here], taken[here].astype(np.float64), w)
        return maps


# -- what a model sees ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """The candidates of a log as a model sees them."""

    offsets: Ints
    decision: Ints
    code: Ints
    """For each candidate, the position of its action among those fitted on; −1 if unknown."""
    actions: int
    context: NDArray[Any] | None
    features: Floats | None

    @classmethod
    def of(
        cls, log: BanditLog, who: str, mode: Mode, actions: tuple[Hashable, ...] | None
    ) -> _Inputs:
        """Check that the log has what the mode needs, and name its actions as ``actions`` does."""
        features = None
        if mode == "shared" and log.candidate_features is not None:
            features = log.candidate_features.reshape(int(log.offsets[-1]), -1)
        if log.context is None and features is None:
            option = ", or candidate_features=," if mode == "shared" else ""
            raise LogError(
                f"{who} needs a log with context, which is what was known before each decision. "
                f"Give context={option} when making the log."
            )
        if features is None:
            _need_names(log, who)
            place = {name: k for k, name in enumerate(actions or ())}
            own = np.array([place.get(name, -1) for name in log.actions or ()], dtype=np.int64)
            code = own[log.candidate_codes()]
        else:
            code = np.empty(0, dtype=np.int64)
        decision = decision_of_candidate(log.offsets)
        return cls(log.offsets, decision, code, len(actions or ()), log.context, features)

    @property
    def width(self) -> int:
        """How many numbers `shared` gives a candidate."""
        own = self.actions if self.features is None else self.features.shape[1]
        return own + (0 if self.context is None else self.context.shape[1])

    def shared(self, at: Ints) -> NDArray[Any]:
        """Context and features (or one column per action) of the given candidates."""
        if self.features is not None:
            own = self.features[at]
        else:
            own = np.zeros((len(at), self.actions))
            known = np.flatnonzero(self.code[at] >= 0)
            own[known, self.code[at[known]]] = 1.0
        if self.context is None:
            return own
        dtype = np.float64 if self.context.dtype.kind in "biuf" else object
        return np.hstack([self.context[self.decision[at]], own], dtype=dtype)

    def sparse(self, at: Ints) -> Any:
        """The same as a sparse matrix; for a numeric context and one column per action."""
        from scipy.sparse import csr_matrix

        assert self.context is not None
        d, known = self.context.shape[1], self.code[at] >= 0
        values = np.hstack([self.context[self.decision[at]], known[:, None]], dtype=np.float64)
        columns = np.tile(np.arange(d + 1), (len(at), 1))
        columns[:, d] += np.where(known, self.code[at], 0)
        starts = np.arange(len(at) + 1) * (d + 1)
        shape = (len(at), d + self.actions)
        return csr_matrix((values.reshape(-1), columns.reshape(-1), starts), shape=shape)


@dataclass(frozen=True, slots=True, eq=False)
class _Training:
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
        lengths = np.ones(len(self.log), dtype=np.int64) if offsets is None else np.diff(offsets)
        scores = np.full((self.folds, int(lengths.sum())), np.nan)
        members = [np.flatnonzero(self.fold == f) for f in range(self.folds)]
        for f in range(self.folds):
            for g in range(f):
                if not len(members[f]) + len(members[g]):
                    continue
                model = learn((g, f))
                for one, other in ((f, g), (g, f)):
                    if len(members[other]):
                        at = np.flatnonzero(np.repeat(self.fold == other, lengths))
                        scores[one, at] = score(model, members[other])
        return scores


# -- fitted models -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Examples:
    """What one model is fitted to: candidates, labels, rewards, weights."""

    at: Ints
    label: NDArray[Any]
    reward: Floats
    weight: Floats | None

    def only(self, rows: Ints) -> _Examples:
        weight = None if self.weight is None else self.weight[rows]
        return _Examples(self.at[rows], self.label[rows], self.reward[rows], weight)

    @property
    def weights(self) -> Floats:
        return np.ones(len(self.at)) if self.weight is None else self.weight


@dataclass(frozen=True, slots=True, eq=False)
class _Recipe:
    """How to make a fitted model: the user's, its seed, and for a classifier what classes mean."""

    model: Any
    seed: int
    values: Floats | None

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
        try:
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
            f"({X.shape[0]:,}, {classes}); it gave shape {table.shape}, least value {table.min()}."
        )
    return table


@dataclass(frozen=True, slots=True, eq=False)
class _OneForAll:
    """One fold's model in mode "shared"; ``constant`` if all its rewards were of one class."""

    fitted: _Fitted | None
    constant: float
    sparse: bool = False

    @classmethod
    def learned(
        cls, recipe: _Recipe, inputs: _Inputs, rows: _Examples, key: tuple[int, int]
    ) -> _OneForAll:
        if recipe.values is not None and (rows.label == rows.label[0]).all():
            return cls(None, float(rows.reward[0]))
        X = inputs.shared(rows.at)
        fitted = recipe.reward_model(X, rows.label, rows.weight, (*key, 0))
        return cls(fitted, 0.0, _takes_sparse(fitted, inputs, rows.at[:20]))

    def predict(self, inputs: _Inputs, at: Ints) -> Floats:
        out = np.full(len(at), self.constant)
        if self.fitted is not None:
            width = inputs.width - inputs.actions + 1 if self.sparse else inputs.width
            for part in _parts(len(at), width):
                X = inputs.sparse(at[part]) if self.sparse else inputs.shared(at[part])
                out[part] = self.fitted.predict(X)
        return out


def _takes_sparse(fitted: _Fitted, inputs: _Inputs, at: Ints) -> bool:
    """Whether the model says the same of a sparse matrix.

    Then asking about every candidate is linear in their number, instead of quadratic.
    """
    context = inputs.context
    if inputs.features is not None or inputs.actions < MANY_ACTIONS or context is None:
        return False
    if context.dtype.kind not in "biuf":
        return False
    dense = fitted.predict(inputs.shared(at))
    try:
        apart = np.abs(fitted.predict(inputs.sparse(at)) - dense).max()
    except Exception:  # whatever a model may say to what it cannot take
        return False
    return bool(apart <= 1e-9 * np.abs(dense).max())


@dataclass(frozen=True, slots=True, eq=False)
class _PerAction:
    """One fold's models in mode "per-action", and the means that stand in for missing ones."""

    fitted: dict[int, _Fitted]
    means: Floats
    """Of every action, shrunken; last, for actions never seen, of all."""

    @classmethod
    def learned(
        cls, recipe: _Recipe, inputs: _Inputs, rows: _Examples, key: tuple[int, int]
    ) -> _PerAction:
        assert inputs.context is not None
        overall = float(np.average(rows.reward, weights=rows.weights))
        means = np.full(inputs.actions + 1, overall)
        fitted = {}
        for action, mine in _by_action(inputs.code[rows.at], inputs.actions):
            own = rows.only(mine)
            total = PRIOR_ROWS + own.weights.sum()
            means[action] = (PRIOR_ROWS * overall + (own.weights * own.reward).sum()) / total
            one_class = recipe.values is not None and (own.label == own.label[0]).all()
            if len(mine) >= LEAST_ROWS and not one_class:
                X = inputs.context[inputs.decision[own.at]]
                fitted[action] = recipe.reward_model(X, own.label, own.weight, (*key, action))
        return cls(fitted, means)

    def predict(self, inputs: _Inputs, at: Ints) -> Floats:
        assert inputs.context is not None
        code = inputs.code[at]
        out = self.means[code]
        for action, mine in _by_action(code, inputs.actions):
            if action in self.fitted:
                for part in _parts(len(mine), inputs.context.shape[1]):
                    X = inputs.context[inputs.decision[at[mine[part]]]]
                    out[mine[part]] = self.fitted[action].predict(X)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class _Chooser:
    """One fold's classifier of the chosen action; no model if only one action was chosen."""

    model: Any
    classes: Ints

    @classmethod
    def learned(
        cls,
        recipe: _Recipe,
        X: NDArray[Any],
        y: Ints,
        weight: Floats | None,
        key: tuple[int, int, int],
    ) -> _Chooser:
        classes = np.unique(y)
        if len(classes) == 1:
            return cls(None, classes)
        return cls(recipe.fitted(X, y, weight, key), classes)

    def probabilities(self, inputs: _Inputs, rows: Ints, was_chosen: NDArray[np.bool_]) -> Floats:
        """Of the candidates of the given rows, flat, each decision's summing to 1."""
        lengths = np.diff(inputs.offsets)[rows]
        offsets = _offsets(lengths)
        code = inputs.code[np.repeat(inputs.offsets[rows] - offsets[:-1], lengths)
                           + np.arange(offsets[-1])]  # fmt: skip
        column = np.full(inputs.actions + 1, -1)
        column[self.classes] = np.arange(len(self.classes))
        out = np.empty(len(code))
        for part in _parts(len(rows), len(self.classes)):
            own = slice(offsets[part.start], offsets[part.stop])
            table = self._table(inputs, rows[part])
            row = decision_of_candidate(offsets[part.start : part.stop + 1])
            out[own] = table[row, column[code[own]]] * (column[code[own]] >= 0)
        return _normalised(out, offsets, _known(code, was_chosen))

    def _table(self, inputs: _Inputs, rows: Ints) -> Floats:
        assert inputs.context is not None
        if self.model is None:
            return np.ones((len(rows), 1))
        return _class_probabilities(self.model, inputs.context[rows], len(self.classes))


# -- small parts ---------------------------------------------------------------------------------


def _fit_weights(log: BanditLog, weighting: Weighting, policy: Any) -> Floats | None:
    """What each row weighs in the fit; None if all weigh alike."""
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
    return weight if log.row_weight is None else weight * log.row_weight


def _monotone(x: Floats, y: Floats, weight: Floats | None) -> Any:
    """The increasing step function of x that is nearest to y."""
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=weight)


@dataclass(frozen=True, slots=True)
class _Sigmoid:
    """1/(1 + exp(−(slope · log-odds + intercept)))."""

    slope: float
    intercept: float

    def predict(self, p: Floats) -> Floats:
        return _logistic(self.slope * _log_odds(p) + self.intercept)


def _sigmoid(p: Floats, y: Floats, weight: Floats | None) -> _Sigmoid:
    """The logistic curve of greatest likelihood, by Newton's method.

    A very small penalty on the slope keeps it finite where one score parts the choices cleanly.
    """
    w = np.ones(len(y)) if weight is None else weight / weight.mean()
    z = _log_odds(p)
    centre = float(z.mean())
    z -= centre
    rate = float((w * y).sum() / w.sum())

    def loss(theta: Floats) -> float:
        score = theta[0] * z + theta[1]
        unlikely = w * (np.logaddexp(0.0, score) - y * score)
        return float(unlikely.sum() + SLOPE_PENALTY * theta[0] ** 2 / 2.0)

    theta = np.array([0.0, np.log(rate / (1.0 - rate))])
    now = loss(theta)
    for _ in range(100):
        share = _logistic(theta[0] * z + theta[1])
        error, curvature = w * (share - y), w * share * (1.0 - share)
        gradient = np.array([(error * z).sum() + SLOPE_PENALTY * theta[0], error.sum()])
        cross, square = (curvature * z).sum(), (curvature * z * z).sum()
        hessian = [[square + SLOPE_PENALTY, cross], [cross, curvature.sum() + 1e-12]]
        step = np.linalg.solve(hessian, gradient)
        promised = float(gradient @ step)
        if promised <= 1e-12 * (1.0 + now):
            break
        while (then := loss(theta - step)) > now - 1e-4 * promised and promised > 1e-12 * now:
            step, promised = step / 2.0, promised / 2.0
        theta, now = theta - step, then
    return _Sigmoid(float(theta[0]), float(theta[1] - theta[0] * centre))


def _logistic(score: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-score)))


def _log_odds(p: Floats) -> Floats:
    inside = np.clip(p, SMALLEST_SCORE, 1.0 - SMALLEST_SCORE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _mapped(p: Floats, code: Ints, maps: dict[int, Any]) -> Floats:
    """Each probability through its action's map, if it has one."""
    out = p.copy()
    for action, mine in _by_action(code, max(maps) + 1):
        if action in maps:
            out[mine] = maps[action].predict(p[mine])
    return out


def _normalised(p: Floats, offsets: Ints, open_: NDArray[np.bool_]) -> Floats:
    """Each decision's probabilities made to sum to 1; where all are 0, equal among the open."""
    total = row_sums(p, offsets)
    lengths = np.diff(offsets)
    nothing = np.repeat(~(total > check.SMALLEST_PROPENSITY), lengths)
    if nothing.any():
        p = np.where(nothing, open_.astype(np.float64), p)
        total = row_sums(p, offsets)
    return np.asarray(p / np.repeat(total, lengths))


def _floored(p: Floats, offsets: Ints, open_: NDArray[np.bool_], floor: float) -> Floats:
    """No open candidate under the floor; the others give way in proportion."""
    lengths = np.diff(offsets)
    count = np.repeat(row_sums(open_.astype(np.float64), offsets), lengths)
    least = np.where(open_, np.minimum(floor, 1.0 / np.maximum(count, 1.0)), 0.0)
    low = np.zeros(len(p), dtype=bool)
    while True:
        left = 1.0 - row_sums(np.where(low, least, 0.0), offsets)
        rest = row_sums(np.where(low, 0.0, p), offsets)
        scale = np.divide(left, rest, out=np.zeros_like(left), where=rest > 0.0)
        out = np.where(low, least, p * np.repeat(scale, lengths))
        lower = ~low & (out < least)
        if not lower.any():
            return out
        low |= lower


def _known(code: Ints, table: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The table's entry for each code; False for the unknown code −1."""
    return np.append(table, False)[code]


def _by_action(code: Ints, actions: int) -> Iterator[tuple[int, Ints]]:
    """Each action that occurs, with its positions in ``code``."""
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[order], np.arange(actions + 1))
    for action in np.flatnonzero(np.diff(bounds)):
        yield int(action), order[bounds[action] : bounds[action + 1]]


def _parts(rows: int, width: int) -> Iterator[slice]:
    """The rows in pieces small enough for a model to be asked about at once."""
    step = max(1, min(MOST_ROWS, MOST_CELLS // max(width, 1)))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _offsets(lengths: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _chosen_codes(log: BanditLog) -> Ints:
    return log.candidate_codes()[log.chosen_index]


def _feature_width(log: BanditLog) -> int | None:
    if log.candidate_features is None:
        return None
    return log.candidate_features.size // int(log.offsets[-1])


# -- predictions that were given -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Remembered:
    """Predictions given as an array: good for one log and its slices."""

    log: BanditLog
    flat: Floats

    def predict(self, part: BanditLog) -> Floats:
        start = part.first_row - self.log.first_row
        if start >= 0 and start + len(part) <= len(self.log):
            own = self.log.rows(start, start + len(part))
            names = ("offsets", "chosen", "reward")
            if all(np.array_equal(getattr(own, name), getattr(part, name)) for name in names):
                first = int(self.log.offsets[start])
                return self.flat[first : first + int(own.offsets[-1])]
        raise PredictionError(
            "prediction was given to fit as an array, and this is not the log it belongs to. Use "
            "predict(log, prediction=…), or give fit a column name or a model."
        )


def _remembered(log: BanditLog, prediction: Any) -> Any:
    if isinstance(prediction, str) or hasattr(prediction, "predict"):
        return prediction
    return _Remembered(log, log.per_candidate(prediction, "prediction", PredictionError))


def _predictions(log: BanditLog, prediction: Any) -> Floats:
    """Of every candidate, flat, from an array, a column name or a model."""
    if isinstance(prediction, str):
        prediction = log.named_column(prediction)
    elif hasattr(prediction, "predict"):
        prediction = prediction.predict(log)
    flat = log.per_candidate(prediction, "prediction", PredictionError)
    check.check_finite(flat, "prediction", log.source, PredictionError, log.offsets)
    return flat


# -- checks --------------------------------------------------------------------------------------


def _need_log(log: object) -> None:
    if not isinstance(log, BanditLog):
        raise ParameterError(
            f"A {type(log).__name__} is not a log. Make one with BanditLog.from_frame (any "
            f"dataframe), from_arrays or from_ragged."
        )


def _need_names(log: BanditLog, who: str) -> None:
    if log.actions is None:
        raise LogError(
            f"{who} needs to know which action each candidate is: give candidate= (names) when "
            f"making the log."
        )


def _need_width(found: int | None, expected: int | None, column: str) -> None:
    if found != expected:
        raise LogError(
            f"{column} has {found or 'no'} columns, but the model was fitted with "
            f"{expected or 'none'}."
        )


def _need_option(value: Any, name: str, options: tuple[str, ...]) -> None:
    if value not in options:
        listed = ", ".join(f'"{option}"' for option in options)
        raise ParameterError(
            f'{name} is "{value}"; it must be one of {listed}.{did_you_mean(str(value), options)}'
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _refuse_prediction(prediction: Any) -> None:
    if prediction is not None:
        raise ParameterError('prediction= is only for mode="recalibrate".')


def _need_estimator(model: Any) -> None:
    name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, type):
        raise ParameterError(f"{name} is a class; give an instance: {name}(…).")
    missing = [method for method in ("fit", "predict", "get_params") if not hasattr(model, method)]
    if missing:
        raise ParameterError(
            f"model is a {name}, which has no {missing[0]}; it must be a scikit-learn regressor "
            f"or classifier."
        )


def _need_probabilities(model: Any) -> None:
    if not hasattr(model, "predict_proba"):
        raise ParameterError(
            f"{type(model).__name__} has no predict_proba. Use a classifier that gives "
            f"probabilities, or wrap it in scikit-learn's CalibratedClassifierCV."
        )


def _is_classifier(model: Any) -> bool:
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(model))
    except (AttributeError, TypeError):  # an estimator that does not say what it is
        return hasattr(model, "predict_proba")


def _weight_argument(model: Any) -> str:
    """What the model's fit calls the weights of the rows; a pipeline's last step takes them."""
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
