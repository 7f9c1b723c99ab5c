"""Nothing given is ignored: an option that has no effect is refused, or said to have none."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import EstimatorError, ParameterError
from tests.support.clicks import clicked
from tests.support.commands import fails
from tests.support.refusals import refuses


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs of every kind, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(cli, ["simulate", "synthetic", "-n", "300", "-o", "log.parquet"])
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "action": rng.choice(["a", "b"], 300), "reward": rng.integers(0, 2, 300),
            "propensity": [0.5] * 300, "new": [0.5] * 300, "age": rng.normal(size=300),
        }
    )  # fmt: skip
    pq.write_table(table, "bare.parquet")
    Path("bare.csv").write_text("action,reward,propensity,new\na,1,0.5,0.5\nb,0,0.5,0.5\n")
    pq.write_table(clicked(1, n=120, sweeps=3.0).to_arrow(), "rank.parquet")
    return tmp_path


EVALUATE = ["evaluate", "log.parquet", "--policy", "policy"]
LEARN = ["learn", "log.parquet", "--context", "x*", "-o", "p.json"]
IDLE = {
    "--max-dropped": [*EVALUATE, "--max-dropped", "0.5"],
    "--master": [*EVALUATE, "--master", "local[2]"],
    "--verify": ["evaluate", "bare.csv", "--policy", "new", "--verify"],
    "--chosen": [*EVALUATE, "--chosen", "action"],
    "--memory": [*EVALUATE, "--engine", "spark", "--memory", "1GB"],
    "--threads": [*EVALUATE, "--engine", "spark", "--threads", "2"],
    "--on-bad-row": [*EVALUATE, "--engine", "spark", "--on-bad-row", "drop"],
    "--tuning": [*EVALUATE, "-e", "IPS", "--tuning", "slope"],
    "M": ["sweep", "log.parquet", "--policy", "policy", "-e", "CIPS(M=10)"],
    "--grid": ["sweep", "log.parquet", "--policy", "policy", "--resume", "kept"],
    "--centres": [*LEARN, "--centres", "9"],
    "--gamma": [*LEARN, "--features", "linear", "--gamma", "0.5"],
    "--baseline": [*LEARN, "--baseline", "0.5"],
    "--model-l2": [*LEARN, "-e", "CIPS(M=10)", "--start", "zero", "--model-l2", "1"],
    "--level": [*LEARN, "--holdout", "0", "--level", "0.9"],
    "--relevant": ["rank", "evaluate", "rank.parquet", "--ranker", "rank", "--relevant", "2"],
    "--context": ["rank", "evaluate", "rank.parquet", "--ranker", "rank", "--context", "rank"],
    "--propensity": ["rank", "propensities", "rank.parquet", "--propensity", "propensity"],
    "--ridge": ["rank", "propensities", "rank.parquet", "--ridge", "1"],
    "--n": ["reproduce", "theorems", "--quick", "--n", "400000"],
    "--runs": ["reproduce", "table2", "--quick", "--runs", "2"],
    "--jobs": ["reproduce", "figure4", "--kept", "--jobs", "2"],
    "--sizes": ["reproduce", "figure1", "--datasets", "MQ2007", "--sizes", "50"],
    "--all": ["datasets", "fetch", "wine", "--all"],
    "--rule": ["rank", "learn", "rank.parquet", "-e", "CIPS(M=2)", "--rule", "cips90", "-o",
               "r.json"],
}  # fmt: skip


@pytest.mark.parametrize("option", IDLE)
def test_an_option_without_effect_is_refused(folder, capsys, option):
    code, text = fails(IDLE[option], capsys)
    assert code == 2
    assert option in text
    assert not list(folder.glob("*.json"))


def told(words: list[str]) -> str:
    outcome = CliRunner().invoke(cli, words)
    assert outcome.exit_code in (0, 1), outcome.exception
    return outcome.stderr


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_contexts_that_nothing_is_made_of_are_said(folder, verb):
    bare = [verb, "bare.parquet", "--policy", "new"]
    assert "contexts-unused" in told([*bare, "--context", "age"])
    assert "contexts-unused" not in told(bare)
    simulated = [verb, "log.parquet", "--policy", "policy", "--context", "x*"]
    assert "--context" in told([*simulated, "--prediction", "prediction"])
    assert told(simulated).startswith("Note (prediction-found)")
    assert told([*simulated, "--prediction", ""]) == ""


def test_roles_of_rankings_that_nothing_is_made_of_are_said(folder):
    evaluate = ["rank", "evaluate", "rank.parquet", "--ranker", "rank"]
    assert "--features" in told([*evaluate, "--features", "click"])
    assert "--features" not in told(evaluate)
    propensities = ["rank", "propensities", "rank.parquet"]
    assert "--features" in told([*propensities, "--features", "click"])
    assert "--prediction" in told([*propensities, "--prediction", "click"])


def test_the_same_in_python(folder):
    for column, given in {
        "master": {"master": "local"}, "max_dropped": {"max_dropped": 0.5},
        "memory": {"engine": "spark", "memory": "1GB"},
        "verify": {"engine": "spark", "verify": True},
    }.items():  # fmt: skip
        with refuses(ParameterError, column, match=f"^{column} is for"):
            op.read_log("log.parquet", **given)
    table = pq.read_table("log.parquet")
    for name in ("where", "memory", "threads", "verify", "master"):
        with refuses(ParameterError, name):
            op.read_log(table, **{name: 1})
    log = op.read_log("log.parquet")
    with refuses(ParameterError, "tuning"):
        op.evaluate(log, "policy", estimators=["CIPS(M=3)"], tuning="switch")
    assert op.evaluate(log, "policy", estimators=["CIPS"], tuning="switch").tuned
    with refuses(EstimatorError, "estimator"):
        op.sweep(log, "policy", estimator="CIPS(M=3)")
    with refuses(ParameterError, "resume"):
        op.sweep(log, "policy", estimator="SB", prediction="prediction", resume="kept")
    assert not Path("kept").exists()
    op.sweep(log, "policy", estimator="CIPS", grid=[1.0, 2.0], resume="kept")


# -- Spark that is not there -------------------------------------------------------------------


def test_spark_without_its_package(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    code, text = fails([*EVALUATE, "--engine", "spark"], capsys)
    assert code == 2
    assert "offpolicy[spark]" in text


@pytest.mark.parametrize("problem", [RuntimeError("[JAVA_GATEWAY_EXITED] Java"), OSError(2, "no")])
def test_spark_without_java(folder, capsys, monkeypatch, problem):
    """What Spark raises where there is no Java; it is not at hand wherever the tests run."""

    class Builder:
        def appName(self, name: str) -> Builder:
            return self

        def master(self, url: str) -> Builder:
            return self

        def getOrCreate(self) -> None:
            raise problem

    for name in ("pyspark", "pyspark.sql", "pyspark.errors"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["pyspark.sql"].SparkSession = types.SimpleNamespace(builder=Builder())
    sys.modules["pyspark.errors"].PySparkException = RuntimeError
    for words in ([], ["--master", "local[2]"]):
        code, text = fails([*EVALUATE, "--engine", "spark", *words], capsys)
        assert code == 2
        assert "JAVA_HOME" in text
        assert "--master" in text
