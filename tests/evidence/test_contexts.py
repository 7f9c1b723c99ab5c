"""Contexts: which were taken, whether they were known before the draw, and what is infinite."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import LogError
from tests.support.refusals import refuses

N = 4000
NAMES = {"action": "arm", "reward": "visit", "propensity": 1 / 3}


def frame(seed: int = 0, n: int = N) -> pd.DataFrame:
    """A randomised test, with what was known before it and what came after."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 3, n)
    visit = rng.random(n) < 0.2 + 0.1 * arm
    return pd.DataFrame({
        "age": rng.normal(40.0, 12.0, n), "income": np.exp(rng.normal(0.0, 2.0, n)),
        "town": rng.choice(["Ulm", "Bern", None], n), "arm": np.array(["a", "b", "c"])[arm],
        "visit": visit.astype(int), "spend": visit * rng.exponential(20.0, n),
        "basket": np.where(visit, "full", "empty"),
    })  # fmt: skip


def findings(log, **how) -> dict[str, op.Finding]:
    return {one.code: one for one in op.evaluate(log, ":uniform", **(NAMES | how)).findings}


# -- what was taken --------------------------------------------------------------------------


def test_what_a_pattern_took_is_named_and_a_name_after_a_minus_left_out():
    data = frame()
    found = findings(data, context=["*", "-spend", "-basket"])
    assert "age, income, town." in found["contexts-taken"].sentence
    log = op.read_log(data, **NAMES, context=["*", "-spend", "-b*", "-arm"])
    assert log.context_names == ("age", "income", "town")
    assert "contexts-taken" not in findings(data, context=["age", "town"])
    assert "contexts-taken" not in findings(data, context=["a*"])
    assert "contexts-taken" in findings(data, context=["a*", "s*"])  # spend


def test_outcomes_by_name_are_pointed_at():
    assert (
        "By name, spend may be an outcome."
        in findings(frame(), context=["*"])["contexts-taken"].sentence
    )


@pytest.mark.parametrize("context", [["*", "-spendd"], ["*", "-*"], ["-spend"]], ids=str)
def test_what_leaves_out_nothing_or_all_is_refused(context):
    with refuses(LogError):
        op.read_log(frame(), **NAMES, context=context)


def test_a_column_whose_name_begins_with_a_minus_is_that_column():
    data = frame().rename(columns={"age": "-age"})
    assert op.read_log(data, **NAMES, context=["-age", "town"]).context_names == ("-age", "town")


# -- known before, or after --------------------------------------------------------------------


def test_outcomes_are_found_and_what_was_known_before_is_not():
    found = findings(frame(), context=["age", "income", "town", "spend", "basket"])
    assert found["contexts-later"].numbers["contexts"] == "spend, basket"
    assert found["contexts-later"].severity == "warning"


def test_files_and_frames_are_told_the_same(tmp_path):
    data = frame()
    data.to_parquet(tmp_path / "log.parquet")
    how = {"context": ["*"]}
    held, scanned = findings(data, **how), findings(tmp_path, **how, where="age < 1e9")
    assert {"contexts-taken", "contexts-later"} <= set(held)
    for code in ("contexts-taken", "contexts-later"):
        assert held[code] == scanned[code]


def test_honest_logs_are_seldom_accused():
    """Forty logs of three contexts: at the promised 1 in 1,000, more than one is next to never."""
    asked = [
        findings(frame(seed, 600), context=["age", "income", "town"], estimators=["IPS"])
        for seed in range(40)
    ]
    assert sum("contexts-later" in found for found in asked) <= 1


def test_a_logger_that_looks_at_the_context_is_no_reason():
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    p = 1.0 / (1.0 + np.exp(-x))
    arm = (rng.random(N) < p).astype(int)
    logging = np.column_stack([1.0 - p, p])
    log = op.BanditLog.from_arrays(
        action=arm, reward=rng.integers(0, 2, N), logging=logging, context=x
    )
    uniform = np.full((N, 2), 0.5)
    assert "contexts-later" not in {one.code for one in op.evaluate(log, uniform).findings}
    untrue = log.replace(logging=np.full(2 * N, 0.5), propensity=None)
    assert "contexts-later" in {one.code for one in op.evaluate(untrue, uniform).findings}


def test_rows_of_one_cluster_count_once():
    """A hundred users of forty rows each, one arm a user: any context differs between arms."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(100), 40)
    arm = rng.integers(0, 2, 100)[user]
    columns = {"user": user, "arm": arm, "visit": rng.integers(0, 2, N)}
    columns["age"] = rng.normal(size=100)[user]
    how = {"propensity": 0.5, "context": ["age"]}
    assert "contexts-later" in findings(columns, **how)
    assert "contexts-later" not in findings(columns, **how, cluster="user")


# -- infinite ----------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], ["town"]], ids=["numbers", "objects"])
def test_infinite_contexts_are_counted(others):
    data = frame()
    data.loc[[3, 5], "income"] = np.inf
    data.loc[7, "age"] = -np.inf
    found = findings(data, context=["age", "income", *others])["contexts-infinite"]
    assert "age (1), income (2), of 4,000 rows" in found.sentence
    assert "contexts-infinite" not in findings(frame(), context=["age", "income", *others])
