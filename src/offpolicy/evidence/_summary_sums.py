"""What pictures of a log are drawn from: small sums that the one scan takes along.

All have a fixed size, whatever the log's: classes of the reward model's prediction, and actions,
of which the leading `MOST_ACTIONS` are kept apart.
``a + b`` is the union of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Sums
from offpolicy._core.ragged import decision_of_candidate
from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._blocks import Block
from offpolicy.evidence._stretches import Stretches
from offpolicy.evidence._weight_bins import sums_by_bucket
from offpolicy.logs import BanditLog
from offpolicy.results import LONGEST_NAME

CLASSES = 20
"""Of predictions, each with about as many rows of the sample."""
MOST_ACTIONS = 1000
"""Actions that are kept apart; the least of more are added up."""
_TOGETHER = 512
"""Sums of actions that are worked on together: copies, where actions are few."""

GIVEN, RECALIBRATED, OBSERVED, OBSERVED_2, OFF_2 = range(2, 7)
"""Of a class, after Σω and Σω²: Σωδ̂, Σωd, Σωr, Σωr², Σω(r − δ̂)²."""
CHOSEN, EARNED, POLICY, LOGGING, UNSUPPORTED, SPREAD = range(6)
"""Of an action: Σω and Σωr where it was chosen, then over all decisions Σωπ, Σωπ₀, Σωπ where
π₀ = 0, and Σω²π₀(1 − π₀)."""


def classes_of(sample: Block) -> Floats:
    """The limits of a plan's classes of predictions, from its sample; none without a model."""
    if sample.delta_hat is None:
        return np.empty(0)
    shares = np.arange(1, CLASSES) / CLASSES
    return np.unique(np.quantile(sample.delta_hat_chosen, shares, method="inverted_cdf"))


@storable
@dataclass(frozen=True, slots=True)
class Actions:
    """Sums by action: `CHOSEN` to `SPREAD`."""

    names: tuple[str, ...]
    sums: Floats
    other: Floats
    """The sums of all that are not kept apart."""
    others: int
    """At least so many they are; some may be counted twice."""
    short: float
    """No action that is kept apart has lost more of Σωπ and Σω than this to the others."""

    def __add__(self, other: Actions) -> Actions:
        rest, others, short = (
            self.other + other.other,
            self.others + other.others,
            self.short + other.short,
        )
        if self.names == other.names:
            return Actions(self.names, self.sums + other.sums, rest, others, short)
        place = {name: k for k, name in enumerate(self.names)}
        for name in other.names:
            place.setdefault(name, len(place))
        sums = np.zeros((len(place), self.sums.shape[1]))
        sums[: len(self.names)] = self.sums
        sums[[place[name] for name in other.names]] += other.sums
        return Actions(tuple(place), sums, rest, others, short).leading()

    def leading(self) -> Actions:
        """With at most `MOST_ACTIONS` kept apart."""
        if len(self.names) <= MOST_ACTIONS:
            return self
        size = np.maximum(self.sums[:, POLICY], self.sums[:, CHOSEN])
        order = np.argsort(-size, kind="stable")
        kept, lost = np.sort(order[:MOST_ACTIONS]), order[MOST_ACTIONS:]
        return Actions(
            tuple(self.names[k] for k in kept),
            self.sums[kept],
            self.other + self.sums[lost].sum(axis=0),
            self.others + len(lost),
            self.short + float(size[lost[0]]),
        )


@storable
@dataclass(frozen=True, slots=True)
class Times:
    """From when to when the rows of each stretch are: numbers, or seconds since 1970."""

    low: Floats
    high: Floats
    dated: bool

    def __add__(self, other: Times) -> Times:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Times(low, high, self.dated)


@storable
@dataclass(frozen=True, slots=True)
class Tally(Sums):
    """All of it, for one policy."""

    by_class: Floats
    """(classes, 7): `GIVEN` to `OFF_2`; no classes without a model."""
    actions: Actions
    times: Times | None

    @classmethod
    def of(cls, block: Block, stretches: Stretches, cuts: Floats, recalibrated: Floats) -> Tally:
        """Of one block of a log; ``recalibrated`` is d of what was chosen."""
        by_class = _model_sums(block, cuts, recalibrated)
        return cls(by_class, _actions(block), _times(block.log, stretches))


def _model_sums(block: Block, cuts: Floats, recalibrated: Floats) -> Floats:
    """`Tally.by_class` of a block."""
    if block.delta_hat is None:
        return np.zeros((0, 7))
    log, given = block.log, block.delta_hat_chosen
    omega = log.weights
    place = np.zeros(len(given), dtype=np.int64)
    for cut in cuts:  # few: faster than a search
        place += given >= cut
    with np.errstate(over="ignore", invalid="ignore"):
        columns = np.array([
            omega, omega * omega, omega * given, omega * recalibrated, omega * log.reward,
            omega * log.reward**2, omega * (log.reward - given) ** 2,
        ])  # fmt: skip
        return sums_by_bucket(place, columns, len(cuts) + 1, compiled=block.compiled)


# -- actions -----------------------------------------------------------------------------------


def _actions(block: Block) -> Actions:
    log = block.log
    names, codes = log.actions or tuple(range(log.number_of_actions)), log.candidate
    if codes is not None and len(names) > 4 * len(codes):
        # Many more actions than appear here: only those that do are counted.
        here, codes = np.unique(codes, return_inverse=True)
        names = tuple(names[k] for k in here.tolist())
    sums = np.zeros((len(names), 6))
    chosen = log.chosen if codes is None else codes[log.chosen_index]
    omega = log.weights
    sums[:, CHOSEN] = np.bincount(chosen, omega, len(names))
    sums[:, EARNED] = np.bincount(chosen, omega * log.reward, len(names))
    pi, pi0 = block.target.flat, log.logging
    if pi is not None and pi0 is not None:
        sums[:, POLICY:] = _candidate_sums(block, codes, pi, pi0, len(names))
    else:
        if pi is not None:
            every = log.candidate_codes() if codes is None else codes
            sums[:, POLICY] = np.bincount(every, _each(omega, log) * pi, len(names))
        else:
            sums[:, POLICY] = np.bincount(chosen, omega * block.c, len(names))
        sums[:, LOGGING] = sums[:, CHOSEN]
    texts = tuple(_text(name) for name in names)
    if len(set(texts)) < len(texts):
        texts = tuple(map(repr, names))
    return Actions(texts, sums, np.zeros(6), 0, 0.0).leading()


def _candidate_sums(
    block: Block, codes: Ints | None, pi: Floats, pi0: Floats, actions: int
) -> Floats:
    """`POLICY` to `SPREAD` of every action."""
    log = block.log
    whole = codes is None and len(pi) == len(log) * actions  # all decisions have all actions
    if whole and block.compiled and log.row_weight is None:
        from offpolicy._core.bucket_kernels import add_by_action
        from offpolicy._core.kernels import read_only

        together = np.zeros((4, max(_TOGETHER // actions, 1), actions))
        add_by_action(*read_only(pi, pi0), together.reshape(4, -1))
        return np.asarray(together.sum(axis=1).T)
    lost, spread = np.where(pi0 == 0.0, pi, 0.0), pi0 * (1.0 - pi0)
    if log.row_weight is not None:
        each = _each(log.row_weight, log)
        pi, pi0, lost, spread = each * pi, each * pi0, each * lost, each * each * spread
    columns = np.array([pi, pi0, lost, spread])
    if whole:
        return np.asarray(np.einsum("cnk->kc", columns.reshape(4, -1, actions)))
    every = log.candidate_codes() if codes is None else codes
    return sums_by_bucket(every, columns, actions, compiled=block.compiled)


def _each(omega: Floats, log: BanditLog) -> Floats:
    return omega[decision_of_candidate(log.offsets)]


def _text(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)


def shown(name: str) -> str:
    """An action's name, for a picture or a finding."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}… ({len(name):,} characters)"


def action_name(log: BanditLog, k: int) -> str:
    """What findings call the k-th action of a log."""
    return f"position {k}" if log.actions is None else f"action {shown(_text(log.actions[k]))}"


# -- time --------------------------------------------------------------------------------------


def _times(log: BanditLog, stretches: Stretches) -> Times | None:
    """When a block's stretches of the log began and ended; None without numbers or dates."""
    found = None if log.time is None else _as_numbers(log.time)
    if found is None or log.time is None:
        return None
    low, high = np.full(stretches.count, np.inf), np.full(stretches.count, -np.inf)
    part, starts = stretches.starts(log)
    here = slice(part, part + len(starts) - 1)
    low[here] = np.minimum.reduceat(found, starts[:-1])
    high[here] = np.maximum.reduceat(found, starts[:-1])
    return Times(low, high, log.time.dtype.kind == "M")


def _as_numbers(time: NDArray[Any]) -> Floats | None:
    if time.dtype.kind == "M":
        return np.asarray(time.astype("datetime64[ms]").astype(np.int64) / 1000.0)
    return time.astype(np.float64) if time.dtype.kind in "iuf" else None
