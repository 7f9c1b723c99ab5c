"""A reward model where none was given: fitted on the contexts of the plan's sample, cross-fitted.

It is a plain one, a ridge regression per action (or one for all, where actions are many and rows
few), so that it can be applied to every candidate of a log of any size. The headline recalibrates
it on the log as it would any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from offpolicy._core.types import Floats
from offpolicy.evidence._plan import sample_size
from offpolicy.evidence._sources import Source
from offpolicy.logs import BanditLog
from offpolicy.models import RewardModel
from offpolicy.results import Finding, finding

FEWEST_ROWS = 100
"""A log with fewer decisions is not learned from."""
_MOST_CATEGORIES = 64
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
    model = _Trained(RewardModel(_regression(log.context)), width, _encoder(log.context))
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
    encoder: Any
    """Turns words into numbers once a decision, not once a candidate; None if all are numbers."""

    def seen(self, log: BanditLog) -> BanditLog:
        """The log as the model sees it: with names, and with numbers for words."""
        changes: dict[str, Any] = {}
        if self.encoder is not None:
            changes["context"] = self.encoder.transform(log.context)
        if self.width:
            changes["candidate"] = log.candidate_codes()
            changes["actions"] = tuple(range(max(self.width, log.number_of_actions)))
        return log.replace(**changes, trusted=True)

    def predict(self, log: BanditLog) -> Floats:
        return self.model.predict(self.seen(log))


def _regression(context: NDArray[Any]) -> Any:
    """The default model of a source: on numbers, scaled, or else on categories."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if context.dtype.kind in "biuf":
        return make_pipeline(StandardScaler(), Ridge(alpha=_RIDGE))
    encoder = OneHotEncoder(handle_unknown="ignore", max_categories=_MOST_CATEGORIES)
    return make_pipeline(encoder, Ridge(alpha=_RIDGE))


def _encoder(context: NDArray[Any]) -> Any:
    """Turns a source's words into codes for its default model; None if that is not needed.

    Neither where a column mixes words and numbers: the regression refuses those.
    """
    from sklearn.preprocessing import OrdinalEncoder

    if context.dtype.kind in "biuf":
        return None
    try:
        return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(context)
    except TypeError:
        return None
