"""Policies learned from contexts of any kind: numbers, text, times, with missing values."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.learning import SoftmaxLearner, learn, load_policy
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.limits import limit

COLUMNS = op.Columns(context=["town", "age", "seen"])


def table(n: int, *, strange: float = 0.0) -> pa.Table:
    """The town says which of three actions earns; age is often missing."""
    rng = np.random.default_rng(0)
    towns = np.array(["Ulm", "Bern", "Rome"])
    town = rng.integers(0, 3, n)
    action = rng.integers(0, 3, n)
    reward = (rng.random(n) < np.where(action == town, 0.8, 0.2)).astype(float)
    named = [None if k % 17 == 0 else str(towns[t]) for k, t in enumerate(town)]
    odd = rng.random(n) < strange
    start = datetime.datetime(2024, 1, 1)
    return pa.table({
        "action": action, "reward": reward, "logging": [[1 / 3] * 3] * n,
        "town": [f"new{k}" if odd[k] else name for k, name in enumerate(named)],
        "age": [None if k % 3 == 0 else float(k % 50) for k in range(n)],
        "seen": [start + datetime.timedelta(minutes=37 * k) for k in range(n)],
    })  # fmt: skip


@pytest.mark.parametrize("features", ["linear", "kernel"])
def test_a_policy_of_words_is_learned_kept_and_asked(features, tmp_path):
    log = op.BanditLog.from_frame(table(4_000), COLUMNS)
    learner = SoftmaxLearner(features=features, centres=50).fit(log)
    learner.save(tmp_path / "policy.json")
    policy = load_policy(tmp_path / "policy.json")
    assert policy.columns == ("town", "age", "seen")
    pi = policy.probabilities(log)
    np.testing.assert_array_equal(pi, learner.probabilities(log))
    best = {"Ulm": 0, "Bern": 1, "Rome": 2}
    town = log.context[:, 0]
    known = np.array([name in best for name in town])
    right = np.array([best.get(name, 0) for name in town])
    assert pi.reshape(-1, 3)[np.arange(4_000), right][known].mean() > 0.8
    np.testing.assert_array_equal(
        policy.of_contexts(log.context), learner.predict_proba(log.context)
    )


def test_files_and_frames_are_scored_alike_and_unknown_categories_are_counted(tmp_path):
    log = op.BanditLog.from_frame(table(4_000), COLUMNS)
    SoftmaxLearner(max_iter=30).fit(log).save(tmp_path / "policy.json")
    policy = load_policy(tmp_path / "policy.json")
    other = table(1_500, strange=0.1)
    odd = sum(name is not None and name.startswith("new") for name in other["town"].to_pylist())
    pq.write_table(other, tmp_path / "other.parquet", row_group_size=400)
    held = op.BanditLog.from_frame(other, COLUMNS)
    results = [
        op.evaluate(one, {"learned": policy})
        for one in (held, ParquetScan([tmp_path / "other.parquet"], COLUMNS))
    ]
    for result in results:
        (found,) = [one for one in result.findings if one.code == "unknown-categories"]
        assert found.numbers == {"of": 1_500, "unknown": odd}
        assert f"the category of town in {odd:,}" in found.sentence
    assert results[1].headline.value == pytest.approx(results[0].headline.value, rel=1e-10)
    strange = policy.of_contexts(held.context)
    new = np.array([str(name).startswith("new") for name in held.context[:, 0]])
    other_word = held.context.copy()
    other_word[new, 0] = "another"
    np.testing.assert_array_equal(policy.of_contexts(other_word), strange)
    assert "unknown-categories" not in [
        one.code for one in op.evaluate(log, {"learned": policy}).findings
    ]


def test_a_file_larger_than_memory_is_learned_from(tmp_path, monkeypatch):
    limit(monkeypatch, "offpolicy.evidence._plan.SAMPLE", 1_000)
    limit(monkeypatch, "offpolicy.learning._large_logs.TOGETHER_ROWS", 400)
    pq.write_table(table(6_000), tmp_path / "log.parquet", row_group_size=700)
    scan = ParquetScan([tmp_path / "log.parquet"], COLUMNS)
    learned = learn(SoftmaxLearner(passes=1), scan)
    assert learned.result.headline.value > 0.65
    assert learned.constant.action in "012"
    assert 0.3 < learned.constant.value < 0.5
    assert learned.constant.value in learned.constant.interval
    again = type(learned).from_json(learned.to_json())
    assert again == learned
    assert f"Always {learned.constant.action}, the best single action" in str(learned)
