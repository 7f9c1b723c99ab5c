"""Summaries: what is drawn of a policy on a log, as a few hundred numbers kept in the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

LONGEST_NAME = 200
"""Characters of an action's name that are kept."""

Numbers = tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Weights:
    """How the weights c of the logged rows are spread, band by band.

    ``edges`` lie between the bands: the first holds what is below ``edges[0]``. Of every band,
    the share of the ``rows``, their share of all ``weight`` (Σc), and the ``mass``, the policy's
    probability that has such weights, chosen or not. ``unsupported`` is the policy's probability
    where the logger never goes; ``effective`` the number of rows that these are worth.
    """

    edges: Numbers
    rows: Numbers
    weight: Numbers
    mass: Numbers
    unsupported: float
    largest: float
    mean: float
    effective: float

    def tail(self, share: float) -> tuple[float, float, float]:
        """From which weight on the heaviest rows begin, at most ``share`` of them but for the last
        band; their share of the rows, and of all weight."""
        rows = weight = 0.0
        for band in range(len(self.rows) - 1, 0, -1):
            if rows and rows + self.rows[band] > share:
                return self.edges[band], rows, weight
            rows, weight = rows + self.rows[band], weight + self.weight[band]
        return self.edges[0], rows, weight


@final
@dataclass(frozen=True, slots=True)
class Action:
    """One action: shares of the decisions in which it was ``chosen`` and, by their probabilities,
    would have been by ``policy`` and ``logging``; ``unsupported`` is what the policy has of it
    where the logger has none. ``reward`` is its mean where it was chosen."""

    name: str
    chosen: float
    reward: float | None
    policy: float
    logging: float
    unsupported: float


@final
@dataclass(frozen=True, slots=True)
class Support:
    """The leading actions, and all ``other`` together: ``others`` of them, or more if the log has
    very many. ``exact`` says whether policy and logging are sums over all candidates; if not,
    they are estimated from what was chosen. No share is short by more than ``short``."""

    actions: tuple[Action, ...]
    other: Action | None
    others: int
    exact: bool
    short: float


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """The reward model against the rewards, in classes of its prediction with like many rows.

    Of every class the share of the ``rows``, the means of what was ``predicted`` and ``observed``,
    the standard error of the latter, and the mean after recalibration. ``fit`` is R², the share of
    the rewards' variance that the model explains, before and after recalibration. ``trained`` is
    the kind of model that was trained on the log itself, if none was given, else "".
    """

    rows: Numbers
    predicted: Numbers
    observed: Numbers
    stderr: Numbers
    recalibrated: Numbers
    fit: float
    fit_recalibrated: float
    trained: str


@final
@dataclass(frozen=True, slots=True)
class OverLog:
    """The estimate by the order of the log: of every stretch the decisions up to its end, the
    estimate and the mean reward in it, the estimate from all ``so_far``, and a confidence
    sequence for that (``low``, ``high``). ``since`` and ``until`` are the times of its rows, if
    known: numbers, or seconds since 1970 if ``dated``."""

    rows: Numbers
    value: Numbers
    logged: Numbers
    so_far: Numbers
    low: Numbers
    high: Numbers
    since: Numbers | None
    until: Numbers | None
    dated: bool

    @property
    def in_order(self) -> bool:
        """Whether the rows are in the order of their times."""
        if self.since is None or self.until is None:
            return False
        return all(a <= b for a, b in zip(self.until, self.since[1:], strict=False))


@final
@dataclass(frozen=True, slots=True)
class Summary:
    """All that is drawn of one policy, besides its estimates.

    ``imputed`` is the imputed mass at every M of the headline's grid. What takes propensities, or
    a reward model, is None without.
    """

    policy: str
    imputed: Numbers | None
    weights: Weights | None
    support: Support
    calibration: Calibration | None
    over_log: OverLog | None
