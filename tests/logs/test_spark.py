"""Spark, with real executors: the numbers of the other engines, also when an executor dies."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError, ParameterError
from offpolicy.logs.files._parquet import ParquetScan
from tests.support import faults
from tests.support.arrow_types import KINDS, LISTS, column, outcome
from tests.support.arrow_types import table as log_table
from tests.support.cases import make_case
from tests.support.commands import fails
from tests.support.contexts import world
from tests.support.files import same, table_of, write
from tests.support.limits import limit
from tests.support.refusals import refuses

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

MASTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master(MASTER)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.files.maxPartitionBytes", "700k")
        .config("spark.sql.files.openCostInBytes", "1k")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def log_files(folder: Path, kind: str = "plain", rows: int = 60_000) -> list[Path]:
    case = make_case(
        np.random.default_rng(0), rows, weighted=kind == "weighted", unsupported=0.05, drawn=True
    )
    extra = {"shop": np.arange(rows) % 3}
    if "clusters" in kind:
        extra["cluster"] = np.arange(rows) // (2_000 if kind == "few clusters" else 20)
    return write(folder, table_of(case, **extra), 3, group=5_000)


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("plain", None), ("plain", "shop <> 1"), ("weighted", None), ("few clusters", "shop <> 1"),
        ("many clusters", None),
    ],
)  # fmt: skip
def test_spark_gives_what_files_give(spark, tmp_path, kind, where):
    files = log_files(tmp_path, kind)
    embedded = op.evaluate(ParquetScan(files, where=where), "new", prediction="q")
    scan = op.read_log(tmp_path, where=where, engine="spark")
    same(embedded, op.evaluate(scan, "new", prediction="q"))


def test_executors_read_files_in_one_job(spark, tmp_path):
    log_files(tmp_path)
    scan = op.read_log(tmp_path, engine="spark")
    status = spark.sparkContext._jsc.sc().statusStore()
    before = status.jobsList(None).size()
    op.evaluate(scan, "new", prediction="q")
    assert status.jobsList(None).size() == before + 1
    stage = status.lastStageAttempt(status.jobsList(None).apply(0).stageIds().apply(0))
    assert stage.numTasks() > 1
    assert stage.shuffleWriteBytes() == 0


def test_a_frame_of_files_is_in_their_order(spark, tmp_path):
    files = log_files(tmp_path)
    frame = spark.read.parquet(str(tmp_path)).where("shop <> 1")
    assert frame.rdd.getNumPartitions() > 3, "the test would show little"
    embedded = op.evaluate(ParquetScan(files, where="shop <> 1"), "new", prediction="q")
    same(embedded, op.evaluate(op.read_log(frame), "new", prediction="q"))


def test_a_sample_is_that_of_files(spark, tmp_path, monkeypatch):
    limit(monkeypatch, "offpolicy.evidence._plan.SAMPLE", 5_000)
    files = log_files(tmp_path)
    for where in (None, "shop = 2 OR reward = 1"):
        same(
            op.evaluate(ParquetScan(files, where=where), "new", prediction="q"),
            op.evaluate(op.read_log(tmp_path, where=where, engine="spark"), "new", prediction="q"),
        )


def test_arms_that_are_found_and_policies_that_are_said(spark, tmp_path):
    rng = np.random.default_rng(5)
    n, arms = 30_000, np.array(["a", "b", "c"])
    action, better = rng.integers(0, 3, n), rng.integers(0, 3, n)
    reward = (rng.random(n) < 0.2 + 0.2 * (action == better)).astype(float)
    frame = pa.table({
        "action": arms[action], "better": arms[better], "group": rng.integers(0, 2, n),
        "reward": pa.array(reward, mask=rng.random(n) < 0.1),
    })  # fmt: skip
    files = write(tmp_path, frame, 2, group=5_000)
    columns = op.Columns(propensity=1 / 3, fill_reward=0)
    rule = "rule=:rule(case when \"group\" = 1 then 'a' else better end)"
    scan = op.read_log(tmp_path, columns, engine="spark")
    for policies in ([rule, "x=:always(b)"], "better"):
        results = [op.evaluate(log, policies) for log in (ParquetScan(files, columns), scan)]
        for one, other in zip(*(result.headlines for result in results), strict=True):
            assert other.value == pytest.approx(one.value, rel=1e-12)
            assert other.interval == pytest.approx(one.interval, rel=1e-12)
        assert [one.code for one in results[0].findings] == [
            one.code for one in results[1].findings
        ]


def test_the_other_verbs(spark, tmp_path):
    files = log_files(tmp_path)
    one, other = ParquetScan(files), op.read_log(tmp_path, engine="spark")
    policies = {"new": "new", "same": "logging"}
    a = op.compare(one, policies, prediction="q").to_arrow().to_pylist()
    b = op.compare(other, policies, prediction="q").to_arrow().to_pylist()
    for row, twin in zip(a, b, strict=True):
        assert twin["verdict"] == row["verdict"]
        assert twin["value"] == pytest.approx(row["value"], rel=1e-10, abs=1e-12)
        assert twin["stderr"] == pytest.approx(row["stderr"], rel=1e-10)
    a, b = (op.sweep(scan, "new", prediction="q", estimator="CAB") for scan in (one, other))
    for name in ("value", "stderr"):
        np.testing.assert_allclose(
            b.to_arrow().column(name).to_numpy(), a.to_arrow().column(name).to_numpy(), rtol=1e-12
        )
    a, b = (op.check(scan, {"new": "new"}, prediction="q") for scan in (one, other))
    assert [finding.code for finding in b] == [finding.code for finding in a]


def test_a_frame_that_is_not_of_files(spark):
    rows = 30_000
    table = table_of(make_case(np.random.default_rng(3), rows, drawn=True))
    frame = spark.createDataFrame(table)
    log = op.BanditLog.from_frame(table)
    memory = op.evaluate(log, {"new": "new"}, prediction="q")
    same(memory, op.evaluate(op.read_log(frame), "new", prediction="q"))
    # In another order folds differ, and no more than that.
    mixed = op.evaluate(op.read_log(frame.repartition(5, "reward")), "new", prediction="q")
    assert mixed["IPS"].value == pytest.approx(memory["IPS"].value, rel=1e-12)
    assert mixed["IPS"].stderr == pytest.approx(memory["IPS"].stderr, rel=1e-10)


def test_a_model_is_trained_on_contexts(spark, tmp_path):
    table, _ = world(30_000)
    files = write(tmp_path, table, 2, group=5_000)
    columns = op.Columns(context=["x*"])
    embedded = op.evaluate(ParquetScan(files, columns), "new")
    result = op.evaluate(op.read_log(tmp_path, columns, engine="spark"), "new")
    assert result.trained.decisions == embedded.trained.decisions == 30_000
    same(embedded, result)


def test_a_bad_row_on_an_executor_is_named(spark, tmp_path):
    table = table_of(make_case(np.random.default_rng(4), 40_000, drawn=True))
    reward = table.column("reward").to_numpy().copy()
    reward[31_234] = np.nan
    bad = table.set_column(table.column_names.index("reward"), "reward", [reward])
    files = write(tmp_path, bad, 2)
    own = 31_234 - int(0.5**1.5 * 40_000)
    with refuses(LogError, "reward", own, file="part-1.parquet"):
        op.evaluate(op.read_log(tmp_path, engine="spark"), "new", prediction="q")
    assert len(files) == 2


def test_what_is_asked_wrongly(spark, tmp_path):
    log_files(tmp_path, rows=3_000)
    with refuses(LogError, "newest"):
        op.evaluate(op.read_log(tmp_path, engine="spark"), "newest")
    with refuses(ParameterError, "where"):
        op.read_log(tmp_path, where="shop ===", engine="spark")
    with refuses(LogError, file="nowhere"):
        op.read_log(tmp_path / "nowhere", engine="spark")
    with refuses(LogError, "", file="3 files"):
        op.read_log(tmp_path, where="shop = 17", engine="spark")
    with pytest.raises(ParameterError, match="Spark does lost work again"):
        op.evaluate(op.read_log(tmp_path, engine="spark"), "new", resume=tmp_path / "kept")
    with refuses(ParameterError, "engine"):
        op.read_log(tmp_path, engine="flink")


def test_files_that_change_meanwhile_are_refused(spark, tmp_path):
    log_files(tmp_path)
    scan = op.read_log(tmp_path, engine="spark")
    log_files(tmp_path, rows=50_000)
    with pytest.raises(LogError):
        op.evaluate(scan, "new", prediction="q")


def test_the_command_line(spark, tmp_path):
    files = log_files(tmp_path)
    asked = ["--policy", "new", "--prediction", "q", "-e", "SNIPS", "--format", "json"]
    embedded = CliRunner().invoke(cli, ["evaluate", *map(str, files), *asked])
    run = CliRunner().invoke(cli, ["evaluate", str(tmp_path), *asked, "--engine", "spark"])
    assert run.exit_code == embedded.exit_code, run.stderr
    same(op.Result.from_json(embedded.stdout), op.Result.from_json(run.stdout))


def executors() -> list[int]:
    """Their processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_an_executor_is_killed(spark, tmp_path):
    class Slow:
        """Uniform; says where it is asked, and takes its time."""

        def __init__(self, folder: str) -> None:
            self.folder = folder

        def probabilities(self, log):
            Path(self.folder, f"{os.getpid()}-{time.monotonic_ns()}").touch()
            time.sleep(0.5)
            counts = np.diff(log.offsets)
            return np.repeat(1.0 / counts, counts)

    (tmp_path / "log").mkdir()
    (tmp_path / "asked").mkdir()
    files = log_files(tmp_path / "log", rows=150_000)
    whole = op.evaluate(ParquetScan(files), {"slow": op.policies.Uniform()}, prediction="q")
    before = executors()
    assert len(before) == 2
    killed = []

    def kill() -> None:
        """One executor, as soon as it works on rows."""
        for _ in range(600):
            own = {path.name.split("-")[0] for path in (tmp_path / "asked").iterdir()}
            if own - {str(os.getpid())}:
                os.kill(before[0], signal.SIGKILL)
                killed.append(before[0])
                return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    scan = op.read_log(tmp_path / "log", engine="spark")
    result = op.evaluate(scan, {"slow": Slow(str(tmp_path / "asked"))}, prediction="q")
    killer.join()
    assert killed
    assert killed[0] not in executors()
    same(whole, result)


def test_a_name_that_exists_is_that_file(spark, tmp_path):
    for name, reward in (("log[1].parquet", 1.0), ("log1.parquet", 0.0), ("a*.parquet", 1.0)):
        table = pa.table({"action": [0] * 9, "reward": [reward] * 9, "logging": [[1.0]] * 9})
        pq.write_table(table, tmp_path / name)
    pq.write_table(table, tmp_path / "ab.parquet")
    for names, rewards in {
        ("log[1].parquet",): [1.0], ("a*.parquet",): [1.0],
        ("log[1].parquet", "a*.parquet", "log1.parquet"): [1.0, 1.0, 0.0],
        ("log[1].parquet", "l*1.parquet"): [1.0, 0.0],
    }.items():  # fmt: skip
        scan = op.read_log([tmp_path / name for name in names], engine="spark")
        assert scan.read([(0, len(scan))], ()).reward.tolist()[::9] == rewards
    with refuses(LogError, file="ab.parquet"):
        op.read_log([tmp_path / "ab.parquet"] * 2, engine="spark")


def test_folders_above_a_path_are_as_in_files(spark, tmp_path):
    for day, user in ((1, "01"), (2, "1")):
        folder = tmp_path / f"log/day={day}/user={user}"
        folder.mkdir(parents=True)
        write(folder, table_of(make_case(np.random.default_rng(day), 50, drawn=True)))
    one, all_ = tmp_path / "log/day=2", tmp_path / "log"
    columns = op.Columns(cluster="user", time="day")
    for source in (all_, one, [all_ / "day=1", one], str(all_ / "*" / "*" / "*.parquet")):
        embedded, scan = (op.read_log(source, columns, engine=e) for e in ("embedded", "spark"))
        held = embedded if isinstance(embedded, op.BanditLog) else _whole(embedded)
        for role in ("cluster", "time", "reward"):
            assert getattr(_whole(scan), role).tolist() == getattr(held, role).tolist()
        assert len(op.read_log(source, where="day = 2", engine="spark")) == 50
    other = tmp_path / "other/day=3/user=2"
    other.mkdir(parents=True)
    write(other, table_of(make_case(np.random.default_rng(0), 50, drawn=True)))
    with refuses(LogError):
        op.read_log([all_, tmp_path / "other"], engine="spark")


@pytest.mark.parametrize("kind", ["halffloat", "time64[us]", "timestamp[ns]"])
def test_a_column_that_spark_cannot_read_is_named(spark, tmp_path, kind):
    made = pa.array(np.ones(9, np.float16 if kind == "halffloat" else np.int64))
    made = made if kind == "halffloat" else made.cast(kind)
    table = pa.table({"action": [0] * 9, "reward": [1.0] * 9, "logging": [[1.0]] * 9, "odd": made})
    pq.write_table(table, tmp_path / "log.parquet")
    with refuses(LogError, "odd", file="log.parquet"):
        op.read_log(tmp_path / "log.parquet", engine="spark")


def test_failing_files(spark, tmp_path, monkeypatch, capsys):
    """The Parquet of the corpus; what is said is what the other engines say, but for the reading of
    what is not compared with its checksums."""
    monkeypatch.chdir(tmp_path)
    for fault in faults.write(tmp_path):
        if fault.name.endswith(".parquet") and not fault.options:
            words = ["evaluate", fault.name, "--policy", faults.POLICY, "--engine", "spark"]
            code, said = fails(words, capsys)
            assert (code, said.count("\n")) == (fault.code, 1), said
            assert said.startswith(f"{fault.error.__name__}: "), said
            assert fault.name in said


def test_folders_and_damage_are_as_in_files(spark, tmp_path):
    table = pa.table({"action": [0] * 9, "reward": [1.0] * 9, "logging": [[1.0]] * 9})
    for folder in ("a/reward=7", "b/time=7"):
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(table, tmp_path / folder / "x.parquet")
    with refuses(LogError, "reward", file="x.parquet"):
        op.read_log(tmp_path / "a", engine="spark")
    assert op.read_log(tmp_path / "b", engine="spark").read([(0, 9)], ()).time is None
    asked = op.read_log(tmp_path / "b", op.Columns(time="time"), engine="spark")
    assert set(asked.read([(0, 9)], ()).time.tolist()) == {7}
    twice = table.append_column("reward", table["reward"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with refuses(LogError, file="twice.parquet"):
        op.read_log(tmp_path / "twice.parquet", engine="spark")


@pytest.mark.parametrize("name", KINDS | LISTS)
def test_types_are_read_as_elsewhere(spark, tmp_path, name):
    kind = (KINDS | LISTS)[name]
    # Spark reads no half floats, of timestamps micro- and milliseconds, and no times of day.
    reads = (*kind.types, pa.timestamp("us"))
    arrow = next(k for k in reads if "halffloat" not in str(k) and str(k) not in UNKNOWN)
    roles = {"logging": kind.number, "candidates": kind.name}
    roles = roles if name in LISTS else {"reward": kind.number, "cluster": kind.name}
    path = tmp_path / "log.parquet"
    for role, is_read in roles.items():
        data = log_table(column(arrow, kind.values), role)
        pq.write_table(data, path)
        held, found = (outcome(functools.partial(read, path), role) for read in (_held, _spark))
        if is_read and name != "time32, time64":
            assert found == held
        else:
            assert str(found).startswith("refused")


UNKNOWN = ("timestamp[s]", "timestamp[s, tz=UTC]", "timestamp[s, tz=Europe/Berlin]")


def _held(path: Path) -> op.BanditLog:
    return op.read_log(path)


def _spark(path: Path) -> op.BanditLog:
    return _whole(op.read_log(path, engine="spark"))


def _whole(scan: op.LogScan) -> op.BanditLog:
    return scan.read([(0, len(scan))], ())
