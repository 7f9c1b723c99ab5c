"""The logs of the Open Bandit Dataset with all items as candidates, and what they hold.

Of the Thompson policy only the probability of the item shown is logged, and that one drifts. Its
probabilities of all items are estimated, as the frequencies of the items in each position of its
own log; the reward model is a click rate per item and position.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import refuse
from offpolicy.logs import BanditLog, Derived, LogScan

POSITIONS = 3
FOLDS = 5
_SHRINK = 100.0
"""A position's frequencies start from those of all positions, with the weight of so many rows."""
_SHRINK_RATE = 1000.0
"""The same for click rates: an item's start from those of all items, and at each position from
those of the item."""


# -- logs --------------------------------------------------------------------------------------


def position_of(log: BanditLog) -> Ints:
    """For the experiment on Open Bandit logs: where each item was shown, 0, 1 or 2."""
    position = np.asarray(log.named_column("position")).astype(np.int64)
    outside = (position < 1) | (position > POSITIONS)
    sentence = f"{{value}}; it must be 1 to {POSITIONS}."
    refuse(outside, sentence, "position", log.source, value=position)
    return position - 1


@dataclass(frozen=True, eq=False)
class ByPosition:
    """Numbers for every candidate: a policy's probabilities, or the reward model's click rates."""

    table: Floats
    """(folds, positions, items)."""

    def probabilities(self, log: BanditLog) -> Floats:
        return self.table[log.fold(FOLDS), position_of(log)].reshape(-1)

    predict = probabilities


@dataclass(frozen=True, eq=False)
class Completed:
    """Makes the candidates known: all items of the campaign.

    ``uniform``: every item had the same probability, which must be the one logged. With
    ``logging`` the probabilities are these. Otherwise the log keeps its propensities, of the items
    shown.
    """

    items: int
    uniform: bool = False
    logging: ByPosition | None = None

    def __call__(self, log: BanditLog) -> BanditLog:
        n, item = len(log), np.asarray(log.named_column("action")).astype(np.int64)
        outside = (item < 0) | (item >= self.items)
        sentence = f"{{value}}; this campaign has items 0 to {self.items - 1}."
        refuse(outside, sentence, "item_id", log.source, value=item)
        logging = None if self.logging is None else self.logging.probabilities(log)
        if self.uniform:
            assert log.propensity is not None
            other = np.abs(log.propensity * self.items - 1.0) > 1e-6
            sentence = f"{{value}}; in the random policy's log it must be 1/{self.items}."
            refuse(other, sentence, "propensity_score", log.source, value=log.propensity)
            logging = np.full(n * self.items, 1.0 / self.items)
        return log.replace(
            offsets=np.arange(n + 1, dtype=np.int64) * self.items,
            chosen=item,
            actions=tuple(range(self.items)),
            candidate=None,
            candidates_known=True,
            context=None,
            logging=logging,
            propensity=log.propensity if logging is None else None,
        )


class CompletedScan(Derived):
    """A large log, completed piece by piece."""

    def __init__(self, base: LogScan, complete: Completed) -> None:
        super().__init__(base)
        self.complete = complete

    @property
    def candidates_known(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.base)

    def read(self, ranges: Sequence[tuple[int, int]], extra: Sequence[str]) -> BanditLog:
        return self.complete(self.base.read(ranges, [*extra, "position"]))

    def walk(self, extra: Sequence[str], skip: int = 0) -> Iterator[Callable[[], BanditLog]]:
        for make in self.base.walk([*extra, "position"], skip):
            yield functools.partial(lambda made: self.complete(made()), make)

    def fingerprint(self) -> str:
        return self.base.fingerprint()


def completed(log: BanditLog | LogScan, complete: Completed) -> BanditLog | LogScan:
    return complete(log) if isinstance(log, BanditLog) else CompletedScan(log, complete)


# -- what is in a log --------------------------------------------------------------------------


class Survey(NamedTuple):
    """How often each item was shown and clicked: (folds, positions, items)."""

    shown: Floats
    clicked: Floats

    def facts(self) -> dict[str, float]:
        """Rows, clicks, and their rate, with Wilson's interval at 95%: honest for rare events too,
        and never below 0."""
        from scipy.stats import binomtest

        n, clicks = int(self.shown.sum()), int(self.clicked.sum())
        ends = binomtest(clicks, n).proportion_ci(0.95, "wilson")
        return {"rows": n, "clicks": clicks, "rate": clicks / n, "low": float(ends.low),
                "high": float(ends.high)}  # fmt: skip


def survey(log: BanditLog | LogScan, items: int) -> Survey:
    """What the experiment on Open Bandit logs must count, in one walk over a log."""
    shape = (FOLDS, POSITIONS, items)
    shown, clicked = np.zeros(shape), np.zeros(shape)
    pieces = [log] if isinstance(log, BanditLog) else (make() for make in log.walk(["position"]))
    for piece in pieces:
        places = (piece.fold(FOLDS), position_of(piece), Completed(items)(piece).chosen)
        np.add.at(shown, places, 1.0)
        np.add.at(clicked, places, piece.reward)
    return Survey(shown, clicked)


def frequencies(shown: Floats) -> Floats:
    """For the Open Bandit experiment, counts (…, positions, items) as probabilities of the items in
    each position, shrunken towards those of all positions."""
    overall = shown.sum(axis=-2, keepdims=True) + 1.0
    overall /= overall.sum(axis=-1, keepdims=True)
    raised = shown + _SHRINK * overall
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def from_other_folds(counts: Floats) -> Floats:
    """For each fold in the Open Bandit experiment, the counts of the other folds."""
    return np.asarray(counts.sum(axis=0) - counts)


def click_rates(shown: Floats, clicked: Floats) -> Floats:
    """The experiment's reward model: shrunken rates, from counts (…, positions, items)."""
    both = np.stack([clicked, shown])
    total = both.sum(axis=(-2, -1), keepdims=True)
    of_item = both.sum(axis=-2, keepdims=True)
    item = (of_item[0] + _SHRINK_RATE * total[0] / total[1]) / (of_item[1] + _SHRINK_RATE)
    return np.asarray((clicked + _SHRINK_RATE * item) / (shown + _SHRINK_RATE))


def reward_model(log: Survey) -> ByPosition:
    """The experiment's reward model of a campaign: click rates, from the other folds."""
    return ByPosition(click_rates(from_other_folds(log.shown), from_other_folds(log.clicked)))
