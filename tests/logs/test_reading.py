"""`read_log`: which files are meant, how they are read, and what is said when they cannot be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import LogError, ParameterError
from offpolicy.logs.files._parquet import ParquetScan
from offpolicy.logs.files._read import files_of
from tests.support.cases import make_case
from tests.support.files import as_csv, as_jsonl, same, table_of, write
from tests.support.limits import limit
from tests.support.refusals import refuses


@pytest.fixture
def table() -> pa.Table:
    case = make_case(np.random.default_rng(0), 400, drawn=True)
    return table_of(case, shop=pa.array(["a", "b"] * 200))


@pytest.mark.parametrize(
    "name", ["log.csv", "log.csv.gz", "log.jsonl", "log.jsonl.gz", "log.ndjson", "log.parquet"]
)
def test_every_kind_of_file_gives_the_same(tmp_path, table, name):
    path = tmp_path / name
    if "csv" in name:
        as_csv(table, path)
    elif "json" in name:
        as_jsonl(table, path)
    else:
        pq.write_table(table, path)
    log = op.read_log(path)
    assert isinstance(log, op.BanditLog)
    expected = op.evaluate(op.BanditLog.from_frame(table), {"new": "new"}, prediction="q")
    same(expected, op.evaluate(log, "new", prediction="q"))


def test_a_dataframe_is_a_log_too(table):
    assert len(op.read_log(table)) == 400


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_several_files_and_a_condition(tmp_path, table, kind):
    if kind == "csv":
        as_csv(table, tmp_path / "a.csv", 0, 150)
        as_csv(table, tmp_path / "b.csv", 150, 400)
    else:
        write(tmp_path, table, 2)
    log = op.read_log(f"{tmp_path}/*.{kind}", where="shop = 'a'")
    kept = table.filter(pa.array([True, False] * 200))
    assert len(log) == 200
    expected = op.evaluate(op.BanditLog.from_frame(kept), {"new": "new"}, prediction="q")
    same(expected, op.evaluate(log, "new", prediction="q"))


def test_large_parquet_is_scanned_and_small_is_held(tmp_path, table, monkeypatch):
    (path,) = write(tmp_path, table)
    assert isinstance(op.read_log(path), op.BanditLog)
    limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 100)
    log = op.read_log(str(path), memory="200MB", threads=1)
    assert isinstance(log, ParquetScan)
    assert isinstance(log, op.LogScan)
    assert repr(log).endswith("part-0.parquet: 400 decisions)")


def test_partitions_are_columns(tmp_path, table):
    for day in (1, 2):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        pq.write_table(table.slice(200 * (day - 1), 200), folder / "x.parquet")
    log = op.read_log(tmp_path, where="day = 2")
    same(
        op.evaluate(op.BanditLog.from_frame(table.slice(200)), {"new": "new"}),
        op.evaluate(log, "new"),
    )


def test_verbs_on_files_read_piece_by_piece(tmp_path, table, monkeypatch):
    limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 100)
    (path,) = write(tmp_path, table)
    scan, log = op.read_log(path), op.BanditLog.from_frame(table)
    a = op.sweep(log, "new", prediction="q", grid=op.sweep(scan, "new", prediction="q").breakpoints)
    b = op.sweep(scan, "new", prediction="q")
    np.testing.assert_allclose(b.values, a.values, rtol=1e-12)
    np.testing.assert_allclose(b.imputed_mass, a.imputed_mass, rtol=1e-12, atol=1e-15)
    shares = op.sweep(scan, "new", prediction="q", estimator="SB")
    whole = op.sweep(log, "new", prediction="q", estimator="SB")
    np.testing.assert_allclose(shares.values, whole.at(shares.breakpoints), rtol=1e-12)
    assert str(op.check(scan, "new", prediction="q")) == str(
        op.check(log, {"new": "new"}, prediction="q")
    )
    limit(monkeypatch, "offpolicy.evidence._plan.SAMPLE", 80)
    found = op.check(scan, "new")["sample"]
    assert found.sentence == "Of 400 decisions, 80 were looked at, in 32 places of the log."
    assert op.check(log, {"new": "new"})["sample"].sentence == found.sentence


# -- which files -----------------------------------------------------------------------------


def test_files_of_globs_and_folders(tmp_path):
    for name in ("b.csv", "a.csv", ".hidden.csv", "_SUCCESS", "c.txt"):
        (tmp_path / name).write_text("x")
    assert [f.name for f in files_of([f"{tmp_path}/*.csv"])] == ["a.csv", "b.csv"]
    assert [f.name for f in files_of([tmp_path])] == ["a.csv", "b.csv", "c.txt"]
    assert [f.name for f in files_of([tmp_path / "c.txt", tmp_path / "a.csv"])] == [
        "c.txt", "a.csv",
    ]  # fmt: skip
    (tmp_path / "empty").mkdir()
    for name in ("nope.csv", "*.parquet", "empty"):
        with refuses(LogError, file=name):
            files_of([f"{tmp_path}/{name}"])
    with refuses(LogError, file=""):
        files_of([])


def test_parquet_and_others_do_not_mix(tmp_path, table):
    (path,) = write(tmp_path, table)
    with refuses(LogError, file="", match="Some files are Parquet"):
        op.read_log([path, as_csv(table, tmp_path / "log.csv")])


def test_files_with_other_columns(tmp_path, table):
    as_csv(table, tmp_path / "a.csv")
    as_csv(table.drop(["q"]), tmp_path / "b.csv")
    with refuses(LogError, "q", file="b.csv"):
        op.read_log(f"{tmp_path}/*.csv")


@pytest.mark.parametrize(
    ("name", "text", "column", "row"),
    [
        ("log.csv", 'action,reward\n"0,1\n0,1\n', "action", 2),
        ("log.jsonl", '{"action": 0, "reward": 1}\njunk\n', "", 2),
        ("log.jsonl", "", "", None),
        ("log.csv", "", "", None),
        ("log.xlsx", "x", "", None),
        ("log.csv.gz", "not gzip", "", None),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, text, column, row):
    (tmp_path / name).write_text(text)
    with refuses(LogError, column, row, file=name):
        op.read_log(tmp_path / name)


def test_a_condition_that_is_not_one(tmp_path, table):
    path = as_csv(table, tmp_path / "log.csv")
    for where in ("no_such_column > 1", "1); DROP TABLE log; --"):
        with refuses(ParameterError, "where"):
            op.read_log(path, where=where)


# -- roles from a file -----------------------------------------------------------------------


def test_roles_in_a_toml_file(tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text('action = "item"\ncontext = ["age", "city"]\ntime = ""\n')
    assert op.Columns.from_toml(path) == op.Columns(action="item", context=["age", "city"], time="")
    for text, message in [
        ('acton = "item"', 'there is no role "acton". Did you mean "action"'),
        ("action = 3", "action: 3 is not the name of a column"),
        ('context = "age"', "context: 'age' is not a list of names"),
        ("action = ", "not a readable TOML file"),
    ]:
        path.write_text(text)
        with pytest.raises(LogError, match=message):
            op.Columns.from_toml(path)
