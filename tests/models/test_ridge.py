"""The built-in ridge says what scikit-learn's says, from sums by fold and action."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.models import ScaledRidge
from offpolicy.models._ridge import Linear


def a_log(
    seed: int, n: int, K: int, d: int, *, weighted: bool = False, ragged: bool = False,
    clusters: bool = False, shift: float = 0.0,
) -> op.BanditLog:  # fmt: skip
    """Among the contexts are a constant one, one that is constant for an action, and two that
    differ by little; the last action is hardly ever chosen."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d) + shift
    action = rng.choice(K, n, p=np.append(np.full(K - 1, 0.995 / (K - 1)), 0.005))
    X[:, 0] = 0.1
    if d > 1:
        X[action == 0, 1] = 3.3
    if d > 3:
        X[:, 3] = X[:, 2] + 0.01 * X[:, 3]
    reward = rng.standard_normal(n) + X[:, -1] / np.abs(X[:, -1]).max() * (action + 1.0)
    given = {
        "row_weight": rng.integers(1, 4, n) * (0.1 + rng.random(n)) if weighted else None,
        "cluster": rng.integers(0, n // 5, n) if clusters else None,
    }
    if not ragged:
        return op.BanditLog.from_arrays(action=action, actions=K, reward=reward, context=X, **given)
    others = [np.setdiff1d(rng.choice(K, rng.integers(0, K)), [a]) for a in action]
    lists = [[a, *map(int, more)] for a, more in zip(action.tolist(), others, strict=True)]
    return op.BanditLog.from_ragged(
        offsets=np.cumsum([0, *map(len, lists)]), candidate=np.concatenate(lists),
        action=action, reward=reward, context=X, **given,
    )  # fmt: skip


def both(log: op.BanditLog, **options: object) -> tuple[op.RewardModel, op.RewardModel]:
    return (
        op.RewardModel(ScaledRidge(), **options).fit(log),
        op.RewardModel(ScaledRidge().pipeline(), **options).fit(log),
    )


def alike(fast: np.ndarray, slow: np.ndarray) -> None:
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9 * np.abs(slow).max())


@pytest.mark.parametrize("mode", ["per-action", "shared"])
@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(60, 400), st.integers(2, 7), st.integers(1, 6),
    st.booleans(), st.booleans(), st.booleans(), st.integers(2, 6),
)  # fmt: skip
def test_it_says_what_scikit_learn_says(mode, seed, n, K, d, weighted, ragged, clusters, folds):
    log = a_log(seed, n, K, d, weighted=weighted, ragged=ragged, clusters=clusters)
    fast, slow = both(log, mode=mode, folds=folds)
    assert isinstance(fast.models_[0], Linear)
    alike(fast.predict(log), slow.predict(log))


@pytest.mark.parametrize("mode", ["per-action", "shared"])
def test_what_a_fold_holds_does_not_blur_the_others(mode):
    log = a_log(1, 400, 3, 4)
    X = log.context.copy()
    X[np.flatnonzero(log.fold(5) == 2)[-1]] *= 1e9
    log = log.replace(context=X)
    fast, slow = both(log, mode=mode)
    rows = np.flatnonzero((log.fold(5) == 2) & (np.abs(X).max(axis=1) < 1e6))
    usual = log.candidates_of(rows)
    alike(fast.predict(log)[usual], slow.predict(log)[usual])


@pytest.mark.parametrize("mode", ["per-action", "shared"])
def test_a_large_mean_is_not_lost(mode):
    log = a_log(2, 500, 3, 5, shift=1e5)
    fast, slow = both(log, mode=mode)
    np.testing.assert_allclose(fast.predict(log), slow.predict(log), atol=1e-6)


@pytest.mark.parametrize("mode", ["per-action", "shared"])
def test_other_logs_held_out_rows_and_recalibration(mode):
    log = a_log(3, 600, 4, 3, weighted=True)
    fast, slow = both(log, mode=mode)
    other = a_log(4, 80, 6, 3, ragged=True)
    alike(fast.predict(other), slow.predict(other))
    pairs = zip(fast.held_out(log, [1, 3]), slow.held_out(log, [1, 3]), strict=True)
    for (rows, one), (same, other) in pairs:
        np.testing.assert_array_equal(rows, same)
        alike(one, other)
    fast, slow = both(log, mode=mode, recalibrate=True)
    alike(fast.predict(log), slow.predict(log))


def test_features_and_wide_contexts_are_left_to_scikit_learn(monkeypatch):
    monkeypatch.setattr("offpolicy.models._ridge.MOST_CELLS", 10)
    log = a_log(5, 300, 3, 4)
    fast, slow = both(log)
    assert not isinstance(fast.models_[0], Linear)
    np.testing.assert_array_equal(fast.predict(log), slow.predict(log))
    features = np.random.default_rng(0).standard_normal((300, 3, 2))
    log = log.replace(candidate_features=features.reshape(-1, 2))
    fast, slow = both(log)
    np.testing.assert_array_equal(fast.predict(log), slow.predict(log))
