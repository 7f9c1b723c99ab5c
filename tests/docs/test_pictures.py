"""What the pictures of the estimators are drawn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from tests.support.cases import bandit_log

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.parametrize("kind", [op.SNIPS, op.SNDR])
def test_simulated_estimates_are_those_of_the_library(monkeypatch, kind):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import estimator_pictures as pictures

    problem = pictures.PROBLEM
    counts = np.random.default_rng(0).integers(0, 4, (3, *problem.delta.shape, 2))
    for drawn, found in zip(counts, pictures.self_normalised(kind, problem, counts), strict=True):
        x, y, z = np.nonzero(drawn)
        log = bandit_log(
            y, pictures.rewards_of(problem)[x, y, z], problem.pi0[x], row_weight=drawn[x, y, z]
        )
        result = op.evaluate(
            log, problem.pi[x], prediction=problem.delta_hat[x], estimators=[kind()]
        )
        assert found == pytest.approx(result.estimates[0].value, rel=1e-12)


def test_the_problem_is_as_described(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import estimator_pictures as pictures

    problem = pictures.PROBLEM
    assert problem.delta.shape == (6, 5)
    assert (problem.pi / problem.pi0).max() == pytest.approx(151, abs=0.5)
    assert problem.value == pytest.approx(0.597, abs=5e-4)
    assert op.theory.bias(op.DM(), problem) == pytest.approx(0.107, abs=5e-4)
