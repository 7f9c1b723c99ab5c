"""Contexts, but no reward model: one is trained on a sample, never on a decision's own fold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import offpolicy as op
from offpolicy._core.contexts import ContextEncoder
from offpolicy.cli import cli
from offpolicy.errors import LogError
from offpolicy.evidence._default_model import FEWEST_ROWS, _ridge, train_model
from offpolicy.evidence._sources import source_of
from offpolicy.logs.files._parquet import ParquetScan
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
    assert op.Result.from_json(with_model.to_json()).trained == 4_000
    assert without.trained is None
    assert with_model.headline.interval.width < without.headline.interval.width


def test_no_decision_is_predicted_from_its_own_fold():
    table, _ = world(2_000)
    log = op.BanditLog.from_frame(table, COLUMNS)
    source = source_of(log, {"new": "new"}, None)
    train_model(source)
    fold = log.fold(5)
    reward = log.reward.copy()
    reward[fold == 3] = 1.0 - reward[fold == 3]
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
    np.testing.assert_array_equal(
        source.delta_hat, op.RewardModel(_ridge()).fit(named).predict(named)
    )


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
