"""The one pass over a log: everything that `evaluate` needs, as mergeable moments."""

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
from offpolicy.evidence._model_error import GRID, Bands
from offpolicy.evidence._plan import Centre, Look, Plan, look_at
from offpolicy.evidence._sources import Source
from offpolicy.evidence._summary_sums import Tally
from offpolicy.logs.labels import GROUPS


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


@storable
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
    tally: Tally
    """What pictures are drawn from."""

    def __add__(self, other: Scanned) -> Scanned:
        ratios = tuple(
            None if a is None or b is None else a + b
            for a, b in zip(self.ratios, other.ratios, strict=True)
        )
        return Scanned(
            self.plain + other.plain,
            ratios,
            self.grid + other.grid,
            self.bands + other.bands,
            self.tally + other.tally,
        )


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
    if block.compiled and log.group is None and {"logging", "policy"} <= block.columns:
        return _scan_compiled(block, plan)
    omega, group, rows = log.row_weight, log.group, Rows(plan.members)
    parts = contributions(block, plan.members)
    look = look_at(block, plan.recalibration, plan.usual)
    modelled, residual = look.tilde.modelled, log.reward - look.tilde.chosen
    x = np.concatenate(
        [_columns(parts, modelled, residual), np.stack([block.c, modelled, log.reward])]
    )
    assert len(x) == rows.total
    ratios = [
        Moments.of(_about_ratio(block, member, centre, part.modelled), omega, group, groups=GROUPS)
        if member.self_normalised
        else None
        for member, centre, part in zip(plan.members, plan.centres, parts, strict=True)
    ]
    if block.compiled and group is None:
        grid = Moments.clipped(modelled, block.c, residual, GRID, omega)
    else:
        with np.errstate(over="ignore"):
            x_grid = modelled + np.minimum(block.c, GRID[:, None]) * residual
        grid = Moments.of(x_grid, omega, group, groups=GROUPS, diagonal=True)
    plain = Moments.of(x, omega, group, groups=GROUPS, diagonal=True)
    return Scanned(plain, tuple(ratios), grid, look.bands, _tally(look, plan))


def _columns(parts: Sequence[Contributions], modelled: Floats, residual: Floats) -> Floats:
    """What the walk keeps of every estimator, in the order of `Rows`."""
    with np.errstate(over="ignore"):
        corrected = [modelled + part.observed * residual for part in parts]
    kept = [[getattr(part, name) for part in parts] for name in Contributions._fields[:3]]
    return np.array([*kept[0], *kept[1], *kept[2], *corrected]).reshape(-1, len(modelled))


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


def _scan_compiled(block: Block, plan: Plan) -> Scanned:
    """`scan_block` where everything is known of every candidate: no table of columns is held."""
    log, members, omega = block.log, plan.members, block.log.row_weight
    sums = compiled_sums(block, members)
    look = look_at(block, plan.recalibration, plan.usual)
    modelled, residual = look.tilde.modelled, log.reward - look.tilde.chosen
    moments = _member_moments(block, members, sums, modelled, residual)
    others = [j for j, member in enumerate(members) if not _is_named(member)]
    if others:
        parts = contributions_from(block, [members[j] for j in others], sums.by_share())
        own = Moments.of(_columns(parts, modelled, residual), omega, diagonal=True)
        places = [row * len(members) + j for row in range(4) for j in others]
        moments[:, places] = own.mean, own.cross, own.second, own.low, own.high
    ratios: list[Moments | None] = [None] * len(members)
    for j, member in enumerate(members):
        if member.self_normalised:
            part = _modelled(block, member, sums)
            ratios[j] = Moments.joint(_about_ratio(block, member, plan.centres[j], part), omega)
    return Scanned(
        Moments.from_columns(moments, len(log), omega),
        tuple(ratios),
        Moments.clipped(modelled, block.c, residual, GRID, omega),
        look.bands,
        _tally(look, plan),
    )


def _tally(look: Look, plan: Plan) -> Tally:
    return Tally.of(
        look.block, plan.first_row, plan.n, plan.classes, look.tilde.modelled, look.tilde.chosen
    )


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


def _member_moments(
    block: Block,
    members: Sequence[Estimator],
    sums: ShareSums,
    modelled: Floats,
    residual: Floats,
) -> Floats:
    """A block's moments of all `Rows` of the walk; those of unnamed estimators are left open."""
    from offpolicy.evidence import _moment_kernels as accumulate

    log = block.log
    named = [member if _is_named(member) else None for member in members]
    moments = np.empty((5, Rows(tuple(members)).total))
    accumulate.member_moments(
        block.c,
        np.stack([log.reward, log.reward - block.delta_hat_chosen]),
        modelled,
        residual,
        sums.mass,
        sums.dot,
        sums.kinds,
        sums.parameters,
        _whole([-1 if member is None else sums.place(member.leaves) for member in named]),
        _whole([-1 if member is None else sums.place(member.imputes) for member in named]),
        _whole([0 if member.for_ranking else 1 for member in members]),
        np.empty(0) if log.row_weight is None else log.row_weight,
        moments,
    )
    return moments


def _whole(numbers: Sequence[int]) -> Ints:
    """Numbers of a plan's estimators as integers, also if there are none, as for `compare`."""
    return np.array(numbers, dtype=np.int64)
