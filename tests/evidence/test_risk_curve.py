"""Value, noise and plausible bias at every M, and the choice of M, against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from offpolicy.estimators import GRID
from offpolicy.evidence._noise import variance
from offpolicy.evidence._plausible_bias import mean_residual, residual_size, typical_error
from offpolicy.evidence._risk_curve import RiskCurve
from tests.support.cases import cases, make_case
from tests.support.slow_headline import around


@given(cases(largest=12), st.booleans(), st.sampled_from([None, 1, 3]), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_every_curve_equals_a_loop(case, known, clusters, seed):
    rng = np.random.default_rng(seed)
    cluster = None if clusters is None else rng.integers(0, clusters, len(case.reward))
    columns = {} if known else {"logging": None, "propensity": case.log.propensity}
    log = case.log_with(cluster=cluster, **columns)
    path, slow = around(case, log, np.clip(case.delta_hat, *np.quantile(case.reward, [0, 1])),
                        known=known)  # fmt: skip
    assume(any(row.c > 0.0 for row in slow.rows))
    curve, kappa = RiskCurve.of(path, exact=known), slow.kappa
    unit = max(abs(row.reward) for row in slow.rows) * max(row.c for row in slow.rows) + 1.0
    near = 1e-10 * unit
    assert curve.kappa == typical_error(path.bins) == pytest.approx(kappa, rel=1e-6)
    assert curve.caution == min(5.0 * curve.kappa, 1.0)
    k = curve.caution
    for j, M in enumerate(map(float, GRID)):
        assert curve.value[j] == pytest.approx(slow.value(M), abs=near)
        # From sums of squares: what is 1e-15 of them is rounding.
        assert variance(path)[j] == pytest.approx(slow.variance(M), rel=1e-8, abs=1e-15 * unit**2)
        assert curve.mass[j] == pytest.approx(slow.mass(M), abs=1e-12)
        assert curve.cautious_mass[j] == pytest.approx(slow.cautious_mass(M), abs=1e-12)
        t2 = slow.beyond(lambda row: 1.0, M, 2)
        if 0.0 < t2 < 1e-6 * slow.beyond(lambda row: 1.0, 0.0, 2):
            continue  # c is hardly above M: N is rounding, of which there are N + 10
        size, mean = slow.size(M), slow.mean_residual(M)
        assert residual_size(path.bins)[j] == pytest.approx(size, rel=1e-6, abs=near)
        assert mean_residual(path.bins)[j] == pytest.approx(mean, rel=1e-6, abs=near)
        assert curve.bias[j] == pytest.approx(kappa * size * slow.mass(M), rel=1e-5, abs=near)
        plausible = k * size * slow.cautious_mass(M)
        assert curve.plausible_bias[j] == pytest.approx(plausible, rel=1e-5, abs=near)
        correction = slow.correction(M, kappa)
        assert curve.correction[j] == pytest.approx(correction, rel=1e-5, abs=near)
    assert curve.mse == pytest.approx(curve.variance + curve.bias**2)
    for at, errors in ((curve.at_value, curve.mse), (curve.at_interval, curve.cautious_mse)):
        least = min(errors)
        assert at == (63 if math.isinf(least) else errors.tolist().index(least))
    grown = RiskCurve.of(path, exact=known, grown=7.0)
    assert grown.variance == pytest.approx(curve.variance / 7.0)
    assert (grown.plausible_bias == curve.plausible_bias).all()


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_bias_is_never_more_than_all_that_the_model_could_be_off(seed):
    case = make_case(np.random.default_rng(seed), 40, drawn=True)
    path, slow = around(case, case.log, np.clip(case.delta_hat, -1.0, 2.0))
    assume(any(row.c > 0.0 for row in slow.rows))
    curve = RiskCurve.of(path, exact=True)
    worst = max(abs(row.e) for row in slow.rows)
    assert (curve.plausible_bias <= worst * curve.mass * (1.0 + 1e-9)).all()
    assert (curve.bias <= curve.plausible_bias).all()
    assert (np.abs(curve.correction) <= worst * curve.mass * (1.0 + 1e-9)).all()
    assert curve.mass[-1] == curve.bias[-1] == curve.correction[-1] == 0.0
    assert (np.diff(curve.mass) <= 1e-12).all()
