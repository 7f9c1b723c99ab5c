"""Choosing a ranker's parameters on queries that it has not seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from offpolicy.errors import LogError, MissingColumnError, ParameterError, SupportError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import as_metric
from offpolicy.ranking.evaluation._evaluate import evaluate, true_value
from offpolicy.ranking.learning._search import RULES, RankerCV, default_grid
from offpolicy.ranking.learning._svmrank import PropensitySVMRank
from tests.support.clicks import clicked
from tests.support.refusals import refuses

GRID = {"estimator": ["IPS", "CAB(M=2)"], "loss": [1e-4, 50.0]}


def slow(log, scores, rule="cips90"):
    """Average rank by the formula, document by document."""
    M = np.quantile([1.0 / p for p, c in zip(log.propensity, log.click, strict=True) if c], 0.9)
    top = bottom = 0.0
    for start, stop in pairwise(log.offsets):
        for j in range(start, stop):
            above = [k for k in range(start, stop) if (-scores[k], k) < (-scores[j], j)]
            weight = min(1.0 / log.propensity[j], M) if log.click[j] else 0.0
            if rule == "cab90":
                weight += max(1.0 - M * log.propensity[j], 0.0) * log.prediction[j]
            top += weight * (1 + len(above))
            bottom += weight
    return top / bottom


@pytest.mark.parametrize("rule", ["cips90", "cab90"])
def test_rules_are_their_formulas(rule):
    log = clicked(1, sweeps=2.0)
    scores = np.round(log.X[:, 0], 1)  # with ties
    metric = as_metric("average rank")
    assert RULES[rule](log, scores, metric) == pytest.approx(slow(log, scores, rule))
    without = log.replace(prediction=None)
    assert RULES[rule](without, scores, metric) == pytest.approx(slow(log, scores, "cips90"))


@pytest.mark.parametrize("rule", RULES)
def test_every_candidate_is_as_if_fitted_alone(rule):
    log, other = clicked(2), clicked(3, sweeps=3.0)
    learner = PropensitySVMRank(tol=1e-7)
    search = RankerCV(learner, GRID, rule=rule).fit(log, validation=other)
    assert [one.params for one in search.trials_] == [
        {"estimator": e, "loss": x} for e in GRID["estimator"] for x in GRID["loss"]
    ]
    expected = []
    for candidate in search.trials_:
        alone = learner.copy(**candidate.params).fit(log)
        if rule != "headline":
            expected.append(slow(other, alone.decision_function(other.X), rule))
        else:
            expected.append(evaluate(other, alone, ["IPS"]).headline.value)
    scores = [one.score for one in search.trials_]
    assert scores == pytest.approx(expected, rel=1e-3)
    best = int(np.argmin(scores))
    assert search.params_ == search.trials_[best].params
    alone = learner.copy(**search.params_).fit(log)
    assert search.best_.coef_ == pytest.approx(alone.coef_, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("rule", ["cips90", "cab90"])
def test_sum_and_average_of_ranks_choose_alike(rule):
    log, other = clicked(2), clicked(3)
    searches = [
        RankerCV(grid=GRID, rule=rule, metric=metric).fit(log, validation=other)
        for metric in ("average rank", "sum of ranks")
    ]
    orders = [np.argsort([one.score for one in search.trials_]) for search in searches]
    assert orders[0].tolist() == orders[1].tolist()
    assert searches[0].params_ == searches[1].params_


def test_higher_is_better_where_it_is():
    log = clicked(4)
    search = RankerCV(grid={"estimator": ["CAB(M=2)"], "loss": [1e-4, 50.0]}, metric="dcg")
    search.fit(log)
    assert search.params_ == max(search.trials_, key=lambda one: one.score).params


def test_without_validation_log_each_query_is_scored_by_a_ranker_of_others():
    log = clicked(5, sweeps=2.0)
    search = RankerCV(PropensitySVMRank(tol=1e-7), GRID, rule="cips90", folds=3).fit(log)
    fold = log.fold(3)
    for candidate in search.trials_:
        scores = np.empty(log.documents)
        for k in range(3):
            alone = PropensitySVMRank(tol=1e-7).set_params(**candidate.params)
            alone.fit(log.take(fold != k))
            own = (fold == k)[log.impression]
            scores[own] = alone.decision_function(log.X[own])
        assert candidate.score == pytest.approx(slow(log, scores), rel=1e-3)
    whole = PropensitySVMRank(tol=1e-7).set_params(**search.params_).fit(log)
    assert search.best_.coef_ == pytest.approx(whole.coef_)
    assert search.rank(log.X, log.offsets).tolist() == whole.rank(log.X, log.offsets).tolist()


def test_the_default_search_finds_a_good_ranker():
    log = clicked(6, n=300, sweeps=2.0)
    done = []
    search = RankerCV().fit(log, progress=lambda *told: done.append(told))
    assert done[-1] == (len(search.trials_), len(search.trials_))
    assert true_value(log, search) < true_value(log, log.X[:, 1]) - 0.5
    assert true_value(log, search) < true_value(log, log.X[:, 0]) + 0.1


def test_the_default_grid_is_what_the_learner_leaves_open():
    log = clicked(7)
    grid = default_grid(PropensitySVMRank(estimator="CAB"), log)
    assert grid["estimator"] == [f"CAB(M={M})" for M in ("0.5", "1", "2", "5", "10", "inf")]
    assert default_grid(PropensitySVMRank(1.0, estimator="CAB(M=2)"), log) == {}
    assert set(default_grid(PropensitySVMRank(estimator="IPS"), log)) == {"loss"}
    shares = default_grid(PropensitySVMRank(1.0, estimator="SB"), log)["estimator"]
    assert len(shares) == 6
    assert all(one.startswith("SB(tau=0.") for one in shares)
    one = RankerCV(PropensitySVMRank(1.0, estimator="CAB(M=2)")).fit(log)
    assert one.params_ == {}
    assert one.best_.C_ == 1.0


ONE = RankingLog.from_arrays(
    offsets=[0, 2, 4], rank=[1, 2, 1, 2], click=[1, 0, 1, 0], propensity=[1, 0.5, 1, 0.5],
    X=[[1.0], [2.0], [1.5], [0.0]], query=["a", "a"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("error", "column", "search"),
    [
        (ParameterError, "rule", lambda log: RankerCV(rule="best").fit(log)),
        (ParameterError, "D", lambda log: RankerCV(grid={"D": [1]}).fit(log)),
        (ParameterError, "grid", lambda log: RankerCV(grid={"C": []}).fit(log)),
        (ParameterError, "folds", lambda log: RankerCV(folds=1).fit(log)),
        (ParameterError, "loss", lambda log: PropensitySVMRank(loss=0.0).fit(log)),
        (LogError, "X", lambda log: RankerCV(grid=GRID).fit(log.replace(X=None))),
        (
            MissingColumnError,
            "propensity",
            lambda log: RankerCV().fit(log.replace(propensity=None)),
        ),
        (MissingColumnError, "prediction", lambda _: RankerCV().fit(clicked(0, model=False))),
        (
            SupportError,
            "click",
            lambda log: RankerCV(grid=GRID).fit(log, validation=log.replace(click=0 * log.click)),
        ),
        (ParameterError, "validation", lambda _: RankerCV(grid={"estimator": ["IPS"]}).fit(ONE)),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_mistakes_are_told(error, column, search):
    with refuses(error, column):
        search(clicked(0))
