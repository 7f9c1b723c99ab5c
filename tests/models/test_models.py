"""Reward models and estimated propensities: no decision is predicted from its own outcome."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import offpolicy as op
from offpolicy.errors import (
    LogError,
    MissingColumnError,
    ParameterError,
    PredictionError,
    PropensityError,
)
from offpolicy.models import _probabilities as probabilities
from offpolicy.models._cross_fitted import PropensityModel, RewardModel
from tests.support.cases import Shape, bandit_log
from tests.support.limits import limit

BanditLog, Columns = op.BanditLog, op.Columns


def dense_log(
    n: int = 400, K: int = 3, d: int = 2, seed: int = 0, noise: float = 0.3, **extra: Any
) -> BanditLog:
    """Rewards linear in the context, differently for every action; π₀ depends on the context."""
    rng = np.random.default_rng(seed)
    context = rng.standard_normal((n, d))
    logits = context @ rng.standard_normal((d, K))
    pi0 = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    action = (rng.random(n)[:, None] >= np.cumsum(pi0, axis=1)[:, :-1]).sum(axis=1)
    slope = rng.standard_normal((d, K))
    reward = (context @ slope)[np.arange(n), action] + noise * rng.standard_normal(n)
    given = {"reward": reward, "logging": pi0, "context": context} | extra
    return BanditLog.from_arrays(action=action, **given)


def ragged_log(n: int = 300, K: int = 5, seed: int = 0, **extra: Any) -> BanditLog:
    """Each decision has some of K named actions, in any order."""
    rng = np.random.default_rng(seed)
    shape = Shape(rng.integers(1, K + 1, n))
    pi0 = shape.dirichlet(rng, 2.0)
    given = {
        "reward": rng.random(n),
        "context": rng.standard_normal((n, 2)),
        "candidate": shape.names(rng, "abcdefgh"[:K]),
        "candidate_features": rng.standard_normal((len(pi0), 3)),
        "logging": pi0,
    } | extra
    return BanditLog.from_ragged(offsets=shape.offsets, chosen=shape.draw(rng, pi0), **given)


def without_features(log: BanditLog) -> BanditLog:
    return dataclasses.replace(log, candidate_features=None)


def chosen_names(log: BanditLog) -> list[Any]:
    return [log.actions[code] for code in log.candidate_codes()[log.chosen_index]]


def decisions(log: BanditLog) -> Any:
    """Row, its fold's number out of 5, and the indices of its candidates."""
    for i, fold in enumerate(log.fold(5)):
        yield i, int(fold), range(int(log.offsets[i]), int(log.offsets[i + 1]))


class Disjoint(BaseEstimator):
    """Remembers the row numbers (context column 0) it was fitted on; refuses to predict them."""

    fits: list[set[float]] = []  # noqa: RUF012
    predicted: list[int] = []  # noqa: RUF012

    def __init__(self, column: int = 0):
        self.column = column

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Disjoint:
        self.seen_ = set(X[:, self.column])
        self.mean_ = float(np.mean(y))
        self.classes_ = np.unique(y)
        self.weight_ = sample_weight
        Disjoint.fits.append(self.seen_)
        return self

    def look(self, X: Any) -> int:
        assert self.seen_.isdisjoint(X[:, self.column])
        Disjoint.predicted.append(len(X))
        return len(X)


class DisjointRegressor(RegressorMixin, Disjoint):
    def predict(self, X: Any) -> Any:
        return np.full(self.look(X), self.mean_)


class DisjointClassifier(ClassifierMixin, Disjoint):
    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X: Any) -> Any:
        return np.full((self.look(X), len(self.classes_)), 1.0 / len(self.classes_))


@pytest.fixture(autouse=True)
def nothing_seen():
    Disjoint.fits.clear()
    Disjoint.predicted.clear()


def numbered(log: BanditLog) -> BanditLog:
    """The log with its row number as first column of the context."""
    rows = np.arange(len(log), dtype=float)[:, None]
    return dataclasses.replace(log, context=np.hstack([rows, log.context]))


MODES = ["per-action", "shared"]

# -- no decision is predicted from its own outcome ---------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_memoriser_does_not_know_its_own_rewards(mode):
    rng = np.random.default_rng(1)
    log = dense_log(2000, reward=rng.standard_normal(2000))
    predicted = RewardModel(KNeighborsRegressor(1), mode=mode).fit(log).predict(log)
    # Under independence the standard error of the correlation is 0.022.
    assert abs(np.corrcoef(predicted[log.chosen_index], log.reward)[0, 1]) < 0.09
    naive = KNeighborsRegressor(1).fit(log.context, log.reward).predict(log.context)
    assert np.corrcoef(naive, log.reward)[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("recalibrate", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cluster", [False, True])
def test_no_model_sees_the_rows_it_predicts(mode, recalibrate, cluster):
    extra = {"cluster": np.arange(400) // 4} if cluster else {}
    log = numbered(dense_log(**extra))
    spy = RewardModel(DisjointRegressor(), mode=mode, recalibrate=recalibrate).fit(log)
    actions = 3 if mode == "per-action" else 1
    assert len(Disjoint.fits) == actions * (5 + 10 * recalibrate)
    Disjoint.predicted.clear()
    spy.predict(log)
    # Every candidate is asked about once: the work is linear in their number.
    assert sum(Disjoint.predicted) == 1200
    assert len(Disjoint.predicted) == actions * 5
    if cluster:
        groups = [{log.cluster[int(row)] for row in fit} for fit in Disjoint.fits[:5]]
        left_out = [{log.cluster[i] for i in np.flatnonzero(log.fold(5) == f)} for f in range(5)]
        if mode == "shared":
            assert all(a.isdisjoint(b) for a, b in zip(groups, left_out, strict=True))


@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
def test_no_classifier_sees_the_rows_it_predicts(calibration):
    log = numbered(dense_log())
    spy = PropensityModel(DisjointClassifier(), calibration=calibration).fit(log)
    assert len(Disjoint.fits) == (5 if calibration is None else 15)
    Disjoint.predicted.clear()
    spy.predict(log)
    assert sum(Disjoint.predicted) == 400


@pytest.mark.parametrize("fold", [0, 3])
@pytest.mark.parametrize("recalibrate", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_own_rewards_change_nothing(mode, recalibrate, fold):
    log = dense_log()
    own = log.fold(5) == fold
    other = dataclasses.replace(log, reward=np.where(own, -7.0 * log.reward, log.reward))
    model = RewardModel(Ridge(), mode=mode, recalibrate=recalibrate)
    before, after = clone(model).fit(log).predict(log), clone(model).fit(other).predict(log)
    mine = np.repeat(own, 3)
    assert np.array_equal(before[mine], after[mine])
    assert (before[~mine] != after[~mine]).mean() > 0.5


def test_own_rewards_change_nothing_in_a_recalibration():
    log = dense_log()
    own = log.fold(5) == 2
    other = dataclasses.replace(log, reward=np.where(own, -7.0 * log.reward, log.reward))
    q = np.random.default_rng(0).random(1200)
    model = RewardModel(mode="recalibrate")
    before = clone(model).fit(log, prediction=q).predict(log)
    after = clone(model).fit(other, prediction=q).predict(other)
    assert np.array_equal(before[np.repeat(own, 3)], after[np.repeat(own, 3)])
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
def test_own_choices_change_nothing(calibration):
    log = dense_log(600)
    own = log.fold(5) == 1
    other = dataclasses.replace(
        log, chosen=np.where(own, (log.chosen + 1) % 3, log.chosen), logging=None, propensity=None
    )
    model = PropensityModel(GaussianNB(), calibration=calibration)
    before, after = clone(model).fit(log).predict(log), clone(model).fit(other).predict(log)
    mine = np.repeat(own, 3)
    assert np.array_equal(before[mine], after[mine])
    assert (before[~mine] != after[~mine]).mean() > 0.5


# -- against a loop by hand ----------------------------------------------------------------------


def per_action_by_hand(log: BanditLog, make: Any, weight: np.ndarray) -> np.ndarray:
    chosen, fold, out, fitted = chosen_names(log), log.fold(5), [], {}

    def learned(f: int, name: Any) -> Any:
        train = [j for j in range(len(log)) if fold[j] != f and weight[j] > 0]
        scale = np.mean([weight[j] for j in train])
        overall = sum(weight[j] * log.reward[j] for j in train) / (scale * len(train))
        rows = [j for j in train if chosen[j] == name]
        w = [weight[j] / scale for j in rows]
        if len(rows) < 10:
            total = sum(a * log.reward[j] for a, j in zip(w, rows, strict=True))
            return (total + 10 * overall) / (sum(w) + 10)
        w = np.array(w) / np.mean(w)
        return make().fit(log.context[rows], log.reward[rows], sample_weight=w)

    for i, f, candidates in decisions(log):
        for k in candidates:
            name = log.actions[log.candidate_codes()[k]]
            if (f, name) not in fitted:
                fitted[f, name] = learned(f, name)
            one = fitted[f, name]
            out.append(one if np.isscalar(one) else one.predict(log.context[[i]])[0])
    return np.array(out)


def shared_by_hand(log: BanditLog, make: Any, weight: np.ndarray) -> np.ndarray:
    codes, fold, out = log.candidate_codes(), log.fold(5), []

    def x(i: int, k: int) -> np.ndarray:
        if log.candidate_features is not None:
            own = log.candidate_features[k]
        else:
            own = np.array([float(codes[k] == code) for code in range(len(log.actions))])
        return np.concatenate([[] if log.context is None else log.context[i], own])

    fitted = {}
    for f in range(5):
        rows = [j for j in range(len(log)) if fold[j] != f and weight[j] > 0]
        X = np.array([x(j, int(log.chosen_index[j])) for j in rows])
        w = weight[rows] / weight[rows].mean()
        fitted[f] = make().fit(X, log.reward[rows], sample_weight=w)
    for i, f, candidates in decisions(log):
        out += [fitted[f].predict(x(i, k)[None, :])[0] for k in candidates]
    return np.array(out)


def with_row_weight(log: BanditLog) -> BanditLog:
    weight = np.random.default_rng(9).random(len(log)) + 0.1
    return dataclasses.replace(log, row_weight=weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "ragged", "few rows"])
def test_per_action_is_the_loop(kind, weighted):
    # With 60 decisions some of five actions have fewer than ten rows outside some fold.
    log = dense_log(120) if kind == "dense" else ragged_log(60 if kind == "few rows" else 150)
    log = with_row_weight(log) if weighted else log
    model = RewardModel(Ridge(0.1), mode="per-action").fit(log)
    weight = np.ones(len(log)) if log.row_weight is None else log.row_weight
    by_hand = per_action_by_hand(log, lambda: Ridge(0.1), weight)
    np.testing.assert_allclose(model.predict(log), by_hand, rtol=1e-9, atol=1e-12)
    means = sum(5 - len(one.fitted) for one in model.models_) if kind != "dense" else None
    assert means is None or (means > 0) == (kind == "few rows")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "features", "no context", "one-hot"])
def test_shared_is_the_loop(kind, weighted):
    log = dense_log(100) if kind == "dense" else ragged_log(100)
    if kind == "one-hot":
        log = without_features(log)
    if kind == "no context":
        log = dataclasses.replace(log, context=None)
    log = with_row_weight(log) if weighted else log
    model = RewardModel(Ridge(0.1), mode="shared").fit(log)
    weight = np.ones(len(log)) if log.row_weight is None else log.row_weight
    by_hand = shared_by_hand(log, lambda: Ridge(0.1), weight)
    np.testing.assert_allclose(model.predict(log), by_hand, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_a_classifier_predicts_the_mean_of_its_classes(mode):
    rng = np.random.default_rng(3)
    log = dense_log(500, K=2)
    log = dataclasses.replace(log, reward=rng.choice([-1.0, 0.5, 2.25], 500))
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    found = RewardModel(tree, mode=mode).fit(log).predict(log)
    chosen, fold = log.chosen, log.fold(5)
    eye = np.eye(2)
    for i, f, candidates in list(decisions(log))[:40]:
        rows = np.flatnonzero(fold != f)
        for a, k in enumerate(candidates):
            if mode == "per-action":
                rows_a = rows[chosen[rows] == a]
                X, x = log.context[rows_a], log.context[[i]]
            else:
                rows_a = rows
                X = np.hstack([log.context[rows], eye[chosen[rows]]])
                x = np.concatenate([log.context[i], eye[a]])[None, :]
            fitted = clone(tree).fit(X, log.reward[rows_a].astype(str))
            p = dict(zip(fitted.classes_.astype(float), fitted.predict_proba(x)[0], strict=True))
            assert found[k] == pytest.approx(sum(value * share for value, share in p.items()))


def test_a_classifier_of_binary_rewards_predicts_the_probability_of_one():
    rng = np.random.default_rng(3)
    log = dense_log(400, K=2)
    log = dataclasses.replace(log, reward=(rng.random(400) < 0.3).astype(float))
    found = RewardModel(LogisticRegression(), mode="per-action").fit(log).predict(log)
    f = int(log.fold(5)[0])
    rows = (log.fold(5) != f) & (log.chosen == 1)
    model = LogisticRegression().fit(log.context[rows], log.reward[rows])
    assert found[1] == pytest.approx(model.predict_proba(log.context[[0]])[0, 1], rel=1e-6)


def test_one_class_only_is_a_mean():
    log = dataclasses.replace(dense_log(400, K=2), reward=np.ones(400))
    for mode in MODES:
        model = RewardModel(LogisticRegression(), mode=mode).fit(log)
        np.testing.assert_allclose(model.predict(log), 1.0, rtol=1e-12)
    # Action 1 never earns anything: its mean of 0 is pulled towards the overall mean.
    log = dataclasses.replace(log, reward=(log.chosen == 0) * (np.arange(400) % 2.0))
    predicted = RewardModel(LogisticRegression(), mode="per-action").fit(log).predict(log)
    f = log.fold(5)
    train = f != f[0]
    overall, rows = log.reward[train].mean(), (train & (log.chosen == 1)).sum()
    assert predicted[1] == pytest.approx(10 * overall / (rows + 10))


# -- modes -----------------------------------------------------------------------------------------


def test_auto_chooses():
    def mode_of(log: BanditLog) -> str:
        return RewardModel(Ridge()).fit(log).mode_

    assert mode_of(ragged_log()) == "shared"
    assert mode_of(without_features(ragged_log(150))) == "shared"
    assert mode_of(without_features(ragged_log(300))) == "per-action"
    action = np.array([0] * 50 + [1] * 60)
    for shortest, mode in ((0, "per-action"), (1, "shared")):
        log = bandit_log(
            action[shortest:],
            np.zeros(110 - shortest),
            actions=2,
            context=np.zeros((110 - shortest, 1)),
        )
        assert mode_of(log) == mode


def all_models() -> list[Any]:
    tree = DecisionTreeRegressor(max_depth=3)
    shy = DecisionTreeClassifier(max_depth=2)
    return [
        RewardModel(tree, mode="per-action"),
        RewardModel(tree, mode="shared"),
        RewardModel(tree, mode="auto", recalibrate=True),
        RewardModel(tree, mode="per-action", weighting="ips"),
        RewardModel(tree, mode="shared", weighting="mrdr", recalibrate=True),
        RewardModel(mode="recalibrate"),
        RewardModel(mode="recalibrate", weighting="ips"),
        PropensityModel(shy, calibration=None),
        PropensityModel(shy, calibration="sigmoid"),
        PropensityModel(shy, calibration="isotonic", floor=0.01),
    ]


def fit(model: Any, log: BanditLog) -> Any:
    if isinstance(model, PropensityModel):
        return model.fit(log)
    recalibration = model.mode == "recalibrate"
    q = np.linspace(0.0, 1.0, int(log.offsets[-1])) if recalibration else None
    return model.fit(log, op.Uniform(), prediction=q)


@pytest.mark.parametrize("k", range(10))
@pytest.mark.parametrize("make", [dense_log, ragged_log])
@pytest.mark.parametrize("cluster", [False, True])
def test_slices_predict_what_the_whole_predicts(k, make, cluster):
    log = make(150, cluster=[f"u{i // 3}" for i in range(150)] if cluster else None)
    model = fit(all_models()[k], log)
    whole = model.predict(log)
    for start, stop in ((0, 1), (7, 8), (40, 150), (149, 150)):
        part = log.rows(start, stop)
        expected = whole[log.offsets[start] : log.offsets[stop]]
        np.testing.assert_allclose(model.predict(part), expected, rtol=1e-12)


@pytest.mark.parametrize("k", range(10))
def test_pieces_change_nothing(k, monkeypatch):
    log = ragged_log(120)
    model = fit(all_models()[k], log)
    whole = model.predict(log)
    limit(monkeypatch, "offpolicy.models._inputs.MOST_ROWS", 7)
    np.testing.assert_allclose(model.predict(log), whole, rtol=1e-12)
    limit(monkeypatch, "offpolicy.models._inputs.MOST_CELLS", 1)
    np.testing.assert_allclose(model.predict(log), whole, rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_pieces_are_as_small_as_said(mode, monkeypatch):
    log = numbered(dense_log())
    model = RewardModel(DisjointRegressor(), mode=mode).fit(log)
    limit(monkeypatch, "offpolicy.models._inputs.MOST_ROWS", 50)
    Disjoint.predicted.clear()
    model.predict(log)
    assert max(Disjoint.predicted) == 50
    assert sum(Disjoint.predicted) == 1200
    limit(monkeypatch, "offpolicy.models._inputs.MOST_CELLS", 60)
    Disjoint.predicted.clear()
    model.predict(log)
    assert max(Disjoint.predicted) == 60 // (3 if mode == "per-action" else 6)


@pytest.mark.parametrize("model", [Ridge(), make_pipeline(StandardScaler(), Ridge())])
@pytest.mark.parametrize("make", [dense_log, ragged_log])
def test_what_linear_models_say_of_contexts_and_actions_adds_up(model, make):
    log = dataclasses.replace(make(200), candidate_features=None)
    found = RewardModel(model, mode="shared").fit(log)
    assert all(one.additive for one in found.models_)
    strange = dataclasses.replace(log, actions=("never seen", *log.actions[1:]))
    fast = [found.predict(log), found.predict(strange)]
    found.models_ = [dataclasses.replace(one, additive=False) for one in found.models_]
    slow = [found.predict(log), found.predict(strange)]
    np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["forest", "tree", "classifier", "refuses", "text"])
def test_many_actions_are_sparse_where_the_model_allows(kind, monkeypatch):
    rng = np.random.default_rng(0)
    context = rng.standard_normal((600, 3))
    reward = rng.integers(0, 3, 600) / 2.0 + (context[:, 0] > 0)
    log = bandit_log(
        rng.integers(0, 60, 600),
        reward,
        actions=60,
        context=context.astype(object) if kind == "text" else context,
    )
    model = {
        "forest": RandomForestRegressor(5, max_depth=6, random_state=0),
        "tree": DecisionTreeRegressor(max_depth=6, random_state=0),
        "classifier": DecisionTreeClassifier(max_depth=6, random_state=0),
        "refuses": make_pipeline(StandardScaler(), DecisionTreeRegressor(random_state=0)),
        "text": DecisionTreeRegressor(max_depth=6, random_state=0),
    }[kind]
    found = RewardModel(model).fit(log)
    assert found.mode_ == "shared"
    assert [one.sparse for one in found.models_] == [kind != "refuses"] * 5
    limit(monkeypatch, "offpolicy.models._fits.MANY_ACTIONS", 1000)
    dense = RewardModel(model).fit(log)
    assert not any(one.sparse for one in dense.models_)
    np.testing.assert_allclose(found.predict(log), dense.predict(log), rtol=1e-9, atol=1e-9)
    strange = dataclasses.replace(log, actions=("never seen", *log.actions[1:]))
    np.testing.assert_allclose(found.predict(strange), dense.predict(strange), rtol=1e-9, atol=1e-9)


@st.composite
def odd_logs(draw: st.DrawFn) -> BanditLog:
    """One action or several, equal contexts, equal rewards, propensities down to 1e-200."""
    n, K = draw(st.integers(40, 60)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = Shape(rng.integers(1, K + 1, n))
    tiny = draw(st.sampled_from([0.0, 1e-8, 1e-200]))
    pi0 = rng.random(len(shape.decision)) * tiny if tiny else np.ones(len(shape.decision))
    pi0[shape.offsets[:-1]] = 1.0
    pi0 = shape.normalised(pi0)
    values = draw(st.sampled_from([[0.0], [0.0, 1.0], [-3.0, 0.0, 1e6]]))
    return BanditLog.from_ragged(
        offsets=shape.offsets,
        chosen=shape.draw(rng, pi0 > 0),
        candidate=shape.names(rng, "abcdef"[:K]),
        reward=rng.choice(values, n),
        logging=pi0,
        context=rng.integers(0, draw(st.sampled_from([1, 3])), (n, 1)).astype(float),
        row_weight=rng.random(n) + 0.01 if draw(st.booleans()) else None,
    )


@settings(max_examples=25, deadline=None)
@given(log=odd_logs(), k=st.integers(0, 9))
def test_odd_logs(log, k):
    model = all_models()[k]
    if getattr(model, "weighting", "none") == "mrdr":
        # Where the logger had no choice, MRDR has nothing to learn.
        fold, teaches = log.fold(5), log.propensity < 1.0
        pairs = itertools.combinations(range(5), 2)
        if min((teaches & (fold != f) & (fold != g)).sum() for f, g in pairs) < 10:
            text = refused(LogError, lambda: fit(model, log))
            assert "decisions with weight above 0 to learn from" in text
            return
    predicted = fit(model, log).predict(log)
    assert predicted.shape == (log.offsets[-1],)
    if isinstance(model, RewardModel):
        low, high = log.reward.min(), log.reward.max()
        slack = 1e-9 * (high - low)
        assert predicted.min() >= low - slack
        assert predicted.max() <= high + slack
    else:
        assert predicted.min() >= 0.0
        np.testing.assert_allclose(np.add.reduceat(predicted, log.offsets[:-1]), 1.0, rtol=1e-12)
        assert (model.apply(log).propensity > 0.0).all()


@pytest.mark.parametrize("mode", MODES)
def test_actions_are_matched_by_name(mode):
    log = without_features(ragged_log(200))
    model = RewardModel(Ridge(), mode=mode).fit(log)
    order = np.random.default_rng(0).permutation(len(log.actions))
    renamed = dataclasses.replace(
        log,
        actions=tuple(log.actions[k] for k in order),
        candidate=np.argsort(order)[log.candidate],
    )
    assert np.array_equal(model.predict(renamed), model.predict(log))


def test_an_unknown_action_gets_the_overall_mean():
    log = without_features(ragged_log(200))
    model = RewardModel(Ridge(), mode="per-action").fit(log)
    strange = dataclasses.replace(log, actions=("never seen", *log.actions[1:]))
    found, fold = model.predict(strange), log.fold(5)
    at = np.flatnonzero(log.candidate == 0)
    rows = np.repeat(np.arange(200), np.diff(log.offsets))[at]
    expected = [log.reward[fold != fold[row]].mean() for row in rows]
    np.testing.assert_allclose(found[at], expected, rtol=1e-12)
    rest = log.candidate != 0
    assert np.array_equal(found[rest], model.predict(log)[rest])


def test_an_unknown_action_is_no_action_to_a_shared_model():
    log = without_features(ragged_log(200))
    model = RewardModel(Ridge(), mode="shared").fit(log)
    strange = dataclasses.replace(log, actions=("never seen", *log.actions[1:]))
    k = int(np.flatnonzero(log.candidate == 0)[0])
    row = int(np.searchsorted(log.offsets, k, side="right")) - 1
    fitted = model.models_[log.fold(5)[row]].fitted.model
    expected = fitted.intercept_ + log.context[row] @ fitted.coef_[:2]
    assert model.predict(strange)[k] == pytest.approx(expected)


def test_fitted_on_what_was_chosen_only():
    known = dataclasses.replace(dense_log(400), actions=("x", "y", "z"))
    narrow = bandit_log(chosen_names(known), known.reward, context=known.context)
    a, b = (RewardModel(Ridge(), mode="per-action").fit(log) for log in (known, narrow))
    assert np.array_equal(a.predict(known), b.predict(known))


def test_contexts_need_not_be_numbers():
    rng = np.random.default_rng(0)
    town = rng.choice(["Rome", "Oslo", "Lima"], 600)
    age = rng.integers(20, 60, 600)
    context = np.array(list(zip(town.tolist(), age.tolist(), strict=True)), dtype=object)
    action = rng.integers(0, 2, 600)
    log = bandit_log(action, (town == "Oslo") * 1.0 + action, actions=2, context=context)
    encode = make_column_transformer((OneHotEncoder(), [0]), remainder="passthrough")
    for mode in MODES:
        predicted = RewardModel(make_pipeline(encode, Ridge(1e-6)), mode=mode).fit(log).predict(log)
        np.testing.assert_allclose(predicted[log.chosen_index], log.reward, atol=1e-3)
        plain = RewardModel(Ridge(1e-6), mode=mode).fit(log)
        np.testing.assert_allclose(plain.predict(log)[log.chosen_index], log.reward, atol=1e-3)
    only_age = make_column_transformer(("passthrough", [0, 1]))
    text = refused(LogError, lambda: RewardModel(make_pipeline(only_age, Ridge())).fit(log))
    assert re.fullmatch(
        r"The context is of dtype object, and Pipeline could not be fitted to it: could not "
        r"convert string to float: '\w+'. Make it numbers, or give a pipeline that does.",
        text,
    )
    chooser = PropensityModel(make_pipeline(encode, GaussianNB()), calibration=None)
    np.testing.assert_allclose(chooser.fit(log).predict(log), 0.5, atol=0.2)


def test_a_pipeline_by_names_is_given_a_frame():
    """Whether the log is of a frame or of arrays with names, for both models and in every mode."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "town": rng.choice(["Rome", "Oslo", None], 600), "age": rng.integers(20, 60, 600) * 1.0,
    })  # fmt: skip
    frame.loc[::9, "age"] = np.nan
    action = rng.integers(0, 2, 600)
    reward = (frame["town"] == "Oslo") * 1.0 + action
    columns = frame.assign(action=action, reward=reward, logging=[[0.5, 0.5]] * 600)
    columns["candidates"] = [[0, 1]] * 600
    logs = [
        BanditLog.from_frame(columns, Columns(context=["town", "age"])),
        bandit_log(action, reward, actions=2, context=frame),
        bandit_log(action, reward, actions=2, context=frame.to_numpy(),
                   context_names=["town", "age"]),
    ]  # fmt: skip
    by_name = make_column_transformer(
        (OneHotEncoder(), ["town"]), (SimpleImputer(), make_column_selector(dtype_include=float)),
    )  # fmt: skip
    for log in logs:
        assert log.context_names == ("town", "age")
        for mode in MODES:
            model = RewardModel(make_pipeline(by_name, Ridge(1e-6)), mode=mode).fit(log)
            model = pickle.loads(pickle.dumps(model))
            np.testing.assert_allclose(model.predict(log)[log.chosen_index], reward, atol=1e-2)
        chooser = PropensityModel(make_pipeline(by_name, GaussianNB()), calibration=None)
        np.testing.assert_allclose(chooser.fit(log).predict(log), 0.5, atol=0.3)
    bare = bandit_log(action, reward, actions=2, context=frame.to_numpy())
    text = refused(LogError, lambda: RewardModel(make_pipeline(by_name, Ridge())).fit(bare))
    assert "asks for columns of the context by name" in text
    turned = bandit_log(action, reward, actions=2, context=frame[["age", "town"]])
    text = refused(LogError, lambda: model.predict(turned))
    assert "The context is age, town, but the RewardModel was fitted with town, age." in text


def test_a_classifier_fitted_on_a_frame_is_given_one():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 90), "town": rng.choice(["a", "b"], 90)})
    action = rng.integers(0, 2, 90)
    by_name = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(by_name, LogisticRegression()).fit(frame, action)
    log = bandit_log(action, rng.random(90), actions=2, context=frame)
    found = op.Classifier(model).probabilities(log).reshape(90, 2)
    np.testing.assert_allclose(found, model.predict_proba(frame), rtol=1e-12)


# -- weighting -------------------------------------------------------------------------------------


def clipped(weight: np.ndarray) -> np.ndarray:
    positive = np.sort(weight[weight > 0.0])
    return np.minimum(weight, positive[int(np.ceil(0.99 * (len(positive) - 1)))])


@pytest.mark.parametrize("weighting", ["ips", "mrdr"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("row_weight", [False, True])
def test_weights_are_those_of_the_formula(weighting, deterministic, row_weight):
    log = with_row_weight(dense_log()) if row_weight else dense_log()
    if deterministic:
        pi = np.eye(3)[np.arange(400) % 3]
    else:
        pi = np.random.default_rng(5).dirichlet(np.ones(3), 400)
    spy = RewardModel(DisjointRegressor(), mode="shared", weighting=weighting)
    spy.fit(numbered(log), pi)
    chosen, p = pi[np.arange(400), log.chosen], log.propensity
    weight = chosen / p if weighting == "ips" else chosen**2 * (1 - p) / p**2
    weight = clipped(weight) * (log.row_weight if row_weight else 1.0)
    for f, model in enumerate(spy.models_):
        rows = (log.fold(5) != f) & (weight > 0)
        expected = weight[rows] / weight[rows].mean()
        np.testing.assert_allclose(model.fitted.model.weight_, expected, rtol=1e-9)
    only_chosen = RewardModel(DisjointRegressor(), mode="shared", weighting=weighting)
    only_chosen.fit(numbered(log), chosen)
    for a, b in zip(spy.models_, only_chosen.models_, strict=True):
        assert np.array_equal(a.fitted.model.weight_, b.fitted.model.weight_)


@pytest.mark.parametrize("weighting", ["ips", "mrdr"])
def test_huge_weights_do_not_overflow(weighting):
    p = np.full(200, 0.5)
    p[:50] = 1e-290
    logging = np.stack([p, 1.0 - p], axis=1)
    log = bandit_log(
        np.zeros(200, dtype=int), np.arange(200.0), logging, context=np.arange(200.0)[:, None]
    )
    model = RewardModel(Ridge(), mode="shared", weighting=weighting).fit(log, op.Uniform())
    assert np.isfinite(model.predict(log)).all()


def test_one_tiny_propensity_does_not_silence_the_others():
    log = numbered(dense_log())
    logging = log.logging.reshape(400, 3).copy()
    logging[0] = 0.5
    logging[0, log.chosen[0]] = 1e-200
    logging[0] /= logging[0].sum()
    tiny = dataclasses.replace(log, logging=logging.reshape(-1), propensity=None)
    spies = [
        RewardModel(DisjointRegressor(), mode="shared", weighting="mrdr").fit(one, op.Uniform())
        for one in (log, tiny)
    ]
    a, b = (spy.models_[tiny.fold(5)[0]].fitted.model.weight_ for spy in spies)
    np.testing.assert_allclose(a, b, rtol=0.2)  # the clip moved by one row; row 0 is left out


def test_scaling_row_weights_changes_nothing():
    log = with_row_weight(dense_log())
    double = dataclasses.replace(log, row_weight=4.0 * log.row_weight)
    for model in (RewardModel(Ridge(), recalibrate=True), PropensityModel(GaussianNB())):
        a, b = clone(model).fit(log).predict(log), clone(model).fit(double).predict(double)
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_a_row_weight_of_two_is_two_rows():
    rows = np.repeat(np.arange(200), 1 + np.arange(200) % 2)
    base = dense_log(200)
    once = dataclasses.replace(base, row_weight=1.0 + np.arange(200) % 2, cluster=np.arange(200))
    twice = bandit_log(
        base.chosen[rows], base.reward[rows], actions=3, context=base.context[rows], cluster=rows
    )
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    for model in (LinearRegression(), make_pipeline(StandardScaler(), LinearRegression())):
        a = RewardModel(model, mode="shared", recalibrate=True).fit(once).predict(once)
        b = RewardModel(model, mode="shared", recalibrate=True).fit(twice).predict(twice)
        np.testing.assert_allclose(a.reshape(200, 3), b.reshape(-1, 3)[first], rtol=1e-9)
    classifier = GaussianNB()
    for calibration in (None, "isotonic"):
        a = PropensityModel(classifier, calibration=calibration).fit(once).predict(once)
        b = PropensityModel(classifier, calibration=calibration).fit(twice).predict(twice)
        np.testing.assert_allclose(a.reshape(200, 3), b.reshape(-1, 3)[first], atol=1e-5)


def heteroscedastic(rng: np.random.Generator, n: int, sharp: float) -> tuple[BanditLog, np.ndarray]:
    """Propensities from 0.02 to 0.98 along the context, and rewards that no line can follow."""
    x = rng.uniform(-1.0, 1.0, n)
    p = 0.02 + 0.96 / (1.0 + np.exp(-5.0 * x))
    action = (rng.random(n) < p).astype(int)
    delta = np.stack([np.zeros(n), np.where(x < -0.5, 3.0 * (x + 0.5) ** 2 + x, -2.0 * x)], axis=1)
    reward = delta[np.arange(n), action] + 0.1 * rng.standard_normal(n)
    log = bandit_log(action, reward, np.stack([1 - p, p], axis=1), context=x[:, None])
    return log, np.tile([1.0 - sharp, sharp], (n, 1))


@pytest.mark.parametrize("sharp", [1.0, 0.8])
def test_mrdr_lowers_the_variance_of_dr(sharp):
    rng = np.random.default_rng(11)
    variance: dict[str, list[float]] = {"none": [], "mrdr": []}
    for _ in range(15):
        log, policy = heteroscedastic(rng, 1000, sharp)
        for weighting, sums in variance.items():
            model = RewardModel(LinearRegression(), mode="per-action", weighting=weighting)
            delta_hat = model.fit(log, policy)
            row = op.evaluate(log, policy, prediction=delta_hat, estimators=["DR"])["DR"]
            sums.append(row.stderr**2)
    # Measured: 0.11 and 0.12, and the same for the spread of the values over 200 logs.
    assert np.mean(variance["mrdr"]) < 0.4 * np.mean(variance["none"])


def test_what_mrdr_leaves_out_for_stochastic_policies_is_little():
    """DR's variance with the best linear model by its own objective, and by that of "mrdr", in
    closed form: errors of the actions of one decision interact in the first only."""
    rng = np.random.default_rng(0)
    excess = []
    for k in range(600):
        pi0 = rng.dirichlet(np.full(4, (1.0, 3.0, 20.0)[k % 3]), 60) + 0.005
        pi0 /= pi0.sum(axis=1, keepdims=True)
        pi = rng.dirichlet(np.full(4, (0.3, 1.0, 5.0)[k // 3 % 3]), 60)
        delta = 2.0 * rng.standard_normal((60, 1)) + rng.standard_normal((60, 4))
        phi = rng.standard_normal((60, 1, 3)) + 0.7 * rng.standard_normal((60, 4, 3))
        phi[:, :, 0] = 1.0
        diagonal = np.einsum("xa,ab->xab", pi**2 * (1.0 - pi0) / pi0, np.eye(4))
        whole = np.einsum("xa,ab->xab", pi**2 / pi0, np.eye(4)) - np.einsum("xa,xb->xab", pi, pi)

        def variance(form, phi=phi, delta=delta, whole=whole):
            gram = np.einsum("xad,xab,xbe->de", phi, form, phi)
            beta = np.linalg.solve(gram, np.einsum("xad,xab,xb->d", phi, form, delta))
            error = delta - phi @ beta
            return np.einsum("xa,xab,xb->", error, whole, error)

        excess.append(variance(diagonal) / variance(whole))
    assert min(excess) >= 1.0 - 1e-9
    assert np.exp(np.mean(np.log(excess))) < 1.008
    assert 1.02 < max(excess) < 1.09


# -- recalibration ---------------------------------------------------------------------------------


def test_recalibration_is_isotonic_regression_by_fold():
    log = with_row_weight(dense_log())
    q = np.round(np.random.default_rng(0).random(1200), 1)
    model = RewardModel(mode="recalibrate").fit(log, prediction=q)
    found, fold, at = model.predict(log), log.fold(5), log.chosen_index
    for f in range(5):
        rows = fold != f
        by_hand = IsotonicRegression(out_of_bounds="clip").fit(
            q[at][rows], log.reward[rows], sample_weight=log.row_weight[rows]
        )
        mine = np.repeat(~rows, 3)
        np.testing.assert_allclose(found[mine], by_hand.predict(q[mine]), rtol=1e-12)


def test_recalibration_repairs_a_distorted_model():
    rng = np.random.default_rng(2)
    truth = rng.random((3000, 2))
    action = rng.integers(0, 2, 3000)
    reward = (rng.random(3000) < truth[np.arange(3000), action]).astype(float)
    log = BanditLog.from_arrays(action=action, reward=reward, actions=2)
    distorted = 5.0 + truth**4
    fixed = RewardModel(mode="recalibrate").fit(log, prediction=distorted).predict(log)
    assert np.abs(fixed - truth.reshape(-1)).mean() < 0.06  # measured: 0.032


def test_recalibrate_true_repairs_a_biased_estimator():
    class Biased(LinearRegression):
        def predict(self, X: Any) -> Any:
            return np.exp(super().predict(X)) + 3.0

    log = dense_log(1500)
    error = []
    for recalibrate in (False, True):
        model = RewardModel(Biased(), mode="per-action", recalibrate=recalibrate).fit(log)
        error.append(np.abs(model.predict(log)[log.chosen_index] - log.reward).mean())
    best = RewardModel(LinearRegression(), mode="per-action").fit(log).predict(log)
    least = np.abs(best[log.chosen_index] - log.reward).mean()
    assert error[0] > 2.0
    assert error[1] < 1.3 * least


def test_what_to_recalibrate_may_be_given_in_three_ways():
    import polars as pl

    rng = np.random.default_rng(0)
    q = rng.random((100, 2))
    frame = pl.DataFrame(
        {
            "action": rng.integers(0, 2, 100),
            "reward": rng.random(100),
            "logging": np.full((100, 2), 0.5).tolist(),
            "q": q.tolist(),
        }
    )
    log = BanditLog.from_frame(frame)

    class Given:
        def predict(self, log: BanditLog) -> np.ndarray:
            return log.named_column("q")

    found = [
        RewardModel(mode="recalibrate").fit(log, prediction=given) for given in (q, "q", Given())
    ]
    whole = found[0].predict(log)
    part = log.rows(20, 60)
    for model in found:
        assert np.array_equal(model.predict(log), whole)
        assert np.array_equal(model.predict(part), whole[40:120])
        assert np.array_equal(model.predict(part, prediction=q[20:60]), whole[40:120])
        again = model.predict(part, prediction=np.zeros(80))
        assert not np.array_equal(again, whole[40:120])
    assert (q == np.asarray(frame["q"].to_list())).all()  # what was given is left alone


@pytest.mark.parametrize("change", ["order", "start", "length"])
def test_an_array_of_predictions_serves_its_own_log_only(change):
    log = dense_log(60)
    model = RewardModel(mode="recalibrate").fit(log, prediction=np.zeros(180))
    if change == "order":
        other = dataclasses.replace(log, reward=log.reward[::-1].copy())
    elif change == "start":
        other = dataclasses.replace(log.rows(0, 50), first_row=20)
    else:
        other = dense_log(61)
    with pytest.raises(PredictionError) as caught:
        model.predict(other)
    assert str(caught.value) == (
        "prediction was given to fit as an array, and this is not the log it belongs to. Use "
        "predict(log, prediction=…), or give fit a column name or a model."
    )


# -- estimated propensities ------------------------------------------------------------------------


def test_a_log_may_have_no_propensity():
    log = dense_log(300)
    bare = bandit_log(log.chosen, log.reward, actions=3, context=log.context)
    assert bare.propensity is None
    assert bare.logging is None
    model = PropensityModel(GaussianNB()).fit(bare)
    assert np.array_equal(model.predict(bare), model.predict(log))
    result = op.evaluate(model.apply(bare), op.Uniform(), estimators=["IPS", "SNIPS"])
    assert np.isfinite(result["IPS"].value)


@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
def test_known_propensities_are_recovered(calibration):
    log = dense_log(4000)
    model = PropensityModel(LogisticRegression(), calibration=calibration).fit(log)
    # Measured: 0.009, 0.010 and 0.019.
    assert np.abs(model.predict(log) - log.logging).mean() < 0.03


def test_ragged_propensities_are_those_of_the_candidates():
    log = ragged_log(4000, K=3)
    shape = Shape(np.diff(log.offsets))
    pi0 = shape.normalised(np.exp([0.0, 1.0, -1.0])[log.candidate])
    chosen = shape.draw(np.random.default_rng(0), pi0)
    log = dataclasses.replace(log, chosen=chosen, logging=None, propensity=None)
    model = PropensityModel(LogisticRegression()).fit(log)
    # The classifier itself does not know what the candidates were: this is approximate.
    assert np.abs(model.predict(log) - pi0).mean() < 0.06


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibration_tames_an_overconfident_classifier(calibration):
    log = dense_log(3000, noise=0.0)
    # Naive Bayes takes ten copies of one column for ten pieces of evidence.
    log = dataclasses.replace(log, context=np.repeat(log.context, 10, axis=1))

    def loss(calibration: str | None) -> float:
        model = PropensityModel(GaussianNB(), calibration=calibration).fit(log)
        return float(-np.log(model.predict(log)[log.chosen_index]).mean())

    # Measured: 2.99 as it is, 0.92 with either; the truth's own is 0.90.
    assert loss(calibration) < 0.5 * loss(None)


@pytest.mark.parametrize("calibration", [None, "sigmoid", "isotonic"])
def test_propensities_by_hand(calibration):
    """A plain loop: pairs of folds left out, one map per action, renormalised."""
    log = dataclasses.replace(ragged_log(240, K=3), candidate_features=None)
    found = PropensityModel(GaussianNB(), calibration=calibration).fit(log).predict(log)
    fold, names = log.fold(5), np.array(chosen_names(log))
    candidate = np.array(log.actions)[log.candidate]

    def raw(left_out: set[int], i: int) -> np.ndarray:
        key = tuple(sorted(left_out))
        if key not in cache:
            rows = [j for j in range(240) if fold[j] not in left_out]
            cache[key] = GaussianNB().fit(log.context[rows], names[rows])
        p = dict(zip(cache[key].classes_, cache[key].predict_proba(log.context[[i]])[0],
                     strict=True))  # fmt: skip
        own = np.array([p[name] for name in candidate[log.offsets[i] : log.offsets[i + 1]]])
        return own / own.sum()

    cache: dict[tuple[int, ...], Any] = {}
    for f in range(5):
        pairs: dict[str, list[tuple[float, bool]]] = {name: [] for name in log.actions}
        for j in np.flatnonzero(fold != f):
            own = candidate[log.offsets[j] : log.offsets[j + 1]]
            for name, p in zip(own, raw({f, int(fold[j])}, j), strict=True):
                pairs[name].append((p, names[j] == name))
        maps = {name: calibrate_by_hand(calibration, pairs[name]) for name in log.actions}
        for i in np.flatnonzero(fold == f)[:8]:
            part = slice(int(log.offsets[i]), int(log.offsets[i + 1]))
            p = raw({f}, i)
            p = np.array([maps[name](q) for name, q in zip(candidate[part], p, strict=True)])
            expected = np.maximum(p / p.sum(), 1e-6)
            np.testing.assert_allclose(found[part], expected, rtol=1e-3, atol=2e-6)


def calibrate_by_hand(calibration: str | None, pairs: list[tuple[float, bool]]) -> Any:
    from scipy.optimize import minimize

    p, hit = np.array(pairs).T
    if calibration is None:
        return lambda q: q
    if calibration == "isotonic":
        steps = IsotonicRegression(out_of_bounds="clip").fit(p, hit)
        return lambda q: steps.predict([q])[0]

    def odds(q: Any) -> Any:
        q = np.clip(q, 1e-6, 1 - 1e-6)
        return np.log(q / (1 - q))

    def loss(ab: np.ndarray) -> float:
        s = ab[0] * odds(p) + ab[1]
        return float(np.logaddexp(0.0, np.where(hit > 0, -s, s)).sum() + ab[0] ** 2 / 2000)

    a, b = minimize(loss, [1.0, 0.0], tol=1e-12).x
    return lambda q: 1.0 / (1.0 + np.exp(-a * odds(q) - b))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["any", "parted", "equal", "steep"]))
def test_the_sigmoid_is_the_likeliest(seed, kind):
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    p, weight = rng.random(80) ** 3, rng.random(80) + 0.01
    if kind == "equal":
        p[:] = 0.3
    y = (rng.random(80) < (p**4 if kind == "steep" else p)).astype(float)
    if kind == "parted":
        y = (p > 0.2).astype(float)
    y[p.argmax()], y[p.argmin() if kind != "equal" else 0] = 1.0, 0.0
    odds = np.log(np.clip(p, 1e-6, 1 - 1e-6) / (1 - np.clip(p, 1e-6, 1 - 1e-6)))

    def loss(ab: Any) -> float:
        s = ab[0] * odds + ab[1]
        return float(weight / weight.mean() @ np.logaddexp(0.0, np.where(y > 0, -s, s))) + (
            5e-4 * ab[0] ** 2
        )

    found = probabilities.sigmoid(p, y, weight)
    starts = ([0.0, 0.0], [1.0, 0.0], [found.slope, found.intercept])
    best = min(minimize(loss, start).fun for start in starts)
    assert loss([found.slope, found.intercept]) <= best + 1e-6
    expected = 1.0 / (1.0 + np.exp(-found.slope * odds - found.intercept))
    np.testing.assert_allclose(found.predict(p), expected, rtol=1e-9, atol=1e-16)


def test_a_rare_action_is_not_calibrated():
    log = dense_log(300)
    rare = np.where(np.isin(np.arange(300), [3, 50, 120]), 2, log.chosen % 2)
    log = dataclasses.replace(log, chosen=rare, logging=None, propensity=None)
    model = PropensityModel(GaussianNB()).fit(log)
    assert all(set(maps) == {0, 1} for maps in model.maps_)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    seed=st.integers(0, 2**32 - 1),
    floor=st.sampled_from([0.0, 1e-6, 0.05, 0.2, 0.25, 0.9]),
)
def test_the_floor(lengths, seed, floor):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    open_ = rng.random(offsets[-1]) < 0.8
    open_[offsets[:-1]] = True
    p = np.where(open_, rng.random(offsets[-1]) ** 8, 0.0)
    p /= np.repeat(np.add.reduceat(p, offsets[:-1]), lengths)
    found = probabilities.floored(p, offsets, open_, floor)
    for start, stop in itertools.pairwise(offsets):
        one, original, usable = found[start:stop], p[start:stop], open_[start:stop]
        least = min(floor, 1.0 / usable.sum())
        assert one.sum() == pytest.approx(1.0)
        assert (one[~usable] == 0.0).all()
        assert one[usable].min() >= least * (1 - 1e-12)
        above = np.flatnonzero(usable & (one > least * (1 + 1e-9)))
        # Those above the floor keep their proportions, and none of them gained.
        if len(above):
            np.testing.assert_allclose(
                one[above] * original[above[0]], one[above[0]] * original[above], rtol=1e-9
            )
            assert (one[above] <= original[above] * (1 + 1e-9)).all()


def test_the_default_floor_keeps_the_log_valid():
    log = dense_log(400)
    tree = DecisionTreeClassifier(random_state=0)  # gives 0 to what was chosen, more often than not
    zero = PropensityModel(tree, calibration=None, floor=0.0).fit(log)
    assert (zero.predict(log)[log.chosen_index] == 0.0).any()
    applied = PropensityModel(tree, calibration=None).fit(log).apply(log)
    assert applied.propensity.min() == pytest.approx(1e-6)
    row = int(np.argmax(zero.predict(log)[log.chosen_index] == 0.0))
    bad = int((zero.predict(log)[log.chosen_index] == 0.0).sum())
    with pytest.raises(PropensityError) as caught:
        zero.apply(log)
    assert str(caught.value) == (
        f"propensity, row {row}: the estimate for the chosen action {log.chosen[row]} is 0 ({bad} "
        f"of 400 rows are like this). Set floor above 0, and fit on a log in which every such "
        f"action was chosen. Rows are counted from 0."
    )


def test_what_was_never_chosen_has_no_support():
    log = dense_log(300, K=2)
    wide = bandit_log(log.chosen, log.reward, actions=3, context=log.context)
    model = PropensityModel(GaussianNB()).fit(wide)
    estimate = model.predict(wide).reshape(300, 3)
    assert (estimate[:, 2] == 0.0).all()
    assert (estimate[:, :2] > 0.0).all()
    result = op.evaluate(model.apply(wide), np.tile([0.3, 0.3, 0.4], (300, 1)), estimators=["IPS"])
    assert result["IPS"].imputed_mass == pytest.approx(0.4)
    only = BanditLog.from_ragged(
        offsets=[0, 2, 3], chosen=[0, 0], reward=[1, 0], candidate=[0, 2, 2], context=[[0, 0]] * 2
    )
    with pytest.raises(PropensityError) as caught:
        model.predict(only)
    assert str(caught.value) == (
        "candidate, row 1: none of the decision's candidates was ever chosen in the log that the "
        "model was fitted on (1 of 2 rows are like this). Rows are counted from 0."
    )


def test_an_unknown_action_has_no_support():
    log = dense_log(300)
    model = PropensityModel(GaussianNB()).fit(log)
    strange = dataclasses.replace(log, actions=(0, 1, "never seen"), logging=None, propensity=None)
    found = model.predict(strange).reshape(-1, 3)
    assert (found[:, 2] == 0.0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    plain = PropensityModel(GaussianNB(), calibration=None, floor=0.0).fit(log)
    found, before = (plain.predict(one).reshape(-1, 3)[:, :2] for one in (strange, log))
    np.testing.assert_allclose(found, before / before.sum(axis=1, keepdims=True), rtol=1e-9)
    nothing = dataclasses.replace(strange, actions=("x", "y", "z"))
    text = refused(PropensityError, lambda: model.predict(nothing))
    assert "(300 of 300 rows are like this)." in text


def test_where_a_calibration_leaves_nothing_all_are_alike():
    class Nothing:
        def predict(self, p: np.ndarray) -> np.ndarray:
            return np.zeros_like(p)

    log = bandit_log(np.arange(300) % 3, np.zeros(300), actions=4, context=np.arange(300.0))
    model = PropensityModel(GaussianNB()).fit(log)
    model.maps_ = [dict.fromkeys(range(3), Nothing())] * 5
    found = model.predict(log).reshape(-1, 4)
    np.testing.assert_allclose(found, np.tile([1 / 3, 1 / 3, 1 / 3, 0.0], (300, 1)), rtol=1e-12)


def test_one_action_is_chosen_with_certainty():
    log = bandit_log(np.zeros(60, dtype=int), np.arange(60.0), actions=1, context=np.zeros((60, 1)))
    assert (PropensityModel(GaussianNB()).fit(log).predict(log) == 1.0).all()
    two = bandit_log(np.zeros(60, dtype=int), np.arange(60.0), actions=2, context=np.zeros((60, 1)))
    predicted = PropensityModel(GaussianNB()).fit(two).predict(two)
    assert predicted.tolist() == [1.0, 0.0] * 60


def test_applying_changes_the_propensities_and_nothing_else():
    log = dense_log(300, cluster=[f"u{i % 7 if i < 100 else i // 2}" for i in range(300)])
    part = log.rows(100, 200)
    assert not np.array_equal(part.fold(5), dense_log(100, cluster=np.arange(100) // 2).fold(5))
    model = PropensityModel(GaussianNB()).fit(log)
    applied = model.apply(part)
    assert np.array_equal(applied.logging, model.predict(log)[300:600])
    assert np.array_equal(applied.propensity, applied.logging[applied.chosen_index])
    assert np.array_equal(applied.fold(5), part.fold(5))
    for item in dataclasses.fields(log):
        if item.name not in ("logging", "propensity", "estimated_by"):
            assert np.array_equal(getattr(applied, item.name), getattr(part, item.name))
    assert not np.array_equal(part.logging, applied.logging)
    assert np.array_equal(model.predict(applied), applied.logging)


# -- scikit-learn manners --------------------------------------------------------------------------


def test_parameters_are_scikit_learns():
    model = RewardModel(Ridge(alpha=3.0), folds=4, mode="shared", recalibrate=True)
    assert model.get_params(deep=False) == {
        "model": model.model, "folds": 4, "seed": 0, "mode": "shared", "weighting": "none",
        "recalibrate": True,
    }  # fmt: skip
    assert model.get_params()["model__alpha"] == 3.0
    copy = clone(model)
    assert copy is not model
    assert copy.get_params()["model__alpha"] == 3.0
    assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert copy.set_params(model__alpha=1.0, folds=7) is copy
    assert (copy.folds, copy.model.alpha, model.model.alpha) == (7, 1.0, 3.0)
    assert repr(PropensityModel(GaussianNB())) == (
        "PropensityModel(model=GaussianNB(), folds=5, seed=0, calibration='sigmoid', floor=1e-06)"
    )
    assert RewardModel(mode="recalibrate").get_params() == RewardModel(
        mode="recalibrate"
    ).get_params(deep=False)


def test_the_model_given_is_never_changed():
    log = dense_log()
    forest = RandomForestRegressor(3)
    before = dict(vars(forest))
    assert RewardModel(forest, mode="shared").fit(log) is not forest
    assert vars(forest) == before


@pytest.mark.parametrize("mode", MODES)
def test_the_seed_decides(mode):
    log = dense_log(200)

    def predictions(seed: int, forest: Any) -> np.ndarray:
        return RewardModel(forest, mode=mode, seed=seed).fit(log).predict(log)

    free = RandomForestRegressor(3)
    assert np.array_equal(predictions(1, free), predictions(1, free))
    assert not np.array_equal(predictions(1, free), predictions(2, free))
    fixed = RandomForestRegressor(3, random_state=0)
    assert np.array_equal(predictions(1, fixed), predictions(2, fixed))
    pipe = make_pipeline(StandardScaler(), RandomForestRegressor(3))
    assert np.array_equal(predictions(1, pipe), predictions(1, pipe))
    assert not np.array_equal(predictions(1, pipe), predictions(2, pipe))


def test_no_seed_is_used_twice():
    model = RewardModel(RandomForestRegressor(2), mode="per-action", folds=3).fit(dense_log(200))
    states = [one.model.random_state for fold in model.models_ for one in fold.fitted.values()]
    assert len(set(states)) == len(states) == 9
    tree = DecisionTreeClassifier()
    chooser = PropensityModel(tree, calibration=None, folds=4).fit(dense_log(200))
    assert len({one.model.random_state for one in chooser.models_}) == 4
    assert tree.random_state is None


@pytest.mark.parametrize("k", range(10))
def test_a_fitted_model_can_be_stored(k):
    log = ragged_log(150)
    model = fit(all_models()[k], log)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(log), model.predict(log))


def test_a_model_without_tags_will_do():
    class Plain:
        """No base class: predicts the mean; a classifier if it has predict_proba."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {}

        def set_params(self, **params: Any) -> Plain:
            return self

        def fit(self, X: Any, y: Any) -> Plain:
            self.mean = np.mean(y)
            return self

        def predict(self, X: Any) -> Any:
            return np.full((len(X), 1), self.mean)

    class Counting(Plain):
        def predict_proba(self, X: Any) -> Any:
            return np.tile([1.0 - self.mean, self.mean], (len(X), 1))

    log = dataclasses.replace(dense_log(300), reward=np.arange(300) % 2.0)
    a, b = (RewardModel(one, mode="shared").fit(log).predict(log) for one in (Plain(), Counting()))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_evaluate_takes_a_fitted_model():
    rng = np.random.default_rng(4)
    problem = op.testing.random_problem(rng, contexts=6, actions=3, concentration=2.0)
    log, policy, _ = op.testing.sample_log(problem, 4000, rng)
    states = dataclasses.replace(log, context=np.eye(6)[log.context[:, 0]])
    model = RewardModel(Ridge(), mode="per-action").fit(states)
    result = op.evaluate(states, policy, prediction=model, estimators=["DM", "DR", "IPS"])
    for row in result:
        # Four standard errors, and DM's interval does not know of the model's own error.
        assert abs(row.value - problem.value) < 4.0 * result["IPS"].stderr
    assert result["DR"].stderr < result["IPS"].stderr


# -- what is refused -------------------------------------------------------------------------------

LOG = dense_log(60)
NAMELESS = BanditLog.from_ragged(
    offsets=np.arange(61) * 2, chosen=np.zeros(60, dtype=int), reward=np.arange(60.0),
    context=np.zeros((60, 1)),
)  # fmt: skip
NARROW = bandit_log(LOG.chosen, LOG.reward, context=LOG.context, propensity=np.full(60, 0.5))


def refused(error: type[Exception], call: Any) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


class Shapeless(DisjointRegressor):
    def predict(self, X: Any) -> Any:
        return np.zeros((len(X), 2))


class Endless(DisjointRegressor):
    def predict(self, X: Any) -> Any:
        return np.full(len(X), np.inf)


class Improper(DisjointClassifier):
    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), 3), -1.0)


REFUSED: list[tuple[Any, BanditLog, type[Exception], str]] = [
    (RewardModel(Ridge(), mode="pr-action"), LOG, ParameterError,
     'mode is "pr-action"; it must be one of "auto", "per-action", "shared", "recalibrate". '
     'Did you mean "per-action"?'),
    (RewardModel(Ridge(), weighting="dr"), LOG, ParameterError,
     'weighting is "dr"; it must be one of "none", "ips", "mrdr". Did you mean "mrdr"?'),
    (RewardModel(Ridge(), folds=1), LOG, ParameterError,
     "folds is 1; it must be a whole number from 2 to 256."),
    (RewardModel(Ridge(), folds=2.5), LOG, ParameterError,
     "folds is 2.5; it must be a whole number from 2 to 256."),
    (RewardModel(Ridge(), folds=2, recalibrate=True), LOG, ParameterError,
     "folds is 2; it must be a whole number from 3 to 256 with recalibrate=True."),
    (RewardModel(Ridge(), seed=-1), LOG, ParameterError,
     "seed is -1; it must be a whole number, 0 or more."),
    (RewardModel(), LOG, ParameterError,
     "model is a NoneType, which has no fit; it must be a scikit-learn regressor or classifier."),
    (RewardModel(StandardScaler()), LOG, ParameterError,
     "model is a StandardScaler, which has no predict; it must be a scikit-learn regressor or "
     "classifier."),
    (RewardModel(Ridge), LOG, ParameterError,
     "Ridge is a class; give an instance: Ridge(…)."),
    (RewardModel(LinearSVC()), LOG, ParameterError,
     "LinearSVC has no predict_proba. Use a classifier that gives probabilities, or wrap it in "
     "scikit-learn's CalibratedClassifierCV."),
    (RewardModel(LogisticRegression()), LOG, ParameterError,
     "LogisticRegression is a classifier, but the rewards have 60 different values; at most 20 "
     "can be classes. Use a regressor."),
    (RewardModel(mode="recalibrate"), LOG, ParameterError,
     'mode="recalibrate" needs prediction=, the predictions to recalibrate.'),
    (RewardModel(Ridge(), weighting="ips"), LOG, ParameterError,
     'weighting="ips" needs the policy: fit(log, policy).'),
    (RewardModel(Ridge()), dataclasses.replace(LOG, context=None), LogError,
     "RewardModel needs a log with context, which is what was known before each decision. Name "
     "its columns with context=, or give the log candidate_features."),
    (RewardModel(Ridge(), mode="per-action"), dataclasses.replace(LOG, context=None), LogError,
     "RewardModel needs a log with context, which is what was known before each decision. Name "
     "its columns with context=."),
    (RewardModel(Ridge()), NAMELESS, LogError,
     "RewardModel needs to know which action each candidate is: give their names, a "
     "column of lists (candidates); when making a log of arrays, candidate=."),
    (RewardModel(Ridge()), LOG.rows(0, 9), LogError,
     f"There are {(LOG.rows(0, 9).fold(5) != 0).sum()} decisions to learn from outside fold 0 of "
     "5; at least 10 are needed. Use fewer folds, or a longer log."),
    (RewardModel(Ridge()), dataclasses.replace(LOG, cluster=np.zeros(60)), LogError,
     "There are 0 decisions to learn from outside fold 0 of 5 (a cluster is never split); at "
     "least 10 are needed. Use fewer folds, or a longer log."),
    (RewardModel(Ridge(), mode="shared", recalibrate=True, folds=3), LOG.rows(0, 18), LogError,
     f"There are {(LOG.rows(0, 18).fold(3) == 2).sum()} decisions to learn from outside folds 0 "
     "and 1 of 3; at least 10 are needed. Use fewer folds, or a longer log."),
    (RewardModel(KNeighborsRegressor(), mode="shared"), with_row_weight(LOG), ParameterError,
     "KNeighborsRegressor cannot weigh its rows (its fit takes no sample_weight), which row "
     "weights and weighting= need. Use another model."),
    (PropensityModel(Ridge()), LOG, ParameterError,
     "Ridge has no predict_proba. Use a classifier that gives probabilities, or wrap it in "
     "scikit-learn's CalibratedClassifierCV."),
    (PropensityModel(GaussianNB(), calibration="platt"), LOG, ParameterError,
     'calibration is "platt"; it must be one of "sigmoid", "isotonic".'),
    (PropensityModel(GaussianNB(), folds=2), LOG, ParameterError,
     'folds is 2; it must be a whole number from 3 to 256 with calibration="sigmoid".'),
    (PropensityModel(GaussianNB(), floor=1.0), LOG, ParameterError,
     "floor is 1.0; it must be from 0 to below 1."),
    (PropensityModel(GaussianNB()), dataclasses.replace(LOG, context=None), LogError,
     "PropensityModel needs a log with context, which is what was known before each decision. "
     "Name its columns with context=."),
    (PropensityModel(GaussianNB()), NAMELESS, LogError,
     "PropensityModel needs to know which action each candidate is: give their names, a "
     "column of lists (candidates); when making a log of arrays, candidate=."),
    (PropensityModel(GaussianNB()), NARROW, LogError,
     "PropensityModel needs to know the candidates of every decision, and this log lists only "
     "what was chosen. Name all arms, if they are always the same (actions=), or a column of "
     "lists (candidates=)."),
]  # fmt: skip


@pytest.mark.parametrize(("model", "log", "error", "text"), REFUSED)
def test_fit_refuses_in_sentences(model, log, error, text):
    assert refused(error, lambda: model.fit(log)) == text
    assert "not fitted yet" in refused(ParameterError, lambda: model.predict(log))


@pytest.mark.parametrize("kind", [RewardModel, PropensityModel])
def test_predict_before_fit(kind):
    assert refused(ParameterError, lambda: kind(Ridge()).predict(LOG)) == (
        f"This {kind.__name__} is not fitted yet: call fit(log) first."
    )


@pytest.mark.parametrize("model", [RewardModel(Ridge()), PropensityModel(GaussianNB())])
def test_only_a_log_will_do(model):
    text = (
        "A list is not a log. Make one with BanditLog.from_frame (any dataframe), from_arrays or "
        "from_ragged."
    )
    assert refused(ParameterError, lambda: model.fit([1])) == text
    fitted = clone(model).fit(LOG)
    assert refused(ParameterError, lambda: fitted.predict([1])) == text


def test_weighting_needs_propensities():
    log = dataclasses.replace(LOG, logging=None, propensity=None)
    model = RewardModel(Ridge(), weighting="mrdr")
    assert refused(MissingColumnError, lambda: model.fit(log, op.Uniform())) == (
        'weighting="mrdr" needs the propensity of the chosen action. Without it, use '
        'weighting="none", or estimate it first: PropensityModel(…).fit(log).apply(log).'
    )


def test_weights_that_are_all_zero_teach_nothing():
    pi = np.eye(3)[(LOG.chosen + 1) % 3]
    for weighting in ("ips", "mrdr"):
        model = RewardModel(Ridge(), weighting=weighting)
        assert refused(LogError, lambda model=model: model.fit(LOG, pi)) == (
            "There are 0 decisions with weight above 0 to learn from outside fold 0 of 5; at least "
            "10 are needed. Use fewer folds, or a longer log."
        )


def test_the_policy_is_checked():
    model = RewardModel(Ridge(), weighting="ips")
    text = refused(op.OffpolicyError, lambda: model.fit(LOG, np.full((60, 3), 0.5)))
    assert text.startswith("policy, row 0: the probabilities sum to 1.5, not 1")


def test_predictions_are_for_recalibration():
    text = 'prediction= is only for mode="recalibrate".'
    model = RewardModel(Ridge(), mode="shared")
    assert refused(ParameterError, lambda: model.fit(LOG, prediction=np.zeros(180))) == text
    model.fit(LOG)
    assert refused(ParameterError, lambda: model.predict(LOG, prediction=np.zeros(180))) == text
    given = np.zeros(180)
    given[4] = np.nan
    again = RewardModel(mode="recalibrate")
    assert refused(PredictionError, lambda: again.fit(LOG, prediction=given)) == (
        "prediction, row 1, candidate 1: nan (1 of 180 values are missing or not finite). Fill "
        "these values in or leave these rows out. Rows are counted from 0."
    )


def test_another_log_must_have_the_same_columns():
    model = RewardModel(Ridge(), mode="shared").fit(LOG)
    wide = dataclasses.replace(LOG, context=np.zeros((60, 5)))
    assert refused(LogError, lambda: model.predict(wide)) == (
        "context has 5 columns, but the model was fitted with 2."
    )
    rich = dataclasses.replace(LOG, candidate_features=np.zeros((180, 4)))
    assert refused(LogError, lambda: model.predict(rich)) == (
        "candidate_features has 4 columns, but the model was fitted with none."
    )
    model = RewardModel(Ridge(), mode="shared").fit(rich)
    assert refused(LogError, lambda: model.predict(LOG)) == (
        "candidate_features has no columns, but the model was fitted with 4."
    )
    chooser = PropensityModel(GaussianNB(), calibration=None).fit(LOG)
    assert refused(LogError, lambda: chooser.predict(wide)) == (
        "context has 5 columns, but the model was fitted with 2."
    )


def test_what_the_model_predicts_is_checked():
    shapeless = RewardModel(Shapeless(), mode="shared").fit(numbered(LOG))
    first = int((LOG.fold(5) == 0).sum())
    assert refused(PredictionError, lambda: shapeless.predict(numbered(LOG))) == (
        f"Shapeless predicted an array of shape ({3 * first}, 2) for {3 * first} rows; there must "
        f"be one number for each."
    )
    endless = RewardModel(Endless(), mode="shared").fit(numbered(LOG))
    assert refused(PredictionError, lambda: endless.predict(numbered(LOG))) == (
        "Endless predicted inf for a reward; predictions must be finite."
    )
    improper = PropensityModel(Improper(), calibration=None).fit(numbered(LOG))
    assert refused(PredictionError, lambda: improper.predict(numbered(LOG))) == (
        "Improper.predict_proba must give each of the 3 classes a probability, an array of shape "
        f"({first}, 3); it gave shape ({first}, 3), least value -1.0."
    )


def test_parameters_that_do_not_exist():
    assert refused(ParameterError, lambda: RewardModel(Ridge()).set_params(fold=3)) == (
        'RewardModel has no parameter "fold". Did you mean "folds"? The parameters are model, '
        "folds, seed, mode, weighting, recalibrate."
    )
