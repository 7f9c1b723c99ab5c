"""A policy that is asked about on what it was learned from is said to be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.learning import SoftmaxLearner, learn, split
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.policies.learned import load_policy

COLUMNS = op.Columns(propensity=0.5, context=["x"])


def table(seed: int, n: int = 2000) -> pa.Table:
    rng = np.random.default_rng(seed)
    x, action = rng.normal(size=n), rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.3 + 0.3 * (action == (x > 0))).astype(float)
    return pa.table({"action": action, "reward": reward, "x": x})


def told(log, policy) -> list[str]:
    result = op.evaluate(log, {"learned": policy, "other": ":uniform"})
    return [one.place for one in result.findings if one.code == "training-rows"]


@pytest.mark.parametrize("holdout", [0.2, 0.0])
def test_the_file_knows_what_it_was_learned_from(tmp_path, holdout):
    log = op.BanditLog.from_frame(table(0), COLUMNS)
    learner = SoftmaxLearner()
    learned = learn(learner, log, holdout=holdout)
    if holdout:
        assert not [one for one in learned.result.findings if one.code == "training-rows"]
    learner.save(tmp_path / "policy.json")
    policy = load_policy(tmp_path / "policy.json")
    assert told(log, policy) == ["learned"]
    pq.write_table(table(0), tmp_path / "log.parquet", row_group_size=300)
    scan = ParquetScan([tmp_path / "log.parquet"], COLUMNS)
    assert told(scan, policy) == ["learned"]
    assert told(op.BanditLog.from_frame(table(1), COLUMNS), policy) == []
    report = op.check(log, {"learned": policy})
    assert "training-rows" in [one.code for one in report]


def test_parts_of_a_log_are_told_apart():
    log = op.BanditLog.from_frame(table(0), COLUMNS)
    rest, held = split(log, 0.3)
    learner = SoftmaxLearner().fit(rest)
    assert told(rest, learner) == ["learned"]
    assert told(held, learner) == []
