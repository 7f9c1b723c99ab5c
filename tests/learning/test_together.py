"""Many learners at once, and many searches at once: the ends are those of one by one."""

from __future__ import annotations

import numpy as np
import pytest

import offpolicy as op
from offpolicy._core.lbfgs import minimise, minimise_together
from offpolicy.errors import ParameterError
from offpolicy.learning import SoftmaxLearner, fit_together
from tests.support.refusals import refuses


def made(n=400, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((n, 3)), rng.standard_normal((3, K))
    logging = rng.dirichlet(np.ones(K), n)
    action = np.array([rng.choice(K, p=row) for row in logging])
    reward = ((X @ W).argmax(axis=1) == action).astype(float)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=logging, context=X)
    return log, rng.random((n, K))


def test_searches_side_by_side_end_where_each_does():
    rng = np.random.default_rng(0)
    centres, curves = rng.standard_normal((5, 8)), 10.0 ** rng.uniform(-2, 2, (5, 8))

    def loss(k, w):
        away = w - centres[k]
        return float(curves[k] @ away**2 / 2 + np.log1p(away @ away)), curves[
            k
        ] * away + 2 * away / (1 + away @ away)

    def losses(numbers, points):
        return [loss(k, w) for k, w in zip(numbers, points, strict=True)]

    starts = list(10 * rng.standard_normal((5, 8)))
    ends = minimise_together(losses, starts, tolerance=1e-14)
    for k, end in enumerate(ends):
        alone = minimise(lambda w, k=k: loss(k, w), starts[k], tolerance=1e-14)
        assert end.converged
        np.testing.assert_allclose(end.w, centres[k], atol=1e-5)
        assert end.loss == pytest.approx(alone.loss, abs=1e-9)


def test_a_narrow_valley_a_kink_and_a_limit():
    def valley(_, points):
        (x, y) = points[0]
        value = (1 - x) ** 2 + 100 * (y - x * x) ** 2
        return [(value, np.array([2 * (x - 1) - 400 * x * (y - x * x), 200 * (y - x * x)]))]

    (end,) = minimise_together(valley, [np.array([-1.2, 1.0])], tolerance=1e-15)
    np.testing.assert_allclose(end.w, [1.0, 1.0], atol=1e-4)
    (short,) = minimise_together(valley, [np.array([-1.2, 1.0])], most_steps=3, tolerance=1e-15)
    assert (short.steps, short.converged) == (3, False)

    def kink(_, points):
        return [(float(np.abs(points[0]).sum()), np.sign(points[0]))]

    (end,) = minimise_together(kink, [np.array([3.0, -0.7])])
    assert end.loss < 0.1
    (there,) = minimise_together(kink, [np.zeros(2)])
    assert (there.steps, there.converged) == (0, True)


MEMBERS = ("DM", "IPS", "CIPS(M=2)", "SB(tau=0.5)", "DR", "CAB(M=2)", "CAB-DR(M=2)")


@pytest.mark.parametrize("start", ["zero", "random", "logger"])
def test_learners_side_by_side_are_those_one_by_one(start):
    log, prediction = made()
    # A penalty so large that there is one optimum only.
    kind = {"features": "raw", "start": start, "starts": 2, "l2": 0.3, "tol": 1e-12}
    together = [SoftmaxLearner(name, **kind) for name in MEMBERS]
    fit_together(together, log, prediction=prediction)
    for learner in together:
        alone = learner.copy().fit(log, prediction=prediction)
        X = log.context
        # Searches end near a kink of CAB's weights, not on it: how near depends on rounding.
        np.testing.assert_allclose(learner.predict_proba(X), alone.predict_proba(X), atol=5e-3)
        assert learner.report_.value == pytest.approx(alone.report_.value, abs=1e-4)


def test_rows_with_weights_stand_for_repeats():
    log, prediction = made(100)
    often = np.random.default_rng(1).integers(1, 4, 100)
    repeated = log.take(np.repeat(np.arange(100), often))
    kind = {"features": "raw", "start": "zero", "l2": 0.3, "tol": 1e-12}
    one, other = SoftmaxLearner("CAB(M=2)", **kind), SoftmaxLearner("CAB(M=2)", **kind)
    fit_together([one], log.replace(row_weight=often.astype(float)), prediction=prediction)
    fit_together([other], repeated, prediction=np.repeat(prediction, often, axis=0))
    # The penalty is in units of the features' mean square, which counts rows.
    np.testing.assert_allclose(
        one.predict_proba(log.context), other.predict_proba(log.context), atol=0.02
    )


def test_what_cannot_go_together_is_refused():
    log, prediction = made(50)
    with refuses(ParameterError, "learners"):
        fit_together([SoftmaxLearner("SNIPS", start="zero")], log)
    with refuses(ParameterError, "learners"):
        fit_together([SoftmaxLearner("DR", start="zero", penalty=1.0)], log, prediction=prediction)
