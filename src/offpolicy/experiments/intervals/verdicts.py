"""Whether intervals keep their word, and what for: limits set beforehand, and what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.evaluation import holm
from offpolicy.experiments.intervals.outcomes import Cell
from offpolicy.experiments.tables import geometric_mean, markdown, named

LEAST = {"chosen only": 0.90, "level 90 %": 0.88, "level 99 %": 0.97}
"""Coverage that no cell may be significantly below; 93 % unless named here."""
ALPHA = 0.05
EXPLAINED = 3
_FEW = 20


@dataclass(frozen=True)
class Verdict:
    """One sentence, and whether it holds."""

    text: str
    holds: bool
    measured: str


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """A row each."""
    rows = [
        [verdict.text, "holds" if verdict.holds else "does not hold", verdict.measured]
        for verdict in verdicts
    ]
    return markdown(["claim", "", "measured"], rows) + "\n"


@dataclass(frozen=True)
class Before:
    """How version 0.1 did in one of the finite worlds, on the same logs."""

    world: str
    n: int
    repeats: int
    mse: float
    covered: int
    refused: int
    first_log: str

    @property
    def coverage(self) -> float:
        return self.covered / self.repeats


def p_below(groups: Sequence[float] | Floats, limit: float) -> float:
    """One-sided t test over group means: how probable so low a mean would be at ``limit``."""
    from scipy.special import stdtr

    x = np.asarray(groups)
    spread = float(x.std(ddof=1)) if len(x) > 1 else 0.0
    gap = float(x.mean()) - limit
    if spread == 0.0:
        return 0.0 if gap < 0.0 else 1.0
    return float(stdtr(len(x) - 1, gap / (spread / math.sqrt(len(x)))))


def limit_of(cell: Cell) -> float:
    """Two points below the interval's level."""
    return LEAST.get(cell.policy, LEAST.get(cell.known, 0.93))


def cover(cells: Sequence[Cell], text: str, limits: Sequence[float]) -> Verdict:
    """No cell is significantly below its limit."""
    p = holm([p_below(cell.covered, least) for cell, least in zip(cells, limits, strict=True)])
    failed = [cell for cell, value in zip(cells, p, strict=True) if value < ALPHA]
    least = min(cells, key=lambda cell: cell.coverage)
    measured = f"least {least.coverage:.1%} ({least.name}); smallest adjusted p {min(p):.2g}"
    if failed:
        measured += "; below: " + "; ".join(f"{c.name} {c.coverage:.1%}" for c in failed)
    return Verdict(text, not failed, measured)


def protocol_verdicts(cells: Sequence[Cell]) -> list[Verdict]:
    """The protocol's cells: coverage, and that it was bought neither by refusing nor by width."""
    text = "no cell of the protocol covers significantly less than 93 % (chosen only: 90 %)"
    pooled = np.mean([cell.coverage for cell in cells if cell.known == "candidates"])
    told = [cell for cell in cells if cell.enough >= _FEW]
    refused = max((cell.refused_enough / cell.enough for cell in told), default=0.0)
    wide = [cell for cell in cells if cell.snips_covered >= 0.9]
    widest = max(wide, key=lambda cell: cell.width_ratio, default=None)
    width = geometric_mean([cell.width_ratio for cell in cells])
    return [
        cover(cells, text, [limit_of(cell) for cell in cells]),
        Verdict("pooled over its cells with candidates, 94.5 % or more are covered",
                bool(pooled >= 0.945), f"{pooled:.2%}"),
        Verdict("in no cell more than 5 % are refused of the logs in which SNIPS has an effective "
                "size of 100 or more", refused <= 0.05, f"at most {refused:.1%}"),
        guard_verdict(cells),
        Verdict("the width is at most 1.1 of that of SNIPS ± 1.96 standard errors (geometric mean)",
                width <= 1.1, f"{width:.3f}"),
        Verdict("and at most 1.5 in every cell in which SNIPS itself covers 90 %",
                widest is None or widest.width_ratio <= 1.5,
                "no such cell" if widest is None else f"{widest.width_ratio:.2f} ({widest.name})"),
    ]  # fmt: skip


def guard_verdict(cells: Sequence[Cell]) -> Verdict:
    """The headline's guard: SNIPS and DR are each to be called different in 1 log of 1,000."""
    alarms, logs = (sum(getattr(cell, name) for cell in cells) for name in ("alarms", "logs"))
    text = "the guard raises an alarm in at most 2 logs of 1,000"
    return Verdict(text, alarms <= 0.002 * logs, f"{1000 * alarms / logs:.2f} of 1,000")


def error_verdicts(parts: Mapping[str, Sequence[Cell]]) -> list[Verdict]:
    """The mean squared error against the better of SNIPS and DR, in every world and set."""
    cells = [cell for part in parts.values() for cell in part]
    ratios = [cell.error_ratio() for cell in cells]
    overall = geometric_mean([ratio for ratio, _ in ratios])
    by_part = {name: geometric_mean([cell.error_ratio()[0] for cell in part])
               for name, part in parts.items()}  # fmt: skip
    above = [(cell, low) for cell, (_, low) in zip(cells, ratios, strict=True) if low > 1.15]
    worst = max(range(len(cells)), key=lambda k: ratios[k][0])
    measured = f"largest {ratios[worst][0]:.2f} ({cells[worst].name})"
    if above:
        measured += "; to be explained: " + "; ".join(f"{c.name} {low:.2f}" for c, low in above)
    return [
        Verdict("the mean squared error is at most 0.7 of that of the better of SNIPS and DR "
                "(geometric mean)", overall <= 0.7, f"{overall:.3f} ({named(by_part)})"),
        Verdict(f"in no cell is the ratio's lower limit above 1.15, but for at most {EXPLAINED} "
                f"explained ones up to 1.3",
                len(above) <= EXPLAINED and all(low <= 1.3 for _, low in above), measured),
    ]  # fmt: skip


def version_verdicts(cells: Sequence[Cell], before: Sequence[Before]) -> list[Verdict]:
    """The finite worlds against version 0.1, as far as it was asked about the same logs."""
    known = {(one.world, one.n, one.repeats): one for one in before}
    pairs = [(cell, known[key]) for cell in cells
             if (key := (cell.where, cell.n, cell.logs)) in known]  # fmt: skip
    if not pairs:
        return []
    ratios = [cell.mse / old.mse for cell, old in pairs]
    worst = int(np.argmax(ratios))
    overall = geometric_mean(ratios)
    return [
        Verdict("in the finite worlds the mean squared error is no higher than version 0.1's "
                "(geometric mean)", overall <= 1.0, f"{overall:.3f} over {len(pairs)}"),
        Verdict("and in none more than 1.3 of it", max(ratios) <= 1.3,
                f"largest {ratios[worst]:.2f} ({pairs[worst][0].name})"),
        cover([cell for cell, _ in pairs], "nor is coverage significantly below version 0.1's, "
              "where that is below 95 %, or below 95 %",
              [min(old.coverage, 0.95) for _, old in pairs]),
    ]  # fmt: skip
