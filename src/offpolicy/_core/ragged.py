"""The ragged layout: where candidates are, and softmax, argmax and sums within each decision."""

from __future__ import annotations

import numpy as np

from offpolicy._core.types import Floats, Ints


def row_sums(values: Floats, offsets: Ints) -> Floats:
    """Sums within ragged arrays (the last axis): of each decision's candidates, at least one."""
    return np.add.reduceat(values, offsets[:-1], axis=-1)


def offsets_of(lengths: Ints) -> Ints:
    """Offsets of a ragged array: where each decision's candidates start, and last where all end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def decision_of_candidate(offsets: Ints) -> Ints:
    """For each entry of a ragged array, a candidate, the decision it belongs to."""
    return np.repeat(np.arange(len(offsets) - 1), width_of(offsets) or np.diff(offsets))


def position_in_decision(offsets: Ints) -> Ints:
    """For each entry of a ragged array, a candidate, its position in its decision."""
    if width := width_of(offsets):
        return np.tile(np.arange(width), len(offsets) - 1)
    return np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], np.diff(offsets))


def width_of(offsets: Ints) -> int:
    """How many candidates each decision has, if all of them have as many; else 0."""
    n, total = len(offsets) - 1, int(offsets[-1])
    return total // n if n and np.array_equal(offsets, np.arange(n + 1) * (total // n)) else 0


def candidates_of(offsets: Ints, rows: Ints) -> Ints:
    """Indices, in flat ragged arrays, of all candidates of these decisions, one after the other."""
    if width := width_of(offsets):
        return (width * rows[:, None] + np.arange(width)).reshape(-1)
    bounds = offsets_of(np.diff(offsets)[rows])
    return np.repeat(offsets[rows] - bounds[:-1], np.diff(bounds)) + np.arange(bounds[-1])


def softmax(scores: Floats, offsets: Ints, temperature: float = 1.0) -> Floats:
    """exp(s/T)/Σ exp(s/T) within each row of a ragged array; T = 0 is uniform among the best."""
    lengths = np.diff(offsets)
    with np.errstate(over="ignore"):
        below = scores - np.repeat(np.maximum.reduceat(scores, offsets[:-1]), lengths)
        below = below / temperature if temperature else np.where(below == 0.0, 0.0, -np.inf)
        mass = np.exp(below)
    return np.asarray(mass / np.repeat(row_sums(mass, offsets), lengths))


def argmax(scores: Floats, offsets: Ints) -> Ints:
    """Argmax within each row of a ragged array: the position of its first best candidate."""
    lengths = np.diff(offsets)
    best = scores == np.repeat(np.maximum.reduceat(scores, offsets[:-1]), lengths)
    first = np.where(best, np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(first, offsets[:-1]) - offsets[:-1]
