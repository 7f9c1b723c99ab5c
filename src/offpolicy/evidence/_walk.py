"""The one pass over a log: everything that `evaluate` needs, as mergeable sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy._core.checkpoint import storable
from offpolicy._core.moments import Moments
from offpolicy._core.types import Floats, Ints
from offpolicy.estimators import NAMED, Estimator
from offpolicy.evidence._blocks import (
    Block,
    Contributions,
    ShareSums,
    compiled_sums,
    contributions,
    contributions_from,
)
from offpolicy.evidence._clip_path import ClipPath, Modelled, apply_model
from offpolicy.evidence._plan import Centre, Plan
from offpolicy.evidence._sources import Source
from offpolicy.evidence._summary_sums import Tally
from offpolicy.evidence._weight_bins import BINS, GRID, bin_of
from offpolicy.logs.labels import GROUPS


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row of the moments holds what, for the j-th of E estimators."""

    members: tuple[Estimator, ...]

    @property
    def total(self) -> int:
        return 3 * len(self.members) + 2

    @property
    def weight(self) -> int:
        """The row of c itself."""
        return 3 * len(self.members)

    @property
    def reward(self) -> int:
        """The row of the logged reward."""
        return 3 * len(self.members) + 1

    def observed(self, j: int) -> int:
        return len(self.members) + j

    def imputed(self, j: int) -> int:
        return 2 * len(self.members) + j


@storable
@dataclass(frozen=True, slots=True)
class Scanned:
    """What one pass over the log leaves behind; ``a + b`` is the union of the rows."""

    plain: Moments
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
            self.plain + other.plain,
            ratios,
            self.path + other.path,
            paired,
            self.tally + other.tally,
        )

    def variance_apart(self, j: int, k: int, z: float, variance: float, centre: float) -> float:
        """Variance of the difference between the j-th estimate (−1: the logged mean) and CAB-DR at
        the k-th M, as the rows show it, were they independent.

        ``z`` is the mean of the estimate's contributions, ``variance`` that of the estimate, and
        ``centre`` the plan's.
        """
        moments = self.path.moments
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
    compiled = block.compiled and log.group is None and {"logging", "policy"} <= block.columns
    if compiled:
        sums = compiled_sums(block, plan.members)
    else:
        parts = contributions(block, plan.members)
    modelled = apply_model(block, plan.recalibration, plan.usual, plan.path_centres)
    if compiled:
        plain, paired = _compiled_moments(modelled, plan, sums)
        shares = [_modelled(block, member, sums) for member in plan.members]
    else:
        plain, paired = _moments(modelled, plan, parts)
        shares = [part.modelled for part in parts]
    ratios: list[Moments | None] = [None] * len(plan.members)
    for j, member in enumerate(plan.members):
        if member.self_normalised:
            columns = _about_ratio(block, member, plan.centres[j], shares[j])
            ratios[j] = (
                Moments.joint(columns, log.row_weight)
                if compiled
                else Moments.of(columns, log.row_weight, log.group, groups=GROUPS)
            )
            paired[j] = _pair(modelled, columns[2], plan.centre)
    tally = Tally.of(
        block, plan.first_row, plan.n, plan.classes,
        modelled.prediction.modelled, modelled.prediction.chosen,
    )  # fmt: skip
    return Scanned(plain, tuple(ratios), modelled.path, paired, tally)


def _moments(
    modelled: Modelled, plan: Plan, parts: Sequence[Contributions]
) -> tuple[Moments, Floats]:
    """`Scanned.plain` and `paired` of a block, from every estimator's contributions."""
    block, log = modelled.block, modelled.block.log
    kept = [[getattr(part, name) for part in parts] for name in Contributions._fields[:3]]
    x = np.array([*kept[0], *kept[1], *kept[2], block.c, log.reward])
    columns = [*(part.value for part in parts), log.reward]
    paired = np.array([_pair(modelled, column, plan.centre) for column in columns])
    return Moments.of(x, log.row_weight, log.group, groups=GROUPS, diagonal=True), paired


def _pair(modelled: Modelled, z: Floats, centre: float) -> Floats:
    """`Scanned.paired` of a block, for one estimator's contributions."""
    block, prediction = modelled.block, modelled.prediction
    omega = block.log.weights
    sums = np.empty((BINS + 1, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        z = omega * omega * (z - centre)
        weighted = z * (block.log.reward - prediction.chosen)
        place = bin_of(block.c)
        sums[:-1, 0] = np.bincount(place, weighted * block.c, BINS)
        sums[:-1, 1] = np.bincount(place, weighted, BINS)
        sums[-1] = (z * (prediction.modelled - centre)).sum(), z.sum()
    return sums


def _about_ratio(block: Block, member: Estimator, centre: Centre, modelled: Floats) -> Floats:
    """What the walk keeps of a block for one self-normalised estimator: `Scanned.ratios`."""
    columns = np.empty((3, len(block.log)))
    c, weighted, whole = columns
    c[:] = block.c
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(block.log.reward, centre.ratio, out=weighted)
        if member.imputes is not None:
            weighted -= block.delta_hat_chosen
        weighted *= c
        np.divide(weighted, centre.weight, out=whole)
        whole += modelled
    return columns


def _modelled(block: Block, member: Estimator, sums: ShareSums) -> Floats:
    """Σ imputed·δ̂ of every decision of a block, from the sums over shares of π."""
    if not _is_named(member):
        (part,) = contributions_from(block, [member], sums.by_share())
        return part.modelled
    place = sums.place(member.imputes)
    return np.zeros(len(block.log)) if place < 0 else sums.dot[place]


def _is_named(member: Estimator) -> bool:
    """Whether all that the walk must know of an estimator are its shares of π."""
    return type(member) in NAMED.values()


def _compiled_moments(modelled: Modelled, plan: Plan, sums: ShareSums) -> tuple[Moments, Floats]:
    """`_moments` where everything is known of every candidate: no table of columns is held."""
    from offpolicy.evidence import _moment_kernels as accumulate

    block, members = modelled.block, plan.members
    log, prediction = block.log, modelled.prediction
    named = [member if _is_named(member) else None for member in members]
    moments = np.empty((5, Rows(members).total))
    paired = np.zeros((len(members) + 1, BINS + 1, 2))
    nothing: Floats = np.empty(0)
    accumulate.member_moments(
        block.c,
        bin_of(block.c),
        np.stack([log.reward, log.reward - block.delta_hat_chosen]),
        prediction.modelled,
        log.reward - prediction.chosen,
        sums.mass,
        sums.dot,
        sums.kinds,
        sums.parameters,
        _whole([-1 if member is None else sums.place(member.leaves) for member in named]),
        _whole([-1 if member is None else sums.place(member.imputes) for member in named]),
        _whole([0 if member.for_ranking else 1 for member in members]),
        nothing if log.row_weight is None else log.row_weight,
        plan.centre,
        moments,
        paired,
    )
    others = [j for j, member in enumerate(members) if not _is_named(member)]
    if others:
        parts = contributions_from(block, [members[j] for j in others], sums.by_share())
        own, own_paired = _moments(modelled, plan, parts)
        paired[others] = own_paired[:-1]
        places = [row * len(members) + j for row in range(3) for j in others]
        columns = np.array([own.mean, own.cross, own.second, own.low, own.high])
        moments[:, places] = columns[:, : len(places)]
    return Moments.from_columns(moments, len(log), log.row_weight), paired


def _whole(numbers: Sequence[int]) -> Ints:
    """Numbers of a plan's estimators as integers, also if there are none, as for `compare`."""
    return np.array(numbers, dtype=np.int64)
