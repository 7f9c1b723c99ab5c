"""Target policies: anything that gives every candidate of every decision a probability.

A policy is an object with ``probabilities(log)``, a flat array with one value per candidate.
Wherever a policy is asked for, plain arrays, column names and fitted classifiers do as well;
`resolve` turns each of them into probabilities.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.contexts import named_frame
from offpolicy._core.door import Door
from offpolicy._core.ragged import argmax, decision_of_candidate, row_sums, softmax
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import OffpolicyError, ParameterError, PolicyError
from offpolicy.logs import (
    BanditLog,
    LogScan,
    check_chosen_probabilities,
    check_probabilities,
    tolerance_of,
    without_rounding,
)
from offpolicy.logs.labels import find_among, places_among, positions
from offpolicy.policies._from_columns import (
    Column,
    Logged,
    Probability,
    of_items,
    refuse_foresight,
    refuse_rewards,
)


@runtime_checkable
class Policy(Protocol):
    """What every policy can do."""

    def probabilities(self, log: BanditLog) -> Floats:
        """π of every candidate of ``log``, flat."""
        ...


Scores = ArrayLike | Callable[[BanditLog], ArrayLike]
"""One score per candidate, as an array or as a function of the log."""


@final
@dataclass(frozen=True, slots=True)
class Uniform:
    """Every candidate is equally likely."""

    def probabilities(self, log: BanditLog) -> Floats:
        log.need_candidates("Uniform", PolicyError)
        lengths = np.diff(log.offsets)
        return np.repeat(1.0 / lengths, lengths)


@final
@dataclass(frozen=True, slots=True)
class Tabular:
    """Probabilities from a table.

    Parameters
    ----------
    table : mapping of action name to probability, or (K,) or (S, K) array
        An array has one column per action of the log. With S rows, ``state`` says which row
        applies to a decision.
    state : int, optional
        The column of ``log.context`` that holds the row of the table.
    renormalise : bool
        Where a decision lacks some actions, scale the others up to sum to 1.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=["a", "b"], actions=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5]
    ... )
    >>> Tabular({"a": 0.9, "b": 0.1}).probabilities(log).tolist()
    [0.9, 0.1, 0.9, 0.1]
    """

    table: Mapping[Hashable, float] | ArrayLike
    state: int | None = None
    renormalise: bool = False

    def probabilities(self, log: BanditLog) -> Floats:
        log.need_candidates("Tabular", PolicyError)
        table = np.atleast_2d(self._rows(log.need_names("Tabular", PolicyError)))
        codes = log.candidate_codes()
        lengths = np.diff(log.offsets)
        rows = np.zeros(len(log), dtype=np.int64)
        if self.state is not None:
            rows = self._states(log, len(table))
        elif len(table) != 1:
            raise PolicyError(
                f"Tabular has {len(table)} rows; state= must name the context column that "
                f"says which one applies.",
                column="state",
            )
        mass = table[np.repeat(rows, lengths), codes]
        return _renormalised(mass, log, "Tabular") if self.renormalise else np.asarray(mass)

    def _rows(self, actions: tuple[Hashable, ...]) -> Floats:
        if isinstance(self.table, Mapping):
            missing = [name for name in actions if name not in self.table]
            if missing:
                raise PolicyError(
                    f"Tabular has no probability for action {missing[0]!r} ({len(missing)} of "
                    f"{len(actions)} actions are missing). Give 0 if it never chooses them.",
                    column="Tabular",
                )
            return np.array([_number(self.table[name], name) for name in actions])
        table = check.as_floats(self.table, "Tabular", PolicyError)
        if table.ndim not in (1, 2) or table.shape[-1] != len(actions):
            raise PolicyError(
                f"Tabular has shape {table.shape}; it must be (K,) or (S, K), and the log has K = "
                f"{len(actions)} actions.",
                column="Tabular",
            )
        return table

    def _states(self, log: BanditLog, rows: int) -> Ints:
        if log.context is None:
            raise PolicyError("Tabular with state= needs a log with context.", column="context")
        if not -log.context.shape[1] <= (self.state or 0) < log.context.shape[1]:
            raise PolicyError(
                f"Tabular: there is no context column {self.state}; there are "
                f"{log.context.shape[1]}.",
                column="state",
            )
        column = f"Tabular: context column {self.state}"
        state = check.as_floats(log.context[:, self.state], column, PolicyError)
        outside = ~((state >= 0) & (state < rows) & (state == np.floor(state)))
        sentence = f"{{value}} is not a row of the table (0 to {rows - 1})."
        check.refuse(outside, sentence, column, "", PolicyError, value=state)
        return state.astype(np.int64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Softmax:
    """π ∝ exp(score / temperature). Temperature 0 is uniform among the best."""

    scores: Scores
    temperature: float = 1.0

    def __post_init__(self) -> None:
        fine = 0.0 <= self.temperature < np.inf
        check.need(fine, "temperature", self.temperature, "0 or more, and finite")

    def probabilities(self, log: BanditLog) -> Floats:
        return softmax(_scores(self.scores, log, "Softmax"), log.offsets, self.temperature)


@final
@dataclass(frozen=True, slots=True, eq=False)
class EpsilonGreedy:
    """The best score with probability 1 − ε, otherwise any candidate alike."""

    scores: Scores
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check.need(0.0 <= self.epsilon <= 1.0, "epsilon", self.epsilon, "from 0 to 1")

    def probabilities(self, log: BanditLog) -> Floats:
        best = argmax(_scores(self.scores, log, "EpsilonGreedy"), log.offsets)
        lengths = np.diff(log.offsets)
        mass = np.repeat(self.epsilon / lengths, lengths)
        mass[log.offsets[:-1] + best] += 1.0 - self.epsilon
        return mass


@final
@dataclass(frozen=True, slots=True, eq=False)
class Deterministic:
    """Always one candidate: ``action``, or the one with the best score.

    ``action`` is a name, or one name for every decision, or a function of the log that gives
    these; in a log whose candidates have no names, positions inside each decision.
    """

    action: ArrayLike | Callable[[BanditLog], ArrayLike] | None = None
    scores: Scores | None = None

    def __post_init__(self) -> None:
        if (self.action is None) == (self.scores is None):
            raise ParameterError(
                "Deterministic takes either action or scores, and not both.", column="action"
            )

    def probabilities(self, log: BanditLog) -> Floats:
        log.need_candidates("Deterministic", PolicyError)
        if self.scores is not None:
            best = argmax(_scores(self.scores, log, "Deterministic"), log.offsets)
        else:
            best = self._chosen(log)
        mass = np.zeros(int(log.offsets[-1]))
        mass[log.offsets[:-1] + best] = 1.0
        return mass

    def _chosen(self, log: BanditLog) -> Ints:
        action: Any = self.action(log) if callable(self.action) else self.action
        if isinstance(action, (str, bytes)) or np.ndim(action) == 0:
            action = [action] * len(log)
        if log.actions is None:
            return _checked_positions(action, log, "Deterministic: action must hold")
        if log.candidate is None:
            return positions(action, log.actions, len(log), "Deterministic", PolicyError)
        source = "Deterministic"
        return find_among(action, log.candidate, log.actions, log.offsets, source, PolicyError)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """One of several policies, drawn anew for every decision with the given weights."""

    policies: Sequence[Any]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        weights = check.as_floats(self.weights, "Mixture weights", ParameterError)
        if len(self.policies) != len(weights) or not len(weights):
            raise ParameterError("Mixture needs one weight for every policy.", column="weights")
        fine = bool((weights >= 0.0).all()) and abs(float(weights.sum()) - 1.0) <= 1e-6
        check.need(fine, "weights", list(self.weights), "numbers of 0 or more that sum to 1")

    def probabilities(self, log: BanditLog) -> Floats:
        flat = _mixed(log, self, "Mixture").flat
        assert flat is not None
        return flat


@final
@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """A fitted model with ``predict_proba``, asked about ``log.context``.

    Its ``classes_``, if it has them, are matched to the log's action names; actions it does not
    know get probability 0. Where a decision lacks some actions, ``renormalise=True`` scales the
    others up to sum to 1. If it was fitted on a frame, and the log knows what the columns of its
    context are called, it is given a pandas frame.
    """

    model: Any
    renormalise: bool = False

    def probabilities(self, log: BanditLog) -> Floats:
        log.need_candidates("Classifier", PolicyError)
        if log.context is None:
            raise PolicyError("A classifier as policy needs a log with context.", column="context")
        actions = log.need_names("A classifier as policy", PolicyError)
        raw = self.model.predict_proba(_as_fitted(self.model, log))
        predicted = check.as_floats(raw, "predict_proba", PolicyError)
        classes = getattr(self.model, "classes_", None)
        width = len(actions) if classes is None else len(classes)
        fine = predicted.shape == (len(log), width)
        rule = f"({len(log):,}, {width}): a probability of every class for every decision"
        check.need_shape(fine, "predict_proba", predicted, rule, PolicyError)
        predicted = without_rounding(predicted, tolerance_of(raw))
        if classes is None:
            return self._scaled(_of_candidates(predicted, log), log)
        names = np.asarray(classes).tolist()
        places = places_among(names, actions)
        if (places < 0).any():
            raise PolicyError(
                f"The classifier's class {names[np.argmin(places)]!r} is not among the log's "
                f"actions {list(actions)[:10]}. Give the log the classes as actions=.",
                column="actions",
            )
        full = np.zeros((len(log), len(actions)))
        full[:, places] = predicted
        return self._scaled(_of_candidates(full, log), log)

    def _scaled(self, mass: Floats, log: BanditLog) -> Floats:
        return _renormalised(mass, log, "Classifier") if self.renormalise else mass


Draw = Callable[[BanditLog, np.random.Generator], ArrayLike]


@final
@dataclass(frozen=True, slots=True, eq=False)
class MonteCarlo:
    """A policy known only through its draws (Thompson sampling, say).

    Its probabilities are estimated as frequencies over ``draws`` draws, as the paper did for
    Amazon Music. What that costs in accuracy is reported as `Estimate.policy_stderr`, and made
    part of the interval; where every decision has draws of its own, the rows' spread holds it
    already, so that the interval is then wider than it need be.

    Parameters
    ----------
    draw : callable
        ``draw(log, rng)`` returns one position (inside its decision) for every decision.
    draws : int
        How often to call it; at least `replicates`.
    seed : int

    Examples
    --------
    >>> log = BanditLog.from_arrays(action=[0, 1], reward=[1, 0], logging=[[0.5, 0.5]] * 2)
    >>> coin = MonteCarlo(lambda log, rng: rng.integers(0, 2, len(log)), draws=1000, seed=1)
    >>> coin.probabilities(log).round(1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    draw: Draw
    draws: int = 1000
    seed: int = 0
    replicates: int = field(default=10, init=False)

    def __post_init__(self) -> None:
        fine = int(self.draws) == self.draws >= self.replicates
        check.need(fine, "draws", self.draws, f"a whole number, at least {self.replicates}")
        check.need(self.seed >= 0, "seed", self.seed, "0 or more")

    def probabilities(self, log: BanditLog) -> Floats:
        return np.asarray(self.counts(log).sum(axis=0) / self.draws)

    def counts(self, log: BanditLog) -> NDArray[np.int64]:
        """How often each candidate was drawn, in each of the replicates: (replicates, N)."""
        log.need_candidates("MonteCarlo", PolicyError)
        streams = np.random.SeedSequence(self.seed).spawn(self.replicates)
        counts = np.zeros((self.replicates, int(log.offsets[-1])), dtype=np.int64)
        for replicate, stream in enumerate(streams):
            rng = np.random.default_rng(stream)
            share = (self.draws + replicate) // self.replicates
            for _ in range(share):
                position = _checked_positions(
                    self.draw(log, rng), log, "MonteCarlo: draw(log, rng) must return"
                )
                counts[replicate, log.offsets[:-1] + position] += 1
        return counts


class Target(NamedTuple):
    """A policy's probabilities on one log: of every candidate, or of the chosen ones only."""

    name: str
    flat: Floats | None
    chosen: Floats | None = None
    tolerance: float = 1e-6
    leave_one_out: tuple[Callable[[], Floats], ...] | None = None
    """For a policy known by draws: its probabilities without each replicate in turn."""

    def check(self, log: BanditLog) -> None:
        """Raise unless every decision's probabilities are probabilities."""
        if self.flat is not None:
            check_probabilities(
                self.flat, log.offsets, self.name, log.source, PolicyError, self.tolerance
            )


def resolve(log: BanditLog, policy: Any, name: str = "policy") -> Target:
    """The probabilities of anything that can stand for a policy.

    A policy object, an array ((n, K), flat, (n,) for the chosen candidates only, or the (n,)
    actions it would choose), text as on the command line (the name of a column, ``:uniform``, …),
    a fitted classifier, or a function of the log that returns an array. Those of all candidates
    are yet to be checked (`Target.check`): a scan can do that on the way.
    """
    if isinstance(policy, type):
        raise PolicyError(
            f"{policy.__name__} is a class; give an instance: {policy.__name__}(…).", column=name
        )
    if isinstance(policy, MonteCarlo):
        return _by_draws(log, policy, name)
    if isinstance(policy, Mixture):
        return _mixed(log, policy, name)
    policy = settle(log, policy, name)
    if hasattr(policy, "probabilities"):
        values: Any = policy.probabilities(log)
    elif hasattr(policy, "predict_proba"):
        values = Classifier(policy).probabilities(log)
    else:
        values = _called(log, policy, name) if callable(policy) else policy
        if _are_items(log, values, name):
            values = of_items(log, values, name)
    tolerance = tolerance_of(values)
    array = check.as_floats(values, name, PolicyError)
    chosen_only = array.shape == (len(log),) and (
        not log.candidates_known or int(log.offsets[-1]) != len(log)
    )
    if chosen_only:
        check_chosen_probabilities(array, name, log.source, PolicyError, positive=False)
        refuse_rewards(log, array, name)
        return Target(name, None, array)
    if values is policy:
        log.refuse_unordered(f"the values of {name}", PolicyError)
    flat = log.per_candidate(array, name, PolicyError)
    if not log.candidates_known:
        raise PolicyError(
            f"{name} must hold one probability per decision, of the chosen action: this log does "
            f"not say what else could have been chosen. Or give the log its candidates.",
            column=name,
        )
    return Target(name, flat, tolerance=tolerance)


def settle(log: BanditLog | LogScan, policy: Any, name: str = "policy") -> Any:
    """A policy as it is asked on a log or any part of it: what text stands for, a column of
    probabilities or of items."""
    from offpolicy.policies._spec import parse_policy

    policy = parse_policy(policy) if isinstance(policy, str) else policy
    policy = policy.reading(log, name) if isinstance(policy, Column) else policy
    refuse_foresight(log, columns_of(policy), name)
    return policy


def _parts(policy: Any) -> Iterator[Any]:
    """A policy and all that it is made of."""
    yield policy
    if isinstance(policy, Mixture):
        for part in policy.policies:
            yield from _parts(part)
    yield from (getattr(policy, name) for name in ("scores", "action") if hasattr(policy, name))


def columns_of(policy: Any) -> tuple[str, ...]:
    """The columns of a log that a settled policy reads, besides the log's own."""
    names = (name for part in _parts(policy) for name in getattr(part, "reads", ()))
    return tuple(dict.fromkeys(names))


def asks_for_arms(policy: Any) -> bool:
    """Whether a settled policy is about every candidate, and not the chosen ones alone."""
    if isinstance(policy, (Probability, Logged)):
        return False
    if isinstance(policy, Mixture):
        return any(map(asks_for_arms, policy.policies))
    if callable(policy) or hasattr(policy, "probabilities") or hasattr(policy, "predict_proba"):
        return True
    return np.asarray(policy).dtype.kind not in "f" if np.ndim(policy) == 1 else False


def _called(log: BanditLog, function: Callable[[BanditLog], Any], name: str) -> Any:
    """What a function of the log says of it."""
    try:
        values = function(log)
    except OffpolicyError:
        raise
    except Exception as error:
        lacks = f" This log has no contexts; they are named with {Door.spelled('context')}."
        raise PolicyError(
            f"{name} is a function, and it failed: {type(error).__name__}: {error}."
            + lacks * (log.context is None),
            column=name,
        ) from error
    if values is None or callable(values) or isinstance(values, str):
        raise PolicyError(
            f"{name} is a function, and for a log it returned a {type(values).__name__}: it must "
            f"return an array, of one probability for every candidate or of one action for every "
            f"decision. If it draws actions, give MonteCarlo(function).",
            column=name,
        )
    return values


def _are_items(log: BanditLog, values: Any, name: str) -> bool:
    """Whether plain values are the actions that a policy would choose, not probabilities."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):
        return False  # which is told when they are read as numbers
    if array.ndim != 1 or len(array) != len(log) or array.dtype.kind in "fbcmM":
        return False
    if array.dtype.kind not in "iu":
        return any(isinstance(value, str) for value in array[:1])
    if int(log.offsets[-1]) == len(log) and log.candidates_known:
        return False
    known = range(log.number_of_actions) if log.actions is None else log.actions
    unique = set(np.unique(array).tolist())
    if unique <= {0, 1} and unique <= set(known):
        shown = " and ".join(map(str, sorted(unique)))
        raise PolicyError(
            f"{name} holds {shown}, which can be read as probabilities and as actions of the log. "
            f"Give floats if they are probabilities of the chosen action, and "
            f"Deterministic(action=…) if they are the actions that the policy would choose.",
            column=name,
        )
    return not unique <= {0, 1}


def _renormalised(mass: Floats, log: BanditLog, name: str) -> Floats:
    """What a policy gives every candidate, scaled to sum to 1 in every decision."""
    total = np.add.reduceat(mass, log.offsets[:-1])
    sentence = "no candidate has any probability ({count} are like this)."
    check.refuse(total <= 0.0, sentence, name, log.source, PolicyError)
    return np.asarray(mass / np.repeat(total, np.diff(log.offsets)))


def _number(value: Any, name: Hashable) -> float:
    number = check.as_floats(value, f"Tabular, action {name!r},", PolicyError)
    if number.size != 1 or not np.isfinite(number).all():
        sentence = f"Tabular, action {name!r}: {value!r} is not a probability."
        raise PolicyError(sentence, column="Tabular")
    return float(number.reshape(-1)[0])


def _checked_positions(values: Any, log: BanditLog, what: str) -> Ints:
    """What a policy chooses or draws: one position inside its decision for every decision."""
    array = np.asarray(values)
    lengths = np.diff(log.offsets)
    if array.shape == (len(log),) and np.issubdtype(array.dtype, np.number):
        inside = (array >= 0) & (array < lengths) & (array == np.floor(array))
        if inside.all():
            return array.astype(np.int64)
    raise PolicyError(
        f"{what}, for every decision, a position from 0 to its number of candidates less one.",
        column=what.partition(":")[0],
    )


def _as_fitted(model: Any, log: BanditLog) -> Any:
    """The context in the form that a policy's classifier was fitted on: with names, or without."""
    asked, names = getattr(model, "feature_names_in_", None), log.context_names
    assert log.context is not None
    if asked is None or names is None or not set(asked) <= set(names):
        return log.context
    return named_frame(log.context, names)[list(asked)]


def _of_candidates(table: Floats, log: BanditLog) -> Floats:
    """A policy's (n, actions) table for the log's candidates, flat."""
    if log.candidate is None:
        return table.reshape(-1)
    return table[decision_of_candidate(log.offsets), log.candidate]


def _by_draws(log: BanditLog, policy: MonteCarlo, name: str) -> Target:
    counts = policy.counts(log)
    total = counts.sum(axis=0)

    def without(replicate: int) -> Floats:
        left = policy.draws - int(counts[replicate].sum()) // len(log)
        return np.asarray((total - counts[replicate]) / left)

    others = tuple(functools.partial(without, k) for k in range(len(counts)))
    return Target(name, np.asarray(total / policy.draws), leave_one_out=others)


def _mixed(log: BanditLog, policy: Mixture, name: str) -> Target:
    targets = [resolve(log, part, name) for part in policy.policies]
    parts = [_all_candidates(log, target, name) for target in targets]

    def mix(probabilities: Sequence[Floats]) -> Floats:
        return np.asarray(sum(w * p for w, p in zip(policy.weights, probabilities, strict=True)))

    def without(part: int, replicate: Callable[[], Floats]) -> Floats:
        return mix([*parts[:part], replicate(), *parts[part + 1 :]])

    others = tuple(
        functools.partial(without, k, replicate)
        for k, target in enumerate(targets)
        for replicate in target.leave_one_out or ()
    )
    return Target(name, mix(parts), leave_one_out=others or None)


def _all_candidates(log: BanditLog, target: Target, name: str) -> Floats:
    target.check(log)
    if target.flat is None:
        raise PolicyError(f"{name} needs the policy's probability of every candidate.", column=name)
    if target.tolerance <= 1e-6:
        return target.flat
    return target.flat / np.repeat(row_sums(target.flat, log.offsets), np.diff(log.offsets))


def _scores(scores: Scores, log: BanditLog, name: str) -> Floats:
    log.need_candidates(name, PolicyError)
    values = log.per_candidate(
        scores(log) if callable(scores) else scores, f"{name} scores", PolicyError
    )
    check.check_finite(values, f"{name} scores", log.source, PolicyError, log.offsets)
    return values
