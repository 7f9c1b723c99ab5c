"""Contexts, but no reward model: one is trained on a sample, never on a decision's own fold."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow.csv import write_csv

import offpolicy as op
from offpolicy._core.contexts import ContextEncoder
from offpolicy.cli import cli
from offpolicy.errors import LogError
from offpolicy.evidence._default_model import BOOSTED_ROWS, FEWEST_ROWS, train_model
from offpolicy.evidence._sources import source_of
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.models import ScaledRidge
from tests.support.cases import Shape, make_case
from tests.support.contexts import K, world
from tests.support.files import same
from tests.support.limits import small_blocks
from tests.support.refusals import refuses

COLUMNS = op.Columns(context=["x0", "x1", "x2"])


def test_a_model_is_trained_where_there_are_contexts():
    table, value = world(4_000)
    log = op.BanditLog.from_frame(table, COLUMNS)
    with_model = op.evaluate(log, "new")
    without = op.evaluate(log, "new", prediction=False)
    assert {row.estimator.split("(")[0] for row in with_model} >= {"DM", "DR", "CAB", "CAB-DR"}
    assert {row.estimator for row in without} == {"IPS", "SNIPS"}
    assert with_model["DR"].stderr < 0.9 * with_model["IPS"].stderr
    assert value in with_model.headline.interval
    assert "a reward model was trained on the contexts of 4,000 decisions" in str(with_model)
    assert op.Result.from_json(with_model.to_json()).trained == with_model.trained
    assert without.trained is None
    assert with_model.headline.interval.width < without.headline.interval.width


def test_no_decision_is_predicted_from_its_own_fold():
    table, _ = world(2_000)
    log = op.BanditLog.from_frame(table, COLUMNS)
    source = source_of(log, {"new": "new"}, None)
    train_model(source)
    fold = log.fold(5)
    reward, some = log.reward.copy(), np.flatnonzero(fold == 3)[:20]
    reward[some] = 1.0 - reward[some]
    changed = table.set_column(1, "reward", pa.array(reward))
    other = source_of(op.BanditLog.from_frame(changed, COLUMNS), {"new": "new"}, None)
    train_model(other)
    mine = np.repeat(fold == 3, K)
    np.testing.assert_array_equal(source.delta_hat[mine], other.delta_hat[mine])
    assert not np.array_equal(source.delta_hat[~mine], other.delta_hat[~mine])


def test_words_are_coded_column_by_column():
    table, _ = world(1_000, cities=True)
    log = op.BanditLog.from_frame(table, op.Columns(context=["x0", "city"]))
    source = source_of(log, {"new": "new"}, None)
    train_model(source)
    codes = ContextEncoder.fit(log.context)(log.context)
    assert codes.shape == (1_000, 3)
    named = replace(
        log, actions=tuple(range(K)), candidate=np.tile(np.arange(K), 1_000), context=codes
    )
    slowly = op.RewardModel(ScaledRidge().pipeline()).fit(named).predict(named)
    np.testing.assert_allclose(source.delta_hat, slowly, rtol=1e-9)


@pytest.mark.parametrize("cities", [False, True])
def test_files_train_the_same_model(tmp_path: Path, monkeypatch, cities):
    small_blocks(monkeypatch, 500, sample=1_000)
    table, _ = world(6_000, cities=cities)
    columns = op.Columns(context=["x0", "city"] if cities else ["x0", "x1", "x2"])
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=800)
    scan = ParquetScan([tmp_path / "log.parquet"], columns)
    log = op.BanditLog.from_frame(table, columns)
    same(op.evaluate(log, {"new": "new"}), op.evaluate(scan, "new"))
    compared = [op.compare(one, {"new": "new"}).to_arrow().to_pylist()[0] for one in (log, scan)]
    assert compared[1]["value"] == pytest.approx(compared[0]["value"], rel=1e-10)
    grid = [0.5, 2.0]
    curves = [op.sweep(one, "new", estimator="CAB", grid=grid).to_arrow() for one in (log, scan)]
    for name in ("value", "stderr"):
        a, b = (curve.column(name).to_numpy() for curve in curves)
        np.testing.assert_allclose(b, a, rtol=1e-12)


def test_it_goes_on_after_a_stop(tmp_path: Path, monkeypatch):
    small_blocks(monkeypatch, 500)
    table, _ = world(3_000)
    pq.write_table(table, tmp_path / "log.parquet")
    scan = ParquetScan([tmp_path / "log.parquet"], COLUMNS)
    whole = op.evaluate(scan, "new")
    for _ in range(2):
        again = op.evaluate(scan, "new", resume=tmp_path / "kept")
        assert again.to_json() == whole.to_json()


def test_ragged_candidates_with_names():
    rng = np.random.default_rng(1)
    case = make_case(rng, 1_000, ties=True, drawn=True)
    names = Shape(np.diff(case.offsets)).names(rng, range(6))
    context = rng.standard_normal((1_000, 2))
    odd = names[case.offsets[:-1] + case.chosen] % 2
    reward, pi0 = context[:, 0] * odd + rng.standard_normal(1_000), case.pi0
    log = case.log_with(reward=reward, candidate=names, context=context)
    assert "DR" in [row.estimator for row in op.evaluate(log, pi0)]
    nameless = case.log_with(reward=reward, context=context)
    result = op.evaluate(nameless, pi0)
    assert "DR" not in [row.estimator for row in result]
    assert [found.code for found in result.findings] == ["contexts-unused"]


def test_few_rows_are_not_learned_from():
    table, _ = world(FEWEST_ROWS - 1)
    log = op.BanditLog.from_frame(table, COLUMNS)
    result = op.evaluate(log, "new")
    assert "DR" not in [row.estimator for row in result]
    assert "contexts-unused" in [found.code for found in result.findings]
    without = op.evaluate(log, "new", prediction=False)
    assert "contexts-unused" not in [found.code for found in without.findings]


def test_a_model_that_is_given_is_used():
    table, _ = world(1_000)
    log = op.BanditLog.from_frame(table, COLUMNS)
    flat = np.full(K * 1_000, 0.25)
    assert op.evaluate(log, "new", prediction=flat)["DM"].value == pytest.approx(0.25)


def curved(n: int, K: int = 2, *, curve: float = 1.0) -> op.BanditLog:
    """A log whose rewards no line can follow, if there is a curve."""
    rng = np.random.default_rng(3)
    x, action = rng.uniform(-1, 1, (n, 2)), rng.integers(0, K, n)
    mean = curve * np.abs(x[:, 0]) * (1 + action) + x[:, 1]
    reward = mean + 0.3 * rng.standard_normal(n)
    logging = np.full((n, K), 1 / K)
    return op.BanditLog.from_arrays(action=action, reward=reward, logging=logging, context=x)


def test_boosting_is_taken_where_it_is_clearly_better():
    log = curved(BOOSTED_ROWS)
    trained = op.evaluate(log, op.Uniform()).trained
    assert trained.kind == "boosting per action"
    assert list(trained.tried) == ["ridge per action", "boosting per action", "mean per action"]
    assert trained.fit == trained.tried[trained.kind] > trained.tried["ridge per action"] + 0.1
    assert "boosting per action, R² 0." in str(trained)
    straight = op.evaluate(curved(BOOSTED_ROWS, curve=0.0), op.Uniform()).trained
    assert straight.kind == "ridge per action"
    assert len(straight.tried) == 3
    few = op.evaluate(curved(BOOSTED_ROWS - 1), op.Uniform()).trained
    assert list(few.tried) == ["ridge per action", "mean per action"]


@pytest.mark.parametrize("n", [2_000, BOOSTED_ROWS])
def test_what_is_held_out_is_what_a_model_without_the_fold_says(n):
    """Of all folds where decisions are few, of the largest where they are many."""
    log = curved(n)
    trained = op.evaluate(log, op.Uniform()).trained
    fold = log.fold(5)
    asked = range(5) if n < BOOSTED_ROWS else [np.argmax(np.bincount(fold))]
    ridge = means = 0.0
    for f in asked:
        for action in (0, 1):
            seen, rows = (np.flatnonzero((log.chosen == action) & one) for one in
                          (fold != f, fold == f))  # fmt: skip
            model = ScaledRidge().pipeline().fit(log.context[seen], log.reward[seen])
            ridge += ((log.reward[rows] - model.predict(log.context[rows])) ** 2).sum()
            means += ((log.reward[rows] - log.reward[seen].mean()) ** 2).sum()
    reward = log.reward[np.isin(fold, list(asked))]
    spread = ((reward - reward.mean()) ** 2).sum()
    assert trained.tried["ridge per action"] == pytest.approx(1.0 - ridge / spread, rel=1e-9)
    assert trained.tried["mean per action"] == pytest.approx(1.0 - means / spread, abs=1e-9)


def idle(n: int, d: int) -> pa.Table:
    """A log whose contexts say nothing of its rewards."""
    rng = np.random.default_rng(7)
    action = rng.integers(0, K, n)
    reward = (rng.random(n) < 0.2 + 0.15 * action).astype(float)
    columns = {f"x{j}": rng.standard_normal(n) for j in range(d)}
    rest = {"logging": [[1 / K] * K] * n, "new": [[0.7] + [0.3 / (K - 1)] * (K - 1)] * n}
    return pa.table({"action": action, "reward": reward, **columns, **rest})


def test_contexts_that_say_nothing_are_left_out(tmp_path: Path):
    """The model is each action's mean outside the fold, in memory and in a file."""
    table = idle(600, 40)
    columns = op.Columns(context=["x*"])
    log = op.BanditLog.from_frame(table, columns)
    source = source_of(log, {"new": "new"}, None)
    train_model(source)
    assert source.trained.kind == "mean per action"
    assert source.trained.tried["ridge per action"] < source.trained.fit
    fold = log.fold(5)
    for f in range(5):
        for action in range(K):
            mean = log.reward[(fold != f) & (log.chosen == action)].mean()
            found = source.delta_hat.reshape(-1, K)[fold == f, action]
            np.testing.assert_allclose(found, mean, rtol=1e-12)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=200)
    scan = ParquetScan([tmp_path / "log.parquet"], columns)
    same(op.evaluate(log, {"new": "new"}), op.evaluate(scan, "new"))


def test_means_of_candidates_that_differ():
    """Of each action by name, where a decision has some of them; the rarely seen are shrunken."""
    rng = np.random.default_rng(1)
    case = make_case(rng, 1_000, ties=True, drawn=True)
    names = Shape(np.diff(case.offsets)).names(rng, range(6))
    chosen = names[case.offsets[:-1] + case.chosen]
    context, reward = rng.standard_normal((1_000, 30)), chosen + rng.standard_normal(1_000)
    log = case.log_with(reward=reward, candidate=names, context=context)
    source = source_of(log, {"new": case.pi0}, None)
    train_model(source)
    assert source.trained.kind == "mean per action"
    fold = np.repeat(log.fold(5), np.diff(case.offsets))
    for action in range(6):
        seen = reward[(log.fold(5) != 2) & (chosen == action)]
        np.testing.assert_allclose(source.delta_hat[(fold == 2) & (names == action)], seen.mean())


def test_threads_change_no_byte():
    from threadpoolctl import threadpool_limits

    log, texts = curved(BOOSTED_ROWS), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            texts.append(op.evaluate(log, op.Uniform()).to_json())
    assert texts[0] == texts[1]


def test_features_of_candidates_are_tried_beside_the_context():
    rng = np.random.default_rng(0)
    n, K = 3_000, 3
    x, features = rng.standard_normal((n, 2)), rng.standard_normal((n, K, 2))
    action, rows = rng.integers(0, K, n), np.arange(n)
    noise = 0.1 * rng.standard_normal(n)
    for kind, reward in {
        "ridge on features of the candidates": features[rows, action, 0] + noise,
        "ridge per action": x[rows, action % 2] * (action - 1.0) + noise,
    }.items():
        log = op.BanditLog.from_arrays(
            action=action, reward=reward, logging=np.full((n, K), 1 / K), context=x,
            candidate_features=features,
        )  # fmt: skip
        assert op.evaluate(log, op.Uniform()).trained.kind == kind


MIXED = {
    "age": [None if k % 7 == 0 else 20.0 + k % 40 for k in range(3_000)],
    "town": [None if k % 11 == 0 else ("Oslo", "Rome", "Lima")[k % 3] for k in range(3_000)],
    "member": [k % 2 == 0 for k in range(3_000)],
    "seen": [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=k) for k in range(3_000)],
    "empty": pa.array([None] * 3_000, pa.float64()),
}


def test_any_column_in_frames_and_files_gives_the_same_numbers(tmp_path: Path):
    """Missing values, text, truth values and times; as a frame of three kinds, and as files."""
    rng = np.random.default_rng(1)
    action = rng.integers(0, 2, 3_000)
    table = pa.table({
        "action": action, "reward": (rng.random(3_000) < 0.2 + 0.3 * action).astype(float),
        "logging": [[0.5, 0.5]] * 3_000, "new": [[0.2, 0.8]] * 3_000, **MIXED,
    })  # fmt: skip
    columns = op.Columns(context=list(MIXED))
    texts = table.set_column(2, "logging", pa.array(["[0.5, 0.5]"] * 3_000))
    texts = texts.set_column(3, "new", pa.array(["[0.2, 0.8]"] * 3_000))
    write_csv(texts, tmp_path / "log.csv")
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=700)
    with (tmp_path / "log.jsonl").open("w") as stream:
        for row in table.to_pylist():
            stream.write(json.dumps(row | {"seen": str(row["seen"])}) + "\n")
    frames = [table, table.to_pandas(), pl.from_arrow(table)]
    expected = op.evaluate(op.BanditLog.from_frame(table, columns), {"new": "new"})
    assert expected.trained.decisions == 3_000
    for frame in frames[1:]:
        found = op.evaluate(op.BanditLog.from_frame(frame, columns), {"new": "new"})
        assert found.to_json() == expected.to_json()
    for name in ("log.csv", "log.parquet", "log.jsonl"):
        same(expected, op.evaluate(op.read_log(tmp_path / name, columns), {"new": "new"}))
    assert op.read_log(table, columns, on_bad_row="drop").dropped.rows == 0


ODD = {
    "null": pa.nulls(400),
    "bool": pa.array([None if k % 5 == 0 else k % 2 == 0 for k in range(400)]),
    "decimal": pa.array([None if k % 7 == 0 else Decimal(k) / 4 for k in range(400)],
                        pa.decimal128(10, 2)),
    "dictionary": pa.array([None if k % 7 == 0 else "abc"[k % 3] for k in range(400)])
    .dictionary_encode(),
    "date": pa.array([datetime.date(2024, 1, 1 + k % 30) for k in range(400)]),
    "nanoseconds": pa.array([None if k % 9 == 0 else 10**17 * k for k in range(40)] * 10,
                            pa.timestamp("ns")),
    "zoned": pa.array([10**9 * k for k in range(400)], pa.timestamp("us", "Europe/Berlin")),
    "time": pa.array([datetime.time(k % 24) for k in range(400)]),
    "uint64": pa.array([2**64 - 1 - k for k in range(400)], pa.uint64()),
    "int64": pa.array([None if k % 2 else 2**62 + k for k in range(400)]),
    "half": pa.array(np.arange(400).astype(np.float16)),
    "infinite": pa.array([math.inf, -math.inf] * 200),
    "long": pa.array(["x" * 10_000] * 400, pa.large_string()),
    "constant": pa.array([1.5] * 400),
    "empty": pa.array([""] * 400),
}  # fmt: skip


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("kind", ODD)
def test_odd_columns_are_contexts_too(tmp_path: Path, kind, beside):
    """Alone and beside text, in memory and in a file."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 400)
    table = pa.table({
        "action": action, "reward": (rng.random(400) < 0.3).astype(float), "odd": ODD[kind],
        "logging": [[0.5, 0.5]] * 400, "new": [[0.3, 0.7]] * 400, "town": ["a", "b"] * 200,
    })  # fmt: skip
    columns = op.Columns(context=["odd", "town"] if beside else ["odd"])
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=150)
    memory = op.evaluate(op.BanditLog.from_frame(table, columns), {"new": "new"})
    same(memory, op.evaluate(ParquetScan([tmp_path / "log.parquet"], columns), {"new": "new"}))
    assert memory.trained.decisions == 400
    assert abs(memory["DM"].value - memory["SNIPS"].value) < 0.1


# -- from the command line ---------------------------------------------------------------------


def run(*words: str) -> Result:
    outcome = CliRunner().invoke(cli, [*words])
    assert outcome.exit_code == 0, outcome.stderr
    return outcome


def test_contexts_by_pattern(tmp_path: Path):
    table, _ = world(2_000)
    path = str(tmp_path / "log.parquet")
    pq.write_table(table, path)
    asked = ["evaluate", path, "--policy", "new", "--format", "json"]
    one = run(*asked, "--context", "x*").stdout
    assert one == run(*asked, "--context", "x0", "--context", "x1", "--context", "x2").stdout
    assert '"DR"' in one
    assert '"DR"' not in run(*asked).stdout
    scan = ParquetScan([Path(path)], op.Columns(context=["x*"]))
    same(op.Result.from_json(one), op.evaluate(scan, "new"))


def test_a_pattern_leaves_other_roles_alone():
    columns = op.Columns(context=["*"], reward="click")
    names = ["click", "action", "logging", "age", "city"]
    assert columns.context_in(names) == ["age", "city"]
    with refuses(LogError, column="z*"):
        op.BanditLog.from_frame(world(10)[0], op.Columns(context=["z*"]))


@pytest.mark.parametrize("verb", ["evaluate", "compare", "check", "sweep"])
def test_the_uniform_policy_needs_no_column(tmp_path: Path, verb):
    path = str(tmp_path / "log.parquet")
    pq.write_table(world(2_000)[0], path)
    outcome = CliRunner().invoke(cli, [verb, path, "--policy", ":uniform", "--context", "x*"])
    assert outcome.exit_code in (0, 1), outcome.stderr
    if verb != "sweep":
        assert "uniform" in outcome.stdout
    unknown = CliRunner().invoke(cli, [verb, path, "--policy", ":best"])
    assert unknown.exit_code == 2
    assert "there is no policy :best" in unknown.stderr
