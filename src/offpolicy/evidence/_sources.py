"""Where blocks come from: a log, the policies asked about, and the reward model, in pieces.

Every verb first looks at a sample, then walks over all blocks once. The sample is a matter of
positions alone, stretches in 32 places or more, so that arrays and files of the same decisions have
the same one, and of a file only a few places need be read.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.checkpoint import Checkpoint, Kept, digest
from offpolicy._core.late import pa
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import check_finite
from offpolicy.errors import OffpolicyError, ParameterError, PredictionError
from offpolicy.evidence._blocks import Block, blocks, whole_block, whole_blocks
from offpolicy.logs import (
    BanditLog,
    Distributed,
    Dropped,
    FoundArms,
    LogScan,
    Sums,
    identity,
    keep_well_formed,
    listed_reasons,
    need_log,
    refuse_many,
    sample_ranges,
    source_of_kept,
)
from offpolicy.models import resolve_prediction
from offpolicy.policies import Target, asks_for_arms, columns_of, resolve, settle
from offpolicy.results import TrainedModel

KEEP_EVERY = 64
"""After so many blocks a walk is kept: a million decisions."""


class Source(ABC):
    """A log that can be sampled and walked over, with its policies and its model."""

    def __init__(self, log: BanditLog | LogScan, names: Iterable[str], asked: Any) -> None:
        self.log, self.names, self.asked = log, tuple(names), asked
        self.n, self.dropped = len(log), log.dropped
        self.first_row = log.first_row if isinstance(log, BanditLog) else 0

    log: BanditLog | LogScan
    names: tuple[str, ...]
    """Of the policies."""
    asked: Any
    """Policies and model, as they were given."""
    first_row: int
    """The position of its first row, if the log is a part of another."""
    checkpoint: Checkpoint | None = None
    """Where walks over the log are kept."""
    wants_model: bool = False
    """Whether there are contexts, but no reward model was given."""
    found_prediction: bool = False
    """Whether the reward model is a column that nobody named."""
    trained_here: frozenset[str] = frozenset()
    """The policies that were learned from this log, or a part of it."""
    trained: TrainedModel | None = None
    """What was trained for a reward model, if it was."""
    sampled: BanditLog | None = None
    """The rows of the sample, if they had to be read."""

    @abstractmethod
    def adopt(self, model: Any, trained: TrainedModel) -> None:
        """Take this for the reward model, which was trained."""

    @abstractmethod
    def sample(self, size: int) -> list[Block]:
        """The rows of `sample_ranges`, for each policy, or else for the logger; read once."""

    @abstractmethod
    def blocks(self, skip: int = 0) -> Iterator[Callable[[], list[Block]]]:
        """All rows in order but for the first ``skip`` blocks, for each policy, yet to be made."""

    def reduce(
        self,
        function: Callable[[list[Block]], Sums],
        add: Callable[[Sums, Sums], Sums],
        *,
        question: tuple[Any, ...],
    ) -> Sums:
        """``function`` of the blocks of every place, added up in order. ``question`` is all that
        it depends on besides the log: its name first."""
        kept, keep = Kept(0, None), self.checkpoint
        if keep is not None:
            name = f"{question[0]}-{digest(self.asked, *question)}"
            kept = keep.load(name)
        done: int = kept.done
        sums: Sums = kept.sums
        for part in each_block(function, self.blocks(done)):
            done, sums = done + 1, part if done == 0 else add(sums, part)
            if keep is not None and done % KEEP_EVERY == 0:
                keep.save(name, Kept(done, sums))
        if keep is not None and done > kept.done:
            keep.save(name, Kept(done, sums))
        return sums


class InMemory(Source):
    """A `BanditLog`, and policies and model resolved on it."""

    log: BanditLog

    def __init__(self, log: BanditLog, targets: Sequence[Target], delta_hat: Floats | None) -> None:
        asked = [[(target.name, target.flat, target.chosen) for target in targets], delta_hat]
        super().__init__(log, (target.name for target in targets), asked)
        self.targets, self.delta_hat = tuple(targets), delta_hat

    def adopt(self, model: Any, trained: TrainedModel) -> None:
        self.delta_hat, self.trained = resolve_prediction(self.log, model), trained

    def sample(self, size: int) -> list[Block]:
        wholes = whole_blocks(self.log, self.targets, self.delta_hat)
        if self.n <= size:
            return wholes
        rows = np.concatenate([np.arange(a, b) for a, b in sample_ranges(self.n, size)])
        return [part_of(whole, rows) for whole in wholes]

    def blocks(self, skip: int = 0) -> Iterator[Callable[[], list[Block]]]:
        makers = [blocks(self.log, target, self.delta_hat) for target in self.targets]

        def made(place: int) -> list[Block]:
            return [of_target[place]() for of_target in makers]

        return (functools.partial(made, place) for place in range(skip, len(makers[0])))


@dataclass(frozen=True)
class _Resolver:
    """Policies and model, to be resolved on any piece of a log."""

    policies: dict[str, Any]
    prediction: Any
    size: float

    def resolved(self, log: BanditLog) -> list[Block]:
        delta_hat = resolve_prediction(log, self.prediction)
        targets = [resolve(log, policy, name) for name, policy in self.policies.items()]
        return whole_blocks(log, targets, delta_hat)

    def checked(self, log: BanditLog) -> list[Block]:
        """To be scanned."""
        found = self.resolved(log)
        for block in found:
            block.size = self.size
            block.check_whole()
        return found


class Streamed(Source):
    """A `LogScan`, and policies and model that are resolved on every piece of it anew."""

    log: LogScan

    def __init__(self, log: LogScan, policies: Mapping[str, Any], prediction: Any) -> None:
        super().__init__(log, policies, [dict(policies), prediction])
        self.policies, self.prediction = dict(policies), prediction
        self.extra = _columns_of(policies, prediction)

    def adopt(self, model: Any, trained: TrainedModel) -> None:
        self.prediction, self.trained = model, trained

    def sample(self, size: int) -> list[Block]:
        if self.sampled is None:
            self.sampled = self.log.read(sample_ranges(self.n, size), self.extra)
        made = self._resolver.resolved(self.sampled)
        for block in made:
            if block.target.leave_one_out is not None:
                raise ParameterError(
                    f"{block.target.name} is known by draws only, which takes a log in memory, "
                    "such "
                    f"as a dataframe. Or give its probabilities."
                )
        return made

    def blocks(self, skip: int = 0) -> Iterator[Callable[[], list[Block]]]:
        resolver = self._resolver

        def made(make: Callable[[], BanditLog]) -> list[Block]:
            return resolver.checked(make())

        return (functools.partial(made, make) for make in self.log.walk(self.extra, skip))

    def reduce(
        self,
        function: Callable[[list[Block]], Sums],
        add: Callable[[Sums, Sums], Sums],
        *,
        question: tuple[Any, ...],
    ) -> Sums:
        if not isinstance(self.log, Distributed):
            return super().reduce(function, add, question=question)
        resolver = self._resolver
        return self.log.reduce(lambda log: function(resolver.checked(log)), add, self.extra)

    @property
    def _resolver(self) -> _Resolver:
        return _Resolver(self.policies, self.prediction, self.n * self.log.width)


def source_of(
    log: BanditLog | LogScan,
    policies: Mapping[str, Any],
    prediction: Any,
    resume: str | Path | None = None,
) -> Source:
    """A log with policies and a model, to be walked; ``resume`` is a folder to keep walks in."""
    log, policies = asked_about(log, policies)
    found = prediction is None and find_prediction(log)
    prediction = PREDICTION if found else prediction
    log = without_bad_rows(log, policies, None if prediction is True else prediction)
    source: Source
    wants_model = prediction is None or prediction is True
    if isinstance(prediction, bool) or (isinstance(prediction, str) and not prediction):
        prediction = None
    if isinstance(log, LogScan):
        source = Streamed(log, policies, prediction)
        source.wants_model = wants_model and bool(log.columns.context)
    else:
        targets = [resolve(log, policy, name) for name, policy in policies.items()]
        source = InMemory(log, targets, resolve_prediction(log, prediction))
        source.wants_model = wants_model and log.context is not None
    source.trained_here = _trained_on(log, policies)
    source.found_prediction = found
    if resume is not None:
        if isinstance(log, Distributed):
            raise ParameterError(
                "resume is for files on this machine. Spark does lost work again by itself."
            )
        from offpolicy import __version__

        source.checkpoint = Checkpoint(
            resume,
            fingerprint=log.fingerprint(),
            source=str(log.source) or "a log in memory",
            version=__version__,
        )
    return source


PREDICTION = "prediction"
_LIKE_PREDICTIONS = re.compile(r"pred|(^|_)(q|r|y|delta|reward)_?hat|expected|score|^q$", re.I)


def find_prediction(log: BanditLog | LogScan) -> bool:
    """Whether a log has the lists of a reward model, under the name that such a column has."""
    from offpolicy.logs import holds_lists

    ordered = not isinstance(log.columns and log.columns.actions, FoundArms)
    return ordered and PREDICTION in log.column_names and holds_lists(log.type_of(PREDICTION))


def like_predictions(log: BanditLog | LogScan) -> list[str]:
    """The columns of a log that may be a reward model's, by their names."""
    return [name for name in log.column_names if _LIKE_PREDICTIONS.search(name)]


def _trained_on(log: BanditLog | LogScan, policies: Mapping[str, Any]) -> frozenset[str]:
    """The names of the policies that know this log as what they were learned from."""
    known = {
        name: getattr(getattr(policy, "policy_", policy), "learned_from", ())
        for name, policy in policies.items()
    }
    if not any(known.values()):
        return frozenset()
    this = identity(log)
    return frozenset(name for name, logs in known.items() if this in logs)


def without_bad_rows(
    log: BanditLog | LogScan, policies: Mapping[str, Any], prediction: Any
) -> BanditLog | LogScan:
    """A source's log without the rows that its policies and predictions make malformed, as far as
    they are columns of it, and if such rows are to be dropped."""
    columns = {name: policy for name, policy in policies.items() if columns_of(policy)}
    predicted = prediction if isinstance(prediction, str) else None
    check = functools.partial(check_columns, policies=columns, prediction=predicted)
    if isinstance(log, LogScan):
        key = repr((sorted(map(repr, columns.values())), predicted))
        return log.without_bad_rows(key, _columns_of(columns, predicted), check)
    need_log(log)
    if log.dropped is None or log.table is None or log.columns is None:
        return log

    def make(table: pa.Table) -> BanditLog:
        part = log if table is log.table else BanditLog.from_frame(table, log.columns, log.source)
        check(part)
        return part

    found = keep_well_formed(log.table, make)
    if not found.reasons:
        return log
    dropped = log.dropped + Dropped(len(log), found.reasons)
    if log.is_part:
        dropped = Dropped(len(log), found.reasons)
    refuse_many(dropped, log.source, log.max_dropped)
    for given in (*policies.values(), prediction):
        if not (given is None or isinstance(given, str) or callable(given) or _answers(given)):
            raise ParameterError(
                f"Rows are dropped because of other columns ({listed_reasons(found.reasons)}), and "
                f"what is given as an array does not know which. Make it a column of the log too."
            )
    assert found.made is not None
    left = log.take(found.rows) if log.is_part else found.made
    source = source_of_kept(found.rows, log.source)
    return left.replace(
        dropped=log.dropped + Dropped(len(log), found.reasons),
        max_dropped=log.max_dropped,
        source=source,
        trusted=True,
    )


def _columns_of(policies: Mapping[str, Any], prediction: Any) -> list[str]:
    """The columns that a source's policies and model are made of, besides the log's own."""
    predicted = [prediction] if isinstance(prediction, str) else []
    named = [name for policy in policies.values() for name in columns_of(policy)]
    return list(dict.fromkeys(named + predicted))


def asked_about(
    log: BanditLog | LogScan, policies: Mapping[str, Any]
) -> tuple[BanditLog | LogScan, dict[str, Any]]:
    """A log and policies: text is now what it stands for, and where decisions do not list their
    candidates and a policy asks for them, these are the arms found in the log."""
    if not isinstance(log, LogScan):
        need_log(log)
    settled = {name: settle(log, policy, name) for name, policy in policies.items()}
    return with_arms(log) if any(map(asks_for_arms, settled.values())) else log, settled


def with_arms(log: BanditLog | LogScan) -> BanditLog | LogScan:
    """A log whose decisions do not list their candidates with those arms that were found in it,
    if these are few."""
    if not isinstance(log, LogScan):
        need_log(log)
    if log.candidates_known or getattr(log, "candidate_features", None) is not None:
        return log
    arms = log.find_arms()
    return log if arms is None else log.with_found_arms(arms)


def check_columns(log: BanditLog, policies: Mapping[str, Any], prediction: str | None) -> None:
    """Raise, naming the rows, unless these columns hold a source's policies and predictions."""
    for name, policy in policies.items():
        resolve(log, policy, name).check(log)
    delta_hat = resolve_prediction(log, prediction)
    if delta_hat is not None:
        check_finite(delta_hat, "prediction", log.source, PredictionError, log.offsets)


def _answers(given: Any) -> bool:
    """Whether a source's policy or model can be asked about any log."""
    return any(hasattr(given, name) for name in ("probabilities", "predict_proba", "predict"))


def thinned(block: Block, size: int) -> Block:
    """A sample of a block: at most ``size`` of its rows, evenly spread."""
    n = len(block.log)
    if n <= size:
        return block
    # The table is not asked any more, and taking rows of its lists takes long.
    bare = replace(block, log=block.log.replace(table=None, trusted=True))
    return part_of(bare, np.linspace(0, n - 1, size).astype(np.int64))


def part_of(block: Block, rows: Ints) -> Block:
    """Some rows of a block, as a block of its own; what is malformed is named by its old row."""
    log, target = block.log, block.target
    flat = log.candidates_of(rows)
    part = whole_block(
        log.take(rows),
        target._replace(
            flat=None if target.flat is None else target.flat[flat],
            chosen=None if target.chosen is None else target.chosen[rows],
            leave_one_out=None,
        ),
        None if block.delta_hat is None else block.delta_hat[flat],
    )
    check = part.check_whole

    def check_whole() -> None:
        try:
            check()
        except OffpolicyError:
            block.check_whole()
            raise

    part.check_whole = check_whole
    return part
