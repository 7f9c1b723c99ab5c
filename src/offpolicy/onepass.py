"""The one pass over a log: everything that `evaluate` needs, as mergeable moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy.bands import GRID, Bands
from offpolicy.estimators import Estimator
from offpolicy.labels import GROUPS
from offpolicy.moments import Moments
from offpolicy.plan import Plan, look_at
from offpolicy.scan import Block, contributions
from offpolicy.sources import Source


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row of the moments holds what, for the j-th of E estimators."""

    members: tuple[Estimator, ...]

    @property
    def total(self) -> int:
        return 4 * len(self.members) + 3

    @property
    def weight(self) -> int:
        """The row of c itself."""
        return 4 * len(self.members)

    @property
    def modelled(self) -> int:
        """The row of Σ πδ̃."""
        return 4 * len(self.members) + 1

    @property
    def reward(self) -> int:
        """The row of the logged reward."""
        return 4 * len(self.members) + 2

    def value(self, j: int) -> int:
        return j

    def observed(self, j: int) -> int:
        return len(self.members) + j

    def imputed(self, j: int) -> int:
        return 2 * len(self.members) + j

    def corrected(self, j: int) -> int:
        """Σ πδ̃ + observed·(r − δ̃): the same weights around the recalibrated model."""
        return 3 * len(self.members) + j


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one pass over the log leaves behind; ``a + b`` is the union of the rows."""

    plain: Moments
    ratios: tuple[Moments | None, ...]
    """For each self-normalised estimator, moments of c, of c·(residual − ratio), and of
    Σ πδ̂ + c·(residual − ratio)/weight."""
    grid: Moments
    """CAB-DR with the recalibrated model at every M of the grid."""
    bands: Bands

    def __add__(self, other: Scanned) -> Scanned:
        ratios = tuple(
            None if a is None or b is None else a + b
            for a, b in zip(self.ratios, other.ratios, strict=True)
        )
        return Scanned(
            self.plain + other.plain, ratios, self.grid + other.grid, self.bands + other.bands
        )


def scan(source: Source, plans: Sequence[Plan]) -> list[Scanned]:
    """The one pass, for every policy of the source."""

    def of_blocks(made: list[Block]) -> list[Scanned]:
        return [scan_block(block, plan) for block, plan in zip(made, plans, strict=True)]

    def added(one: list[Scanned], other: list[Scanned]) -> list[Scanned]:
        return [a + b for a, b in zip(one, other, strict=True)]

    return source.reduce(of_blocks, added, question=("scan", *plans))


def scan_block(block: Block, plan: Plan) -> Scanned:
    """Moments of one block; depends on its rows and the plan alone."""
    log, rows = block.log, Rows(plan.members)
    parts = contributions(block, plan.members)
    look = look_at(block, plan.recalibration, plan.usual)
    modelled, residual = look.tilde.modelled, log.reward - look.tilde.chosen
    x = np.empty((rows.total, len(log)))
    x[rows.weight], x[rows.modelled], x[rows.reward] = block.c, modelled, log.reward
    ratios: list[Moments | None] = []
    for j, (member, part) in enumerate(zip(plan.members, parts, strict=True)):
        x[rows.value(j)] = part.value
        x[rows.observed(j)] = part.observed
        x[rows.imputed(j)] = part.imputed_mass
        with np.errstate(over="ignore"):
            x[rows.corrected(j)] = modelled + part.observed * residual
        ratios.append(None)
        if member.self_normalised:
            centre = plan.centres[j]
            with np.errstate(over="ignore", invalid="ignore"):
                own = log.reward - centre.ratio
                if member.imputes is not None:
                    own -= block.delta_hat_chosen
                weighted = block.c * own
                y = np.stack([block.c, weighted, part.modelled + weighted / centre.weight])
            ratios[j] = Moments.of(y, log.row_weight, log.group, groups=GROUPS)
    omega, group = log.row_weight, log.group
    if block.compiled and group is None:
        grid = Moments.clipped(modelled, block.c, residual, GRID, omega)
    else:
        with np.errstate(over="ignore"):
            x_grid = modelled + np.minimum(block.c, GRID[:, None]) * residual
        grid = Moments.of(x_grid, omega, group, groups=GROUPS, diagonal=True)
    return Scanned(
        Moments.of(x, omega, group, groups=GROUPS, diagonal=True),
        tuple(ratios),
        grid,
        look.bands,
    )
