r"""What the contexts show: which were taken, and were they known before the action was chosen?

What was known before cannot depend on a draw that was made after it: given the contexts, an action
:math:`a` was chosen with the logged probability :math:`\pi_0(a)`, so for any score
:math:`f` of one column's value

.. math:: \sum_i \big(\mathbb 1\{a_i = a\} - \pi_0(a \mid x_i)\big)\, f(x_i)

has mean 0, but for outcomes that the action moved. The score is the value's rank.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.contexts import as_numbers, cell_bits, kind_of
from offpolicy._core.door import Door
from offpolicy._core.types import Floats, Ints
from offpolicy.evidence._limits import FALSE_ALARM
from offpolicy.evidence.findings._chance import RECHECKED, Rows
from offpolicy.logs import BanditLog, likely_columns
from offpolicy.results import Finding, finding

_NAMED = 30
"""Names of contexts that are listed."""
_CELLS, _FEWEST = 20_000_000, 20_000
"""So many cells by actions are compared; of more, fewer rows, but not fewer than these."""


def about_contexts(log: BanditLog, rows: Rows) -> list[Finding]:
    """Findings on the contexts of a sample's rows."""
    if log.context is None:
        return []
    return _taken(log) + _infinite(log, log.context) + _later(log, log.context, rows)


def _name(log: BanditLog, j: int) -> str:
    return f"column {j}" if log.context_names is None else log.context_names[j]


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _taken(log: BanditLog) -> list[Finding]:
    """The finding of contexts that * took, or a pattern that also took what may be outcomes."""
    if log.columns is None or log.context_names is None:
        return []
    names = list(log.context_names)
    patterns = [name for name in log.columns.context if name not in names and name[:1] != "-"]
    likely = likely_columns("reward", names)
    if not patterns or not (likely or "*" in patterns):
        return []
    may_be = "may be outcomes" if likely[1:] else "may be an outcome"
    looks = f" By name, {' and '.join(likely)} {may_be}." if likely else ""
    out = likely or ["NAME"]
    how = " ".join(f"--context -{name}" for name in out) if Door.options else f'"-{out[0]}"'
    sentence = (
        f"{', '.join(patterns)} took the contexts {_listed(names)}.{looks} To leave out: {how}."
    )
    return finding("contexts-taken", "note", sentence, contexts=len(names))


def _infinite(log: BanditLog, context: NDArray[np.generic]) -> list[Finding]:
    """The finding of infinite numbers, which models take as missing."""
    found = {}
    for j in range(context.shape[1]):
        cells = context[:, j]
        if cells.dtype.kind == "f" or (cells.dtype.kind == "O" and kind_of(cells) == "number"):
            found[_name(log, j)] = int(np.isinf(as_numbers(cells)).sum())
    told = {name: count for name, count in found.items() if count}
    if not told:
        return []
    listed = _listed([f"{name} ({count:,})" for name, count in told.items()])
    sentence = f"Infinite contexts count as missing: {listed}, of {len(context):,} rows."
    return finding("contexts-infinite", "note", sentence, rows=sum(told.values()))


def _later(log: BanditLog, context: NDArray[np.generic], rows: Rows) -> list[Finding]:
    """The finding of contexts that depend on what was drawn."""
    if log.logging is None or log.estimated_by is not None:
        return []
    often = np.argsort(-np.bincount(log.chosen_codes()), kind="stable")[:RECHECKED]
    (n, d), arms = context.shape, len(often)
    size = max(_CELLS // (d * arms), _FEWEST)
    if n > size:
        at = np.linspace(0, n - 1, size).astype(np.int64)
        context, log = context[at], log.replace(table=None, trusted=True).take(at)
        rows = Rows.of(log)
    chosen, p = log.chosen_codes(), _chances_of(often, log)
    surprise, spread = (chosen == often[:, None]) - p, p * (1.0 - p)
    depends = []
    for j in range(d):
        f = _ranks(context[:, j])
        variance = spread @ (rows.omega * f) ** 2
        chance = rows.chances(surprise * f, variance, np.full(arms, np.abs(f).max()))
        if float(chance.min()) * d * arms < FALSE_ALARM:
            depends.append(_name(log, j))
    if not depends:
        return []
    several = len(depends) > 1
    sentence = (
        f"The context{'s' * several} {_listed(depends)} differ{'s' * (not several)} between "
        f"actions by more than the logged probabilities explain."
    )
    return finding("contexts-later", "warning", sentence, contexts=", ".join(depends))


def _chances_of(actions: Ints, log: BanditLog) -> Floats:
    """(actions, rows): the logged probability of each of these actions in every decision."""
    assert log.logging is not None
    place = np.full(log.number_of_actions, -1, dtype=np.int8)
    place[actions] = np.arange(len(actions))
    which = place[log.candidate_codes()]
    flat = np.flatnonzero(which >= 0)
    decision = np.searchsorted(log.offsets, flat, side="right") - 1
    shape = len(actions), len(log)
    cell = np.ravel_multi_index((which[flat], decision), shape)
    sums: Floats = np.bincount(cell, log.logging[flat], math.prod(shape)).astype(np.float64)
    return sums.reshape(shape)


def _ranks(cells: NDArray[np.generic]) -> Floats:
    """The rank of each cell's value among all, from −½ to ½; texts are in any order."""
    number = cells.dtype.kind in "biufm" or kind_of(cells) == "number"
    values = as_numbers(cells) if number else cell_bits(cells)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(((np.cumsum(counts) - 0.5 * counts) / len(cells) - 0.5)[place])
