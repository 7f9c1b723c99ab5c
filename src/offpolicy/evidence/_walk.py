"""The one pass over a log: everything that `evaluate` needs, as mergeable sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments, Sums
from offpolicy._core.types import Floats
from offpolicy.estimators import GRID, Estimator
from offpolicy.evidence._blocks import Block, Contributions, contributions
from offpolicy.evidence._clip_path import ClipPath, Modelled, apply_model
from offpolicy.evidence._plan import Centre, Plan
from offpolicy.evidence._sources import Source
from offpolicy.evidence._summary_sums import OFF_2, Tally
from offpolicy.evidence._weight_bins import BINS, bin_of, sums_by_bucket
from offpolicy.logs.labels import GROUPS


class RowValues(NamedTuple):
    """Of every estimator, and last of what ran, the logged mean."""

    value: Floats
    """Which may not be finite."""
    stderr: Floats
    mean: Floats
    """Of the contributions that vary around it: for ratios not the value itself."""
    totals: Floats | None
    """With clusters, the totals of these by group, less the mean: (groups, estimators)."""


@storable
@dataclass(frozen=True, slots=True)
class Scanned(Sums):
    """What one pass over the log leaves behind."""

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

    def rows(self, plan: Plan) -> RowValues:
        """Every estimate, its standard error, and what a paired test needs of it."""
        values, reward, observed = self.values, self.reward, self.observed
        mean = np.append(values.mean, reward.mean)
        value, variance = mean.copy(), np.append(values.covariance(), reward.covariance())
        totals = None
        if values.group_total is not None and reward.group_total is not None:
            totals = np.column_stack([values.group_total, reward.group_total])
        for j, (ratio, centre) in enumerate(zip(self.ratios, plan.centres, strict=True)):
            if ratio is not None:
                mean[j] = ratio.mean[2]
                value[j], gradient = _ratio(ratio, centre)
                variance[j] = math.inf if gradient is None else ratio.variance_of(gradient)
                if totals is not None and gradient is not None:
                    assert ratio.group_total is not None
                    totals[:, j] = ratio.group_total @ gradient
            if observed.low[j] == observed.high[j] == 1.0 and plan.members[j].imputes == "nothing":
                # Every reward counts once: the logged mean, to the last digit.
                value[j], variance[j] = value[-1], variance[-1]
        return RowValues(
            value, np.sqrt(np.where(np.isnan(variance), np.inf, variance)), mean, totals
        )

    def residual_size(self, members: Sequence[Estimator]) -> Floats:
        """Root mean square of the rewards less what each estimator imputes."""
        reward, by_class = self.reward, self.tally.by_class
        with np.errstate(over="ignore", invalid="ignore"):
            plain = square = reward.sample_variance(0) + float(reward.mean[0]) ** 2
            if len(by_class):
                square = float(by_class[:, OFF_2].sum()) / reward.weight
            squares = np.array([square if member.uses_model else plain for member in members])
        return np.sqrt(np.where(np.isfinite(squares), squares, np.inf))

    def variance_apart(self, k: int, rows: RowValues) -> Floats:
        """Variance of the difference between every estimate and CAB-DR at the k-th M, as the rows
        show it, or the clusters."""
        moments = self.path.moments
        if rows.totals is not None:
            assert moments.group_total is not None
            return by_clusters(rows.totals - moments.group_total[:, [k]], moments)
        with np.errstate(all="ignore"):
            M = 0.0 if np.isinf(GRID[k]) else GRID[k]
            along, total = self.paired[:, -1].T
            free, held = self.paired[:, :k, 0], self.paired[:, k:-1, 1]
            x, z = moments.mean[k] - self.path.centre, rows.mean - self.path.centre
            covariance = along + free.sum(axis=1) + M * held.sum(axis=1) - x * total
            covariance -= z * moments.cross[k]
            covariance *= moments.count / max(moments.count - 1, 1) / moments.weight**2
            both = rows.stderr**2 + float(moments.covariance(grouped=False)[k])
            apart = both - 2.0 * covariance
            # Rounding leaves a trace where both are the same.
            return np.where(apart < 1e-12 * both, 0.0, apart)


def _ratio(ratio: Moments, centre: Centre) -> tuple[float, Floats | None]:
    """A self-normalised estimate, and its influence function as the gradient with respect to its
    three means; none where no row has a weight."""
    weight, weighted, influence = map(float, ratio.mean)
    if weight == 0.0:
        return math.nan, None
    shrunk = 1.0 / weight - 1.0 / centre.weight
    value = centre.ratio + influence + weighted * shrunk
    return value, np.array([-weighted / weight / weight, shrunk, 1.0])


def by_clusters(totals: Floats, moments: Moments) -> Floats:
    """Variance of means of contributions from their ``totals`` by group of clusters, each less
    the mean; infinite if there is only one."""
    assert moments.group_weight is not None
    used = moments.group_weight > 0.0
    count = int(used.sum())
    if count < 2:
        return np.full(totals.shape[1], np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        square = (totals[used] ** 2).sum(axis=0)
        return np.asarray(count / (count - 1) * square / moments.weight**2)


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
    every = [*kept[0], *kept[1], *kept[2], block.c, log.reward]
    # Estimators share weights, and so what is observed and what is left: each is looked at once.
    different = {id(values): values for values in every}
    place = {key: k for k, key in enumerate(different)}
    rows = np.array([place[id(values)] for values in every])
    x = np.array(list(different.values()))
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
    cuts = np.split(rows, [E, 2 * E, 3 * E, 3 * E + 1])
    values, observed, mass, c, reward = moments.parts(*cuts)
    path = modelled.path
    return Scanned(values, observed, mass, c, reward, tuple(ratios), path, paired, tally)


def _pair(modelled: Modelled, columns: Sequence[Floats], centre: float) -> Floats:
    """`Scanned.paired` of a block, for the contributions of every estimator."""
    block, prediction = modelled.block, modelled.prediction
    residual, m = block.log.reward - prediction.chosen, prediction.modelled - centre
    omega = block.log.row_weight
    products, last = np.empty((2, len(columns), len(m))), np.empty((len(columns), 2))
    with np.errstate(over="ignore", invalid="ignore"):
        weighted = residual * block.c
        for j, column in enumerate(columns):
            z = column - centre
            if omega is not None:
                z *= omega * omega
            np.multiply(z, weighted, out=products[0, j])
            np.multiply(z, residual, out=products[1, j])
            last[j] = (z * m).sum(), z.sum()
        flat, compiled = products.reshape(-1, len(m)), block.compiled
        sums = sums_by_bucket(bin_of(block.c), flat, BINS, compiled=compiled)
    by_bin = sums.reshape(BINS, 2, -1).transpose(2, 0, 1)
    return np.concatenate([by_bin, last[:, None]], axis=1)


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
