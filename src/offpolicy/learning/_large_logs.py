"""Learning from a log that is larger than memory: a sample first, then all of it in small batches.

The sample gives the features, the reward model and the weights to begin with, as a log in memory
would. Then Adam goes through the whole log a few times. What is read together are eight stretches
from anywhere in the log, and their decisions are shuffled. The weights are averaged over the last
pass. Another pass compares them with those of the sample, and the better ones are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._core.contexts import cell_bits
from offpolicy._core.door import Door
from offpolicy._core.lbfgs import Minimum
from offpolicy._core.parallel import each_block
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, ParameterError, Place, PredictionError
from offpolicy.estimators import Estimator
from offpolicy.evidence import sample_size, without_bad_rows
from offpolicy.learning._task import Task
from offpolicy.learning._task_data import Scale
from offpolicy.logs import (
    BanditLog,
    Distributed,
    LogScan,
    all_action_names,
    sample_ranges,
    with_names,
    with_names_of,
)
from offpolicy.models import resolve_prediction

if TYPE_CHECKING:
    from offpolicy.learning._softmax_learner import Progress, SoftmaxLearner

BATCH = 2048
"""Decisions a step."""
TOGETHER = 8
"""Stretches that are read, and shuffled, together."""
TOGETHER_ROWS, CANDIDATES, NUMBERS = 16_384, 250_000, 2_500_000
"""Decisions in one, and the candidates and features that they may have."""
SAMPLE_NUMBERS = 40_000_000
"""Features that the sample may have."""
_RATE, _LEAST_RATE = 0.03, 0.01
"""The first step, in root mean squares of the sample's weights, and what it is at least."""
_DECAY = 0.9, 0.999


@dataclass(frozen=True, eq=False)
class Stream:
    """A log to be gone through, and all that is known before."""

    learner: SoftmaxLearner
    member: Estimator
    scan: LogScan
    prediction: Any
    sample: BanditLog
    actions: tuple[Any, ...] | None
    numbers: int
    """Features of a decision."""

    @classmethod
    def of(
        cls, learner: SoftmaxLearner, member: Estimator, scan: LogScan, prediction: Any
    ) -> Stream:
        if isinstance(scan, Distributed):
            raise ParameterError(
                f"{scan.source} is on many machines, and learning is done on one: read Parquet "
                f"files with {Door.given('engine', 'embedded')}, or learn from a part of them."
            )
        if not (
            prediction is None or isinstance(prediction, str) or hasattr(prediction, "predict")
        ):
            raise PredictionError(
                "The log is larger than memory: give prediction as a column of it, or as a model "
                "with predict(log).",
                column="prediction",
            )
        whole = without_bad_rows(scan, {}, prediction)
        assert isinstance(whole, LogScan)
        extra = [prediction] if isinstance(prediction, str) else []
        first = whole.read([(0, 1)], extra)
        first.need_candidates("A learner")
        inputs = 1 if first.context is None else first.context.shape[1]
        numbers = max(inputs, learner.centres if learner.features == "kernel" else 0) + 1
        size = max(min(sample_size(whole.width), SAMPLE_NUMBERS // numbers), 1)
        sample = with_names(whole.read(sample_ranges(len(whole), size), extra))
        actions = sample.actions
        if len(sample) < len(whole) and sample.candidate is not None:
            actions = all_action_names(each_block(_names, whole.walk(())))
            sample = with_names_of(sample, actions)
        return cls(learner, member, whole, prediction, sample, actions, numbers)

    @property
    def is_whole(self) -> bool:
        """Whether the sample is all there is."""
        return len(self.sample) == len(self.scan)

    def task(self) -> Task:
        """What is to be solved on the sample, in the units of the whole log."""
        low, high, _ = self.scan.rewards
        scale, fold = Scale.of(low, high), fold_of(self.sample, self.learner.folds)
        return Task.of(
            self.learner, self.member, self.sample, self.prediction, None, scale=scale, fold=fold
        )

    def improve(self, task: Task, w: Floats, progress: Progress | None) -> Minimum:
        """From the sample's weights on."""
        passes, n = self.learner.passes, len(self.scan)
        rng = np.random.default_rng([self.learner.seed, 3])
        adam, mean = Adam(w), w.copy()
        rate = max(_RATE * math.sqrt(float(w @ w) / len(w)), _LEAST_RATE)
        steps = averaged = done = 0
        planned = passes * -(-n // BATCH)
        for k in range(passes):
            for group in self._groups(task, rng.permutation(len(self._pieces))):
                order = rng.permutation(len(group.log))
                value = 0.0
                for start in range(0, len(order), BATCH):
                    rows = order[start : start + BATCH]
                    loss, gradient = group.batch(rows, n).loss(adam.w)
                    value -= loss * len(rows) / len(order)
                    adam.step(gradient, rate * max(1.0 - steps / planned, 0.0))
                    steps += 1
                    if k == passes - 1:
                        averaged += 1
                        mean += (adam.w - mean) / averaged
                done += len(order)
                self._tell(done)
                if progress is not None:
                    progress(steps, value * task.scale.span)
        losses, mass = np.zeros(2), 0.0
        for group in self._groups(task, np.arange(len(self._pieces))):
            whole = group.batch(np.arange(len(group.log)), n)
            share = float(group.log.weights.sum())
            losses += share * np.array([whole.loss(w)[0], whole.loss(mean)[0]])
            mass += share
            done += len(group.log)
            self._tell(done)
        losses /= mass
        seen = f"{passes} {'pass' if passes == 1 else 'passes'} over all decisions"
        taught = f"what {len(self.sample):,} of them taught"
        if losses[0] < losses[1]:
            return Minimum(w, float(losses[0]), steps, True, f"{seen} did not improve on {taught}")
        return Minimum(mean, float(losses[1]), steps, True, f"{seen}, from {taught}")

    # -- reading -----------------------------------------------------------------------------------

    @property
    def _pieces(self) -> list[tuple[int, int]]:
        each = min(TOGETHER_ROWS, int(CANDIDATES / self.scan.width), NUMBERS // self.numbers)
        n = len(self.scan)
        return [(a, min(a + max(each, 1), n)) for a in range(0, n, max(each, 1))]

    def _groups(self, task: Task, order: Ints) -> Iterator[Task]:
        """The log in this order of its pieces, some together; the next are read while these are
        used."""
        pieces = self._pieces
        ordered = [pieces[k] for k in order]
        parts = [sorted(ordered[k : k + TOGETHER]) for k in range(0, len(ordered), TOGETHER)]
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._group, task, parts[0])
            for part in [*parts[1:], None]:
                group = coming.result()
                if part is not None:
                    coming = pool.submit(self._group, task, part)
                yield group

    def _group(self, task: Task, ranges: Sequence[tuple[int, int]]) -> Task:
        """The task on these stretches of the log."""
        extra = [self.prediction] if isinstance(self.prediction, str) else []
        log = self.scan.read(ranges, extra)
        delta_hat = resolve_prediction(log, self.prediction, checked=True)
        if self.actions is not None:
            log = with_names_of(log, self.actions)
            if log.actions != self.actions:
                raise LogError(
                    "they have no names, and are not as many in every decision. Name them in a "
                    "column.",
                    Place(log.source, "candidates"),
                )
        log = log.replace(table=None, trusted=True)
        views = task.views.on(log)
        if delta_hat is None and "prediction" in self.member.needs:
            assert task.model is not None
            delta_hat = task.model.on(log, views, task.scale, fold_of(log, self.learner.folds))
        return replace(task, log=log, views=views, delta_hat=delta_hat)

    def _tell(self, done: int) -> None:
        if self.scan.progress is not None:
            self.scan.progress(done, (self.learner.passes + 1) * len(self.scan))


def _names(log: BanditLog) -> tuple[Any, ...]:
    return log.actions or ()


def fold_of(log: BanditLog, folds: int) -> Ints:
    """To learn from a large log, a fold for every decision, by its cluster, or else its context."""
    if log.group is not None:
        return log.group % folds
    if log.context is None:
        return log.bucket % folds
    hashed = np.zeros(len(log), dtype=np.uint64)
    for column in log.context.T:
        hashed ^= cell_bits(column)
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            hashed ^= hashed >> np.uint64(33)
            hashed *= np.uint64(factor)
        hashed ^= hashed >> np.uint64(33)
    return (hashed % np.uint64(folds)).astype(np.int64)


class Adam:
    """Steps along the gradient, each weight's by how large its own gradients are."""

    def __init__(self, w: Floats) -> None:
        self.w = w.copy()
        self.first, self.second = np.zeros_like(w), np.zeros_like(w)
        self.steps = 0

    def step(self, gradient: Floats, rate: float) -> None:
        self.steps += 1
        a, b = _DECAY
        self.first += (1.0 - a) * (gradient - self.first)
        self.second += (1.0 - b) * (gradient**2 - self.second)
        size = np.sqrt(self.second / (1.0 - b**self.steps)) + 1e-12
        self.w = self.w - rate * (self.first / (1.0 - a**self.steps)) / size
