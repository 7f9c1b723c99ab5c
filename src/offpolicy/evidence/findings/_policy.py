"""What the weights of one policy show: support, size, drift."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from offpolicy._core.parallel import each_block
from offpolicy._core.ragged import row_sums
from offpolicy._core.types import Floats
from offpolicy.estimators import weights
from offpolicy.evidence._blocks import Block, blocks, whole_block
from offpolicy.evidence._limits import (
    FALSE_ALARM,
    FEW_EFFECTIVE,
    FEWEST_FOR_DRIFT,
    HEAVIEST,
    PROBABILITY_ERROR,
    UNSUPPORTED_MASS,
    grade,
    percent,
    tail,
)
from offpolicy.evidence.findings._actions import (
    action_name,
    added,
    rows_of,
)
from offpolicy.evidence.findings._chance import LARGEST, Rows, kish
from offpolicy.evidence.findings._drift import DRIFT_CLIP, moved, order_in_time
from offpolicy.evidence.findings._from_numbers import heavy_weights, support
from offpolicy.evidence.findings._rows import about_size
from offpolicy.logs import BanditLog
from offpolicy.policies import Target
from offpolicy.results import Finding, finding

THIN = (1e-3, 0.01, 0.1)
"""Likewise the mass on actions so rare that their weights must be clipped: better than none."""
THIN_ROWS, THIN_WEIGHT = 100, 10.0
"""Weights must be clipped where one row would stand for more than a hundredth of the log, but not
below 10, the M that is the default elsewhere."""
CLIPS = (0.5, 2.0, 10.0, 100.0, 1000.0)
"""Values of M at which the mean of min(c, M) is tested: small ones see many rows."""


def about_policy(log: BanditLog, rows: Rows, target: Target) -> list[Finding]:
    """Findings on a policy: its weights, and where the logger allows its actions."""
    name, c = target.name, np.minimum(whole_block(log, target, None).c, LARGEST)
    found = about_size(log, rows, c, name)
    if not c.any():
        return found
    M = max(kish(rows.omega) / THIN_ROWS, THIN_WEIGHT)
    if log.logging is not None and target.flat is not None:
        masses = _masses(log, rows, target, M)
        found += _support(log, name, masses)
        found += _weight_mean(log, rows, target)
        thin = masses.thin
    else:
        found += _missing_mass(rows, name, c)
        found += _weights_above_one(rows, name, c)
        beyond = float((rows.omega * np.maximum(c - M, 0.0)).mean())
        thin = min(beyond, 1.0 - float((rows.omega * np.minimum(c, M)).mean()))
    sentence = (
        f"{percent(thin)} of the probability of {name} is on actions so rare in the log that "
        f"their weights go beyond {M:,.4g}."
    )
    found += finding("thin-support", grade(thin, THIN), sentence, name, mass=thin, M=M)
    return found + _heavy_weights(rows, name, c) + _weight_drift(log, rows, name, c)


class _Masses(NamedTuple):
    """A policy's probability where the logger has none, or too little."""

    unsupported: Floats
    """By action."""
    thin: float


def _masses(log: BanditLog, rows: Rows, target: Target, M: float) -> _Masses:
    K = log.number_of_actions

    def of_block(block: Block) -> Floats:
        part, pi = block.log, block.target.flat
        assert pi is not None
        assert part.logging is not None
        each = np.repeat(rows.omega[rows_of(log, part)], np.diff(part.offsets))
        gone = np.where(part.logging == 0.0, pi, 0.0)
        thin = float((each * (np.maximum(pi - M * part.logging, 0.0) - gone)).sum())
        return np.append(
            np.bincount(part.candidate_codes(), weights=each * gone, minlength=K), thin
        )

    total = added(each_block(of_block, blocks(log, target, None))) / len(log)
    return _Masses(total[:-1], float(total[-1]))


def _support(log: BanditLog, name: str, masses: _Masses) -> list[Finding]:
    by_action, mass = masses.unsupported, float(masses.unsupported.sum())
    most = [int(k) for k in np.argsort(-by_action, kind="stable")[:3] if by_action[k] > 0.0]
    listed = ", ".join(f"{action_name(log, k)} ({percent(by_action[k])})" for k in most)
    count = int(np.count_nonzero(by_action))
    more = f" and {count - len(most)} more" if count > len(most) else ""
    return support(name, mass, f": on {listed}{more}", actions=count)


def _missing_mass(rows: Rows, name: str, c: Floats) -> list[Finding]:
    """The finding of lacking support where only propensities are known: from the mean of c."""
    mass = 1.0 - float((rows.omega * c).mean())
    spread = rows.spread(c - 1.0)
    bound = float(c.max()) * float(rows.sizes().max())
    if float(tail(mass * len(c), spread**2, bound)) >= FALSE_ALARM:
        return []
    stderr = spread / len(c)
    sentence = (
        f"The weights of {name} average {1.0 - mass:.3g}, not 1: about {percent(mass)} (give or "
        f"take {percent(stderr)}) of its probability is on actions that the log shows never, or "
        f"hardly ever."
    )
    return finding(
        "support", grade(mass, UNSUPPORTED_MASS), sentence, name, mass=mass, stderr=stderr
    )


def _heavy_weights(rows: Rows, name: str, c: Floats) -> list[Finding]:
    w = rows.omega * c
    w = w[w > 0.0]
    if len(w) < FEW_EFFECTIVE:  # effective-size speaks
        return []
    top = math.ceil(HEAVIEST * len(w))
    share = float(np.partition(w, -top)[-top:].sum() / w.sum())
    which = f"heaviest {top:,} of {len(w):,} rows"
    return heavy_weights(name, which, share, top, float(c.max()))


def _weight_mean(log: BanditLog, rows: Rows, target: Target) -> list[Finding]:
    """The finding of weights that do not fit: min(c, M) against its exact mean, Σ_y min(π, Mπ₀)."""

    def of_block(block: Block) -> tuple[Floats, Floats]:
        """For every M: how far each row is from its mean; the sums of means and of variances."""
        pi, pi0, offsets = block.target.flat, block.log.logging, block.log.offsets
        assert pi is not None
        assert pi0 is not None
        c, total = weights.ratio(pi, pi0), row_sums(pi0, offsets)
        omega = rows.omega[rows_of(log, block.log)]
        off, sums = np.empty((len(CLIPS), len(omega))), np.empty((len(CLIPS), 2))
        for j, M in enumerate(CLIPS):
            mass = np.minimum(pi, M * pi0)
            mean = row_sums(mass, offsets) / total
            squares = row_sums(mass * np.minimum(c, M), offsets) / total
            # Never 0 through rounding alone: the rarest choice must count as possible.
            variance = np.maximum(squares - mean * mean, 1e-15 * squares)
            off[j] = np.minimum(block.c, M) - mean
            sums[j] = (omega * mean).sum(), (omega * omega * variance).sum()
        return off, sums

    parts = list(each_block(of_block, blocks(log, target, None)))
    off = np.concatenate([part for part, _ in parts], axis=1)
    mean, variance = added(sums for _, sums in parts).T
    chances = [rows.chance(off[j], float(variance[j]), M) for j, M in enumerate(CLIPS)]
    failing = [j for j, chance in enumerate(chances) if chance * len(CLIPS) < FALSE_ALARM]
    if not failing:
        return []
    j = failing[-1]  # the nearest to the weights as they are
    expected = float(mean[j]) / len(log)
    found = expected + float((rows.omega * off[j]).mean())
    stderr = (math.sqrt(variance[j]) if rows.plain else rows.spread(off[j])) / len(log)
    sentence = (
        f"The weights of {target.name}, clipped at {CLIPS[j]:g}, average {found:.4g}; by the "
        f"logged probabilities it should be {expected:.4g} (give or take {stderr:.2g})."
    )
    return finding(
        "weight-mean", grade(abs(found / expected - 1.0), PROBABILITY_ERROR), sentence, target.name,
        M=CLIPS[j], mean=found, expected=expected, stderr=stderr, chance=chances[j],
    )  # fmt: skip


def _weights_above_one(rows: Rows, name: str, c: Floats) -> list[Finding]:
    """The finding of weights that average above 1, where only propensities are known."""
    chance, mean = rows.chance_above(c - 1.0, -1.0), float((rows.omega * c).mean())
    if chance >= FALSE_ALARM:
        return []
    stderr = rows.spread(c - mean) / len(c)
    sentence = (
        f"The weights of {name} average {mean:.4g} (give or take {stderr:.2g}), where 1 is the "
        f"most there can be."
    )
    return finding(
        "weight-mean", grade(mean - 1.0, PROBABILITY_ERROR), sentence, name,
        mean=mean, expected=1.0, stderr=stderr, chance=chance,
    )  # fmt: skip


def _weight_drift(log: BanditLog, rows: Rows, name: str, c: Floats) -> list[Finding]:
    if len(log) < FEWEST_FOR_DRIFT:
        return []
    move = moved(rows, np.minimum(c, DRIFT_CLIP), order_in_time(log))
    if move is None or not move.matters(1.0):
        return []
    sentence = f"The mean weight of {name} (clipped at {DRIFT_CLIP:g}) {move.text}."
    numbers = {"there": move.there, "elsewhere": move.elsewhere}
    return finding("weight-drift", "note", sentence, name, **numbers)
