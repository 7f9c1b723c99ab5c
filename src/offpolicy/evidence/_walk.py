"""The one pass over a log: everything that `evaluate` needs, as mergeable sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments
from offpolicy._core.types import Floats
from offpolicy.estimators import GRID, Estimator
from offpolicy.evidence._blocks import Block, Contributions, contributions
from offpolicy.evidence._clip_path import ClipPath, Modelled, apply_model
from offpolicy.evidence._plan import Centre, Plan
from offpolicy.evidence._sources import Source
from offpolicy.evidence._summary_sums import OFF_2, Tally
from offpolicy.evidence._weight_bins import BINS, bin_of
from offpolicy.logs.labels import GROUPS


class Contribution(NamedTuple):
    """Of one estimate: the mean of its contributions, its variance were rows independent, and with
    clusters their totals by group of these, less the mean."""

    mean: float
    variance: float
    totals: Floats | None


@storable
@dataclass(frozen=True, slots=True)
class Scanned:
    """What one pass over the log leaves behind; ``a + b`` is the union of the rows."""

    values: Moments
    """Of the contributions to every estimator,"""
    observed: Moments
    """of what their rewards count for,"""
    imputed_mass: Moments
    """and of what no reward answers for."""
    c: Moments
    reward: Moments
    """Each of one quantity."""
    ratios: tuple[Moments | None, ...]
    """For each self-normalised estimator, moments of c, of c·(residual − ratio), and of
    Σ πδ̂ + c·(residual − ratio)/weight."""
    path: ClipPath
    """CAB-DR around the headline's model, over M."""
    paired: Floats
    """For each estimator, and last for the reward itself, how its contributions z go with those of
    the headline: Σω²z·ce and Σω²z·e in every bin of the weight, and last Σω²z·m and Σω²z, where
    e = r − d, m = Σ πd. (Both z and m are less the plan's centre.)"""
    tally: Tally
    """What pictures are drawn from."""

    def __add__(self, other: Scanned) -> Scanned:
        ratios = tuple(
            None if a is None or b is None else a + b
            for a, b in zip(self.ratios, other.ratios, strict=True)
        )
        with np.errstate(over="ignore", invalid="ignore"):
            paired = self.paired + other.paired
        return Scanned(
            self.values + other.values,
            self.observed + other.observed,
            self.imputed_mass + other.imputed_mass,
            self.c + other.c,
            self.reward + other.reward,
            ratios,
            self.path + other.path,
            paired,
            self.tally + other.tally,
        )

    def estimate(self, j: int, plan: Plan) -> tuple[float, float]:
        """The j-th estimator's value, which may not be finite, and its standard error."""
        once = self.observed.low[j] == self.observed.high[j] == 1.0
        if once and plan.members[j].imputes == "nothing":
            # Every reward counts once: the logged mean, to the last digit.
            return float(self.reward.mean[0]), self.reward.stderr(0)
        ratio, centre = self.ratios[j], plan.centres[j]
        if ratio is None:
            return float(self.values.mean[j]), self.values.stderr(j)
        weight, weighted, influence = map(float, ratio.mean)
        if weight == 0.0:
            return math.nan, math.inf
        value = centre.ratio + influence + weighted * (1.0 / weight - 1.0 / centre.weight)
        return value, math.sqrt(ratio.variance_of(_gradient(ratio, centre)))

    def contribution(self, j: int, stderr: float, plan: Plan) -> Contribution:
        """What a paired test needs of the j-th estimator, with its standard error."""
        values, ratio = self.values, self.ratios[j]
        mean, totals = float(values.mean[j] if ratio is None else ratio.mean[2]), None
        if values.group_total is not None:
            totals = values.group_total[:, j]
            if ratio is not None:
                assert ratio.group_total is not None
                totals = ratio.group_total @ _gradient(ratio, plan.centres[j])
        return Contribution(mean, stderr**2, totals)

    def residual_size(self, member: Estimator) -> float:
        """Root mean square of the rewards less what an estimator imputes."""
        reward, by_class = self.reward, self.tally.by_class
        with np.errstate(over="ignore", invalid="ignore"):
            if member.uses_model and len(by_class):
                square = float(by_class[:, OFF_2].sum()) / reward.weight
            else:
                square = reward.sample_variance(0) + float(reward.mean[0]) ** 2
        return math.sqrt(square) if math.isfinite(square) else math.inf

    def variance_apart(self, j: int, k: int, estimate: Contribution) -> float:
        """Variance of the difference between the j-th estimate (−1: the logged mean) and CAB-DR at
        the k-th M, as the rows show it, or the clusters."""
        moments, centre, (z, variance, totals) = self.path.moments, self.path.centre, estimate
        if totals is not None:
            assert moments.group_total is not None
            return by_clusters(totals - moments.group_total[:, k], moments)
        with np.errstate(all="ignore"):
            M = 0.0 if np.isinf(GRID[k]) else GRID[k]
            along, total = self.paired[j, -1]
            both = along + self.paired[j, :k, 0].sum() + M * self.paired[j, k:-1, 1].sum()
            x, z = moments.mean[k] - centre, z - centre
            covariance = both - x * total - z * (moments.cross[k] + x * moments.weight2)
            covariance += z * x * moments.weight2
            covariance *= moments.count / max(moments.count - 1, 1) / moments.weight**2
            own = float(moments.covariance(grouped=False)[k])
            apart = variance + own - 2.0 * float(covariance)
        # Rounding leaves a trace where both are the same.
        return 0.0 if apart < 1e-12 * (variance + own) else apart


def _gradient(ratio: Moments, centre: Centre) -> Floats:
    """The influence function of a self-normalised estimate, as the gradient with respect to its
    three means."""
    weight, weighted, _ = map(float, ratio.mean)
    return np.array([-weighted / weight / weight, 1.0 / weight - 1.0 / centre.weight, 1.0])


def by_clusters(totals: Floats, moments: Moments) -> float:
    """Variance of a mean of contributions from their ``totals`` by group of clusters, each less
    the mean; infinite if there is only one."""
    assert moments.group_weight is not None
    used = moments.group_weight > 0.0
    count = int(used.sum())
    if count < 2:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        square = float((totals[used] ** 2).sum())
    return count / (count - 1) * square / moments.weight**2


def scan(source: Source, plans: Sequence[Plan]) -> list[Scanned]:
    """The one walk over a source, for every policy of it, as planned."""

    def of_blocks(made: list[Block]) -> list[Scanned]:
        return [scan_block(block, plan) for block, plan in zip(made, plans, strict=True)]

    def added(one: list[Scanned], other: list[Scanned]) -> list[Scanned]:
        return [a + b for a, b in zip(one, other, strict=True)]

    return source.reduce(of_blocks, added, question=("scan", *plans))


def scan_block(block: Block, plan: Plan) -> Scanned:
    """What the walk takes from one block; depends on its rows and the plan alone."""
    log = block.log
    parts = contributions(block, plan.members)
    modelled = apply_model(block, plan.recalibration, plan.centre, plan.usual, plan.stretches)
    kept = [[getattr(part, name) for part in parts] for name in Contributions._fields[:3]]
    x = np.array([*kept[0], *kept[1], *kept[2], block.c, log.reward])
    moments = Moments.of(x, log.row_weight, log.group, groups=GROUPS, diagonal=True)
    columns = [*(part.value for part in parts), log.reward]
    ratios: list[Moments | None] = [None] * len(plan.members)
    for j, member in enumerate(plan.members):
        if member.self_normalised:
            about = _about_ratio(block, member, plan.centres[j], parts[j].modelled)
            ratios[j] = Moments.of(about, log.row_weight, log.group, groups=GROUPS)
            columns[j] = about[2]
    paired = _pair(modelled, columns, plan.centre)
    tally = Tally.of(block, plan.stretches, plan.classes, modelled.prediction.chosen)
    E = len(parts)
    cuts = (slice(E), slice(E, 2 * E), slice(2 * E, 3 * E), slice(-2, -1), slice(-1, None))
    values, observed, mass, c, reward = (moments[cut] for cut in cuts)
    path = modelled.path
    return Scanned(values, observed, mass, c, reward, tuple(ratios), path, paired, tally)


def _pair(modelled: Modelled, columns: Sequence[Floats], centre: float) -> Floats:
    """`Scanned.paired` of a block, for the contributions of every estimator."""
    block, prediction = modelled.block, modelled.prediction
    residual, m = block.log.reward - prediction.chosen, prediction.modelled - centre
    place, omega = bin_of(block.c), block.log.row_weight
    sums = np.empty((len(columns), BINS + 1, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        weighted = residual * block.c
        for j, column in enumerate(columns):
            z = column - centre
            if omega is not None:
                z *= omega * omega
            sums[j, :-1, 0] = np.bincount(place, z * weighted, BINS)
            sums[j, :-1, 1] = np.bincount(place, z * residual, BINS)
            sums[j, -1] = (z * m).sum(), z.sum()
    return sums


def _about_ratio(block: Block, member: Estimator, centre: Centre, modelled: Floats) -> Floats:
    """What the walk keeps of a block for one self-normalised estimator: `Scanned.ratios`."""
    columns = np.empty((3, len(block.log)))
    c, weighted, whole = columns
    c[:] = block.c
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(block.log.reward, centre.ratio, out=weighted)
        if member.uses_model:
            weighted -= block.delta_hat_chosen
        weighted *= c
        np.divide(weighted, centre.weight, out=whole)
        whole += modelled
    return columns
