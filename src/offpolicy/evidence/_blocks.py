"""One pass over a log: blocks of rows in, contributions out, moments merged in order.

The same few functions serve every verb. A block's result depends on its rows alone, and blocks
are merged in row order, so the answer is the same whatever the number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from offpolicy._core.compiling import Worth
from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats
from offpolicy._core.validation import check_finite
from offpolicy.errors import PredictionError, SupportError
from offpolicy.estimators import NAMED, Estimator, weights
from offpolicy.logs import BLOCK, BanditLog
from offpolicy.policies import Target


def _longest_to_compile() -> Any:
    from offpolicy.evidence._candidate_kernels import recalibrated_sums

    return recalibrated_sums


WALK = Worth(_longest_to_compile, kept=1_000_000, fresh=20_000_000)
"""A log with fewer candidates goes through NumPy: loading or compiling loops would take longer."""


@dataclass(eq=False)
class Block:
    """A stretch of rows with everything an estimator may ask for."""

    log: BanditLog
    target: Target
    delta_hat: Floats | None
    check_whole: Callable[[], None]
    """Raise if anything in the whole scan is malformed, naming the row."""
    size: float = 0.0
    """Candidates in all of the log, about, if this is part of the walk over it."""

    @cached_property
    def compiled(self) -> bool:
        """Whether the walk is worth its compiled loops."""
        return WALK.compiling(self.size)

    @cached_property
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
    """A whole log with a policy as one `Block`, to be worked on without compiled loops."""

    def check_whole() -> None:
        target.check(log)
        if delta_hat is not None:
            check_finite(delta_hat, "prediction", log.source, PredictionError, log.offsets)

    return Block(log, target, delta_hat, check_whole)


def whole_blocks(
    log: BanditLog, targets: Sequence[Target], delta_hat: Floats | None
) -> list[Block]:
    """A `whole_block` for every policy; for the logger, if there is none."""
    targets = targets or [Target("logging", None, log.propensity)]
    return [whole_block(log, target, delta_hat) for target in targets]


Maker = Callable[[], Block]
"""Makes a block when it is wanted."""


def blocks(
    log: BanditLog, target: Target, delta_hat: Floats | None, *, trusted: bool = False
) -> list[Maker]:
    """A log, a policy's probabilities and the predictions: checked, and block by block."""
    whole = whole_block(log, target, delta_hat)
    if not trusted:
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
            float(log.offsets[-1]),
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


class Contributions(NamedTuple):
    """What one estimator makes of a block: everything per decision."""

    value: Floats
    observed: Floats
    imputed_mass: Floats
    modelled: Floats
    """The part of ``value`` that is Σ imputed·δ̂."""


class _Weighed(NamedTuple):
    """What one weight makes of a block: everything per decision."""

    observed: Floats
    """Of what was chosen."""
    rest: Floats
    """Σ max(π − π₀·weight, 0),"""
    modelled: Floats
    """and the same times δ̂."""


def contributions(block: Block, estimators: Sequence[Estimator]) -> list[Contributions]:
    """What each decision of a block contributes to every estimator: the family's bracket."""
    whole = _model_sums(block)
    weighed: dict[tuple[object, float | None], _Weighed] = {}
    parts = []
    for estimator in estimators:
        if estimator.imputes == "own":
            parts.append(_by_functions(block, estimator))
            continue
        key = estimator.weight, estimator.parameter
        if key not in weighed:
            weighed[key] = _weigh(block, estimator)
        observed, mass, modelled = weighed[key]
        reward = block.log.reward
        with np.errstate(over="ignore", invalid="ignore"):
            if estimator.imputes != "rest":
                share = 0.0 if estimator.imputes == "nothing" else estimator.fixed_share
                modelled = share * whole if share > 0.0 else np.zeros_like(whole)
            if estimator.imputes == "all":
                reward = reward - block.delta_hat_chosen
            value = modelled + observed * reward
        parts.append(Contributions(value, observed, mass, modelled))
    return parts


def _by_functions(block: Block, estimator: Estimator) -> Contributions:
    """The contributions of an `ICE`."""
    pi, pi0, offsets = block.target.flat, block.log.logging, block.log.offsets
    assert pi is not None
    assert pi0 is not None
    assert block.delta_hat is not None
    every, chosen = estimator.masses(pi, pi0), estimator.masses(block.pi_chosen, block.propensity)
    with np.errstate(over="ignore", invalid="ignore"):
        modelled = row_sums(every.imputed * block.delta_hat, offsets)
        # Huge weights must meet the residual, not two large terms that cancel.
        value = modelled + chosen.observed * (block.log.reward - block.delta_hat_chosen)
        value += (chosen.observed + chosen.control) * block.delta_hat_chosen
    mass = row_sums(weights.leftover(pi, pi0, every.observed), offsets)
    return Contributions(value, chosen.observed, mass, modelled)


def _weigh(block: Block, estimator: Estimator) -> _Weighed:
    """What an estimator's weight takes of a block, and leaves of the policy's probability."""
    pi, pi0, offsets = block.target.flat, block.log.logging, block.log.offsets
    if pi is None or pi0 is None:
        observed = estimator.observed(block.pi_chosen, block.propensity)
        # Without π₀ of all candidates something else with the same mean stands in for the mass.
        return _Weighed(observed, 1.0 - np.minimum(observed, block.c), np.empty(0))
    if block.compiled and NAMED.get(estimator.name) is type(estimator):
        from offpolicy._core.kernels import read_only
        from offpolicy.estimators._kernels import rest_sums

        rest = np.empty((2, len(block.log)))
        given = read_only(offsets, pi, pi0, block.delta_hat)
        rest_sums(estimator.weight)(*given, estimator.parameter or 0.0, *rest)
        return _Weighed(estimator.observed(block.pi_chosen, block.propensity), *rest)
    observed = estimator.observed(pi, pi0)
    left = weights.leftover(pi, pi0, observed)
    with np.errstate(over="ignore", invalid="ignore"):
        model = np.zeros_like(left) if block.delta_hat is None else left * block.delta_hat
        rest = row_sums(np.array([left, model]), offsets)
    return _Weighed(observed[block.log.chosen_index], *rest)


def _model_sums(block: Block) -> Floats:
    """Σ πδ̂ of every decision of a block."""
    pi, delta_hat, offsets = block.target.flat, block.delta_hat, block.log.offsets
    if pi is None or delta_hat is None:
        return np.zeros(len(block.log))
    if block.compiled and block.log.has_equal_lengths:
        dense = pi.reshape(len(block.log), -1), delta_hat.reshape(len(block.log), -1)
        return np.asarray(np.einsum("nk,nk->n", *dense))
    with np.errstate(over="ignore", invalid="ignore"):
        return row_sums(pi * delta_hat, offsets)
