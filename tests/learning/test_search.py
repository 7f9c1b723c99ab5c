"""Choosing a learner's parameters on decisions that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.errors import ParameterError
from offpolicy.learning._search import RULES, LearnerCV, cips90, ips, snips
from offpolicy.learning._softmax_learner import SoftmaxLearner
from tests.support.cases import bandit_log
from tests.support.learning import classes
from tests.support.refusals import refuses

GRID = {"estimator": ["IPS", "CAB-DR(M=10)"], "l2": [1e-7, 10.0]}


@pytest.mark.parametrize("rule", RULES)
def test_the_best_is_the_one_with_the_highest_score(rule):
    log, X, y = classes(1, n=1500)
    search = LearnerCV(SoftmaxLearner(max_iter=50, start="zero"), GRID, rule=rule).fit(log)
    assert len(search.trials_) == 4
    best = max(search.trials_, key=lambda trial: trial.score)
    assert search.params_ == best.params
    assert search.params_["l2"] == 1e-7  # 10 leaves the policy uniform
    assert (search.predict(X) == y).mean() > 0.7
    assert search.predict_proba(X) == pytest.approx(
        SoftmaxLearner(max_iter=50, start="zero")
        .set_params(**best.params)
        .fit(log)
        .predict_proba(X)
    )


def test_shared_work_changes_nothing():
    log, X, _ = classes(2, n=600)
    other, _, _ = classes(3, n=600)
    grid = {
        "estimator": ["CAB-DR(M=10)", "CAB(M=2)", "IPS"],
        "penalty": [0.0, 1.0],
        "baseline": [0.0, 0.4],
    }
    search = LearnerCV(SoftmaxLearner(max_iter=40), grid, rule="snips")
    search.fit(log, validation=other)
    for candidate in search.trials_:
        alone = SoftmaxLearner(max_iter=40).set_params(**candidate.params).fit(log)
        assert snips(other, alone) == pytest.approx(candidate.score, rel=1e-6)
        assert alone.report_.steps == candidate.steps
    assert search.best_.predict_proba(X).shape == (600, 3)


def test_rules_are_their_formulas():
    log, _, _ = classes(4, n=200)
    pi = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    c = pi[np.arange(200), log.chosen] / log.propensity
    assert ips(log, pi) == pytest.approx((c * log.reward).mean())
    clipped = np.minimum(c, np.quantile(c, 0.9))
    assert cips90(log, pi) == pytest.approx((clipped * log.reward).mean())
    assert snips(log, pi) == pytest.approx((c * log.reward).sum() / c.sum())


def test_predictions_follow_their_decisions():
    """Held-out rows take their predictions with them."""
    log, _, y = classes(5, n=500)
    truth = np.eye(3)[y]
    search = LearnerCV(SoftmaxLearner("DM", start="zero"), {"l2": [1e-6]}, refit=False).fit(
        log, prediction=truth
    )
    assert search.probabilities(log).reshape(-1, 3)[np.arange(500), y].mean() > 0.8


def test_decisions_of_a_cluster_stay_together():
    log, _, _ = classes(6, n=400, cluster=np.arange(400) // 20)
    held = LearnerCV()._held_out(log, 0)
    for start in range(0, 400, 20):
        assert len(set(held[start : start + 20])) == 1
    assert 0.1 < held.mean() < 0.6


def test_mistakes_are_told():
    log, _, _ = classes(0)
    with refuses(ParameterError, "rule"):
        LearnerCV(rule="best").fit(log)
    with refuses(ParameterError, "grid"):
        LearnerCV(grid={"l2": []}).fit(log)
    with refuses(ParameterError, "l3"):
        LearnerCV(grid={"l3": [1]}).fit(log)
    with refuses(ParameterError, "holdout"):
        LearnerCV(holdout=1.0).fit(log)
    clustered = bandit_log([0, 1], [0, 1], [0.5, 0.5], context=[[1.0], [2.0]], cluster=["a", "a"])
    with refuses(ParameterError, "validation"):
        LearnerCV().fit(clustered)
