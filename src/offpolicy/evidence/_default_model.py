"""A reward model where none was given: fitted on the contexts of the plan's sample, cross-fitted.

It is a plain one, a ridge regression per action (or one for all, where actions are many and rows
few), so that it can be applied to every candidate of a log of any size. The headline recalibrates
it on the log as it would any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evidence._plan import sample_size
from offpolicy.evidence._sources import Source
from offpolicy.logs import BanditLog
from offpolicy.models import RewardModel
from offpolicy.results import Finding, finding

FEWEST_ROWS = 100
"""A log with fewer decisions is not learned from."""
_AT_ONCE = 200_000
"""Decisions that are predicted together."""
_RIDGE = 1.0


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
    model = _Trained(RewardModel(_ridge()), width)
    model.model.fit(model.seen(log))
    source.adopt(model, len(log))
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
        return log.replace(candidate=log.candidate_codes(), actions=actions, trusted=True)

    def predict(self, log: BanditLog) -> Floats:
        parts = (log.rows(a, min(a + _AT_ONCE, len(log))) for a in range(0, len(log), _AT_ONCE))
        return np.concatenate([self.model.predict(self.seen(part)) for part in parts])


def _ridge() -> Any:
    """The default model of a source: a ridge regression on scaled numbers."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), Ridge(alpha=_RIDGE))
