"""The first rows of a log, and samples of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError, ParameterError
from tests.support.limits import limit as set_limit
from tests.support.refusals import refuses

N = 40_000


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, N)
    return pa.table({
        "action": action, "reward": rng.random(N), "row": np.arange(N),
        "new": rng.random(N).round(3),
    })  # fmt: skip


@pytest.fixture
def file(tmp_path, monkeypatch):
    set_limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 1)
    pq.write_table(table(), tmp_path / "log.parquet", row_group_size=9_000)
    return tmp_path / "log.parquet"


COLUMNS = op.Columns(propensity=0.5)
HOW = [
    {"limit": 20_000}, {"limit": 10}, {"limit": 10 * N}, {"sample": 0.1}, {"sample": 5_000},
    {"limit": 20_000, "sample": 0.5, "sample_seed": 3}, {"where": "row % 2 = 0", "limit": 9_000},
]  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=str)
def test_files_and_frames_give_the_same_rows(file, how):
    memory, scan = op.read_log(table(), COLUMNS, **how), op.read_log(file, COLUMNS, **how)
    rows = np.array(memory.named_column("row"))
    np.testing.assert_array_equal(rows, scan.read([(0, len(scan))], ["row"]).named_column("row"))
    values = [op.evaluate(log, "new", estimators=["IPS"])["IPS"].value for log in (memory, scan)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    if "sample" not in how:
        assert len(rows) == min(how["limit"], N)
        assert (np.diff(rows) == (2 if "where" in how else 1)).all()


def test_samples_are_as_large_as_asked_and_of_all_the_log():
    sizes = [len(op.read_log(table(), COLUMNS, sample=0.1, sample_seed=k)) for k in range(5)]
    assert len(set(sizes)) > 1
    assert max(abs(size - N / 10) for size in sizes) < 6 * np.sqrt(N * 0.09)
    rows = op.read_log(table(), COLUMNS, sample=0.1).named_column("row")
    assert abs(rows.mean() - N / 2) < 6 * N / np.sqrt(12 * len(rows))


def test_the_command_says_how_many_rows_were_read(file):
    words = ["evaluate", str(file), "--propensity", "0.5", "--policy", "new", "--sample", "0.1"]
    outcome = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert outcome.stderr.startswith("Only 3,9")
    assert "seed 0" in outcome.stderr


def test_what_is_no_portion_is_refused():
    with refuses(ParameterError, "limit"):
        op.read_log(table(), COLUMNS, limit=0)
    with refuses(ParameterError, "sample"):
        op.read_log(table(), COLUMNS, sample=0.0)
    with refuses(ParameterError, "sample_seed"):
        op.read_log(table(), COLUMNS, sample_seed=1)
    with refuses(LogError, "sample"):
        op.read_log(table(), COLUMNS, sample=1e-9)


def test_malformed_rows_are_named_as_they_were(file):
    bad = table().to_pandas()
    bad.loc[31_000, "new"] = 7.0
    log = op.read_log(bad, COLUMNS, sample=0.999)
    with refuses(op.errors.PolicyError, row=31_000):
        op.evaluate(log, "new")
