"""An expression means the same in DuckDB over files and frames, in Spark, and in plain Python."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import LogError, ParameterError, PropensityError
from offpolicy.logs.expressions import Expression
from offpolicy.logs.expressions._kinds import DUCKDB, SPARK
from offpolicy.logs.files._filter import values
from offpolicy.logs.files._sql import connect
from tests.support.expressions import Made, conditions, expressions, rows_of, table
from tests.support.refusals import refuses

TABLE = table()
ROWS = rows_of(TABLE)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("meaning") / "rows.parquet"
    pq.write_table(TABLE, made, row_group_size=64)
    return made


@pytest.fixture(scope="module")
def files(path):
    """A DuckDB over the file, and the types of its columns there."""
    with connect(files=[str(path)]) as connection:
        rows = connection.sql(f"SELECT * FROM '{path}'")
        yield connection, dict(zip(rows.columns, map(str, rows.types), strict=True))


def plain(value: object) -> object:
    return int(value) if isinstance(value, Decimal) else value


def meant(made: Made) -> list[object]:
    return [made.of(row) for row in ROWS]


def agree(found: list[object], made: Made) -> None:
    expected = meant(made)
    wrong = [
        (row, a, b)
        for row, a, b in zip(ROWS, map(plain, found), expected, strict=True)
        if a != b or (a is None) != (b is None)
    ]
    assert not wrong, (made.text, wrong[0])


def in_file(files, path, text: str) -> list[object]:
    connection, types = files
    sql = Expression(text).on(types, DUCKDB).sql()
    return connection.sql(f"SELECT {sql} FROM '{path}'").to_arrow_table().column(0).to_pylist()


@settings(max_examples=300, deadline=None)
@given(made=expressions())
@example(made=Made("x > 0.5", lambda row: None if row["x"] is None else row["x"] > 0.5))
@example(made=Made("not x > 0.5", lambda row: None if row["x"] is None else row["x"] <= 0.5))
@example(made=Made("x is null", lambda row: row["x"] is None))
def test_files_frames_and_the_reference(files, path, made):
    agree(in_file(files, path, made.text), made)
    agree(values(TABLE, Expression(made.text), "").to_pylist(), made)


@settings(max_examples=150, deadline=None)
@given(made=conditions())
def test_the_rows_that_are_kept(files, path, made):
    kept = [k for k, value in enumerate(meant(made)) if value is True]
    connection, types = files
    sql = Expression(made.text).on(types, DUCKDB).as_condition().sql()
    numbered = f"read_parquet('{path}', file_row_number = true)"
    found = connection.execute(f"SELECT file_row_number FROM {numbered} WHERE {sql}").fetchall()
    assert [k for (k,) in found] == kept


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "America/Los_Angeles")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_means_the_same(spark, path, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    frame = spark.read.parquet(str(path)).coalesce(1)
    types = dict(frame.dtypes)

    @settings(max_examples=8, deadline=None)
    @given(several=st.lists(expressions(), min_size=20, max_size=20))
    def compare(several):
        written = [Expression(made.text).on(types, SPARK).sql() for made in several]
        named = [f"{sql} AS v{k}" for k, sql in enumerate(written)]
        found = frame.selectExpr(*named).toArrow()
        for made, column in zip(several, found.columns, strict=True):
            agree(column.to_pylist(), made)

    compare()


# -- by hand ---------------------------------------------------------------------------------


def kept(where: str, **columns: object) -> list[int]:
    frame = pa.table(columns)
    flags = values(frame, Expression(where), "", condition=True).to_pylist()
    return [k for k, flag in enumerate(flags) if flag]


def test_null_and_nan_are_missing_alike():
    x = pa.array([1.0, np.nan, None, np.inf])
    assert kept("x > 0", x=x) == [0, 3]
    assert kept("not x > 5", x=x) == [0]
    assert kept("x is null", x=x) == [1, 2]
    assert kept("x - x = 0", x=x) == [0]
    assert kept("x in (1.0) or x not in (1.0)", x=x) == [0, 3]
    assert kept("coalesce(x, 7) = 7", x=x) == [1, 2]


def test_whole_numbers_are_exact():
    big = pa.array([2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    assert kept("n = 9007199254740993", n=big) == [1]
    assert kept("n % 10 = 3", n=big) == [1]
    assert kept("n + n = 18446744073709551614", n=big) == [2]
    assert kept("n * n > 85070591730234615847396907784232501249", n=big) == [3]
    assert kept("n / 2 = 4503599627370496", n=big) == [0, 1]  # as fractions
    unsigned = pa.array([0, 2**64 - 1], pa.uint64())
    assert kept("n = 18446744073709551615", n=unsigned) == [1]
    assert kept("n > -1", n=unsigned) == [0, 1]
    assert kept("-n < 0", n=unsigned) == [1]


def test_division_by_zero_is_null():
    assert kept("1 / n > 0", n=[0, 2]) == [1]
    assert kept("1 / n is null", n=[0, 2]) == [0]
    assert kept("5 % n is null", n=[0, 2]) == [0]


def test_times_with_a_zone_are_in_utc():
    at = dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    for unit in ("s", "ms", "us", "ns"):
        z = pa.array([at], pa.timestamp(unit, "Europe/Berlin"))
        assert kept("hour(z) = 22 and year(z) = 2025 and cast(z as date) = '2025-12-31'", z=z)
        assert kept("z = '2026-01-01 00:30:00+02:00' and z = '2025-12-31T22:30'", z=z)
        assert kept("z < '2025-12-31 22:31:00Z'", z=z)
        naive = pa.array([dt.datetime(2026, 1, 4, 10)], pa.timestamp(unit))
        assert kept("t = '2026-01-04 10:00' and hour(t) = 10 and dayofweek(t) = 0", t=naive)


def test_names_are_as_they_are_written():
    assert kept('"A" = 1 and a = 2', A=[1, 2], a=[2, 1]) == [0]
    odd = {'a "b" c': [1, 2], "1); DROP TABLE x; --": [1, 1], "größe": [1, 1], "select": [1, 1]}
    where = '"a ""b"" c" = 1 and "1); DROP TABLE x; --" = 1 and größe = 1 and select = 1'
    assert kept(where, **odd) == [0]


def test_other_types_of_text():
    names = ["de", "fr", None]
    for type_ in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert kept("s = 'de'", s=pa.array(names, pa.string()).cast(type_)) == [0]


def test_long_conditions():
    many = " or ".join(f"n = {k}" for k in range(5_000))
    assert kept(many, n=[3, 6_000, 4_999]) == [0, 2]
    assert kept(f"n in ({', '.join(map(str, range(10_000)))})", n=[3, 60_000]) == [0]
    assert kept(f"{'(' * 90}n = 3{')' * 90}", n=[3, 4]) == [0]


def test_a_value_of_every_row():
    """What an expression is where a policy is one."""
    rule = Expression("case when womens = 1 then 'a' else 'b' end", ":rule")
    frame = pa.table({"womens": [1, 0, None]})
    assert values(frame, rule, "").to_pylist() == ["a", "b", "b"]
    assert values(frame, Expression("0.5 * womens"), "").to_pylist() == [0.5, 0.0, None]
    assert values(frame, Expression("true"), "").to_pylist() == [True] * 3


# -- at the doors ----------------------------------------------------------------------------


def test_every_door_keeps_the_same_rows(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    score = rng.normal(size=n).round(3)
    frame = pa.table(
        {
            "action": rng.integers(0, 2, n), "reward": rng.random(n).round(3),
            "propensity": [0.5] * n,
            "score": pa.array(np.where(np.arange(n) % 10 == 0, np.nan, score)),
            "shop": pa.array(rng.choice(["de", "fr", "es"], n)),
            "at": pa.array(np.datetime64("2026-01-01T00:00", "us") + 3_600_000_000 * np.arange(n)),
            "row": np.arange(n),
        }
    )  # fmt: skip
    pq.write_table(frame, tmp_path / "log.parquet", row_group_size=50)
    csv.write_csv(frame, tmp_path / "log.csv")
    where = "not score > 0.3 and (shop in ('de', 'fr') or hour(at) < 6) and row % 7 <> 3"
    expected = [
        row["row"] for row in rows_of(frame)
        if row["score"] is not None and row["score"] <= 0.3
        and (row["shop"] != "es" or row["at"].hour < 6) and row["row"] % 7 != 3
    ]  # fmt: skip
    assert 50 < len(expected) < 150
    sources = [
        frame, frame.to_pandas(), tmp_path / "log.parquet", tmp_path / "log.csv",
        frame.slice(0).combine_chunks(),
    ]  # fmt: skip
    for source in sources:
        log = op.read_log(source, where=where)
        held = log if isinstance(log, op.BanditLog) else log.read([(0, len(log))], ["row"])
        assert held.table.column("row").to_pylist() == expected
    assert op.read_log(frame, where=where).table.schema == frame.schema


def odd_log(tmp_path):
    """Row 5 has a bad propensity; rows 1, 3 and 5 are of shop b."""
    frame = pa.table(
        {
            "action": [0, 1] * 4, "reward": [1.0] * 8,
            "propensity": [0.5, 0.5, 0.5, 0.5, 0.5, 7.0, 0.5, 0.5],
            "shop": ["a", "b", "a", "b", "a", "b", "a", "a"],
        }
    )  # fmt: skip
    csv.write_csv(frame, tmp_path / "log.csv")
    return frame, tmp_path / "log.csv"


def test_messages_count_rows_as_they_are_in_the_frame_or_the_file(tmp_path):
    frame, path = odd_log(tmp_path)
    with refuses(PropensityError, "propensity", 5, file=""):
        op.read_log(frame, where="shop = 'b'")
    with refuses(PropensityError, "propensity", 5, file="log.csv"):
        op.read_log(path, where="shop = 'b'")
    for source in (frame, path):
        assert len(op.read_log(source, where="shop = 'a'")) == 5
        dropped = op.read_log(source, where="shop = 'b'", on_bad_row="drop", max_dropped=0.5)
        assert (len(dropped), dropped.dropped.of, dropped.dropped.rows) == (2, 3, 1)


def test_a_condition_that_no_row_meets(tmp_path):
    frame, path = odd_log(tmp_path)
    pq.write_table(frame, tmp_path / "log.parquet")
    for source, file in ((frame, ""), (path, "log.csv"), (tmp_path / "log.parquet", "log.parquet")):
        with refuses(
            LogError, file=file, match="no row of the log meets the condition: shop = 'c'"
        ):
            op.read_log(source, where="shop = 'c'")


def test_types_that_duckdb_does_not_know_are_refused_if_they_are_asked_for():
    frame = pa.table({"half": pa.array(np.array([1.5], np.float16)), "n": [1]})
    assert values(frame, Expression("n = 1"), "").to_pylist() == [True]
    with refuses(ParameterError, "where"):
        values(frame, Expression("half > 1"), "")


def test_an_expression_can_be_sent_elsewhere():
    made = Expression("x > 1 and not s = 'a'", "--where")
    assert pickle.loads(pickle.dumps(made)) == made
    assert str(made) == "x > 1 and not s = 'a'"
