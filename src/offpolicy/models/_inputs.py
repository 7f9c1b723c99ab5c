"""What a cross-fitted model sees of a log: context and features, candidate by candidate."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.door import Door
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError
from offpolicy.logs import BanditLog
from offpolicy.logs.labels import places_among
from offpolicy.models._contexts import Given

MOST_ROWS = 200_000
MOST_CELLS = 20_000_000
"""A model is asked about at most so many rows, and numbers, at a time."""

Mode = Literal["auto", "per-action", "shared", "recalibrate"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """The candidates of a log as a model sees them."""

    log: BanditLog
    names: tuple[Hashable, ...]
    """The actions fitted on."""
    context: NDArray[Any] | None
    features: Floats | None

    @property
    def offsets(self) -> Ints:
        return self.log.offsets

    @property
    def actions(self) -> int:
        return len(self.names)

    @cached_property
    def decision(self) -> Ints:
        return decision_of_candidate(self.offsets)

    @cached_property
    def code(self) -> Ints:
        """For each candidate, the position of its action among those fitted on; −1 if unknown."""
        return self.log.codes_among(self.names)

    @cached_property
    def chosen_code(self) -> Ints:
        """Of each decision's chosen candidate."""
        return places_among(self.log.actions or (), self.names)[self.log.chosen_codes()]

    @property
    def is_a_table(self) -> bool:
        """Whether every decision has all the actions fitted on, in their order."""
        log = self.log
        same = log.candidate is None and log.actions == self.names
        return same and log.has_equal_lengths and int(log.offsets[1]) == self.actions

    @classmethod
    def of(
        cls,
        log: BanditLog,
        who: str,
        mode: Mode,
        actions: tuple[Hashable, ...] | None,
        given: Given | None,
    ) -> Inputs:
        """Check that the log has what the mode needs, and name its actions as ``actions`` does;
        ``given`` is the form of contexts."""
        features = None
        if mode == "shared" and log.candidate_features is not None:
            features = log.candidate_features.reshape(int(log.offsets[-1]), -1)
        if log.context is None and features is None:
            option = ", or give the log candidate_features" if mode == "shared" else ""
            raise LogError(
                f"{who} needs a log with context, which is what was known before each decision. "
                f"Name its columns with {Door.spelled('context')}{Door.in_python(option)}."
            )
        if features is None:
            log.need_names(who)
        context = log.context if log.context is None or given is None else given.of(log, who)
        return cls(log, actions or (), context, features)

    @property
    def width(self) -> int:
        """How many numbers `shared` gives a candidate."""
        features = self.actions if self.features is None else self.features.shape[1]
        return features + (0 if self.context is None else self.context.shape[1])

    def shared(self, candidates: Ints) -> NDArray[Any]:
        """Context and features (or one column per action) of the given candidates."""
        if self.features is not None:
            features = self.features[candidates]
        else:
            features = np.zeros((len(candidates), self.actions))
            known = np.flatnonzero(self.code[candidates] >= 0)
            features[known, self.code[candidates[known]]] = 1.0
        if self.context is None:
            return features
        dtype = np.float64 if self.context.dtype.kind in "biuf" else object
        return np.hstack([self.context[self.decision[candidates]], features], dtype=dtype)

    def sparse(self, candidates: Ints) -> Any:
        """The same as a sparse matrix; for a numeric context and one column per action."""
        from scipy.sparse import csr_matrix

        assert self.context is not None
        d, known = self.context.shape[1], self.code[candidates] >= 0
        values = np.hstack(
            [self.context[self.decision[candidates]], known[:, None]], dtype=np.float64
        )
        columns = np.tile(np.arange(d + 1), (len(candidates), 1))
        columns[:, d] += np.where(known, self.code[candidates], 0)
        starts = np.arange(len(candidates) + 1) * (d + 1)
        shape = (len(candidates), d + self.actions)
        return csr_matrix((values.reshape(-1), columns.reshape(-1), starts), shape=shape)


# -- small parts ---------------------------------------------------------------------------------


def known_of(code: Ints, table: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a model knows each action: ``table`` by code, False for the unknown code −1."""
    return np.append(table, False)[code]


def by_action(code: Ints, actions: int) -> Iterator[tuple[int, Ints]]:
    """Each action that occurs, with its positions in ``code``, to fit or ask a model for each."""
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[order], np.arange(actions + 1))
    for action in np.flatnonzero(np.diff(bounds)):
        yield int(action), order[bounds[action] : bounds[action + 1]]


def parts(rows: int, width: int) -> Iterator[slice]:
    """Rows in pieces small enough for a fitted model to be asked about at once."""
    step = max(1, min(MOST_ROWS, MOST_CELLS // max(width, 1)))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def feature_width(log: BanditLog) -> int | None:
    """How many features of a candidate a reward model is fitted with; None if there are none."""
    if log.candidate_features is None:
        return None
    return log.candidate_features.size // int(log.offsets[-1])


# -- checks --------------------------------------------------------------------------------------


def need_width(width: int | None, expected: int | None, column: str) -> None:
    """Raise unless there are as many columns as the cross-fitted model saw."""
    if width != expected:
        raise LogError(
            f"{column} has {width or 'no'} columns, but the model was fitted with "
            f"{expected or 'none'}.",
            column=column,
        )
