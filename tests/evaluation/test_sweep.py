"""The exact path, the grid and the single evaluation are one curve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import (
    EstimatorError,
    LogError,
    MissingColumnError,
    ParameterError,
    SupportError,
)
from offpolicy.estimators import GRID, NAMED
from offpolicy.evaluation import _sweep as curves
from offpolicy.evidence._sources import InMemory
from tests.support import reference
from tests.support.cases import Case, cases, make_case
from tests.support.limits import small_blocks
from tests.support.refusals import refuses

SWEPT = ["CAB", "CAB-DR", "CIPS", "SWITCH", "SWITCH-DR"]


def sweep(case: Case, name: str, **options: object) -> op.Curve:
    return op.sweep(case.log, case.pi, prediction=case.delta_hat, estimator=name, **options)


def terms(case: Case, name: str, M: float) -> float:
    """Mean of the absolute terms: what rounding is relative to."""
    decisions = case.decisions
    weight = sum(d.row_weight for d in decisions)
    total = sum(d.row_weight * reference.absolute_terms(name, M, d) for d in decisions)
    return total / weight


def interesting(case: Case) -> list[float]:
    """0, ∞, some weights that occur, and points between them."""
    log = case.log
    c = np.unique(case.pi[log.chosen_index] / log.propensity)
    return sorted({0.0, 1e-9, 0.7, 1.0, 2.3, 40.0, 1e9, math.inf, *c[:4].tolist()})


@given(cases(smallest=2), st.sampled_from(SWEPT))
@settings(max_examples=120, deadline=None)
def test_path_grid_and_single_evaluation_agree(case, name):
    Ms = interesting(case)
    try:
        single = case.evaluate([f"{name}(M={M!r})" for M in Ms])
    except SupportError:
        return
    path, grid = sweep(case, name), sweep(case, name, grid=Ms)
    for M, row in zip(Ms, single, strict=True):
        unit = max(terms(case, name, M), 1e-300)
        for curve in (path, grid):
            assert abs(float(curve.at(M)) - row.value) <= 1e-12 * unit, (M, curve.at(M), row)
            assert abs(float(curve.stderr_at(M)) - row.stderr) <= 1e-12 * unit, (M, row)


@pytest.mark.parametrize("name", SWEPT)
@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_grid_agrees(monkeypatch, name, shift, weighted):
    rng = np.random.default_rng(8)
    case = make_case(rng, 150, most=9, shift=shift, unsupported=0.2, tiny=1e-9, weighted=weighted)
    Ms = GRID[::7]
    slow = sweep(case, name, grid=Ms)
    small_blocks(monkeypatch, 53)
    fast = sweep(case, name, grid=Ms)
    unit = np.array([terms(case, name, M) for M in Ms])
    assert (np.abs(slow.values - fast.values) <= 1e-12 * unit).all()
    assert (np.abs(slow.stderr_at(Ms) - fast.stderr_at(Ms)) <= 1e-12 * unit).all()
    np.testing.assert_allclose(slow.imputed_mass, fast.imputed_mass, atol=1e-13)
    path = sweep(case, name)
    assert (np.abs(path.at(Ms) - fast.values) <= 1e-12 * unit).all()
    assert (np.abs(path.stderr_at(Ms) - fast.stderr_at(Ms)) <= 1e-12 * unit).all()


@pytest.mark.parametrize("name", SWEPT)
def test_path_holds_at_every_breakpoint_and_between(name):
    case = make_case(np.random.default_rng(3), 60, shift=1e8)
    curve = sweep(case, name)
    points = curve.breakpoints
    middle = (points[1:] + points[:-1]) / 2.0
    Ms = np.concatenate([points, middle])[::5]
    for M in Ms:
        value, stderr = reference.estimate(name, float(M), case.decisions)
        unit = terms(case, name, float(M))
        assert abs(float(curve.at(M)) - value) <= 1e-12 * unit
        assert abs(float(curve.stderr_at(M)) - stderr) <= 1e-12 * unit


def test_path_survives_astronomical_weights():
    """What is left of a removed weight of 1e200 must not spoil the rest of the curve."""
    rng = np.random.default_rng(0)
    case = make_case(rng, 50, most=3)
    pi0, pi = case.pi0.copy(), case.pi.copy()
    row = int(np.argmax(np.diff(case.offsets) > 1))
    start = case.offsets[row]
    pi0[start : start + 2], pi[start : start + 2] = [1e-200, 1.0], [0.6, 0.4]
    pi0[start + 2 : case.offsets[row + 1]] = pi[start + 2 : case.offsets[row + 1]] = 0.0
    chosen = case.chosen.copy()
    chosen[row] = 0
    case = Case(case.offsets, chosen, case.reward + 0.5, pi0, pi, case.delta_hat)
    curve = sweep(case, "CAB")
    for M in (0.0, 0.3, 2.0, 100.0, 1e10):
        value, stderr = reference.estimate("CAB", M, case.decisions)
        assert float(curve.at(M)) == pytest.approx(value, rel=1e-12, abs=1e-12)
        assert float(curve.stderr_at(M)) == pytest.approx(stderr, rel=1e-12)


@given(cases(smallest=2), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_static_blending_for_every_tau(case, tau):
    try:
        row = case.evaluate([op.SB(tau=tau)])["SB"]
        curve = sweep(case, "SB")
    except SupportError:
        return
    unit = max(terms(case, "DM", None) + terms(case, "IPS", None), 1e-300)
    assert abs(float(curve.at(tau)) - row.value) <= 1e-12 * unit
    assert abs(float(curve.stderr_at(tau)) - row.stderr) <= 1e-7 * unit


def test_ends_of_the_curve():
    case = make_case(np.random.default_rng(1), 200, unsupported=0.3)
    single = case.evaluate(["DM", "CAB(M=inf)", "DR", "IPS"])
    curve = sweep(case, "CAB")
    assert float(curve.at(0)) == pytest.approx(single["DM"].value, rel=1e-12)
    assert float(curve.at(math.inf)) == pytest.approx(single["CAB"].value, rel=1e-12)
    assert float(sweep(case, "CAB-DR").at(math.inf)) == pytest.approx(single["DR"].value)
    assert float(sweep(case, "CIPS").at(math.inf)) == pytest.approx(single["IPS"].value)


def test_grid_moments_merge():
    case = make_case(np.random.default_rng(6), 400, weighted=True)
    log = case.log
    member, grid = op.CAB(M=0.0), np.array([0.0, 1.0, 5.0, np.inf])

    def moments(start: int, stop: int) -> object:
        part = log.rows(start, stop)
        flat = slice(case.offsets[start], case.offsets[stop])
        target = op.policies.resolve(part, case.pi[flat])
        source = InMemory(part, [target], case.delta_hat[flat])
        return curves.grid_moments(source, member, grid).moments

    whole, halves = moments(0, 400), moments(0, 133) + moments(133, 400)
    np.testing.assert_allclose(halves.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(halves.covariance(), whole.covariance(), rtol=1e-12)


def test_clustered_logs_have_clustered_grids_and_no_path():
    case = make_case(np.random.default_rng(6), 400)
    log = case.log_with(cluster=np.arange(400) // 4)
    options = {"prediction": case.delta_hat, "estimator": "CAB"}
    with refuses(LogError, "cluster"):
        op.sweep(log, case.pi, **options)
    curve = op.sweep(log, case.pi, **options, grid=[1.0, 5.0])
    row = op.evaluate(log, case.pi, prediction=case.delta_hat, estimators=["CAB(M=5)"])["CAB"]
    assert float(curve.stderr_at(5.0)) == pytest.approx(row.stderr, rel=1e-12)


def test_single_decision_has_a_value_and_no_spread():
    case = make_case(np.random.default_rng(2), 1)
    curve = sweep(case, "CAB")
    assert np.isfinite(curve.at([0.0, 1.0, math.inf])).all()
    assert np.isinf(curve.stderr_at(1.0))


def test_questions_the_curve_refuses():
    case = make_case(np.random.default_rng(2), 20)
    with refuses(EstimatorError, "estimator"):
        sweep(case, "IPS")
    with refuses(ParameterError, "M"):
        sweep(case, "CAB").at(-1.0)
    with refuses(ParameterError, "tau"):
        sweep(case, "SB").at(1.5)
    with refuses(ParameterError, "grid"):
        sweep(case, "CAB", grid=[1.0, 2.0]).at(1.5)
    for grid in ([2.0, 1.0], [1.0, 1.0], [], [-1.0, 1.0], [[1.0]], [1.0, np.nan]):
        with refuses(ParameterError, "grid"):
            sweep(case, "CAB", grid=grid)
    with refuses(MissingColumnError, "prediction"):
        op.sweep(case.log, case.pi, estimator="CAB")


def test_frame_and_plot(tmp_path):
    case = make_case(np.random.default_rng(2), 50)
    curve = sweep(case, "CAB")
    frame = curve.to_arrow()
    assert frame.column_names == ["M", "value", "stderr", "low", "high"]
    assert frame.num_rows == len(curve.breakpoints)
    assert curve.to_arrow(points=10).num_rows <= 11
    axes = curve.plot()
    assert axes.get_xlabel() == "M"
    assert axes.get_xscale() == "log"
    with refuses(ParameterError, "points"):
        curve.to_arrow(points=1)
    with refuses(ParameterError, "grid"):
        sweep(case, "SB", grid=[0.5, 1.5])
    (line,) = sweep(case, "CAB", grid=[0.0, 1.0, 2.0, np.inf]).plot().lines
    assert line.get_xdata().tolist() == [1.0, 2.0]
    axes = sweep(case, "SB").plot()
    assert (axes.get_xlabel(), axes.get_xscale(), axes.get_xlim()) == ("tau", "linear", (0.0, 1.0))
    import matplotlib.pyplot as plt

    plt.close("all")


PARAMETRIC = [name for name, kind in NAMED.items() if kind.parameter_name is not None]


@pytest.mark.parametrize("estimator", PARAMETRIC)
def test_every_parameter_has_a_curve_on_a_grid(estimator):
    case = make_case(np.random.default_rng(8), 60, drawn=True)
    kind = op.parse(estimator)
    grid = np.sort(kind.grid)[[0, 3, 20, 40, -1]]
    curve = sweep(case, estimator, grid=grid)
    for j, parameter in enumerate(grid.tolist()):
        (row,) = case.evaluate([kind.at(parameter)])
        assert curve.at(parameter) == curve.values[j] == pytest.approx(row.value, rel=1e-12)
        assert curve.stderr_at(parameter) == pytest.approx(row.stderr, rel=1e-12)
        assert curve.imputed_mass[j] == pytest.approx(row.imputed_mass, abs=1e-12)
    assert len(sweep(case, estimator).breakpoints) >= 2
    with refuses(ParameterError, "grid"):
        sweep(case, estimator, grid=[-1.0])


def test_what_has_no_parameter_has_no_curve():
    with refuses(EstimatorError, "estimator"):
        sweep(make_case(np.random.default_rng(8), 20), "SNIPS")


@pytest.mark.parametrize("estimator", PARAMETRIC)
@pytest.mark.parametrize("grid", [None, [0.2, 0.7]])
def test_best_is_what_evaluate_chooses(estimator, grid):
    case = make_case(np.random.default_rng(7), 400, drawn=True)
    (choice,) = op.evaluate(
        case.log, case.pi, prediction=case.delta_hat, estimators=[estimator]
    ).tuned
    assert sweep(case, estimator, grid=grid).best == choice.chosen
