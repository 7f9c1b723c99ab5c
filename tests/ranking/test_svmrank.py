"""The learner of rankings: certified optima, limits, repeated impressions, bad input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from offpolicy._core.ragged import position_in_decision
from offpolicy.errors import LogError, ParameterError, PolicyError, SupportError
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.learning import _solver as solving
from offpolicy.ranking.learning._objective import Objective
from offpolicy.ranking.learning._problem import collapse, prepare
from offpolicy.ranking.learning._svmrank import PropensitySVMRank
from tests.support.limits import limit
from tests.support.refusals import refuses


def example(seed=0, n=12, most=7, d=4):
    """Queries of 1 to ``most`` documents, some of which have a weight; the rest are noise."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, size=n)
    offsets = np.r_[0, np.cumsum(sizes)]
    X = rng.normal(size=(offsets[-1], d)) * np.array([1.0, 3.0, 0.2, 1.0, 1.0, 1.0])[:d]
    chance = 1.0 / (1.0 + np.exp(2.0 - 2.0 * X[:, 0]))
    weights = rng.exponential(size=len(X)) * (rng.random(len(X)) < chance) + 0.1 * chance
    return X, offsets, weights * (rng.random(len(X)) < 0.8)


def pairs_of(X, offsets, weights):
    """φ_j − φ_k and c_j of every pair."""
    apart, c = [], []
    for start, stop in pairwise(offsets):
        for j in range(start, stop):
            for k in range(start, stop):
                if k != j and weights[j] > 0.0:
                    apart.append(X[j] - X[k])
                    c.append(weights[j])
    return np.array(apart), np.array(c)


def primal(w, X, offsets, weights, C):
    apart, c = pairs_of(X, offsets, weights)
    return 0.5 * w @ w + C / (len(offsets) - 1) * (c @ np.maximum(0.0, 1.0 - apart @ w))


def optimum(X, offsets, weights, C):
    """By the dual: a quadratic in as many variables as there are pairs, in a box."""
    from scipy.optimize import minimize

    apart, c = pairs_of(X, offsets, weights)
    box = C / (len(offsets) - 1) * c

    def loss(alpha):
        v = alpha @ apart
        return 0.5 * v @ v - alpha.sum(), apart @ v - 1.0

    found = minimize(
        loss, box / 2, jac=True, method="L-BFGS-B", bounds=[(0.0, b) for b in box],
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    w = found.x @ apart
    value = primal(w, X, offsets, weights, C)
    assert value + found.fun <= 2e-4 * value  # the two agree: it is the optimum
    return -found.fun, value


# -- the optimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("C", [0.01, 0.3, 10.0])
def test_the_optimum_is_reached(seed, C):
    X, offsets, weights = example(seed)
    below, above = optimum(X, offsets, weights, C)
    for tol in (1e-3, 1e-6):
        found = PropensitySVMRank(C=C, scale=False, tol=tol).fit_weights(X, offsets, weights)
        value = primal(found.coef_, X, offsets, weights, C)
        assert found.gap_ <= tol
        assert found.objective_ == pytest.approx(value, rel=1e-10)
        assert below * (1 - 1e-9) <= value <= above / (1.0 - tol)
        assert value * (1.0 - found.gap_) <= above * (1 + 1e-12)


@pytest.mark.parametrize("C", [0.1, 5.0])
def test_equals_a_linear_svm_on_differences(C):
    from sklearn.svm import LinearSVC

    X, offsets, weights = example(5)
    apart, c = pairs_of(X, offsets, weights)
    sign = np.where(np.arange(len(c)) % 2, 1.0, -1.0)
    svm = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6)
    svm.fit(sign[:, None] * apart, sign, sample_weight=C / (len(offsets) - 1) * c)
    found = PropensitySVMRank(C=C, scale=False, tol=1e-8).fit_weights(X, offsets, weights)
    assert_allclose(found.coef_, svm.coef_[0], atol=2e-3)


@pytest.mark.parametrize("way", [solving.dense, solving.conjugate, solving.Either()])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_each_way_to_newtons_direction_leads_to_the_same_certified_optimum(way, C):
    X, offsets, weights = example(3, n=30, most=12, d=6)
    problem = prepare(X, offsets, weights, scale=True)
    found = solving.solve(problem.objective(C), tolerance=1e-5, direction=way)
    exact = solving.solve(problem.objective(C), tolerance=1e-8)
    assert found.gap <= 1e-5
    assert found.bound <= exact.objective * (1 + 1e-12)
    assert exact.objective <= found.objective <= exact.objective * (1 + 1.1e-5)


def test_many_features_are_no_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 300))  # more than documents: separable
    found = PropensitySVMRank().fit_weights(X, np.arange(0, 121, 10), rng.random(120))
    assert found.gap_ <= 1e-3


def test_a_separable_query_is_separated_with_the_margin():
    X = np.array([[2.0], [1.0], [0.0]])
    found = PropensitySVMRank(C=1e6, scale=False, tol=1e-6).fit_weights(X, [0, 3], [5, 1, 0])
    assert found.coef_ == pytest.approx([1.0], rel=1e-3)  # the least w with 1·w ≥ 1
    assert found.objective_ == pytest.approx(0.5 + 2e6, rel=1e-6)  # second over first
    found = PropensitySVMRank(C=1e6, scale=False, tol=1e-6).fit_weights(X, [0, 3], [5, 0, 0])
    assert found.objective_ == pytest.approx(0.5, rel=1e-3)


def test_steps_that_were_not_enough_are_admitted():
    from sklearn.exceptions import ConvergenceWarning

    X, offsets, weights = example(2, n=40, most=15)
    hasty = PropensitySVMRank(C=1e4, tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"\(not-converged\): After 1 steps"):
        hasty.fit_weights(X, offsets, weights)
    assert 1e-9 < hasty.gap_ <= 1.0
    with pytest.warns(ConvergenceWarning, match="not-converged"):
        PropensitySVMRank(scale=False, max_iter=5).fit_weights(1e30 * X, offsets, weights)
    assert PropensitySVMRank().fit_weights(1e30 * X, offsets, weights).gap_ <= 1e-3


@pytest.mark.parametrize("size", [1e90, 1e-200])
def test_units_and_weights_may_be_extreme(size):
    X, offsets, weights = example(2)
    plain = PropensitySVMRank().fit_weights(X, offsets, weights)
    for by in (1e-150, 1e90):
        found = PropensitySVMRank().fit_weights(size * X, offsets, by * weights)
        assert_allclose(size * found.coef_, plain.coef_, rtol=1e-6)


def test_work_is_counted():
    X, offsets, weights = example(2, n=40, most=15)
    rough, fine = (
        PropensitySVMRank(C=10, tol=tol).fit_weights(X, offsets, weights) for tol in (0.1, 1e-6)
    )
    assert 1.0 <= rough.passes_ < fine.passes_
    assert rough.n_iter_ < fine.n_iter_
    again = PropensitySVMRank(C=10, tol=0.1, warm_start=True)
    again.fit_weights(X, offsets, weights)
    first = again.passes_
    assert again.fit_weights(X, offsets, weights).passes_ < first


# -- C, scale, path, repetitions -----------------------------------------------------------------


def test_a_path_is_separate_fits():
    X, offsets, weights = example(7, n=30)
    Cs = [10.0, 0.01, 1.0]
    learner = PropensitySVMRank(tol=1e-7)
    path = learner.path_weights(X, offsets, weights, Cs)
    assert [one.C_ for one in path] == Cs
    assert not hasattr(learner, "coef_")
    for one in path:
        alone = PropensitySVMRank(C=one.C, tol=1e-7).fit_weights(X, offsets, weights)
        assert one.gap_ <= 1e-7
        assert one.objective_ == pytest.approx(alone.objective_, rel=2e-7)
        assert_allclose(one.coef_, alone.coef_, atol=2e-2 * np.abs(alone.coef_).max())


def test_the_default_c_forgets_the_size_of_weights():
    X, offsets, weights = example(8)
    small, large = (
        PropensitySVMRank(tol=1e-8).fit_weights(X, offsets, size * weights) for size in (1e-9, 1e9)
    )
    assert_allclose(small.coef_, large.coef_, rtol=1e-3, atol=1e-4)
    sizes = np.diff(offsets)
    pairs = (weights * np.repeat(sizes - 1, sizes)).sum() / len(sizes)
    assert 1e-9 * pairs * small.C_ == pytest.approx(100.0)


def test_scaling_forgets_units_and_says_so():
    X, offsets, weights = example(9)
    units = np.array([1e3, 1.0, 1e-4, 7.0])
    plain, other = (
        PropensitySVMRank(tol=1e-8).fit_weights(one, offsets, weights) for one in (X, X * units)
    )
    assert_allclose(other.coef_ * units, plain.coef_, rtol=1e-5, atol=1e-7)
    assert_allclose(other.decision_function(X * units), plain.decision_function(X), atol=1e-6)
    raw = PropensitySVMRank(C=0.1, scale=False, tol=1e-8).fit_weights(X, offsets, weights)
    problem = prepare(X, offsets, weights, scale=True)
    by_hand = PropensitySVMRank(C=0.1, scale=False, tol=1e-8)
    by_hand.fit_weights(X / problem.scale, offsets, weights)
    scaled = PropensitySVMRank(C=0.1, tol=1e-8).fit_weights(X, offsets, weights)
    assert_allclose(scaled.coef_, by_hand.coef_ / problem.scale, rtol=1e-4, atol=1e-6)
    assert np.abs(scaled.coef_ - raw.coef_).max() > 1e-3


def test_what_all_documents_of_a_query_share_changes_nothing():
    X, offsets, weights = example(10)
    sizes = np.diff(offsets)
    shift = np.repeat(np.random.default_rng(0).normal(size=(len(sizes), 4)) * 5, sizes, axis=0)
    constant = np.repeat(0.1 + np.arange(len(sizes)), sizes)[:, None]
    plain = PropensitySVMRank(C=1.0, tol=1e-8).fit_weights(X, offsets, weights)
    moved = PropensitySVMRank(C=1.0, tol=1e-8).fit_weights(
        np.hstack([X + shift, constant]), offsets, weights
    )
    assert_allclose(moved.coef_[:4], plain.coef_, rtol=1e-4, atol=1e-6)
    assert moved.coef_[4] == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 99))
def test_repeated_impressions_are_one_with_summed_weights(shown, seed):
    X, offsets, _ = example(11, n=5)
    rng = np.random.default_rng(seed)
    rows = [np.arange(offsets[i], offsets[i + 1]) for i in shown]
    flat = np.concatenate(rows)
    bounds = np.r_[0, np.cumsum([len(one) for one in rows])]
    weights = rng.random(len(flat))
    first, summed = collapse(X[flat], bounds, weights)
    assert [shown[i] for i in first] == list(dict.fromkeys(shown))
    expected = np.zeros(len(X))
    np.add.at(expected, flat, weights)
    assert_allclose(summed, np.concatenate([expected[rows[i]] for i in first]))
    w = rng.normal(size=4)
    whole = Objective(X[flat], bounds, weights, 1.0 / len(shown)).at(w).value
    problem = prepare(X[flat], bounds, weights + 1e-9, scale=False) if len(flat) > len(shown) else 0
    if problem:
        assert problem.objective(1.0).at(w).value == pytest.approx(whole, rel=1e-6)


def test_repetitions_change_nothing_and_cost_nothing():
    X, offsets, weights = example(12, n=40)
    sizes = np.tile(np.diff(offsets), 5)
    share = np.random.default_rng(0).dirichlet(np.ones(5), size=len(X)).T
    once = PropensitySVMRank(C=1.0, tol=1e-6).fit_weights(X, offsets, weights)
    often = PropensitySVMRank(C=5.0, tol=1e-6).fit_weights(
        np.tile(X, (5, 1)), np.r_[0, np.cumsum(sizes)], (share * weights).ravel()
    )
    assert_allclose(often.coef_, once.coef_, rtol=1e-3, atol=1e-5)
    assert often.passes_ <= 1.2 * once.passes_
    problem = prepare(
        np.tile(X, (5, 1)), np.r_[0, np.cumsum(sizes)], np.ones(5 * len(X)), scale=True
    )
    assert len(problem.X) <= len(X)
    assert problem.n == 200


def test_alike_but_different_impressions_are_kept_apart():
    X = np.array([[1.0, 2], [3, 4], [1, 2], [3, 5], [1, 2], [3, 4], [1, 2]])
    first, summed = collapse(X, np.array([0, 2, 4, 6, 7]), np.arange(7.0))
    assert first.tolist() == [0, 1, 3]
    assert summed.tolist() == [4.0, 6.0, 2.0, 3.0, 6.0]


def test_queries_that_say_nothing_still_count_in_n():
    X, offsets, weights = example(13)
    more = np.r_[offsets, offsets[-1] + np.array([1, 4])]
    wide = np.vstack([X, np.random.default_rng(0).normal(size=(4, 4))])
    said = np.r_[weights, 7.0, 0.0, 0.0, 0.0]  # a single document; three without weight
    n = len(offsets) - 1
    plain = PropensitySVMRank(C=1.0, scale=False, tol=1e-7).fit_weights(X, offsets, weights)
    other = PropensitySVMRank(C=(n + 2) / n, scale=False, tol=1e-7).fit_weights(wide, more, said)
    assert_allclose(other.coef_, plain.coef_, atol=1e-3)
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-6)


# -- conventions ---------------------------------------------------------------------------------


def test_scikit_learns_conventions():
    from sklearn.base import clone

    learner = PropensitySVMRank(C=3.0, estimator="IPS", scale=False)
    twin = clone(learner)
    assert twin is not learner
    assert twin.get_params() == learner.get_params()
    assert learner.set_params(tol=0.01) is learner
    assert learner.tol == 0.01
    with pytest.raises(ParameterError, match=r'no parameter "toll".*Did you mean "tol"'):
        learner.set_params(toll=1)


def test_a_log_gives_its_features_and_its_estimators_weights(monkeypatch):
    X, offsets, weights = example(14)
    asked = []

    def document_weights(log, estimator):
        asked.append(estimator)
        return weights

    limit(monkeypatch, "offpolicy.ranking.learning._svmrank.document_weights", document_weights)
    rank = position_in_decision(offsets) + 1
    log = RankingLog.from_arrays(offsets=offsets, rank=rank, click=0 * rank, X=X)
    found = PropensitySVMRank(estimator="CIPS(M=5)").fit(log)
    assert_allclose(found.coef_, PropensitySVMRank().fit_weights(X, offsets, weights).coef_)
    assert [one.C_ for one in PropensitySVMRank().path(log, [1, 2])] == [1, 2]
    assert asked == ["CIPS(M=5)", "CAB(M=10)"]
    with refuses(LogError, "X"):
        PropensitySVMRank().fit(log.replace(X=None))


def test_ranks_and_scores():
    X, offsets, weights = example(15)
    found = PropensitySVMRank().fit_weights(X, offsets, weights)
    scores = found.decision_function(X)
    assert_allclose(scores, X @ found.coef_)
    rank = found.rank(X, offsets)
    for start, stop in pairwise(offsets):
        expected = np.empty(stop - start, int)
        expected[np.argsort(-scores[start:stop], kind="stable")] = np.arange(1, stop - start + 1)
        assert rank[start:stop].tolist() == expected.tolist()
    assert found.rank(np.zeros((5, 4)), [0, 2, 5]).tolist() == [1, 2, 1, 2, 3]  # ties


def test_equal_documents_and_narrow_floats():
    same = PropensitySVMRank().fit_weights(np.ones((4, 2)), [0, 4], [1, 0, 0, 2])
    assert same.coef_.tolist() == [0.0, 0.0]
    X, offsets, weights = example(16)
    narrow = X.astype(np.float32)
    a = PropensitySVMRank().fit_weights(narrow, offsets, weights)
    b = PropensitySVMRank().fit_weights(narrow.astype(float), offsets, weights)
    assert (a.coef_ == b.coef_).all()


def test_fits_are_reproducible_and_leave_the_data_alone():
    X, offsets, weights = example(17)
    before = X.copy()
    for array in (X, offsets, weights):
        array.setflags(write=False)
    a, b = (PropensitySVMRank().fit_weights(X, offsets, weights) for _ in range(2))
    assert (a.coef_ == b.coef_).all()
    assert (before == X).all()


# -- files ---------------------------------------------------------------------------------------


def test_a_ranker_comes_back_to_the_last_bit(tmp_path):
    X, offsets, weights = example(18)
    found = PropensitySVMRank(estimator="IPS", tol=1e-4).fit_weights(X, offsets, weights)
    found.save(tmp_path / "ranker.json")
    again = PropensitySVMRank.load(tmp_path / "ranker.json")
    assert again.get_params() == found.get_params()
    assert (again.coef_ == found.coef_).all()
    assert (again.gap_, again.C_, again.n_iter_) == (found.gap_, found.C_, found.n_iter_)
    assert (again.decision_function(X) == found.decision_function(X)).all()
    found.fit_weights(X, offsets, weights[::-1]).save(tmp_path / "ranker.json")
    assert len(list(tmp_path.iterdir())) == 2


def damage(text):
    return lambda folder: (folder / "r.json").write_text(text)


@pytest.mark.parametrize(
    ("hurt", "file"),
    [
        (damage("{"), "r.json"),
        (damage("{}"), "r.json"),
        (damage('{"schema": "offpolicy.policy/1"}'), "r.json"),
        (damage('{"schema": "offpolicy.ranker/1"}'), "r.json"),
        (lambda folder: next(folder.glob("*.npy")).write_bytes(b"x"), ".npy"),
        (lambda folder: next(folder.glob("*.npy")).unlink(), ".npy"),
    ],
)
def test_damaged_files_are_named(hurt, file, tmp_path):
    X, offsets, weights = example(19)
    PropensitySVMRank().fit_weights(X, offsets, weights).save(tmp_path / "r.json")
    hurt(tmp_path)
    with refuses(PolicyError) as caught:
        PropensitySVMRank.load(tmp_path / "r.json")
    assert caught.value.file.endswith(file)


# -- bad input -----------------------------------------------------------------------------------

X3 = [[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("X", "offsets", "weights", "column", "row"),
    [
        ([[1.0, np.nan], *X3[1:]], [0, 3], [1, 0, 0], "X", 0),
        ([*X3[:2], [0, np.inf]], [0, 3], [1, 0, 0], "X", 2),
        ([*X3[:2], [0, 1e200]], [0, 3], [1, 0, 0], "X", 2),
        ([1, 2, 3], [0, 3], [1, 0, 0], "X", None),
        (np.empty((3, 0)), [0, 3], [1, 0, 0], "X", None),
        ([["a"], ["b"], ["c"]], [0, 3], [1, 0, 0], "X", None),
        (X3, [0, 2], [1, 0, 0], "offsets", None),
        (X3, [1, 3], [1, 0, 0], "offsets", None),
        (X3, [0, 2, 1, 3], [1, 0, 0], "documents", 1),
        (X3, [0, 0, 3], [1, 0, 0], "documents", 0),
        (X3, [0], [1, 0, 0], "offsets", None),
        (X3, [0, 1.5, 3], [1, 0, 0], "offsets", 1),
        (X3, [0, 3], [1, 0], "weights", None),
        (X3, [0, 1, 3], [1, 0, -0.5], "weights", 2),
        (X3, [0, 3], [1, np.nan, 0], "weights", 1),
        (X3, [0, 3], [1, np.inf, 0], "weights", 1),
        (X3, [0, 3], [[1, 0, 0]], "weights", None),
    ],
)
def test_bad_input_is_refused(X, offsets, weights, column, row):
    with refuses(LogError, column, row):
        PropensitySVMRank().fit_weights(X, offsets, weights)


@pytest.mark.parametrize(
    ("offsets", "weights"), [([0, 3], [0, 0, 0]), ([0, 1, 2, 3], [1, 1, 1]), ([0, 1, 3], [1, 0, 0])]
)
def test_nothing_to_learn_from_is_said(offsets, weights):
    with refuses(SupportError, "weights"):
        PropensitySVMRank().fit_weights(X3, offsets, weights)


@pytest.mark.parametrize(
    ("name", "value"), [("C", 0), ("C", -1), ("C", np.nan), ("C", np.inf), ("tol", 0), ("tol", 1),
                        ("max_iter", 0), ("C", 1e99)]
)  # fmt: skip
def test_parameters_out_of_range(name, value):
    with refuses(ParameterError, name):
        PropensitySVMRank(**{name: value}).fit_weights(X3, [0, 3], [1e3, 0, 0])


def test_misuse_is_a_sentence(tmp_path):
    new = PropensitySVMRank()
    for act in (lambda: new.decision_function(X3), lambda: new.rank(X3, [0, 3]),
                lambda: new.save(tmp_path / "r.json")):  # fmt: skip
        with refuses(ParameterError, "coef_"):
            act()
    found = PropensitySVMRank(warm_start=True).fit_weights(X3, [0, 3], [1, 0, 0])
    with refuses(ParameterError, "X"):
        found.decision_function(np.ones((2, 3)))
    with refuses(ParameterError, "X"):
        found.fit_weights(np.eye(3), [0, 3], [1, 0, 0])
    with refuses(LogError, "offsets"):
        found.rank(X3, [0, 2])
    with refuses(PolicyError, file="ranker.txt"):
        found.save(tmp_path / "ranker.txt")
    with refuses(ParameterError, "Cs"):
        found.path_weights(X3, [0, 3], [1, 0, 0], [None])
