r"""How tight are lower limits that hold at every n? The benchmark of logarithmic smoothing.

From Sakhi, Aouali, Alquier and Chopin, "Logarithmic Smoothing for Pessimistic Off-Policy
Evaluation, Selection and Learning", NeurIPS 2024, after Kuzborskij, Vernade, György and Szepesvári
(2021). A labelled example is a decision among K classes. Target and logger choose by a softmax of
1{class = the preferred one}/temperature. The target prefers the label; so does the logger, but for
labels 0 and 1, for which it prefers the next class. The reward is 1{class = label}, turned round
with probability ``noise``. Features play no part: a set is three numbers (`SETS`), and the target's
value, the same for all examples, is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from offpolicy import intervals
from offpolicy._core.types import Floats
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.pictures import grid_of_axes, plain
from offpolicy.experiments.saving import Report
from offpolicy.experiments.tables import best_marked, grouped, markdown
from offpolicy.intervals.betting import betting
from offpolicy.report.matplotlib import save_figure

DELTA = 0.05
TWO_SIDED = 1.0 - 2.0 * DELTA
"""The level of an interval whose lower end alone misses with probability at most DELTA."""

SETS = {
    "ecoli": (336, 8, 220), "arrhythmia": (452, 13, 295), "balance-scale": (625, 3, 337),
    "vehicle": (846, 4, 430), "yeast": (1484, 10, 468), "page-blocks": (5473, 5, 5242),
    "optdigits": (5620, 10, 1125), "satimage": (6435, 6, 2236), "kropt": (28056, 18, 4229),
}  # fmt: skip
"""Rows, classes, and rows of the first two labels in alphabetical order: those that the logger
takes for another. Nine of the benchmark's eleven sets, by the official counts."""

NOISES = (0.0, 0.1, 0.2)
TARGETS = (0.1, 0.2, 0.3, 0.4, 0.5)
LOGGERS = (0.2, 0.25, 0.3)
_USED = 0.98


class Drawn(NamedTuple):
    """A log of the benchmark: probabilities of the chosen action, and its reward (0 or 1)."""

    pi: Floats
    pi0: Floats
    reward: Floats

    @property
    def c(self) -> Floats:
        return self.pi / self.pi0

    @property
    def root(self) -> float:
        """√n: the benchmark's choice of 1/λ, of M, and of half of 1/γ."""
        return math.sqrt(len(self.reward))


# -- the bounds: each is below the policy's value with probability 1 − DELTA --------------------


def by_betting(log: Drawn) -> float:
    """The lower end of `intervals.betting.betting` at level 0.90: 5% for this end alone."""
    return betting(log.c, log.reward, TWO_SIDED).low


def logarithmic_smoothing(log: Drawn, scale: float = 1.0) -> float:
    r"""Sakhi, Aouali, Alquier and Chopin 2024, for rewards, with λ = scale/√n.

    .. math:: \big(\exp\big(\tfrac1n \sum_i \ln(1 + \lambda c_i r_i) - \ln(1/\delta)/n\big) - 1\big)
              \big/ \lambda

    By E Π(1 + λcr) = (1 + λV)ⁿ and Markov. So it is a bet as well: V is ruled out where the capital
    of a stake that stays at λ/(1 + λV) reaches 1/δ.
    """
    rate = scale / log.root
    growth = float(np.log1p(rate * log.c * log.reward).mean())
    return math.expm1(growth + math.log(DELTA) / len(log.reward)) / rate


def smoothed_in_hindsight(log: Drawn) -> float:
    """Logarithmic smoothing at the λ that is best for this log: not a bound, but beyond what any
    way of choosing λ can reach."""
    return max(logarithmic_smoothing(log, scale) for scale in np.geomspace(0.01, 10.0, 31))


def second_moment(log: Drawn) -> float:
    r"""Clipped IPS with its second moment (Sakhi and others 2024, the bound with L = 1).

    .. math:: \big(\exp\big(\lambda \bar x - \tfrac{\lambda^2}{2n} \sum_i x_i^2
              - \ln(1/\delta)/n\big) - 1\big) \big/ \lambda, \qquad x = \min(c, 1/\lambda)\, r

    Logarithmic smoothing with ln(1 + y) ≥ y − y²/2; λ = 1/√n.
    """
    x = np.minimum(log.c, log.root) * log.reward / log.root
    return math.expm1(float((x - x * x / 2.0).mean()) + math.log(DELTA) / len(x)) * log.root


def implicit_exploration(log: Drawn) -> float:
    r"""Gabbianelli, Neu and Papini 2024, with γ = 1/2√n.

    .. math:: \tfrac1n \sum_i \frac{\pi_i}{\pi_{0i} + \gamma} r_i - \frac{\ln(1/\delta)}{2\gamma n}
    """
    gamma = 0.5 / log.root
    value = float((log.pi / (log.pi0 + gamma) * log.reward).mean())
    return value + math.log(DELTA) / (2.0 * gamma * len(log.reward))


def empirical_bernstein(log: Drawn) -> float:
    """Clipped IPS, M = √n, with Maurer and Pontil's bound (2009): `intervals.empirical_bernstein`
    at level 0.90. (The benchmark divides the variance by n; the theorem, as here, by n − 1.)"""
    x = np.minimum(log.c, log.root) * log.reward
    mean, variance = float(x.mean()), float(x.var(ddof=1))
    limits = intervals.empirical_bernstein(mean, len(x), variance, 0.0, log.root, TWO_SIDED)
    return limits.low


def by_normal(log: Drawn) -> float:
    """IPS less 1.645 standard errors: what holds for large n only."""
    x = log.c * log.reward
    error = float(x.std(ddof=1)) / log.root
    return intervals.normal(float(x.mean()), error, TWO_SIDED).low


BETTING, SMOOTHED = "betting", "logarithmic smoothing"
BOUNDS: dict[str, Callable[[Drawn], float]] = {
    BETTING: by_betting,
    SMOOTHED: logarithmic_smoothing,
    "implicit exploration": implicit_exploration,
    "cIPS, second moment": second_moment,
    "cIPS, empirical Bernstein": empirical_bernstein,
}
YARDSTICKS: dict[str, Callable[[Drawn], float]] = {
    "smoothing, λ in hindsight": smoothed_in_hindsight,
    "normal": by_normal,
}
"""No bounds: nothing is promised of how often they miss."""


# -- the benchmark ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tightness:
    """How near to the value one bound came in one setting of the benchmark."""

    data: str
    noise: float
    target: float
    logger: float
    bound: str
    repeats: int
    missed: int
    """Logs of which the bound was above the value."""
    distance: float
    """Mean of (value − bound)/value; the bound is at least 0, and a miss counts as 0."""


def preference(temperature: float, classes: int) -> float:
    """The benchmark's policies: with which probability the class that is preferred is chosen."""
    return 1.0 / (1.0 + (classes - 1) * math.exp(-1.0 / temperature))


def draw(
    data: str, noise: float, target: float, logger: float, rng: np.random.Generator
) -> tuple[Drawn, float]:
    """A log of the benchmark, and the target's value. Actions are numbered from the right one."""
    rows, classes, mistaken = SETS[data]
    p, q = preference(target, classes), preference(logger, classes)
    preferred = (rng.permutation(rows)[: int(_USED * rows)] < mistaken).astype(np.int64)
    n = len(preferred)
    beside = np.where(rng.random(n) < q, 0, rng.integers(1, classes, n))
    action = (preferred + beside) % classes
    pi0 = np.where(beside == 0, q, (1.0 - q) / (classes - 1))
    pi = np.where(action == 0, p, (1.0 - p) / (classes - 1))
    reward = (action == 0) ^ (rng.random(n) < noise)
    return Drawn(pi, pi0, reward.astype(np.float64)), p * (1.0 - noise) + (1.0 - p) * noise


def run(cells: Cells, sets: Sequence[str], repeats: int) -> Report:
    """The benchmark of lower limits, set by set."""
    for name in sets:
        if name not in SETS:
            words = f'"{name}" is not here.{did_you_mean(name, SETS)} What is: {", ".join(SETS)}.'
            raise ParameterError(words, column="sets")
    work = list(itertools.product(sets, NOISES, [repeats]))
    rows = [row for part in cells.all("sets and noises", run_one, work) for row in part]
    pictures = {"bounds.png": partial(picture, rows)}
    return Report.of([to_markdown(rows)], {"delta": DELTA, "rows": rows}, "", pictures)


def run_one(data: str, noise: float, repeats: int) -> list[Tightness]:
    """Draw the logs of one set and noise of the benchmark, and take all bounds of each."""
    rng = np.random.default_rng([round(100 * noise), *map(ord, data)])
    rows = []
    for target, logger in itertools.product(TARGETS, LOGGERS):
        drawn = [draw(data, noise, target, logger, rng) for _ in range(repeats)]
        for name, bound in (BOUNDS | YARDSTICKS).items():
            gaps = np.array([1.0 - max(bound(log), 0.0) / value for log, value in drawn])
            missed, distance = int((gaps < 0.0).sum()), float(np.maximum(gaps, 0.0).mean())
            rows.append(Tightness(data, noise, target, logger, name, repeats, missed, distance))
    return rows


def to_markdown(rows: Sequence[Tightness]) -> str:
    """The benchmark's tables: mean distance of each bound on each set, and how often it missed."""
    by_set = {**grouped(rows, lambda row: row.data), "all": list(rows)}
    near, missed = [], []
    for data, part in by_set.items():
        by_bound = grouped(part, lambda row: row.bound)
        means = {
            name: float(np.mean([row.distance for row in own])) for name, own in by_bound.items()
        }
        valid = best_marked([means[name] for name in BOUNDS], ".3f")
        others = [f"{means[name]:.3f}" for name in YARDSTICKS]
        near.append([data, *valid, f"{means[BETTING] / means[SMOOTHED] - 1.0:+.0%}", *others])
        logs = {name: sum(row.repeats for row in own) for name, own in by_bound.items()}
        missed.append([data, *(f"{sum(row.missed for row in own) / logs[name]:.1%}"
                               for name, own in by_bound.items())])  # fmt: skip
    against = "betting against smoothing"
    return (
        "Distance of the lower limit from the value, as a share of the value; mean over settings."
        f"\n\n{markdown(['set', *BOUNDS, against, *YARDSTICKS], near)}\n\n"
        "Logs of which the limit was above the value.\n\n"
        f"{markdown(['set', *BOUNDS, *YARDSTICKS], missed)}\n"
    )


def picture(rows: Sequence[Tightness], path: Path) -> None:
    """The benchmark's figure: in what share of the settings each bound is how near."""
    figure, [[ax]] = grid_of_axes(1, 1, (7.0, 4.0))
    for name, own in grouped(rows, lambda row: row.bound).items():
        distances = np.sort([row.distance for row in own])
        share = np.arange(1, len(own) + 1) / len(own)
        style = ":" if name in YARDSTICKS else "-"
        ax.plot(distances, share, style, lw=2.6 if name == BETTING else 1.4, label=name)
    ax.set_xlabel("distance of the 95% lower limit from the value, as a share of the value")
    ax.set_ylabel("share of the settings")
    plain(ax)
    ax.legend(frameon=False, fontsize=9)
    save_figure(figure, path)
