"""A reward model where none was given: fitted on the contexts of the plan's sample, cross-fitted.

It is a ridge regression per action (or one for all, where actions are many and rows few, or
candidates have features), so that it can be applied to every candidate of a log of any size; where
that is affordable and clearly better on decisions held out, boosted trees. Where contexts do not
help to predict, it is each action's mean. The headline recalibrates it on the log as it would any
other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._plan import sample_size
from offpolicy.evidence._sources import Source
from offpolicy.logs import BanditLog
from offpolicy.models import ENOUGH_ROWS, RewardModel, ScaledRidge
from offpolicy.results import Finding, TrainedModel, finding

FEWEST_ROWS = 100
"""A log with fewer decisions is not learned from."""
_AT_ONCE = 200_000
"""Decisions that are predicted together."""
SCREENED = 20_000
"""At most so many decisions choose between models."""
BOOSTED_ROWS, BOOSTED_ACTION, BOOSTED_CANDIDATES = 10_000, 500, 3_000_000
"""Boosting is tried where the sample has so many decisions, every action so many of them, and the
log no more candidates than these."""
MEANS = "mean per action"
"""The model that does without the contexts."""


def train_model(source: Source) -> list[Finding]:
    """Give a `Source` that has contexts, but no reward model, one fitted on the plan's sample.

    It is left without, and a finding says so, if its decisions are too few, or if nothing says
    which action each candidate is: neither names nor, with as many candidates in every decision,
    their positions.
    """
    if not source.wants_model:
        return []
    if source.n < FEWEST_ROWS:
        return _unused(f"there are fewer than {FEWEST_ROWS} decisions to learn from")
    log = source.sample(sample_size(source.log.width))[0].log
    if log.context is None or not log.candidates_known:
        return _unused("nothing says which other actions there were in a decision")
    width = 0
    if log.actions is None:
        if not log.has_equal_lengths:
            return _unused("candidates have no names, and decisions differ in how many they have")
        width = int(log.offsets[1])
    named = _Trained(RewardModel(ScaledRidge()), width)
    best, trained = _best(named.seen(log), source.n * source.log.width)
    named = replace(named, blind=trained.kind == MEANS)
    with one_thread():
        named = replace(named, model=best.fit(named.seen(log)))
    source.adopt(named, trained)
    return []


def _unused(why: str) -> list[Finding]:
    sentence = f"The contexts were not used, and no reward model was trained: {why}."
    return finding("contexts-unused", "note", sentence)


@dataclass(frozen=True)
class _Trained:
    """A fitted model; ``width`` is the number of candidates, if positions are their names, and one
    that is ``blind`` sees no contexts."""

    model: RewardModel
    width: int
    blind: bool = False

    def seen(self, log: BanditLog) -> BanditLog:
        """The log as the model sees it: with names."""
        if self.blind:
            log = _without_contexts(log)
        if not self.width:
            return log
        actions = tuple(range(max(self.width, log.number_of_actions)))
        if log.candidate is None:
            return log.replace(actions=actions, trusted=True)
        return log.replace(candidate=log.candidate_codes(), actions=actions, trusted=True)

    def predict(self, log: BanditLog) -> Floats:
        parts = (log.rows(a, min(a + _AT_ONCE, len(log))) for a in range(0, len(log), _AT_ONCE))
        with one_thread():
            return np.concatenate([self.model.predict(self.seen(part)) for part in parts])


# -- which model -----------------------------------------------------------------------------


def _best(log: BanditLog, candidates: float) -> tuple[RewardModel, TrainedModel]:
    """The model that says most of decisions held out: the first, unless another is better by more
    than twice the standard error of the difference; and the mean of each action, unless that is
    better than this. ``candidates`` are those of the whole log."""
    few = (
        log.take(np.linspace(0, len(log) - 1, SCREENED).astype(int)) if len(log) > SCREENED else log
    )
    kinds, means = _kinds(log, candidates), RewardModel(ScaledRidge(), mode="per-action")
    fold = few.fold(means.folds)
    rows = np.arange(len(few))
    if len(few) >= BOOSTED_ROWS:  # one fold tells
        rows = np.flatnonzero(fold == np.argmax(np.bincount(fold)))
    weight, reward = few.weights[rows], few.reward[rows]
    error, best = {}, ""
    for kind, model in kinds.items():
        error[kind] = (reward - _held_out(model, few, fold, rows)) ** 2
        if not best or _clearly_less(error[kind], error[best], weight):
            best = kind
    error[MEANS] = (reward - _held_out(means, _without_contexts(few), fold, rows)) ** 2
    left = {kind: float(np.average(each, weights=weight)) for kind, each in error.items()}
    spread = float(np.average((reward - np.average(reward, weights=weight)) ** 2, weights=weight))
    tried = {kind: 1.0 - each / spread if spread > 0.0 else 0.0 for kind, each in left.items()}
    if left[MEANS] <= left[best]:
        best = MEANS
    return (kinds | {MEANS: means})[best], TrainedModel(len(log), best, tried[best], tried)


def _held_out(model: RewardModel, log: BanditLog, fold: Ints, rows: Ints) -> Floats:
    """What the model predicts of what was chosen in these rows of whole folds, fitted without."""
    made = np.empty(len(log))
    with one_thread():
        for inside, predicted in model.held_out(log, np.unique(fold[rows])):
            made[inside] = predicted
    return made[rows]


def _without_contexts(log: BanditLog) -> BanditLog:
    return log.replace(context=np.zeros((len(log), 1)), context_names=None, trusted=True)


def _clearly_less(one: Floats, other: Floats, weight: Floats) -> bool:
    """Whether the errors of one model are less than another's by more than chance explains."""
    gain = (other - one) * weight / weight.mean()
    return bool(gain.mean() > 2.0 * gain.std() / len(gain) ** 0.5)


def _kinds(log: BanditLog, candidates: float) -> dict[str, RewardModel]:
    """What is tried, by name; boosting only where it can be told better, and costs little."""
    counts = np.bincount(log.chosen_codes(), minlength=log.number_of_actions)
    often = log.actions is not None and counts.min() >= ENOUGH_ROWS
    if log.candidate_features is not None:
        kinds = {"ridge on features of the candidates": RewardModel(ScaledRidge(), mode="shared")}
        if often:
            kinds["ridge per action"] = RewardModel(ScaledRidge(), mode="per-action")
    elif often:
        kinds = {"ridge per action": RewardModel(ScaledRidge(), mode="per-action")}
    else:
        return {"ridge with a column per action": RewardModel(ScaledRidge(), mode="shared")}
    if len(log) >= BOOSTED_ROWS and candidates <= BOOSTED_CANDIDATES:
        if log.candidate_features is not None:
            name = "boosting on features of the candidates"
            kinds[name] = RewardModel(_boosting(), mode="shared")
        elif counts.min() >= BOOSTED_ACTION:
            kinds["boosting per action"] = RewardModel(_boosting(), mode="per-action")
    return kinds


def one_thread() -> Any:
    """In this thread, scikit-learn's own loops and BLAS run alone, so that sums are in one order,
    no pool of threads is left behind that a fork would lose, and small products do not wait for a
    second core that has other work."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _boosting() -> Any:
    """A default model of a source for what is not linear: small trees, many rows in each leaf."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=50, early_stopping=False, random_state=0
    )
