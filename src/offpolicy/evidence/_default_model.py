"""A reward model where none was given: fitted on the contexts of the plan's sample, cross-fitted.

It is a ridge regression per action (or one for all, where actions are many and rows few, or
candidates have features), so that it can be applied to every candidate of a log of any size; where
that is affordable and clearly better on decisions held out, boosted trees. The headline
recalibrates it on the log as it would any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
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
    with one_thread():
        named = replace(named, model=best.fit(named.seen(log)))
    source.adopt(named, trained)
    return []


def _unused(why: str) -> list[Finding]:
    sentence = f"The contexts were not used, and no reward model was trained: {why}."
    return finding("contexts-unused", "note", sentence)


@dataclass(frozen=True)
class _Trained:
    """A fitted model; ``width`` is the number of candidates, if positions are their names."""

    model: RewardModel
    width: int

    def seen(self, log: BanditLog) -> BanditLog:
        """The log as the model sees it: with names."""
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
    """The model that says most of decisions held out; the first, unless another is better by more
    than twice the standard error of the difference. ``candidates`` are those of the whole log."""
    few = (
        log.take(np.linspace(0, len(log) - 1, SCREENED).astype(int)) if len(log) > SCREENED else log
    )
    tried, error, best = {}, {}, ""
    for kind, model in _kinds(log, candidates).items():
        with one_thread():
            predicted, rows = model.held_out(few)
        weight, reward = few.weights[rows], few.reward[rows]
        error[kind] = (reward - predicted) ** 2
        spread = float(
            np.average((reward - np.average(reward, weights=weight)) ** 2, weights=weight)
        )
        left = float(np.average(error[kind], weights=weight))
        tried[kind] = 1.0 - left / spread if spread > 0.0 else 0.0
        if not best or _clearly_less(error[kind], error[best], weight):
            best = kind
    trained = TrainedModel(len(log), best, tried[best], tried)
    return _kinds(log, candidates)[best], trained


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
