"""Sums by band of the weight, what estimators leave to the model, and what its error may be."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offpolicy.evidence._model_error import BANDS, EDGES, GRID, Bands, Error, band_of

import offpolicy as op
from offpolicy.estimators._named import parse
from offpolicy.estimators.weights import ratio
from tests.support.cases import Case, cases, make_case

CENTRE = np.append(math.log(EDGES[0]), np.log(EDGES)) + 0.5 * np.log(EDGES[1] / EDGES[0])
CENTRE[0] -= math.log(EDGES[1] / EDGES[0])
"""log c in the middle of each band."""


def model_of(case: Case) -> np.ndarray:
    """Some model of the rewards, near them."""
    return np.clip(case.delta_hat, case.reward.min() - 1.0, case.reward.max() + 1.0)


def gap_of(case: Case) -> np.ndarray:
    """How far two models might be apart."""
    return np.sin(np.arange(len(case.pi)))


def bands_of(case: Case, log: op.BanditLog, flat: slice | np.ndarray, known: bool = True) -> Bands:
    pi, tilde = case.pi[flat], model_of(case)[flat]
    c = ratio(pi[log.chosen_index], log.propensity)
    residual = log.reward - tilde[log.chosen_index]
    gap = gap_of(case)[flat]
    return Bands.of(log, pi if known else None, c, residual, tilde, usual=0.0, gap=gap)


def slow_band(c: float) -> int:
    return sum(c >= edge for edge in EDGES)


def slow(case: Case, known: bool) -> dict[str, np.ndarray]:
    """Everything once more, a candidate at a time."""
    sums = {item.name: np.zeros(BANDS) for item in fields(Bands)}
    sums["unsupported"] = np.zeros(2)
    tilde = model_of(case)
    for i, (start, stop) in enumerate(zip(case.offsets[:-1], case.offsets[1:], strict=True)):
        weight = 1.0 if case.row_weight is None else case.row_weight[i]
        at = start + case.chosen[i]
        c, rho = case.pi[at] / case.pi0[at], case.reward[i] - tilde[at]
        band = slow_band(c)
        sums["rows"][band] += weight
        sums["rows2"][band] += weight**2
        sums["residual"][band] += weight * rho
        sums["square"][band] += weight * rho**2
        sums["rewarded"][band] += case.reward[i] != 0.0
        if not known:
            sums["policy"][band] += weight * c
            sums["logging"][band] += weight
            sums["excess"][band] += weight * c * c
            continue
        for k in range(start, stop):
            if case.pi0[k] == 0.0 and case.pi[k] > 0.0:
                sums["unsupported"] += [weight * case.pi[k], weight * case.pi[k] * tilde[k]]
                continue
            c = case.pi[k] / case.pi0[k] if case.pi[k] > 0.0 else 0.0
            band = slow_band(c)
            sums["policy"][band] += weight * case.pi[k]
            sums["logging"][band] += weight * case.pi0[k]
            sums["excess"][band] += weight * case.pi[k] * c
            sums["policy_gap"][band] += weight * case.pi[k] * gap_of(case)[k]
            sums["logging_gap"][band] += weight * case.pi0[k] * gap_of(case)[k]
    return sums


def assert_equal(bands: Bands, sums: dict[str, np.ndarray]) -> None:
    for name, expected in sums.items():
        unit = max(np.abs(expected).max(), 1.0)
        np.testing.assert_allclose(getattr(bands, name), expected, atol=1e-12 * unit, rtol=1e-12)


@given(cases(largest=20), st.booleans())
@settings(max_examples=60, deadline=None)
def test_sums_equal_a_loop(case, known):
    whole = bands_of(case, case.log, slice(None), known)
    assert_equal(whole, slow(case, known))
    assert whole.weight == pytest.approx(
        len(case.reward) if case.row_weight is None else case.row_weight.sum()
    )


@given(cases(smallest=2, largest=20), st.data())
@settings(max_examples=40, deadline=None)
def test_parts_add_up_to_the_whole(case, data):
    log = case.log
    cut = data.draw(st.integers(1, len(log) - 1))
    at = int(log.offsets[cut])
    parts = bands_of(case, log.rows(0, cut), slice(0, at)) + bands_of(
        case, log.rows(cut, len(log)), slice(at, None)
    )
    whole = bands_of(case, log, slice(None))
    assert_equal(parts, {item.name: getattr(whole, item.name) for item in fields(Bands)})


def test_bands_begin_at_the_values_of_the_grid():
    assert (len(GRID), BANDS) == (64, 63)
    np.testing.assert_array_equal(EDGES, GRID[1:-1])
    c = np.concatenate([[0.0, 0.0999], EDGES, np.nextafter(EDGES, 0.0), [1e300]])
    np.testing.assert_array_equal(band_of(c), [slow_band(x) for x in c])
    assert (GRID[0], GRID[1], GRID[-2], GRID[-1]) == (0.0, 0.1, pytest.approx(1e6), math.inf)


# -- what an estimator makes of it -----------------------------------------------------------


def supported(case: Case) -> tuple[np.ndarray, ...]:
    """π, π₀, c and ω of all candidates that the logger takes."""
    n = len(case.reward)
    weight = np.ones(n) if case.row_weight is None else case.row_weight
    omega = np.repeat(weight, np.diff(case.offsets)) / weight.sum()
    c = ratio(case.pi, case.pi0)
    there = np.isfinite(c)
    return case.pi[there], case.pi0[there], c[there], omega[there]


@given(cases(largest=20), st.sampled_from(range(len(GRID))))
@settings(max_examples=80, deadline=None)
def test_mass_and_noise_are_exact_on_the_grid(case, k):
    """M is where a band begins, so no band is cut in two: Σ max(π − Mπ₀, 0), Σ π₀ min(c, M)² s²."""
    M = float(GRID[k])
    bands = bands_of(case, case.log, slice(None))
    pi, pi0, c, omega = supported(case)
    observed = np.minimum(bands.mean_weight, M)
    left = omega * np.maximum(pi - pi0 * np.minimum(c, M), 0.0)
    np.testing.assert_allclose(
        bands.left(observed), np.bincount(band_of(c), left, BANDS), atol=1e-14
    )
    gap = gap_of(case)[np.isfinite(ratio(case.pi, case.pi0))]
    assert bands.apart(observed) == pytest.approx((left * gap).sum(), abs=1e-12)
    square = bands.error.square[band_of(c)]
    noise = (omega * pi0 * np.minimum(c, M) ** 2 * square).sum()
    assert bands.noise(observed) == pytest.approx(noise, rel=1e-9, abs=1e-12 * square.max())


def one_weight_per_band(rng: np.random.Generator, n: int) -> Case:
    """Two candidates a decision; c is one of 0.05, 0.55, 1.5, 7 and 1,500."""
    low, high = rng.choice([0.05, 0.55], n), rng.choice([1.5, 7.0, 1500.0], n)
    share = (1.0 - low) / (high - low)
    pi0 = np.stack([share, 1.0 - share], axis=1)
    pi = pi0 * np.stack([high, low], axis=1)
    pi = pi / pi.sum(axis=1, keepdims=True)
    chosen = (rng.random(n) > share).astype(int)
    reward = rng.integers(0, 2, n).astype(float)
    flat = rng.random(2 * n)
    return Case(np.arange(n + 1) * 2, chosen, reward, pi0.ravel(), pi.ravel(), flat)


@pytest.mark.parametrize(
    "name",
    ["IPS", "CIPS(M=3)", "SB(tau=0.3)", "SWITCH(M=3)", "SWITCH-DR(M=1)", "DRos(lam=4)",
     "SGIPS(lam=0.2)", "SGDR(lam=1)", "CAB(M=40)", "CAB-DR(M=0.2)", "DM"],
)  # fmt: skip
def test_every_estimator_where_each_band_has_one_weight(name):
    case, member = one_weight_per_band(np.random.default_rng(0), 500), parse(name)
    bands = bands_of(case, case.log, slice(None))
    pi, pi0, c, omega = supported(case)
    observed = member.masses(pi, pi0, c).observed
    left = (omega * np.maximum(pi - pi0 * observed, 0.0)).sum()
    assert bands.left(bands.observed_by(member)).sum() == pytest.approx(left, rel=1e-9, abs=1e-14)
    noise = (omega * pi0 * observed**2 * bands.error.square[band_of(c)]).sum()
    rel = 1e-9 if not name.startswith("SG") else 1e-6
    if "SG" in name:
        # Their weight exceeds c where c < 1; the theory's second moment then counts c² only.
        noise = (omega * pi0 * np.minimum(observed, c) ** 2 * bands.error.square[band_of(c)]).sum()
    assert bands.noise(bands.observed_by(member)) == pytest.approx(noise, rel=rel)


def test_an_effective_number_of_rewarded_rows():
    """Ten rewarded rows of weight about 1 and one of about 100, among many unrewarded."""
    edge = int(np.searchsorted(EDGES, 1.0, side="right"))
    hundred = int(np.searchsorted(EDGES, 100.0, side="right"))
    rows, rewarded = np.zeros(BANDS), np.zeros(BANDS)
    rows[edge], rows[hundred] = 1000.0, 50.0
    rewarded[edge], rewarded[hundred] = 10.0, 1.0
    zero = np.zeros(BANDS)
    bands = Bands(rows, rows, zero, rows, rewarded, rows, rows, rows, zero, zero, np.zeros(2))
    a, b = math.exp(CENTRE[edge]), math.exp(CENTRE[hundred])
    for M, weight in ((math.inf, b), (1e6, b), (5.0, 5.0), (1.5, 1.5), (0.0, 1.0), (0.1, 1.0)):
        w = min(a, max(M, 1.0))
        expected = (10.0 * w + weight) ** 2 / (10.0 * w * w + weight * weight)
        assert bands.effective_rewarded(M) == pytest.approx(expected)
    none = Bands(rows, rows, zero, rows, zero, rows, rows, rows, zero, zero, np.zeros(2))
    assert none.effective_rewarded(3.0) == 0.0


# -- the model's error -----------------------------------------------------------------------


def measured(rows: np.ndarray, mean: np.ndarray, square: np.ndarray | float = 1.0) -> Bands:
    """Bands in which the mean residual, and its mean square, are as given."""
    zero = np.zeros(BANDS)
    return Bands(
        rows, rows, rows * mean, rows * square, zero, rows, rows, rows, zero, zero, np.zeros(2)
    )  # fmt: skip


def test_with_plenty_of_rows_the_error_is_the_mean_residual():
    mean = 0.2 * np.sin(CENTRE)
    error = measured(np.full(BANDS, 1e8), mean).error
    np.testing.assert_allclose(error.mean, mean, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(np.diag(error.covariance)), 1e-4, rtol=0.05)
    np.testing.assert_allclose(error.square, 1.0, rtol=1e-6)


def test_with_few_rows_the_error_is_pulled_to_nothing():
    rows, mean = np.zeros(BANDS), np.zeros(BANDS)
    rows[20], mean[20] = 5.0, 0.4
    error = measured(rows, mean).error
    assert 0.0 < error.mean[20] < 0.2
    assert 0.05 < math.sqrt(error.covariance[20, 20]) < 0.4


def test_away_from_all_rows_less_and_less_is_known():
    rows, mean = np.zeros(BANDS), np.zeros(BANDS)
    rows[20], mean[20] = 1e6, 0.1
    error = measured(rows, mean).error
    variance = np.diag(error.covariance)
    assert (np.diff(variance[20:]) > 0.0).all()
    assert (np.diff(variance[:21]) < 0.0).all()
    assert error.mean[20] == pytest.approx(0.1, abs=2e-3)
    assert (np.diff(np.abs(error.mean[20:])) < 0.0).all()
    assert np.linalg.eigvalsh(error.covariance).min() > -1e-12


def test_the_mean_square_is_that_of_the_band_and_a_little_of_all():
    rows, square = np.zeros(BANDS), np.ones(BANDS)
    rows[10], rows[30], square[30] = 1e6, 5.0, 9.0
    error = measured(rows, np.zeros(BANDS), square).error
    assert error.square[10] == pytest.approx(1.0, rel=1e-3)
    assert error.square[30] == pytest.approx(5.0, rel=1e-3)
    assert error.square[50] == pytest.approx(1.0, rel=1e-3)


def test_no_residual_is_no_error():
    error = measured(np.ones(BANDS), np.zeros(BANDS), 0.0).error
    assert error.bias(np.ones(BANDS), 0.0) == (0.0, 0.0)
    assert not error.square.any()


def test_bias_and_its_spread_are_sums_over_the_bands():
    rng = np.random.default_rng(0)
    error = measured(np.full(BANDS, 100.0), 0.1 * rng.normal(size=BANDS)).error
    left = rng.random(BANDS)
    mean = -sum(left[j] * error.mean[j] for j in range(BANDS))
    variance = sum(
        left[i] * left[j] * error.covariance[i, j] for i in range(BANDS) for j in range(BANDS)
    )
    assert error.bias(left, 0.0) == pytest.approx((mean, math.sqrt(variance)))
    assert error.bias(np.zeros(BANDS), 0.0) == (0.0, 0.0)


def test_masses_that_overflow_leave_an_infinite_spread():
    error = measured(np.full(BANDS, 100.0), np.full(BANDS, 0.1)).error
    assert error.bias(np.full(BANDS, 1e300), 0.0) == (0.0, math.inf)
    huge = measured(np.full(BANDS, 1e10), np.zeros(BANDS), math.inf).error
    assert huge.bias(np.ones(BANDS), 0.0) == (0.0, math.inf)
    assert huge.bias(np.zeros(BANDS), 0.0) == (0.0, 0.0)


def test_the_spread_is_as_large_as_the_error_is():
    """Errors drawn from the prior, rows many at small and few or none at large weights: the bias
    that results, less its estimate, has about the variance that was claimed. 500 draws: the mean
    square of z has a standard error of 0.06; 0.75 to 1.25 is asked."""
    rng = np.random.default_rng(1)
    rows = np.where(np.arange(BANDS) < 40, np.round(2000.0 * np.exp(-np.arange(BANDS) / 5.0)), 0.0)
    there = rows > 0.0
    assert 20 < there.sum() < 45

    def error_of(mean: np.ndarray) -> Error:
        return measured(rows, mean).error

    root = np.linalg.cholesky(error_of(np.zeros(BANDS)).prior + 1e-12 * np.eye(BANDS))
    lefts = [np.ones(BANDS) / BANDS, np.eye(BANDS)[45], np.exp(-np.arange(BANDS) / 20.0)]
    z = np.empty((500, len(lefts)))
    for draw in z:
        e = root @ rng.standard_normal(BANDS)
        mean = np.zeros(BANDS)
        mean[there] = e[there] + rng.standard_normal(there.sum()) / np.sqrt(rows[there])
        error = error_of(mean)
        for j, left in enumerate(lefts):
            bias, stderr = error.bias(left, 0.0)
            draw[j] = (-left @ e - bias) / stderr
    assert (np.abs((z**2).mean(axis=0) - 1.0) < 0.25).all()
    assert (np.abs(z.mean(axis=0)) < 0.2).all()


def test_the_variance_of_a_corrected_estimate():
    """value + correction, both from the same rows: in simulation, the mean square of their error
    is the noise of the value and what `variance` adds. 4,000 draws, 10% asked."""
    rng = np.random.default_rng(2)
    rows = np.where(np.arange(BANDS) < 30, 50.0, 0.0)
    there = rows > 0.0
    error = measured(rows, np.zeros(BANDS)).error
    root = np.linalg.cholesky(error.prior + 1e-12 * np.eye(BANDS))
    left, kept = rng.random(BANDS) / BANDS, np.where(there, rng.random(BANDS) / BANDS, 0.0)
    off = []
    for _ in range(4000):
        e = root @ rng.standard_normal(BANDS)
        noise = np.where(there, rng.standard_normal(BANDS) / np.sqrt(50.0), 0.0)
        mean = np.where(there, e + noise, 0.0)
        # An estimate that answers for all but left·e, and puts kept on every mean residual.
        off.append(kept @ noise - left @ e + left @ (error.gain @ mean))
    alone = float((kept**2 * error.noise).sum())
    assert np.mean(np.square(off)) == pytest.approx(
        alone + error.variance(left, kept, 0.0), rel=0.1
    )
    assert error.variance(np.zeros(BANDS), kept, 0.0) == 0.0


def test_one_band_with_rows_is_enough():
    case = make_case(np.random.default_rng(0), 30, most=1)
    bands = bands_of(case, case.log, slice(None))
    assert (bands.rows > 0.0).sum() == 1
    assert np.isfinite(bands.error.covariance).all()
