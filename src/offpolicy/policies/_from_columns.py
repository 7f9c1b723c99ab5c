"""Policies that are columns of a log: of probabilities, of scores, or of what would be shown."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from offpolicy._core.door import Door
from offpolicy._core.quoting import quoted
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import count_of, malformed, refuse
from offpolicy.errors import LogError, PolicyError
from offpolicy.logs import BanditLog, Encoded, FoundArms, LogScan, as_number, listed
from offpolicy.logs.expressions import Expression
from offpolicy.logs.files import expression_values
from offpolicy.logs.labels import as_names, encode, suggestion

_NO_ACCIDENT = 50
"""So many probabilities are not equal to rewards by accident."""
_FEW = 101
"""Different values of a column that are looked at to see what it holds."""


@final
@dataclass(frozen=True)
class Column:
    """A column that is yet to be read as probabilities or as items: see `reading`."""

    name: str

    def reading(self, log: BanditLog | LogScan, called: str) -> Probability | Item:
        """By its type, and, where that does not tell, by all its values."""
        import pyarrow.types as types

        from offpolicy.policies._spec import without_colon

        try:
            kind = log.type_of(self.name)
        except LogError:
            if self.name in map(_as_text, _actions(log)):
                raise PolicyError(
                    f'There is no column "{self.name}", but an action of this name. The policy '
                    f"that always chooses it is :always({quoted(self.name)}).",
                    column=called,
                ) from None
            if (meant := without_colon(self.name)) is not None:
                raise PolicyError(
                    f'There is no column "{self.name}". Did you mean {meant}, with a colon?',
                    column=called,
                ) from None
            raise
        if types.is_dictionary(kind):
            kind = kind.value_type
        plain = types.is_integer(kind) or types.is_boolean(kind)
        text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        if not (plain or text):
            return Probability(self.name)
        values = _distinct(log, self.name)
        by_text = {_as_text(value) for value in values}
        actions = {_as_text(action) for action in _actions(log)}
        numbers = [as_number(value) for value in by_text]
        probabilities = all(number is not None and 0 <= number <= 1 for number in numbers)
        if probabilities and by_text & actions:
            if by_text <= actions:
                raise two_readings(self.name, by_text, called)
            return Probability(self.name)
        if text and not by_text & actions and any(number is not None for number in numbers):
            return Probability(self.name)  # which names the rows that hold no number
        return Probability(self.name) if probabilities else Item(self.name)


def refuse_foresight(log: BanditLog | LogScan, reads: Iterable[str], called: str) -> None:
    """Raise if a policy reads what is known only once an action was chosen."""
    if log.columns is None:
        return
    known_later = {
        log.columns.reward or "reward": "the reward, which is known only after the action was "
        "chosen. A policy may use what was known before",
        log.columns.chosen or log.columns.action or "action": "the action that was logged, which "
        "is what a policy is to choose. What the logger did is :logged",
    }
    for name in reads:
        if name in known_later:
            raise PolicyError(f'{called} reads "{name}", {known_later[name]}.', column=name)


def refuse_rewards(log: BanditLog, probabilities: Floats, called: str) -> None:
    """Raise if these are the rewards themselves, which a policy cannot know."""
    if len(log) < _NO_ACCIDENT or not np.array_equal(probabilities, log.reward):
        return
    if log.reward.min() < log.reward.max():
        raise PolicyError(
            f"{called} holds the reward of every row, which is known only after the action was "
            f"chosen: it is no policy's probability.",
            column=called,
        )


def two_readings(column: str, values: Iterable[str], called: str) -> PolicyError:
    """The error for a column that may be a policy's probabilities or its items."""
    shown, name = " and ".join(sorted(values)[:3]), quoted(column)
    say = (
        f":probability({name}) if it is the new policy's probability of the chosen action, "
        f":item({name}) if it is the action that the new policy would choose"
    )
    return PolicyError(
        f'column "{column}" holds {shown}, which can be read as probabilities and as actions of '
        f"the log. Say {say}.",
        column=called,
    )


@final
@dataclass(frozen=True)
class Probability:
    """A column of probabilities: of the chosen action, or a list by candidate."""

    name: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)

    def probabilities(self, log: BanditLog) -> Any:
        return log.named_column(self.name, numbers=PolicyError)


@final
@dataclass(frozen=True)
class Item:
    """A column with the action that the policy would choose: by name, or by position where
    candidates have no names."""

    name: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)

    def probabilities(self, log: BanditLog) -> Floats:
        column = log.column_in_table(self.name)
        coded = None if column.null_count else Encoded.of(column)
        return of_items(log, log.named_column(self.name) if coded is None else coded, self.name)


@final
@dataclass(frozen=True)
class Rule:
    """An expression over columns that says which action the policy would choose."""

    expression: Expression

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(sorted(self.expression.names))

    def probabilities(self, log: BanditLog) -> Floats:
        if log.table is None:
            raise PolicyError(
                "A rule is about columns, and this log was not made from a frame or a file.",
                column="rule",
            )
        values = expression_values(log.table, self.expression, log.source)
        if values.null_count:
            missing = values.is_null().to_numpy()
            sentence = "the rule says nothing for this row ({count} are like this): add else."
            refuse(np.asarray(missing), sentence, str(self.expression), log.source, PolicyError)
        coded = Encoded.of(values)
        return of_items(log, values.to_numpy() if coded is None else coded, str(self.expression))


@final
@dataclass(frozen=True)
class Always:
    """The same action in every decision."""

    action: Hashable

    def probabilities(self, log: BanditLog) -> Floats:
        names = range(log.number_of_actions) if log.actions is None else log.actions
        (place,) = _places([self.action], names)
        if place < 0 and log.candidates_known and log.candidate is None:
            raise PolicyError(
                f"There is no arm {self.action!r} that could always be chosen."
                f"{suggestion(self.action, names)} The arms are {listed(names)}.{_all_arms(log)}",
                column="policy",
            )
        items = np.full(len(log), place, dtype=np.int64)
        return _of_places(log, items, lambda row: self.action, f"always({self.action})")


@final
@dataclass(frozen=True)
class Logged:
    """What the logger did."""

    def probabilities(self, log: BanditLog) -> Floats:
        values = log.propensity if log.logging is None else log.logging
        if values is None:
            raise PolicyError(
                f"The log does not say what the logger did: name its {Door.named('propensity')}.",
                column="propensity",
            )
        return values


@final
@dataclass(frozen=True)
class ScoresColumn:
    """A column with the list of a policy's scores of the candidates."""

    name: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)

    def __call__(self, log: BanditLog) -> Any:
        return log.named_column(self.name, numbers=PolicyError)


def of_items(log: BanditLog, items: Any, column: str) -> Floats:
    """What a policy that chooses these makes of a log: 1 for each decision's candidate that is
    its item; where candidates are unknown, of the chosen ones alone."""
    items = as_names(items, column, PolicyError)
    if len(items) != len(log):
        raise PolicyError(
            f"{column} has {len(items):,} values; an action is needed for each of the "
            f"{len(log):,} decisions.",
            column=column,
        )
    unique, codes = encode(items, column, log.source, PolicyError)
    if log.actions is None:
        numbers = [as_number(_as_text(name)) for name in unique]
        known = np.array([n if isinstance(n, int) else -1 for n in numbers], dtype=np.int64)
    else:
        known = _places(unique, log.actions)
    return _of_places(log, known[codes], lambda row: unique[codes[row]], column)


def _of_places(
    log: BanditLog, wanted: Ints, name: Callable[[int], Hashable], column: str
) -> Floats:
    """Likewise, of what it chooses by its position among the log's actions, or, if these have no
    names, among the decision's candidates."""
    if not log.candidates_known:
        return np.asarray(wanted == log.chosen_codes(), dtype=np.float64)
    if log.candidate is None:
        absent, place = (wanted < 0) | (wanted >= np.diff(log.offsets)), wanted
    else:
        lengths = np.diff(log.offsets)
        hits = np.flatnonzero(log.candidate == np.repeat(wanted, lengths))
        rows = decision_of_candidate(log.offsets)[hits]
        absent = np.bincount(rows, minlength=len(log)) == 0
        place = np.zeros(len(log), dtype=np.int64)
        place[rows] = hits - log.offsets[rows]
    if absent.any():
        wrong = name(int(np.argmax(absent)))
        sentence = (
            f"the policy chooses {wrong!r}, which is not among the "
            f"{'candidates of the decision' if log.candidate is not None else 'arms'} "
            f"({count_of(absent)} are like this).{suggestion(wrong, log.actions or ())}"
            f"{_all_arms(log)}"
        )
        raise malformed(absent, column, log.source, sentence, PolicyError)
    return _ones(log, place)


def _all_arms(log: BanditLog) -> str:
    """What to do about an action that is not among the arms, if nobody named these."""
    if log.actions is None:
        return " Candidates have no names here, and are known by their positions, from 0 on."
    if log.columns is None or not isinstance(log.columns.actions, FoundArms):
        return ""
    return (
        f" The arms were found in the log ({listed(log.actions)}); if there are more, name all: "
        f"{Door.spelled('actions')}."
    )


def _ones(log: BanditLog, place: Ints) -> Floats:
    mass = np.zeros(int(log.offsets[-1]))
    mass[log.offsets[:-1] + place] = 1.0
    return mass


def _places(names: Iterable[Hashable], known: Iterable[Hashable]) -> Ints:
    """Positions among the names that are known, as they are or else as they are written."""
    exact = {name: k for k, name in reversed(list(enumerate(known)))}
    written = {_as_text(name): k for name, k in exact.items()}
    return np.array(
        [exact[name] if name in exact else written.get(_as_text(name), -1) for name in names],
        dtype=np.int64,
    )


def _as_text(name: Any) -> str:
    if isinstance(name, (bool, np.bool_)):
        return str(int(name))
    if isinstance(name, (float, np.floating)) and float(name).is_integer():
        return str(int(name))
    return str(name)


def _distinct(log: BanditLog | LogScan, column: str) -> list[Any]:
    if isinstance(log, LogScan):
        return list(log.distinct(column, _FEW).tolist())
    return list(log.column_in_table(column).unique().drop_null().to_pylist())


def _actions(log: BanditLog | LogScan) -> Iterable[Any]:
    if not isinstance(log, LogScan):
        return range(log.number_of_actions) if log.actions is None else log.actions
    if log.columns.actions is not None:
        return log.columns.actions
    return list(log.distinct(str(log.column_of("action")), _FEW).tolist())
