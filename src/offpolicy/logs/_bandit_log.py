"""`BanditLog`: logged decisions in one ragged layout.

Flat arrays and offsets, as in an Arrow list column: the candidates of decision i are
``offsets[i] : offsets[i + 1]`` of every per-candidate array. A plain (n, K) array is the special
case of equal lengths. All validation happens when a log is made, once.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import ragged
from offpolicy._core import validation as check
from offpolicy._core.checkpoint import digest
from offpolicy._core.contexts import as_context, names_in
from offpolicy._core.door import Door
from offpolicy._core.late import pa
from offpolicy._core.pickling import Portable
from offpolicy._core.types import Bools, Floats, Ints
from offpolicy.errors import LogError, OffpolicyError, ParameterError, Place, PropensityError
from offpolicy.logs import labels
from offpolicy.logs._arms import FoundArms, as_found, as_held
from offpolicy.logs._arrow_types import holds_lists
from offpolicy.logs._bad_rows import (
    MAX_DROPPED,
    Dropped,
    check_on_bad_row,
    keep_well_formed,
    refuse_many,
    source_of_kept,
)
from offpolicy.logs._columns import (
    Columns,
    as_table,
    missing_column,
    numbers_of,
    read_columns,
    read_named,
)
from offpolicy.logs._encoded import Encoded
from offpolicy.logs._long_format import one_row_per_decision
from offpolicy.logs._rewards import RewardSummary
from offpolicy.logs._validation import (
    SMALLEST_PROPENSITY,
    check_chosen_probabilities,
    check_positive,
    check_probabilities,
    check_reward,
    tolerance_of,
    without_traces,
)
from offpolicy.logs.expressions import Expression

_DIGITS, _NEARLY_ALL = range(2, 9), 0.9
"""Digits to which propensities may have been rounded; and the share of rows that must fit."""
FIRST = 1024
"""Decisions from which the number of candidates is judged."""


@dataclass(frozen=True, eq=False, repr=False)
class BanditLog(Portable):
    """Logged decisions: candidates, the chosen one, its propensity, and the reward.

    Make one with `from_arrays`, `from_ragged` or `from_frame`, and another like it with `replace`,
    `rows` or `take`. Arrays of the right type are not copied: do not change them afterwards.

    Attributes
    ----------
    offsets : int64[n + 1]
        Where each decision's candidates start.
    chosen : int64[n]
        Position of the chosen candidate inside its decision.
    reward : float64[n]
    propensity : float64[n] or None
        π₀ of the chosen candidate.
    logging : float64[N] or None
        π₀ of every candidate.
    actions : tuple or None
        Names of the actions; ``candidate`` (int64[N]) says which one each candidate is.
        If ``candidate`` is None every decision has all actions, in order.
    cluster, time, row_weight, context, candidate_features
        Optional companions: per decision, except the last (per candidate). The context, (n, d),
        is of numbers, or of objects of any kind; what is missing in it is NaN or None.
    context_names : tuple or None
        What the columns of ``context`` are called, if that is known.
    candidates_known : bool
        False if the log lists only what was chosen, not what else could have been.
    first_row : int
        Position of the first decision in the log that this one is a stretch of.
    whole_row, whole_group : int64[n] or None
        In a part of a log: each decision's position, and its `group`, in the whole of it, so that
        it stays in its fold.
    columns : Columns or None
        Which column of ``table``, the frame it was made from, plays which role.
    dropped : Dropped or None
        Malformed rows that were left out; None if they are errors.
    max_dropped : float
        The share of all rows that may be.
    rounded_propensities : int
        How many propensities were given rounded beside exact ``logging``, which counts.
    estimated_by : PropensityModel or None
        The fitted model that ``logging`` is by, if it was not logged.
    condition : Expression or None
        What all its rows meet: others were left out when it was read (``where``).
    """

    offsets: Ints
    chosen: Ints
    reward: Floats
    propensity: Floats | None = None
    logging: Floats | None = None
    actions: tuple[Hashable, ...] | None = None
    candidate: Ints | None = None
    cluster: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    row_weight: Floats | None = None
    context: NDArray[Any] | None = None
    context_names: tuple[str, ...] | None = None
    candidate_features: Floats | None = None
    candidates_known: bool = True
    source: str = ""
    first_row: int = 0
    whole_row: Ints | None = None
    whole_group: Ints | None = None
    table: pa.Table | None = field(default=None, repr=False)
    columns: Columns | None = None
    dropped: Dropped | None = None
    max_dropped: float = MAX_DROPPED
    rounded_propensities: int = 0
    estimated_by: Any = None
    condition: Expression | None = None
    trusted: InitVar[bool] = False
    tolerance: InitVar[float] = 1e-6

    def __post_init__(self, trusted: bool, tolerance: float) -> None:
        width = 0 if self.context is None else self.context.shape[1]
        if self.context_names is not None and len(self.context_names) != width:
            object.__setattr__(self, "context_names", None)  # those of another context
        if not trusted:
            logging, propensity, rounded = _checked(self, tolerance)
            if rounded:
                object.__setattr__(self, "rounded_propensities", rounded)
            object.__setattr__(self, "logging", logging)
            object.__setattr__(self, "propensity", propensity)

    # -- making one ------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        *,
        action: ArrayLike,
        reward: ArrayLike,
        logging: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        actions: Sequence[Hashable] | int | None = None,
        context: ArrayLike | None = None,
        context_names: Sequence[str] | None = None,
        candidate_features: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        row_weight: ArrayLike | None = None,
        source: str = "",
    ) -> BanditLog:
        """A log in which every decision has the same K candidates.

        Parameters
        ----------
        action : (n,)
            What was chosen: column positions 0 … K − 1, or names if ``actions`` gives them.
        reward : (n,)
        logging : (n, K), optional
            π₀ of every action. ``propensity`` then follows from it.
        propensity : (n,), optional
            π₀ of the chosen action, where that is all that was logged.
        actions : names or number of the actions, optional
            With ``propensity`` only, and without this, the log does not know its candidates:
            estimators that need the policy on all of them are then out of reach.
        context : (n, d), candidate_features : (n, K, d'), optional
            The context may be a frame, too: its columns keep their names. Columns may hold
            numbers, text or times; values may be missing.
        context_names : optional
            What the columns of the context are called.
        cluster, time, row_weight : (n,), optional
            Rows of one cluster (user, session) may be dependent; a row weight says how many
            decisions the row stands for.

        Examples
        --------
        >>> log = BanditLog.from_arrays(
        ...     action=[0, 1, 1], reward=[1, 0, 1], logging=[[0.8, 0.2], [0.5, 0.5], [0.3, 0.7]]
        ... )
        >>> log.propensity.tolist()
        [0.8, 0.5, 0.7]
        """
        rewards = check.as_vector(reward, "reward")
        n = len(rewards)
        if n == 0:
            raise LogError(check.EMPTY, column="reward")
        probabilities = K = None
        if logging is not None:
            probabilities = check.as_floats(logging, "logging", PropensityError)
            rule = (
                "(n, K), one row per decision. Use from_ragged where candidates differ, or "
                "propensity= where only the chosen action's probability is known"
            )
            check.need_shape(probabilities.ndim == 2, "logging", probabilities, rule)
            check.check_length(probabilities, n, "logging")
            K = probabilities.shape[1]
        actions = K if actions is None else actions
        known, codes = actions is not None, None
        if actions is None:
            listed = labels.as_names(action, "action")
            check.check_length(listed, n, "action")
            names, codes = labels.encode(listed, "action", source)
            width, chosen = 1, np.zeros(n, dtype=np.int64)
        else:
            if isinstance(actions, (int, np.integer)):
                actions = range(int(actions))
            names = labels.as_action_names(actions)
            width = len(names)
            if K not in (None, width):
                raise LogError(
                    f"actions has {width} names, but logging has {K} columns.", column="actions"
                )
            chosen = labels.positions(action, names, n, source)
        features = None
        if candidate_features is not None:
            features = check.as_floats(candidate_features, "candidate_features")
            fine = features.ndim in (2, 3) and features.shape[:2] == (n, width)
            rule = f"({n:,}, {width}, d): d numbers for every candidate of every decision"
            check.need_shape(fine, "candidate_features", features, rule)
            features = features.reshape(n * width, -1)
        return cls._of(
            offsets=np.arange(n + 1, dtype=np.int64) * width,
            chosen=chosen,
            reward=rewards,
            propensity=propensity,
            logging=None if probabilities is None else probabilities.reshape(-1),
            actions=names,
            candidate=codes,
            cluster=cluster,
            time=time,
            row_weight=row_weight,
            context=context,
            context_names=context_names,
            candidate_features=features,
            candidates_known=known,
            source=source,
            tolerance=tolerance_of(logging),
        )

    @classmethod
    def from_ragged(
        cls,
        *,
        offsets: ArrayLike,
        reward: ArrayLike,
        chosen: ArrayLike | None = None,
        action: ArrayLike | None = None,
        candidate: ArrayLike | None = None,
        logging: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        context: ArrayLike | None = None,
        context_names: Sequence[str] | None = None,
        candidate_features: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        row_weight: ArrayLike | None = None,
        source: str = "",
    ) -> BanditLog:
        """A log whose candidates differ between decisions.

        Give ``chosen`` (positions inside each decision), or ``action`` and ``candidate`` (names
        of what was chosen and of every candidate, flat). Other arguments as in `from_arrays`,
        with ``logging`` and ``candidate_features`` flat: one row per candidate.
        """
        bounds = check.as_offsets(offsets, source)
        rewards = check.as_vector(reward, "reward")
        check.check_length(rewards, len(bounds) - 1, "reward")
        names = codes = None
        if candidate is not None:
            listed = labels.as_names(candidate, "candidate")
            check.check_length(listed, int(bounds[-1]), "candidate", "candidates")
            names, codes = labels.encode(listed, "candidate", source, offsets=bounds)
            labels.refuse_twice(codes, bounds, names, source)
        if (chosen is None) == (action is None):
            raise LogError(
                "Give either chosen (positions) or action (names), and not both.", column="action"
            )
        if chosen is not None:
            positions = check.as_integers(chosen, "chosen", source)
        else:
            if codes is None or names is None:
                raise LogError(
                    "action names what was chosen, but candidate, the names of the candidates, "
                    "is missing. Give it, or give chosen as positions.",
                    column="candidate",
                )
            positions = labels.find_among(action, codes, names, bounds, source)
        return cls._of(
            offsets=bounds,
            chosen=positions,
            reward=rewards,
            propensity=propensity,
            logging=logging,
            actions=names,
            candidate=codes,
            cluster=cluster,
            time=time,
            row_weight=row_weight,
            context=context,
            context_names=context_names,
            candidate_features=candidate_features,
            source=source,
            tolerance=tolerance_of(logging),
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Columns | None = None,
        source: str = "",
        *,
        on_bad_row: str = "error",
        max_dropped: float = MAX_DROPPED,
    ) -> BanditLog:
        """A log from any dataframe, or from a mapping of names to columns.

        pandas, polars (also lazy), DuckDB relations, Arrow tables, …: one row per decision,
        probabilities of all candidates in list columns; or one row per decision and candidate, if
        ``columns.decision`` is given. ``columns`` says which column plays which role. A malformed
        row is an error, or, with ``on_bad_row="drop"``, left out, up to a share of ``max_dropped``
        (see `read_log`).
        """
        columns = columns or Columns()
        check_on_bad_row(on_bad_row, max_dropped)
        if on_bad_row == "drop":
            return _without_bad_rows(as_table(frame), columns, source, max_dropped)
        if columns.decision:
            frame, columns = one_row_per_decision(as_table(frame), columns, source)
        table = as_table(frame)
        if not len(table):
            raise LogError(check.EMPTY, source)
        table, roles = read_columns(table, columns, source)
        offsets = roles.pop("offsets", None)
        if columns.constant_propensity is not None:
            roles["propensity"] = np.full(len(table), columns.constant_propensity)
        if columns.actions is not None:
            log = cls._of_arms(columns, offsets, roles, source)
        elif offsets is None:
            roles.pop("candidate", None)
            log = cls.from_arrays(**roles, source=source)
        else:
            if roles.get("candidate") is None:
                roles["chosen"] = _positions_in_lists(roles.pop("action"), source)
            log = cls.from_ragged(offsets=offsets, **roles, source=source)
        return log.replace(table=table, columns=columns, trusted=True)

    @classmethod
    def _of_arms(
        cls, columns: Columns, offsets: Ints | None, roles: dict[str, Any], source: str
    ) -> BanditLog:
        """Of decisions that could all choose among the same arms; ``logging`` is in their order."""
        assert columns.actions is not None
        if roles.pop("candidate", None) is not None:
            raise LogError(
                f"the log lists the candidates of every decision, and {Door.named('actions')} "
                f"names arms as well: leave one out.",
                source,
                column="candidates",
            )
        arms, n = as_held(columns.actions, roles["action"]), len(roles["reward"])
        if offsets is not None:
            lengths = np.diff(offsets)
            check.refuse(
                lengths != len(arms),
                f"the list has {{length}} entries, but there are {len(arms)} actions ({{count}} "
                f"are like this). Every list must have one entry for each, in their order.",
                columns.logging or "logging", source, PropensityError, length=lengths,
            )  # fmt: skip
            roles["logging"] = roles["logging"].reshape(n, len(arms))
        elif columns.constant_propensity is not None:
            roles["logging"] = np.full((n, len(arms)), columns.constant_propensity)
        return cls.from_arrays(**roles, actions=arms, source=source)

    def find_arms(self) -> FoundArms | None:
        """All actions that were ever chosen; None if they are too many to be arms."""
        return as_found(self.actions or ())

    def with_found_arms(self, arms: FoundArms) -> BanditLog:
        """A log that knows only what was chosen, with these as the candidates of every decision."""
        columns = dataclasses.replace(self.columns or Columns(), actions=arms)
        constant, n, K = columns.constant_propensity, len(self), len(arms)
        return self.replace(
            offsets=np.arange(n + 1, dtype=np.int64) * K,
            chosen=labels.places_among(self.actions or (), arms)[self.chosen_codes()],
            actions=tuple(arms),
            candidate=None,
            candidates_known=True,
            logging=None if constant is None else np.full(n * K, constant),
            columns=columns,
            trusted=True,
        )

    @classmethod
    def _of(cls, **values: Any) -> BanditLog:
        """Of fields that need not be arrays yet."""
        values["context_names"] = _column_names(values["context"], values["context_names"])
        for name, make in _MAKERS.items():
            if values[name] is not None:
                values[name] = make(values[name], name)
        return cls(**values)

    # -- another like it -------------------------------------------------------------------

    def replace(self, *, trusted: bool = False, **changes: Any) -> BanditLog:
        """The same log with other fields: ``log.replace(reward=…, context=…)``.

        Each decision keeps its `bucket`, unless ``cluster`` is another. Fields are checked as
        when a log is made; ``trusted`` ones are taken as they are.
        """
        kept = {item.name: getattr(self, item.name) for item in fields(self)}
        if "cluster" in changes:
            kept["whole_group"] = None
        if "logging" in changes or "propensity" in changes:
            kept["estimated_by"] = None
        if "context" in changes:
            kept["context_names"] = names_in(changes["context"])
        if trusted:
            return BanditLog(**(kept | changes), trusted=True)
        # What has passed before may have been float32.
        tolerance = tolerance_of(changes["logging"]) if "logging" in changes else 1e-3
        return self._of(**(kept | changes), tolerance=tolerance)

    def rows(self, start: int, stop: int) -> BanditLog:
        """Decisions ``start : stop``, without copying."""
        bounds = self.offsets[start : stop + 1]
        return self._part(
            slice(start, stop),
            slice(int(bounds[0]), int(bounds[-1])),
            offsets=bounds - bounds[0],
            first_row=self.first_row + start,
            table=None if self.table is None else self.table.slice(start, stop - start),
        )

    def take(self, rows: Ints) -> BanditLog:
        """These decisions, in this order; each keeps its bucket."""
        return self._part(
            rows,
            self.candidates_of(rows),
            offsets=ragged.offsets_of(np.diff(self.offsets)[rows]),
            first_row=0,
            whole_row=self.position[rows],
            table=None if self.table is None else self.table.take(rows),
        )

    def _part(self, rows: slice | Ints, flat: slice | Ints, **changes: Any) -> BanditLog:
        parts = {name: (getattr(self, name), rows) for name in (*_PER_DECISION, "whole_row")}
        parts |= {name: (getattr(self, name), flat) for name in _PER_CANDIDATE}
        # Groups are a matter of the whole log: found anew, a part's would not match the rest.
        parts["whole_group"] = self.group, rows
        changes["estimated_by"] = self.estimated_by
        cut = {name: None if all_ is None else all_[part] for name, (all_, part) in parts.items()}
        return self.replace(**(cut | changes), context_names=self.context_names, trusted=True)

    # -- looking at it ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.reward)

    def __repr__(self) -> str:
        lengths = np.diff(self.offsets)
        if not self.candidates_known:
            candidates = "candidates unknown"
        elif lengths.min() == lengths.max():
            candidates = f"{lengths[0]} candidates each"
        else:
            candidates = f"{lengths.min()} to {lengths.max()} candidates each"
        extras = [
            name
            for name in ("logging", "propensity", "cluster", "time", "row_weight", "context")
            if getattr(self, name) is not None
        ]
        name = f"{self.source}: " if self.source else ""
        return f"BanditLog({name}{', '.join([f'{len(self):,} decisions', candidates, *extras])})"

    @cached_property
    def chosen_index(self) -> Ints:
        """Index of each decision's chosen candidate in the flat arrays."""
        return self.offsets[:-1] + self.chosen

    @cached_property
    def group(self) -> Ints | None:
        """Each decision's group, by a hash of its cluster; None without clusters."""
        if self.cluster is None or self.whole_group is not None:
            return self.whole_group
        return labels.hash_groups(self.cluster)

    @cached_property
    def bucket(self) -> Ints:
        """Each decision's bucket, 0 … 255: its `group`, or, without clusters, one by a hash of
        its position. What must not be learned from a decision is learned without its bucket."""
        return labels.hash_rows(self.position) if self.group is None else self.group

    @property
    def is_part(self) -> bool:
        """Whether folds are those of a larger log."""
        return self.first_row > 0 or self.whole_row is not None or self.whole_group is not None

    @property
    def position(self) -> Ints:
        """Each decision's position in the whole log."""
        if self.whole_row is not None:
            return self.whole_row
        return np.arange(self.first_row, self.first_row + len(self))

    def fold(self, folds: int = 5) -> Ints:
        """Each decision's fold, for cross-fitting: decisions of one cluster share theirs."""
        return self.bucket % folds

    @property
    def width(self) -> float:
        """Candidates a decision, judged from the first ones alone."""
        few = min(len(self), FIRST)
        return int(self.offsets[few] - self.offsets[0]) / few

    @cached_property
    def rewards(self) -> RewardSummary:
        """What is known of all rewards before any is used."""
        return RewardSummary.of(self.reward)

    def find_reward_outside(self, low: float, high: float) -> tuple[Place, float]:
        """The first reward that is not within these, and its place."""
        row = int(np.argmax((self.reward < low) | (self.reward > high)))
        return check.where(self.source, "reward", row), float(self.reward[row])

    @property
    def has_equal_lengths(self) -> bool:
        """Whether every decision has the same number of candidates."""
        lengths = np.diff(self.offsets)
        return bool(lengths.min() == lengths.max())

    @cached_property
    def weights(self) -> Floats:
        """How many decisions each row stands for: ``row_weight``, or 1."""
        return np.ones(len(self)) if self.row_weight is None else self.row_weight

    # -- which action a candidate is -------------------------------------------------------

    def need_candidates(self, who: str, error: type[OffpolicyError] = LogError) -> None:
        """Raise unless the log says what else could have been chosen."""
        if not self.candidates_known:
            raise error(
                f"{who} needs to know the candidates of every decision, and this log lists only "
                f"what was chosen. Name all arms, if they are always the same "
                f"({Door.spelled('actions')}), or a column of lists "
                f"({Door.spelled('candidates')}).",
                column="actions",
            )

    def need_names(self, who: str, error: type[OffpolicyError] = LogError) -> tuple[Hashable, ...]:
        """The names of the actions; raise unless the log says which one each candidate is."""
        if self.actions is None:
            raise error(
                f"{who} needs to know which action each candidate is: give their names, a column "
                f"of lists ({Door.named('candidates')})"
                f"{Door.in_python('; when making a log of arrays, candidate=')}.",
                column="candidate",
            )
        return self.actions

    @property
    def number_of_actions(self) -> int:
        """Of the names, or, without any, of the candidates of the largest decision."""
        return int(np.diff(self.offsets).max()) if self.actions is None else len(self.actions)

    def candidate_codes(self) -> Ints:
        """For each candidate, its position in ``actions``; without names, in its decision."""
        if self.candidate is not None:
            return self.candidate
        return ragged.position_in_decision(self.offsets)

    def chosen_codes(self) -> Ints:
        """Likewise for each decision's chosen candidate."""
        return self.chosen if self.candidate is None else self.candidate[self.chosen_index]

    def codes_among(self, names: Iterable[Hashable]) -> Ints:
        """For each candidate, the position of its action among ``names``; −1 if it is not there."""
        return labels.places_among(self.actions or (), names)[self.candidate_codes()]

    def per_candidate(
        self, values: ArrayLike, column: str, error: type[OffpolicyError] = LogError
    ) -> Floats:
        """``values`` as one flat number per candidate: from (N,) or (n, K)."""
        array = check.as_floats(values, column, error)
        total = int(self.offsets[-1])
        if array.ndim == 2 and array.shape[0] == len(self) and array.size == total:
            if self.has_equal_lengths:
                return array.reshape(-1)
        elif array.ndim == 1 and len(array) == total:
            return array
        expected = f"one value per candidate: shape ({total:,},)"
        if self.has_equal_lengths and self.candidates_known:
            expected += f" or ({len(self):,}, {self.offsets[1]:,})"
        hint = (
            ""
            if self.candidates_known
            else f" This log does not say what else could have been chosen"
            f"{Door.in_python(': give actions= (names or number) when making it')}."
        )
        raise error(
            f"{column} has shape {array.shape}, but must have {expected}.{hint}", column=column
        )

    def named_column(
        self, name: str, *, numbers: type[OffpolicyError] | None = None
    ) -> NDArray[Any]:
        """A column of the frame the log was made from: flat if it holds lists; ``numbers`` is the
        error for a value that is none, where all must be."""
        column = self.column_in_table(name)
        assert self.table is not None
        if holds_lists(column.type):
            self.refuse_unordered(f'the lists of "{name}"', numbers or LogError)
        return read_named(self.table, name, self.offsets, self.source, numbers=numbers)

    def refuse_unordered(self, what: str, error: type[OffpolicyError] = LogError) -> None:
        """Raise for values by candidate where nobody said in which order these are."""
        if self.columns is not None and isinstance(self.columns.actions, FoundArms):
            raise error(
                f"Nothing says in which order {what} have the arms, which were found in the log. "
                f"Name them in that order: {Door.spelled('actions')}…",
                column="actions",
            )

    @property
    def column_names(self) -> Sequence[str]:
        """All columns of the frame the log was made from."""
        return () if self.table is None else self.table.column_names

    def type_of(self, column: str) -> pa.DataType:
        """What a column of that frame holds."""
        return self.column_in_table(column).type

    def column_in_table(self, name: str) -> pa.ChunkedArray:
        """A column of the frame the log was made from, as it is there."""
        if self.table is None:
            raise LogError(
                f'"{name}" is a column name, but this log was not made from a frame or a file. '
                f"Pass the values themselves.",
                column=name,
            )
        if name not in self.table.column_names:
            raise missing_column(self.table.column_names, name, "", self.source)
        return self.table.column(name)

    def candidates_of(self, rows: Ints) -> Ints:
        """Indices, in the flat arrays, of all candidates of these decisions."""
        return ragged.candidates_of(self.offsets, rows)

    def batches(self) -> Iterator[BanditLog]:
        """The log in pieces that fit in memory: here, itself."""
        yield self

    def fingerprint(self) -> str:
        """A hash of everything the log holds."""
        held = [getattr(self, name) for name in ("offsets", *_PER_DECISION, *_PER_CANDIDATE)]
        arrays = [x.astype(str) if x is not None and x.dtype == object else x for x in held]
        return digest(*arrays, repr(self.actions), self.candidates_known)


def need_log(log: object) -> None:
    """Raise, saying how to make a log, unless this is one in memory."""
    if not isinstance(log, BanditLog):
        raise ParameterError(
            f"A {type(log).__name__} is not a log. Make one with BanditLog.from_frame (any "
            f"dataframe), from_arrays or from_ragged.",
            column="log",
        )


def _without_bad_rows(table: pa.Table, columns: Columns, source: str, most: float) -> BanditLog:
    """The log of those rows of a table that are well-formed."""
    reasons: Counter[str] = Counter()
    long = bool(columns.decision)
    if long:
        wide = keep_well_formed(
            table, lambda part: one_row_per_decision(part, columns, source), columns.decision
        )
        reasons += wide.reasons
        if wide.made is None:
            refuse_many(Dropped(reasons.total(), reasons), source, most)
            raise LogError(check.EMPTY, source)
        table, columns = wide.made
    kept = keep_well_formed(table, lambda part: BanditLog.from_frame(part, columns, source))
    reasons += columns.by_role(kept.reasons)
    dropped = Dropped(len(kept.rows) + reasons.total(), dict(reasons))
    refuse_many(dropped, source, most)
    if kept.made is None:
        raise LogError(check.EMPTY, source)
    log = kept.made
    if reasons and not long:
        source = source_of_kept(kept.rows, source)
    return log.replace(dropped=dropped, max_dropped=most, source=source, trusted=True)


_PER_DECISION = (
    "chosen", "reward", "propensity", "cluster", "time", "row_weight", "context",
)  # fmt: skip
_PER_CANDIDATE = ("logging", "candidate", "candidate_features")


def _checked(log: BanditLog, tolerance: float) -> tuple[Floats | None, Floats | None, int]:
    """Raise unless the log is well-formed; ``logging`` and ``propensity``, made to agree, and how
    many of the latter were rounded."""
    n, source = len(log), log.source
    if n == 0:
        raise LogError(check.EMPTY, column="reward")
    total = int(log.offsets[-1])
    for names, length, unit in (
        (_PER_DECISION, n, "decisions"), (_PER_CANDIDATE, total, "candidates")
    ):  # fmt: skip
        for name in names:
            if getattr(log, name) is not None:
                check.check_length(getattr(log, name), length, name, unit)
    check_reward(log.reward, source)
    lengths = np.diff(log.offsets)
    check.refuse(
        (log.chosen < 0) | (log.chosen >= lengths),
        "position {position}, but the decision has {length} candidates ({count} are like this). "
        "Positions run from 0 to the number of candidates less one.",
        "chosen", source, position=log.chosen, length=lengths,
    )  # fmt: skip
    logging, propensity = log.logging, log.propensity
    if logging is not None:
        check_probabilities(logging, log.offsets, "logging", source, PropensityError, tolerance)
        if logging[log.chosen_index].min() >= SMALLEST_PROPENSITY:
            logging = without_traces(logging)
    rounded = 0
    if logging is not None:
        propensity, rounded = _implied_propensity(log, logging, tolerance)
    elif propensity is not None:
        _check_propensity(propensity, source, tolerance)
    if log.row_weight is not None:
        check_positive(log.row_weight, "row_weight", source)
    if log.candidate_features is not None:
        check.check_finite(
            log.candidate_features, "candidate_features", source, offsets=log.offsets
        )
    for name in ("time", "cluster"):
        values = getattr(log, name)
        if values is not None:
            if name == "time" and np.issubdtype(values.dtype, np.floating):
                check.check_finite(values, name, source)
            labels.refuse_missing(values, name, source)
    return logging, propensity, rounded


def _implied_propensity(log: BanditLog, logging: Floats, tolerance: float) -> tuple[Floats, int]:
    """A log's propensity: what ``logging`` says of the chosen candidate. Given, it must agree, but
    for rounding; how many were rounded."""
    implied, count = logging[log.chosen_index], 0
    if log.propensity is not None:
        larger = np.maximum(implied, log.propensity)
        disagree = ~(np.abs(implied - log.propensity) <= tolerance * larger)
        if disagree.any():
            rounded = _is_rounding(log.propensity, implied)
            _check_propensity(np.where(rounded, implied, log.propensity), log.source, tolerance)
            count = int((disagree & rounded).sum())
            disagree &= ~rounded
        check.refuse(
            disagree,
            "{value}, but logging gives the chosen candidate {implied} ({count} disagree). Check "
            "that the chosen action and the order of the candidates match.",
            "propensity", log.source, PropensityError, value=log.propensity, implied=implied,
        )  # fmt: skip
    _check_propensity(implied, log.source, tolerance)
    return implied, count


def _is_rounding(propensity: Floats, exact: Floats) -> Bools:
    """Which of a log's propensities are the exact ones rounded, to as many digits in nearly all."""
    best = np.zeros(len(exact), dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.floor(np.log10(exact))
        for digits in _DIGITS:
            for unit in (10.0**-digits, 10.0 ** (size - digits + 1)):
                fits = np.abs(propensity - exact) <= (0.5 + 1e-6) * unit
                fits &= np.abs(propensity / unit - np.round(propensity / unit)) < 1e-6
                if fits.sum() > best.sum():
                    best = fits
    return best if best.mean() >= _NEARLY_ALL else np.zeros_like(best)


def _check_propensity(values: Floats, source: str, tolerance: float) -> None:
    check_chosen_probabilities(
        values, "propensity", source, PropensityError, positive=True, tolerance=tolerance
    )


def _column_names(context: Any, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """What the columns of a log's context are called: as given, or as the frame calls them."""
    if names is None:
        return names_in(context)
    width = np.shape(context)[1] if np.ndim(context) == 2 else 1
    fine = not isinstance(names, str) and len(names) == width and len(set(names)) == width
    if not fine or not all(isinstance(name, str) for name in names):
        raise LogError(
            f"context_names is {check.glimpse(names)}; it must be {width} different names, one for "
            f"each column of the context.",
            column="context_names",
        )
    return tuple(names)


_probabilities = partial(check.as_vector, error=PropensityError)
_MAKERS: dict[str, Callable[[Any, str], NDArray[Any]]] = {
    "reward": check.as_vector,
    "propensity": _probabilities,
    "logging": _probabilities,
    "cluster": lambda values, name: np.asarray(labels.as_names(values, name)),
    "time": lambda values, name: np.asarray(labels.as_names(values, name)),
    "row_weight": check.as_vector,
    "context": lambda values, _: as_context(values),
    "candidate_features": check.as_floats,
}


def _positions_in_lists(action: NDArray[Any] | Encoded, source: str) -> Ints:
    """A log's actions, read from a frame whose lists have no names: they must be positions."""
    values = np.asarray(action)
    try:
        positions = numbers_of(values, "action", source)
    except LogError as problem:
        if problem.rows is None or len(problem.rows) < len(values):
            raise
        raise LogError(
            f"action holds {values[0]!r}, a name, but nothing says which candidate that is. Give "
            f"candidates, a column with the list of their names, or action as positions.",
            Place(source, "action"),
        ) from None
    return check.as_integers(positions, "action", source)
