"""Evaluating rankers: against loops over the paper's formulas, by simulation, and on real data."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from offpolicy._core.logistic import sigmoid
from offpolicy.datasets._queries import ranking
from offpolicy.errors import (
    EstimatorError,
    LogError,
    MissingColumnError,
    ParameterError,
    PolicyError,
    SupportError,
)
from offpolicy.estimators._named import CAB, CIPS, SB, SWITCH, parse
from offpolicy.experiments.ranking.setup import joined_queries, prepare, shuffled
from offpolicy.logs.formats.letor import Queries
from offpolicy.ranking.data._clicks import DependentClicks, PositionBased, simulate_clicks
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._metrics import parse_metric
from offpolicy.ranking.data._ranks import ranks
from offpolicy.ranking.data._relevance import RelevanceModel
from offpolicy.ranking.data._weights import blended, document_weights
from offpolicy.ranking.evaluation._click_path import Question
from offpolicy.ranking.evaluation._evaluate import evaluate, true_value
from offpolicy.ranking.evaluation._headline import what_is_known
from offpolicy.ranking.evaluation._recalibration import recalibrated
from offpolicy.ranking.evaluation._result import RankingResult
from offpolicy.ranking.evaluation._sums import lam_of, value_of
from offpolicy.ranking.evaluation._sweep import sweep
from offpolicy.ranking.evaluation._tuning import by_theory
from tests.support.refusals import refuses

METRICS = ["average rank", "sum of ranks", "dcg@3", "ndcg@3", "err", "precision@2", "recall@2",
           "reciprocal rank"]  # fmt: skip
FAMILY = ["DM", "IPS", "CIPS(M=2)", "SB(tau=0.3)", "SWITCH(M=2)", "CAB(M=2)", "CAB(M=0.5)"]


def world(queries=60, seed=0, most=8) -> tuple[Queries, np.ndarray, np.ndarray, np.ndarray]:
    """Queries, the logger's and the ranker's scores, and the true probability of relevance."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, queries)
    X = rng.normal(size=(int(sizes.sum()), 3))
    delta = sigmoid(X @ [1.0, 0.5, 0.0] - 1.0)
    relevance = (rng.random(len(X)) < delta).astype(float)
    made = Queries(X, relevance, np.cumsum([0, *sizes]), np.arange(queries), 0)
    return made, X[:, 1] + 0.5 * X[:, 2], X[:, 0], delta


def question_of(log: RankingLog, ranker, metric: str, level=0.95, independent=True) -> Question:
    target, asked = ranks(np.asarray(ranker), log.offsets), parse_metric(metric)
    return Question(log, asked, target, lam_of(log, asked, target), level, independent)


def slow(log: RankingLog, scores, name: str, metric: str) -> tuple[float, float]:
    """Value and standard error, document by document."""
    member, asked = parse(name), parse_metric(metric)
    tops, bottoms = [], []
    for i in range(len(log)):
        rows = range(log.offsets[i], log.offsets[i + 1])
        top = bottom = 0.0
        known = np.zeros(log.documents) if log.relevance is None else log.relevance
        relevance = known[log.offsets[i] : log.offsets[i + 1]]
        best = sum(1 / math.log2(2 + k) for k in range(max(int(relevance.sum()), 1)) if k < 3)
        goes_on = {}
        for j in rows:
            above = [
                relevance[k - log.offsets[i]]
                for k in rows
                if scores[k] > scores[j] or (scores[k] == scores[j] and k < j)
            ]
            goes_on[j] = math.prod(1 - x / 2 for x in above)
        for j in rows:
            rank = 1 + sum(
                scores[k] > scores[j] or (scores[k] == scores[j] and k < j) for k in rows
            )
            p, t = log.propensity[j], member.parameter
            alpha, beta = {
                "DM": lambda p, t: (1.0, 0.0),
                "IPS": lambda p, t: (0.0, 1.0),
                "CIPS": lambda p, t: (0.0, min(t * p, 1.0)),
                "SB": lambda p, t: (1.0 - t, t),
                "SWITCH": lambda p, t: (float(t * p < 1.0), float(t * p >= 1.0)),
                "CAB": lambda p, t: (1.0 - min(t * p, 1.0), min(t * p, 1.0)),
            }[member.name](p, t)
            c = alpha * log.prediction[j] + (beta * log.click[j] / p if p > 0 else 0.0)
            top += (
                c
                * {
                    "average rank": rank,
                    "sum of ranks": rank,
                    "dcg": 1 / math.log2(1 + rank) if rank <= 3 else 0,
                    "ndcg": 1 / math.log2(1 + rank) / best if rank <= 3 else 0,
                    "err": goes_on[j] / 2 / rank,
                    "precision": 0.5 if rank <= 2 else 0,
                    "recall": 1 if rank <= 2 else 0,
                    "reciprocal rank": 1 / rank,
                }[asked.name]
            )
            bottom += c
        tops.append(top)
        bottoms.append(bottom)
    n = len(log)
    value = sum(tops) / (sum(bottoms) if asked.is_ratio else n)
    if asked.is_ratio:
        psi = [(t - value * b) / (sum(bottoms) / n) for t, b in zip(tops, bottoms, strict=True)]
    else:
        psi = [t - value for t in tops]
    labels = sorted(set(log.query.tolist()))
    totals = [sum(psi[i] for i in range(n) if log.query[i] == label) for label in labels]
    Q = len(labels)
    return value, math.sqrt(Q / (Q - 1) * sum(t * t for t in totals)) / n


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("top", [None, 3])
def test_against_loops(metric, top):
    queries, logger, _, _ = world(12)
    model = PositionBased(eta=0.7, relevant=0.9, irrelevant=0.2)
    log = simulate_clicks(queries, logger, model, sweeps=2.5, top=top, rng=1)
    scores = np.round(2 * log.X[:, 0]) / 2  # with ties
    log = log.replace(prediction=sigmoid(log.X[:, 0]))
    result = evaluate(log, scores, FAMILY, metric)
    for name in FAMILY:
        value, stderr = slow(log, scores, name, metric)
        assert result[name].value == pytest.approx(value, rel=1e-10), name
        assert result[name].stderr == pytest.approx(stderr, rel=1e-8), name


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_against_loops_on_odd_logs(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    N = sum(sizes)
    shown = data.draw(st.lists(st.booleans(), min_size=N, max_size=N))
    offsets = np.cumsum([0, *sizes])
    rank = np.where(shown, np.arange(N) - np.repeat(offsets[:-1], sizes) + 1, 0)
    share = st.floats(0.0, 1.0)
    p = np.where(shown, data.draw(st.lists(st.floats(1e-3, 1), min_size=N, max_size=N)), 0.0)
    click = np.where(shown, data.draw(st.lists(st.integers(0, 1), min_size=N, max_size=N)), 0)
    prediction = data.draw(st.lists(share, min_size=N, max_size=N))
    scores = data.draw(st.lists(st.integers(-1, 1), min_size=N, max_size=N))
    log = RankingLog.from_arrays(
        offsets=offsets, rank=rank, click=click, propensity=p, prediction=prediction,
        query=np.arange(len(sizes)) % 2,
    )  # fmt: skip
    result = evaluate(log, scores, FAMILY, "sum of ranks")
    for name in FAMILY:
        value, stderr = slow(log, scores, name, "sum of ranks")
        assert result[name].value == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert result[name].stderr == pytest.approx(stderr, rel=1e-6, abs=1e-9)
        row = result[name]
        assert row.interval.low <= row.value <= row.interval.high
        assert 0.0 <= row.plausible_bias <= row.bias_bound
        assert 0.0 <= row.imputed_mass <= 1.0


# -- by simulation ---------------------------------------------------------------------------


def z_score(errors) -> float:
    return abs(np.mean(errors)) / (np.std(errors, ddof=1) / math.sqrt(len(errors)))


@pytest.mark.parametrize("model", [PositionBased(), DependentClicks(0.6, relevant=0.8)], ids=str)
def test_ips_and_cab_with_a_perfect_model_are_unbiased(model):
    queries, logger, ranker, _ = world(40, seed=3)
    errors = {"IPS": [], "CAB(M=2)": [], "SWITCH(M=2)": [], "SB(tau=0.5)": [], "CIPS(M=2)": []}
    for seed in range(150):
        log = simulate_clicks(queries, logger, model, rng=seed)
        perfect = model.attraction(log.rank, log.relevance)
        log = log.replace(prediction=perfect, relevance=perfect)
        truth = true_value(log, ranker, "sum of ranks")
        lam = ranks(ranker, log.offsets)
        for name, found in errors.items():
            found.append((lam * document_weights(log, name)).sum() / len(log) - truth)
    for name in ("IPS", "CAB(M=2)", "SWITCH(M=2)", "SB(tau=0.5)"):
        assert z_score(errors[name]) < 4, name
    if isinstance(model, PositionBased):  # where propensities are small
        assert z_score(errors["CIPS(M=2)"]) > 8
        assert np.std(errors["CAB(M=2)"]) < 0.7 * np.std(errors["IPS"])


def test_intervals_cover():
    """New queries every time: the value is that of the population, here by a large sample."""
    queries, logger, ranker, _ = world(20_000, seed=99)
    log = simulate_clicks(queries, logger, features=False)
    truth = {metric: true_value(log, ranker, metric) for metric in ("sum of ranks", "average rank")}
    covered = {key: [] for key in [(m, e) for m in truth for e in ("IPS", "CAB", "headline")]}
    for seed in range(50):
        queries, logger, ranker, delta = world(150, seed=1000 + seed)
        log = simulate_clicks(queries, logger, rng=seed).replace(
            prediction=sigmoid(np.log(delta / (1 - delta)) + 0.3)
        )
        for metric, value in truth.items():
            result = evaluate(log, ranker, ["IPS", "CAB"], metric)
            for name in ("IPS", "CAB"):
                covered[metric, name].append(value in result[name].interval)
            covered[metric, "headline"].append(value in result.headline.interval)
    for key, hits in covered.items():
        # Over 200 other logs sums cover 92% to 93%, ratios of few weighted clicks 89%, not 95%.
        # This is two standard errors of 50 repeats below 89%.
        assert np.mean(hits) > 0.8, key


def test_the_standard_error_is_over_queries_not_impressions():
    queries, logger, ranker, _ = world(50, seed=5)
    once = simulate_clicks(queries, logger, PositionBased(eta=0.0), sweeps=1)
    many = simulate_clicks(queries, logger, PositionBased(eta=0.0), sweeps=9)
    errors = [evaluate(log, np.tile(ranker, k), ["IPS"])["IPS"].stderr for log, k in
              ((once, 1), (many, 9))]  # fmt: skip
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)  # everything was examined every time


# -- curves and choices ----------------------------------------------------------------------


def logged(seed=2, **options) -> tuple[RankingLog, np.ndarray]:
    queries, logger, ranker, delta = world(80, seed=seed)
    log = simulate_clicks(queries, logger, rng=seed, **options)
    return log.replace(prediction=np.clip(1.4 * delta, 0, 1)), ranker


@pytest.mark.parametrize("metric", ["average rank", "sum of ranks"])
@pytest.mark.parametrize("name", ["CAB", "CIPS", "SWITCH", "SB"])
def test_a_sweep_is_an_evaluation_at_every_value(name, metric):
    log, ranker = logged()
    curve = sweep(log, ranker, name, metric)
    parameter = "tau" if name == "SB" else "M"
    values = [0.01, 0.25, 0.5, 1.0] + ([] if name == "SB" else [2.0, 2.7, 1e6, math.inf])
    members = [f"{name}({parameter}={value!r})" for value in values]
    result = evaluate(log, ranker, members, metric)
    assert_allclose(curve.at(values), [result[m].value for m in members], rtol=1e-12)
    assert_allclose(curve.stderr_at(values), [result[m].stderr for m in members], rtol=1e-12)
    table = curve.to_arrow(5)
    x, y = table.column(parameter).to_numpy(), table.column("value").to_numpy()
    assert_allclose(curve.at(x), y)
    low, high = curve.interval_at(0.5)
    assert low < curve.at(0.5) < high


@pytest.mark.parametrize("name", ["CAB", "CIPS", "SWITCH"])
def test_between_breakpoints_the_sum_is_linear_or_constant(name):
    log, ranker = logged()
    curve = sweep(log, ranker, name, "sum of ranks")
    inner = curve.breakpoints[1:-1]
    assert_allclose(inner, np.unique(1 / log.propensity))
    for low, high in itertools.pairwise(inner):
        x = low + np.array([0.0, 0.25, 0.5, 0.75]) * (high - low)
        y = curve.at(x)
        if name == "SWITCH":
            assert_allclose(y, y[0], rtol=1e-12)
        else:
            assert_allclose(np.diff(y), y[1] - y[0], rtol=1e-6, atol=1e-12)


def test_curves_that_there_are_not():
    log, ranker = logged()
    with refuses(EstimatorError, "estimator"):
        sweep(log, ranker, "IPS")
    with refuses(MissingColumnError, "propensity"):
        sweep(log.replace(propensity=None), ranker)
    with refuses(ParameterError, "points"):
        sweep(log, ranker).to_arrow(1)


def test_a_good_model_is_trusted_and_a_bad_one_is_not():
    queries, logger, ranker, delta = world(400, seed=8)
    log = simulate_clicks(queries, logger, sweeps=5, rng=8)
    many = np.tile(delta, 5)
    good = evaluate(log.replace(prediction=many), np.tile(ranker, 5), ["CAB"])
    bad = evaluate(log.replace(prediction=1 - many), np.tile(ranker, 5), ["CAB"])
    assert good["CAB"].M < bad["CAB"].M
    assert bad["CAB"].M > 4


def test_the_choice_is_the_one_nearest_to_the_headline_of_the_least():
    log, ranker = logged()
    for independent in (True, False):
        result = evaluate(log, ranker, ["CAB", "SB"], independent_clicks=independent)
        assert len(result.tuned) == 2
        for choice in result.tuned:
            good = choice.mse <= 2.0 * choice.mse.min()
            apart = np.abs(choice.value - result.headline.value)
            at = int(np.argmin(np.where(good, apart, np.inf)))
            assert choice.grid[at] == choice.chosen
            assert choice.to_arrow().column("mse").to_numpy()[at] == choice.mse[at]
        choice = result.tuned[0]
        assert result["CAB"].value == pytest.approx(choice.value[choice.grid == choice.chosen][0])
        assert result["CAB"].reason.startswith("least estimated error")


@pytest.mark.parametrize("metric", ["sum of ranks", "average rank"])
def test_bias_and_variance_by_theory_are_those_of_simulated_logs(metric):
    """Queries, relevance and clicks are all drawn anew; δ is known, the model is off."""
    asked, members = parse_metric(metric), [CAB(1.0), CAB(3.0), CIPS(2.0), SB(0.3), SWITCH(2.0)]
    values = {member: [] for member in members}
    theory = {member: [] for member in members}
    for seed in range(250):
        queries, logger, ranker, delta = world(100, seed=seed)
        wrong = sigmoid(np.log(delta / (1 - delta)) + 0.8 * queries.X[:, 2])
        log = simulate_clicks(queries, logger, rng=seed).replace(prediction=wrong)
        question = question_of(log, ranker, metric)
        known = what_is_known(question)
        known = known._replace(path=known.path._replace(d=delta))
        truth = value_of(log, asked, question.lam, delta).value
        for member in members:
            value, _, bias, _, variance, _ = by_theory(known, member, wrong)
            assert value == value_of(log, asked, question.lam, blended(log, member, wrong)).value
            values[member].append(value - truth)
            theory[member].append([bias, variance, value])
    for member in members:
        bias, variance, value = np.array(theory[member]).T
        noise = np.std(values[member]) / math.sqrt(250)
        ratio_bias = 0.01 * np.mean(value) if asked.is_ratio else 0.0
        assert abs(np.mean(values[member]) - np.mean(bias)) < 4 * noise + ratio_bias, member
        assert np.mean(variance) == pytest.approx(np.var(value), rel=0.35), member


def test_recalibration_moves_a_wrong_level_and_leaves_a_right_one():
    queries, logger, ranker, delta = world(2000, seed=4)
    log = simulate_clicks(queries, logger, rng=4)
    target = ranks(ranker, log.offsets)
    off = sigmoid(np.log(delta / (1 - delta)) - 1.0)
    moved = recalibrated(log.replace(prediction=off), target)
    assert abs(moved.mean() - delta.mean()) < 0.15 * abs(off.mean() - delta.mean())
    kept = recalibrated(log.replace(prediction=delta), target)
    assert np.abs(kept - delta).max() < 0.08
    # Without a model, one constant stands for documents that differ. Those that the logger put
    # high are more often relevant and more often seen, so the level is too high: by 0.047 on
    # average, with a deviation of 0.004 (six other seeds). This is four deviations more.
    assert 0.0 < recalibrated(log, target).mean() - delta.mean() < 0.063


def test_no_fold_sees_its_own_clicks():
    log, ranker = logged()
    target = ranks(ranker, log.offsets)
    before = recalibrated(log, target)
    fold = log.fold()[log.impression]
    click = log.click.copy()
    own = fold == fold[0]
    click[own] = 1.0 - click[own]
    after = recalibrated(log.replace(click=click), target)
    assert_allclose(after[own], before[own])
    assert (after[~own] != before[~own]).all()


# -- what is said ----------------------------------------------------------------------------


def test_what_can_be_had_from_which_columns():
    log, ranker = logged()
    assert [row.estimator.split("(")[0] for row in evaluate(log, ranker)] == [
        "DM", "IPS", "CIPS", "SB", "SWITCH", "CAB",
    ]  # fmt: skip
    bare = evaluate(log.replace(prediction=None), ranker)
    assert [row.estimator.split("(")[0] for row in bare] == ["IPS", "CIPS"]
    assert bare.headline.model == "ranks"
    assert evaluate(log, ranker, ["DM"]).headline.model == "relevance"
    model = evaluate(log.replace(propensity=None), ranker)
    assert [row.estimator for row in model] == ["DM"]
    assert model.headlines == ()
    assert model.headline == model["DM"]
    assert model.headline.ess is None
    assert [one.code for one in model.findings] == ["no-examination"]
    with refuses(MissingColumnError, "propensity"):
        evaluate(log.replace(propensity=None, prediction=None), ranker)
    with refuses(MissingColumnError, "propensity"):
        evaluate(log.replace(propensity=None), ranker, ["CAB"])


def test_findings():
    log, ranker = logged(top=2)
    result = evaluate(log, ranker)
    assert [one.code for one in result.findings] == ["not-shown"]
    few = log.take(np.arange(5))
    found = {one.code: one.numbers for one in evaluate(few, few.X[:, 0]).findings}
    assert found["few-queries"] == {"queries": 5}
    assert result.findings[0].numbers == {"share": 1.0 - log.shown.mean()}
    assert "Warning (not-shown): " in str(result)


def test_no_clicks():
    log, ranker = logged()
    silent = log.replace(click=np.zeros(log.documents))
    assert evaluate(silent, ranker, ["IPS"], "dcg").headline.value == 0.0
    with refuses(SupportError, "click"):
        evaluate(silent, ranker, ["IPS"])
    assert evaluate(silent, ranker, ["DM"])["DM"].value > 1.0


def test_errors():
    log, ranker = logged()
    with refuses(EstimatorError, "estimators"):
        evaluate(log, ranker, [])
    with refuses(EstimatorError, "estimator"):
        evaluate(log, ranker, ["CAB-DR"])
    with refuses(PolicyError, "score"):
        evaluate(log, [1.0, 2.0, 3.0])
    with refuses(LogError, "frame"):
        evaluate([1, 2], ranker)
    with refuses(MissingColumnError, "relevance"):
        true_value(log.replace(relevance=None), ranker)


def test_the_result_as_text_and_data(tmp_path):
    log, ranker = logged()
    result = evaluate(log, ranker, ["IPS", "CAB(M=2)", "CAB(M=5)", "SB"], "dcg@3")
    assert str(result).startswith("dcg@3: ")
    assert "higher is better" in str(result)
    assert result["cab(2)"].M == 2
    assert len(result) == 4
    with refuses(ParameterError, "estimator", match="could be"):
        result["CAB"]
    with refuses(ParameterError, "estimator"):
        result["SWITCH"]
    assert result.to_arrow().num_rows == 4 + len(result.headlines)
    path = tmp_path / "result.json"
    text = result.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    body = json.loads(text)
    assert body["headlines"][0]["model"] == "relevance"
    assert RankingResult.from_json(text).to_json() == text
    assert result.named("new").headline.policy == result.named("new").ranker == "new"
    assert len(body["tuned"][0]["grid"]) == len(result.tuned[0].grid)
    assert evaluate(log, ranker, ["IPS", "CAB(M=2)", "CAB(M=5)", "SB"], "dcg@3").to_json() == text


# -- models of relevance ---------------------------------------------------------------------


def classifier():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def test_a_model_from_judgements_is_calibrated():
    """From enough documents for trees (with 400 queries one feature alone says more)."""
    queries, _, _, _ = world(1500, seed=1)
    query = np.repeat(queries.qid, np.diff(queries.offsets))
    model = RelevanceModel().fit(queries.X, queries.relevance, query)
    other, _, _, delta = world(400, seed=2)
    found = model.predict(other.X)
    # Four standard errors of the mean relevance of what it was trained on.
    assert abs(found.mean() - delta.mean()) < 4 * queries.relevance.std() / math.sqrt(len(query))
    assert np.corrcoef(found, delta)[0, 1] > np.corrcoef(other.X[:, 0], delta)[0, 1] + 0.03


def test_a_model_from_clicks_is_corrected_for_position():
    queries, logger, _, delta = world(600, seed=1, most=20)
    log = simulate_clicks(queries, logger, sweeps=1, rng=0)
    fitted_log = RelevanceModel(classifier()).cross_fit(log)
    naive = log.click.mean()
    assert abs(fitted_log.prediction.mean() - delta.mean()) < 0.3 * abs(naive - delta.mean())
    assert np.corrcoef(fitted_log.prediction, delta)[0, 1] > 0.7
    model = RelevanceModel(classifier(), steps=2).fit_clicks(log)
    assert np.corrcoef(model.predict(log.X), delta)[0, 1] > 0.7


def test_cross_fitting_is_by_query():
    queries, logger, _, _ = world(60, seed=1)
    log = simulate_clicks(queries, logger, sweeps=2, rng=0)
    model = RelevanceModel(classifier(), folds=2, steps=1)
    before = model.cross_fit(log).prediction
    own = (log.fold(2) == 0)[log.impression]
    click = np.where(own, 1.0 - log.click, log.click)
    after = model.cross_fit(log.replace(click=click)).prediction
    assert_allclose(after[own], before[own])
    assert (after[~own] != before[~own]).any()


def test_models_that_cannot_be():
    queries, logger, _, _ = world(20)
    log = simulate_clicks(queries, logger)
    X = queries.X
    silent = log.replace(click=np.zeros(log.documents))
    for call, error, column in [
        (lambda: RelevanceModel().fit(X, np.zeros(len(X))), LogError, "relevance"),
        (lambda: RelevanceModel().fit(X, np.full(len(X), 2)), ParameterError, "relevance"),
        (lambda: RelevanceModel().predict(X), ParameterError, "model_"),
        (lambda: RelevanceModel(folds=1).fit(X, queries.relevance), ParameterError, "folds"),
        (lambda: RelevanceModel().fit_clicks(log.replace(X=None)), MissingColumnError, "X"),
        (lambda: RelevanceModel().fit_clicks(silent), LogError, "click"),
        (lambda: RelevanceModel().fit(X, queries.relevance, np.zeros(len(X))), LogError, "query"),
    ]:
        with refuses(error, column):
            call()


# -- the experiment --------------------------------------------------------------------------


def prepared_of(queries, logger, seed):
    train, validation, test = shuffled(queries, seed)
    return prepare(train, joined_queries(validation, test), logger, seed)


def test_the_experiment_is_prepared_and_drawn_by_its_seed():
    queries, _, _, _ = world(200, seed=3)
    one, same, other = (prepared_of(queries, 0.1, seed) for seed in (1, 1, 2))
    assert len(one.test.qid) == 80
    assert_allclose(one.prediction, same.prediction)
    assert set(one.test.qid.tolist()) != set(other.test.qid.tolist())
    log, scores = one.draw(2.5, 0)
    assert len(log) == 200
    assert_allclose(log.click, one.draw(2.5, 0)[0].click)
    log, scores = one.draw(1.0, 0)
    for metric in ("average rank", "sum of ranks"):
        assert true_value(log, scores, metric) == pytest.approx(one.truth(metric))


# -- on real data ----------------------------------------------------------------------------

DATA = Path(os.environ.get("OFFPOLICY_DATA", "")) / "ltr" / "MQ2008"


@pytest.mark.skipif(not DATA.is_dir(), reason="MQ2008 is not at hand")
def test_on_mq2008_the_chosen_m_is_near_the_best_in_hindsight():
    queries = ranking("MQ2008")
    chosen, hindsight, ips, dm = [], [], [], []
    for split in range(2):
        prepared = prepared_of(queries, 0.01, split)
        truth = prepared.truth("sum of ranks")
        curves = []
        for seed in range(4):
            log, scores = prepared.draw(1.0, seed)
            result = evaluate(log, scores, ["DM", "IPS"], "sum of ranks")
            chosen.append(result.headline.value / truth - 1)
            ips.append(result["IPS"].value / truth - 1)
            dm.append(result["DM"].value / truth - 1)
            grid = np.geomspace(0.5, 100, 12)
            curves.append(sweep(log, scores, "CAB", "sum of ranks").at(grid) / truth - 1)
        hindsight.append(np.mean(np.square(curves), axis=0).min())
    mse = [float(np.mean(np.square(errors))) for errors in (chosen, ips, dm)]
    assert mse[0] < mse[2]
    # Of four logs the best M in hindsight is fitted to their noise; 0.9 of it was measured here,
    # 1.1 and 2.9 on other splits.
    assert mse[0] < 2 * np.mean(hindsight)


def test_a_model_sees_of_features_only_their_order():
    """Whatever their scale: they are cut into classes of as many documents each."""
    queries, logger, _, _ = world(150, seed=3)
    log = simulate_clicks(queries, logger, sweeps=2, rng=0)
    bent = log.replace(X=np.exp(3.0 * log.X))
    plain, other = (RelevanceModel(steps=3).cross_fit(one).prediction for one in (log, bent))
    assert np.ptp(plain) > 0.2
    assert other == pytest.approx(plain, abs=0.03)


# -- metrics of one's own, and those that depend on other documents --------------------------------


def half_life(rank: int) -> float:
    return 0.5 ** (rank - 1)


def with_model(queries, logger, delta, sweeps: float) -> RankingLog:
    """Clicks, and relevance by its true probability."""
    queries = queries._replace(X=np.column_stack([queries.X, delta]))
    log = simulate_clicks(queries, logger, PositionBased(eta=1.0), sweeps=sweeps, rng=1)
    return log.replace(X=log.X[:, :-1], prediction=log.X[:, -1])


def test_a_metric_of_one_s_own_is_evaluated_like_any_other():
    queries, logger, _, delta = world(60)
    log = with_model(queries, logger, delta, sweeps=5)
    ranker = log.X[:, 0]
    like, own = (
        evaluate(log, ranker, ["IPS", "CAB"], metric)
        for metric in ("reciprocal rank", lambda rank: 1.0 / rank)
    )
    assert own.metric == "own metric"
    assert own.higher_is_better
    assert own.headline.value == like.headline.value
    assert own.headline.interval == like.headline.interval
    assert own["CAB"].value == like["CAB"].value
    assert RankingResult.from_json(own.to_json()) == own
    named = evaluate(log, ranker, ["IPS"], half_life)
    assert str(named).startswith("half_life: ")
    rank = ranks(np.asarray(ranker), log.offsets)
    truth = float((0.5 ** (rank - 1) * log.relevance).sum()) / len(log)
    assert true_value(log, ranker, half_life) == pytest.approx(truth)
    assert sweep(log, ranker, "CAB", half_life).at(math.inf) == pytest.approx(named["IPS"].value)


@pytest.mark.parametrize("metric", ["ndcg@5", "err"])
def test_what_depends_on_other_documents_takes_the_model_s_word_and_says_so(metric):
    queries, logger, _, delta = world(150)
    log = with_model(queries, logger, delta, sweeps=4)
    ranker = log.X[:, 0]
    known = evaluate(log, ranker, ["CAB"], metric)
    assert "metric-by-model" not in {one.code for one in known.findings}
    assert true_value(log, ranker, metric) in known.headline.interval
    blind = log.replace(relevance=None)
    told = evaluate(blind, ranker, ["CAB"], metric)
    assert "metric-by-model" in {one.code for one in told.findings}
    # Here the model is right on average, and what it is wrong in matters little.
    assert told.headline.value == pytest.approx(true_value(log, ranker, metric), rel=0.15)
    for ask in (evaluate, sweep):
        with refuses(MissingColumnError, "prediction"):
            ask(blind.replace(prediction=None), ranker, metric=metric)


def test_the_interval_knows_what_a_metric_can_be():
    queries, logger, _, delta = world(8)
    log = with_model(queries, logger, delta, sweeps=1)
    ranker = log.X[:, 0]
    for metric in METRICS:
        question = question_of(log, ranker, metric)
        low, high = question.metric.limits(question.lam, len(log))
        one = evaluate(log, ranker, ["DM"], metric)
        for interval in (one.headline.interval, one["DM"].interval):
            assert low <= interval.low <= interval.high <= high
        assert low <= true_value(log, ranker, metric) <= high
