"""One pass over a log: blocks of rows in, contributions out, moments merged in order.

The same few functions serve every verb. A block's result depends on its rows alone, and blocks
are merged in row order, so the answer is the same whatever the number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats
from offpolicy._core.validation import check_finite
from offpolicy.errors import PredictionError, SupportError
from offpolicy.estimators import Estimator, Share, weights
from offpolicy.logs import BLOCK, BanditLog
from offpolicy.policies import Target

COMPILED_FROM = 200_000
"""A log with fewer candidates goes through NumPy: compiling would take longer."""

_NOTHING: Floats = np.empty(0)
_PI_ONLY = ("all", "scaled")


@dataclass(eq=False)
class Block:
    """A stretch of rows with everything an estimator may ask for."""

    log: BanditLog
    target: Target
    delta_hat: Floats | None
    check_whole: Callable[[], None]
    """Raise if anything in the whole scan is malformed, naming the row."""
    compiled: bool

    @property
    def columns(self) -> frozenset[str]:
        """Which of the columns that estimators may need are at hand."""
        have = {
            "propensity": self.log.propensity is not None,
            "logging": self.log.logging is not None,
            "policy": self.target.flat is not None,
            "prediction": self.delta_hat is not None,
        }
        return frozenset(name for name, there in have.items() if there)

    @cached_property
    def pi_chosen(self) -> Floats:
        """π of the chosen candidates."""
        if self.target.chosen is not None:
            return self.target.chosen
        assert self.target.flat is not None
        return self.target.flat[self.log.chosen_index]

    @cached_property
    def delta_hat_chosen(self) -> Floats:
        """δ̂ of the chosen candidates; 0 without a model."""
        if self.delta_hat is None:
            return np.zeros(len(self.log))
        return self.delta_hat[self.log.chosen_index]

    @cached_property
    def propensity(self) -> Floats:
        """π₀ of the chosen candidates; 1 where the log has none (only DM is then computed)."""
        return np.ones(len(self.log)) if self.log.propensity is None else self.log.propensity

    @cached_property
    def c(self) -> Floats:
        """π/π₀ of the chosen candidates."""
        return weights.ratio(self.pi_chosen, self.propensity)


def whole_block(log: BanditLog, target: Target, delta_hat: Floats | None) -> Block:
    """A whole log with a policy as one `Block`, to be worked on without the compiled pass."""

    def check_whole() -> None:
        target.check(log)
        if delta_hat is not None:
            check_finite(delta_hat, "prediction", log.source, PredictionError, log.offsets)

    return Block(log, target, delta_hat, check_whole, compiled=False)


Maker = Callable[[], Block]
"""Makes a block when it is wanted."""


def blocks(log: BanditLog, target: Target, delta_hat: Floats | None) -> list[Maker]:
    """A log, a policy's probabilities and the predictions, block by block, for the walk.

    Small logs are checked here; large ones by the compiled pass over them.
    """
    whole = whole_block(log, target, delta_hat)
    compiled = is_large(log)
    if not compiled or target.flat is None or log.logging is None:
        whole.check_whole()

    def block(start: int) -> Block:
        stop = min(start + BLOCK, len(log))
        flat = slice(int(log.offsets[start]), int(log.offsets[stop]))
        return Block(
            log.rows(start, stop),
            target._replace(
                flat=None if target.flat is None else target.flat[flat],
                chosen=None if target.chosen is None else target.chosen[start:stop],
                leave_one_out=None,
            ),
            None if delta_hat is None else delta_hat[flat],
            whole.check_whole,
            compiled,
        )

    return [functools.partial(block, start) for start in range(0, len(log), BLOCK)]


def refuse_no_overlap(largest_weight: float, name: str) -> None:
    """Raise if no chosen candidate has a weight: the log is no evidence about the policy."""
    if largest_weight == 0.0:
        raise SupportError(
            f"{name} gives probability 0 to every action that was chosen, so no reward in this log "
            f"says anything about it. Only DM, with a reward model, can answer, if it is asked for "
            f"alone; to learn more, log some decisions with a policy closer to this one.",
            column=name,
        )


def is_large(log: BanditLog) -> bool:
    """Whether the walk over a log is worth the compilation of its kernels."""
    return int(log.offsets[-1]) >= COMPILED_FROM


class Contributions(NamedTuple):
    """What one estimator makes of a block: everything per decision."""

    value: Floats
    observed: Floats
    imputed_mass: Floats
    modelled: Floats
    """The part of ``value`` that is Σ imputed·δ̂."""


class Sums(NamedTuple):
    """Σ share and Σ share·δ̂ of every decision."""

    mass: Floats
    dot: Floats


def contributions(block: Block, estimators: Sequence[Estimator]) -> list[Contributions]:
    """What each decision of a block contributes to every estimator: the bracket of Definition 1."""
    compiled = block.compiled and block.target.flat is not None
    sums = _compiled_sums(block, estimators) if compiled else {}
    parts = []
    for estimator in estimators:
        at_chosen = estimator.masses(block.pi_chosen, block.propensity, block.c)
        modelled, mass = _over_candidates(block, estimator, at_chosen.observed, sums)
        with np.errstate(over="ignore", invalid="ignore"):
            if estimator.for_ranking:
                value = modelled + at_chosen.observed * block.log.reward
            else:
                # Huge weights must meet the residual, not two large terms that cancel.
                delta_hat = block.delta_hat_chosen
                value = modelled + at_chosen.observed * (block.log.reward - delta_hat)
                value += (at_chosen.observed + at_chosen.control) * delta_hat
        parts.append(Contributions(value, at_chosen.observed, mass, modelled))
    return parts


def _over_candidates(
    block: Block, estimator: Estimator, observed: Floats, sums: dict[Share, Sums]
) -> tuple[Floats, Floats]:
    """(Σ imputed·δ̂, imputed mass) of every decision of a block.

    Where the logger's probabilities are known for the chosen candidates only, 1 − min(observed, c)
    stands in for the imputed mass: it has the same mean.
    """
    unanswered = 1.0 - np.minimum(observed, block.c)
    pi, pi0, offsets = block.target.flat, block.log.logging, block.log.offsets
    imputes, leaves = estimator.imputes, estimator.leaves
    unknown_mass = pi is None or pi0 is None
    known = (imputes is None or imputes in sums) and (unknown_mass or leaves in sums)
    if leaves is not None and block.compiled and known:
        modelled = sums[imputes].dot if imputes is not None else np.zeros(len(observed))
        return modelled, unanswered if unknown_mass else sums[leaves].mass
    if pi is None:
        return np.zeros(len(observed)), unanswered
    pi0_or_one = np.ones_like(pi) if pi0 is None else pi0
    masses = estimator.masses(pi, pi0_or_one, weights.ratio(pi, pi0_or_one))
    modelled = np.zeros(len(observed))
    if block.delta_hat is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            modelled = row_sums(masses.imputed * block.delta_hat, offsets)
    if pi0 is None:
        return modelled, unanswered
    return modelled, row_sums(weights.leftover(pi, pi0, masses.observed), offsets)


def _compiled_sums(block: Block, estimators: Sequence[Estimator]) -> dict[Share, Sums]:
    """A block's sums over all shares of π that estimators ask for; the pass also checks π and δ̂."""
    from offpolicy.estimators import _kernels as kernels

    log, target = block.log, block.target
    assert target.flat is not None
    shares = list(
        dict.fromkeys(
            share
            for estimator in estimators
            for share in (estimator.imputes, estimator.leaves)
            if share is not None and (log.logging is not None or share.kind in _PI_ONLY)
        )
    )
    mass, dot = np.empty((2, len(shares), len(log)))
    total, lowest, pi_chosen, delta_hat_chosen = np.empty((4, len(log)))
    kernels.candidate_sums(
        log.offsets,
        log.chosen,
        target.flat,
        _NOTHING if log.logging is None else log.logging,
        _NOTHING if block.delta_hat is None else block.delta_hat,
        np.array([kernels.KINDS[share.kind] for share in shares], dtype=np.int64),
        np.array([share.parameter for share in shares], dtype=np.float64),
        mass,
        dot,
        total,
        lowest,
        pi_chosen,
        delta_hat_chosen,
    )
    off_by = np.abs(total - 1.0).max()
    # Without shares nothing has looked at δ̂ yet.
    modelled = dot if shares or block.delta_hat is None else block.delta_hat
    if not (lowest.min() >= 0.0 and off_by <= target.tolerance and np.isfinite(modelled).all()):
        block.check_whole()
    block.pi_chosen, block.delta_hat_chosen = pi_chosen, delta_hat_chosen
    return {share: Sums(mass[j], dot[j]) for j, share in enumerate(shares)}


def effective_size(total: float, squares: float) -> float | None:
    """Effective rows behind an estimate, Kish's (Σw)²/Σw²; None where no reward has weight."""
    if not (total > 0.0 and squares > 0.0):
        return None
    return float(total * total / squares) if np.isfinite(squares) else 1.0
