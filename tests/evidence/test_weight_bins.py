"""Sums by bin of the weight, and all that follows from them at every M, against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.estimators.weights import ratio
from offpolicy.evidence._stretches import Stretches
from offpolicy.evidence._weight_bins import (
    BINS,
    COUNTED,
    EDGES,
    GRID,
    OF_ROWS,
    WeightBins,
    bin_of,
    sums_of_candidates,
    sums_of_rows,
)
from tests.support.cases import Case, cases, make_case
from tests.support.slow_headline import Row, SlowCurve, rows_of

KNOWN = ["all", "chosen", "policy only", "logging only"]
"""Of what π and π₀ are known: of every candidate, of the chosen, or one of them of every one."""


def model_of(case: Case) -> np.ndarray:
    """Some model of the rewards, near them."""
    return np.clip(case.delta_hat, case.reward.min() - 1.0, case.reward.max() + 1.0)


def bins_of(case: Case, log: op.BanditLog, flat: slice, known: str, stretches=None) -> WeightBins:
    """The sums over a log's rows; ``flat`` are their candidates. For m stands r²."""
    pi, d = case.pi[flat], model_of(case)[flat]
    c, residual = ratio(pi[log.chosen_index], log.propensity), log.reward - d[log.chosen_index]
    of_all = pi if known in ("all", "policy only") else None
    of_candidates = sums_of_candidates(log, of_all, c, None if of_all is None else d)
    of_rows = sums_of_rows(log, c, residual, log.reward**2, 0.0, stretches)
    return WeightBins(of_rows, *of_candidates)


def seen_by(case: Case, known: str) -> tuple[op.BanditLog, SlowCurve]:
    """The log, and its rows for the loops."""
    log, pi, d = case.log if known in ("all", "logging only") else case.narrow, case.pi, None
    chosen = pi[case.log.chosen_index]
    if known == "all":
        d = model_of(case)
    rows = rows_of(log, chosen, pi if known == "all" else None, d, model_of(case)[log.chosen_index])
    return log, SlowCurve(rows)


def slow_bin(c: float) -> int:
    return sum(c >= edge for edge in EDGES)


def assert_sums(bins: WeightBins, slow: SlowCurve, parts: int = 1) -> None:
    """Every sum is, by its name, the product of its letters and ω."""
    names, of_candidates = (*OF_ROWS, *COUNTED), np.zeros((BINS, 3))
    of_rows, size_of_rows = np.zeros((parts, BINS, len(names))), np.zeros(len(names))
    unsupported = np.zeros(2)
    for i, row in enumerate(slow.rows):
        w, c = row.omega, row.c
        letters = {"1": 1.0, "c": c, "e": row.e, "m": row.reward**2, "r": row.reward, "ω": w}
        sums = [w * math.prod(letters[letter] for letter in name) for name in OF_ROWS]
        sums += [1.0, row.reward != 0.0]
        of_rows[i * parts // len(slow.rows), slow_bin(c)] += sums
        size_of_rows += np.abs(sums)
        for one in row.supported:
            of_candidates[slow_bin(one.c)] += [w * one.pi, w * one.pi0, w * one.pi * one.c]
        for one in row.candidates or []:
            if one.pi0 == 0.0 < one.pi:
                unsupported += [w * one.pi, w * one.pi * one.d]
    assert (np.abs(bins.of_rows - of_rows) <= 1e-12 * size_of_rows).all()
    np.testing.assert_allclose(bins.of_candidates, of_candidates, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(bins.unsupported, unsupported, rtol=1e-12)


@given(cases(largest=20), st.sampled_from(KNOWN))
@settings(max_examples=80, deadline=None)
def test_sums_equal_a_loop(case, known):
    log, slow = seen_by(case, known)
    bins = bins_of(case, log, slice(None), known)
    assert_sums(bins, slow)
    assert bins.weight == pytest.approx(slow.weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_stretch_of_the_log(weighted):
    case = make_case(np.random.default_rng(1), 130, weighted=weighted, drawn=True)
    log, slow = seen_by(case, "all")
    stretches = Stretches(0, len(log))
    whole = bins_of(case, log, slice(None), "all", stretches)
    assert_sums(whole, slow, stretches.count)
    at = int(log.offsets[30])
    first = bins_of(case, log.rows(0, 30), slice(0, at), "all", stretches)
    assert_sums(first + bins_of(case, log.rows(30, 130), slice(at, None), "all", stretches), slow,
                stretches.count)  # fmt: skip
    for stretch in range(stretches.count):
        cut = -(-(stretch + 1) * 130 // stretches.count)
        early = bins_of(case, log.rows(0, cut), slice(0, int(log.offsets[cut])), "all")
        for name in ("excess_rows", "excess_squares"):
            found, expected = getattr(whole.so_far, name)[stretch], getattr(early, name)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@given(cases(smallest=2, largest=20), st.sampled_from(KNOWN), st.data())
@settings(max_examples=40, deadline=None)
def test_parts_add_up_to_the_whole(case, known, data):
    log, slow = seen_by(case, known)
    cut = data.draw(st.integers(1, len(log) - 1))
    at = int(log.offsets[cut])
    first = bins_of(case, log.rows(0, cut), slice(0, at), known)
    assert_sums(first + bins_of(case, log.rows(cut, len(log)), slice(at, None), known), slow)


def test_bins_begin_at_the_values_of_the_grid():
    assert (len(GRID), BINS) == (64, 63)
    np.testing.assert_array_equal(EDGES, GRID[1:-1])
    c = np.concatenate([[0.0, 0.0999], EDGES, np.nextafter(EDGES, 0.0), [1e300]])
    np.testing.assert_array_equal(bin_of(c), [slow_bin(x) for x in c])
    assert (GRID[0], GRID[1], GRID[-2], GRID[-1]) == (0.0, 0.1, pytest.approx(1e6), math.inf)


@given(cases(largest=12), st.sampled_from(KNOWN))
@settings(max_examples=60, deadline=None)
def test_all_that_follows_at_every_M(case, known):
    """No bin is cut in two by an M, so all is exact, but for cancellation where c is hardly
    above M: relative to the terms."""
    log, slow = seen_by(case, known)
    bins = bins_of(case, log, slice(None), known)
    total, both = slow.sum(lambda row: row.c), slow.sum(lambda row: row.c**2)
    largest = slow.mean_over_candidates(lambda one: one.pi * one.c)
    e2 = slow.sum(lambda row: (1.0 + row.c) * row.e**2)
    e1 = slow.sum(lambda row: (1.0 + row.c) * abs(row.e))
    for k, M in enumerate(map(float, GRID)):

        def above(c: float, M: float = M) -> float:
            return max(c - M, 0.0)

        def clipped(row: Row, M: float = M) -> float:
            return min(row.c, M)

        assert bins.kept[k] == pytest.approx(slow.kept(M), rel=1e-12)
        assert bins.mass[k] == pytest.approx(slow.mass(M), abs=1e-12)
        assert bins.second[k] == pytest.approx(slow.second(M), rel=1e-11)
        beyond = slow.mean_over_candidates(lambda one: one.pi0 * above(one.c) ** 2)
        assert bins.excess_second[k] == pytest.approx(beyond, rel=1e-9, abs=1e-12 * largest)
        squares = slow.sum(lambda row: above(row.c) ** 2)
        assert bins.excess_squares[k] == pytest.approx(squares, rel=1e-9, abs=1e-12 * both)
        for free, held, power, f, unit in (
            ("c", "1", 1, lambda row: 1.0, total),
            ("cc", "1", 2, lambda row: 1.0, both),
            ("cee", "ee", 1, lambda row: row.e**2, e2),
        ):
            expected = slow.sum(lambda row, f=f, p=power: clipped(row) ** p * f(row))
            found = bins.clipped_rows(free, held, power)[k]
            assert found == pytest.approx(expected, rel=1e-11, abs=1e-14 * unit)
        assert bins.residuals.left_sum[k] == pytest.approx(
            slow.beyond(lambda row: row.e, M), rel=1e-9, abs=1e-12 * e1
        )
        assert bins.residuals.left_square[k] == pytest.approx(
            slow.beyond(lambda row: row.e**2, M), rel=1e-9, abs=1e-12 * e2
        )
        t2, c2 = slow.beyond(lambda row: 1.0, M, 2), slow.beyond(lambda row: 1.0, 0.0, 2)
        if t2 > 1e-6 * c2 or slow.beyond(lambda row: 1.0, M) == 0.0:
            assert bins.excess_rows[k] == pytest.approx(slow.seen(M), rel=1e-8)
        assert 0.0 <= bins.excess_rows[k] <= 1.5 * len(log)
    distance = slow.mean_over_candidates(lambda one: one.pi0 * (one.c - 1.0) ** 2)
    lost = slow.unsupported(lambda one: one.pi) / slow.weight
    assert bins.distance == pytest.approx(distance + lost, rel=1e-9, abs=1e-12 * (1 + largest))


def test_an_effective_number_of_rows():
    """Ten rewarded rows of weight 1.1 and one of 101, among many unrewarded."""
    of_rows = np.zeros((1, BINS, len(OF_ROWS) + len(COUNTED)))
    for c, rows, rewarded in ((1.1, 1000.0, 10.0), (101.0, 50.0, 1.0)):
        of_rows[0, slow_bin(c), [0, 1, -1]] = rows, rows * c, rewarded
    bins = WeightBins(of_rows, np.zeros((BINS, 3)), np.zeros(2))
    for M in (math.inf, 1e6, 5.0, 1.05, 0.0, 0.1):
        for kind, few, one in (("rewarded", 10.0, 1.0), ("1", 1000.0, 50.0)):
            a, b = min(1.1, max(M, 1.0)), min(101.0, max(M, 1.0))
            expected = (few * a + one * b) ** 2 / (few * a * a + one * b * b)
            assert bins.effective(M, kind) == pytest.approx(expected)
    none = WeightBins(0.0 * of_rows, np.zeros((BINS, 3)), np.zeros(2))
    assert none.effective(3.0, "rewarded") == 0.0
