"""Parquet files as they are found: odd names, folders that say something, damage, twins."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import offpolicy as op
from offpolicy.cli import cli
from offpolicy.errors import LogError
from offpolicy.logs.files._footer import read_footer
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.limits import limit
from tests.support.refusals import refuses


@pytest.fixture(params=["in memory", "scanned"])
def engine(request, monkeypatch):
    """Either way to read one small file."""
    if request.param == "scanned":
        limit(monkeypatch, "offpolicy.logs.files._read.READ_WHOLE", 0)
    return request.param


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(reward: float = 1.0, n: int = 6, **extra: object) -> pa.Table:
    columns = {
        "action": [k % 2 for k in range(n)],
        "reward": [reward] * n,
        "logging": [[0.5, 0.5]] * n,
        "new": [[0.25, 0.75]] * n,
    }
    return pa.table(columns | extra)


def write(name: str, data: pa.Table, **options: object) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    with open(name, "wb") as stream:
        pq.write_table(data, stream, **options)
    return name


def rewards(log: op.BanditLog | op.LogScan) -> list[float]:
    return (log if isinstance(log, op.BanditLog) else log.read([(0, len(log))], ())).reward.tolist()


# -- names -----------------------------------------------------------------------------------

ODD = {
    "log[1].parquet": "log1.parquet",
    "a*.parquet": "ab.parquet",
    "q?.parquet": "qq.parquet",
    "[!a].parquet": "b.parquet",
    "**/z.parquet": "y/z.parquet",
    "~x.parquet": "x.parquet",
    "~/z.parquet": "z.parquet",
    "s3:/bucket/z.parquet": "z.parquet",
    "{a,b}.parquet": "a.parquet",
    "it's.parquet": "its.parquet",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("absolute", [True, False])
def test_a_name_that_exists_is_that_file(folder, engine, name, absolute):
    write(name, table(1.0)), write(ODD[name], table(0.0))
    other = ODD[name]
    name = os.path.abspath(name) if absolute else name
    assert rewards(op.read_log(name)) == [1.0] * 6
    assert rewards(op.read_log([name, other])) == [1.0] * 6 + [0.0] * 6
    assert rewards(op.read_log(name, where="reward >= 0")) == [1.0] * 6


def test_an_odd_name_on_the_command_line(folder):
    write("log[1].parquet", table(1.0)), write("log1.parquet", table(0.0))
    arguments = ["evaluate", "log[1].parquet", "--policy", "new", "--where", "reward >= 0"]
    shown = CliRunner().invoke(cli, [*arguments, "--format", "json", "--memory", "1GB"])
    assert shown.exit_code == 1, shown.stderr  # Six rows are few.
    assert '"value": 1.0' in shown.stdout


# -- folders ---------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [1, 2])
def test_a_name_in_the_folder_and_in_the_file_is_an_error(folder, engine, files):
    names = [write(f"reward={7 + k}/x.parquet", table(1.0)) for k in range(files)]
    with refuses(LogError, "reward", file="x.parquet"):
        op.evaluate(op.read_log(names), "new")


def test_a_folder_that_says_what_the_file_says_changes_nothing(folder, engine):
    name = write("day=3/x.parquet", table(1.0, day=[3] * 6))
    held = op.read_log(name, op.Columns(cluster="day"))
    part = held if isinstance(held, op.BanditLog) else held.read([(0, 6)], ())
    assert part.cluster.tolist() == [3] * 6
    pl.from_arrow(table(1.0, day=[1, 2] * 3)).write_parquet("many", partition_by="day")
    assert len(op.read_log("many", where="day = 2")) == 3


@pytest.mark.parametrize("files", [1, 3])
def test_folders_play_a_role_only_if_asked_to(folder, engine, files):
    for k in range(files):
        write(f"log/time={k + 10}/cluster=007/a=5/x-{k}.parquet", table(float(k), age=[1] * 6))
    plain = op.read_log("log")
    part = plain if isinstance(plain, op.BanditLog) else plain.read([(0, len(plain))], ())
    assert part.time is None
    assert part.cluster is None
    asked = op.read_log("log", op.Columns(time="time", cluster="cluster", context=["a*"]))
    part = asked if isinstance(asked, op.BanditLog) else asked.read([(0, len(asked))], ())
    assert part.time.tolist() == [10 + k for k in range(files) for _ in range(6)]
    assert set(part.cluster.tolist()) == {"007"}
    assert part.context.shape == (6 * files, 1)
    assert len(op.read_log("log", where="time = 10 AND cluster = '007'")) == 6


def test_a_folder_is_no_reward_unless_it_is_named(folder, engine):
    name = write("reward=7/x.parquet", table().drop_columns(["reward"]))
    with refuses(LogError, "reward", file="x.parquet"):
        op.read_log(name)
    assert rewards(op.read_log(name, op.Columns(reward="reward"))) == [7.0] * 6


def test_what_folders_say(folder):
    for value in ("2026-01-02", "__HIVE_DEFAULT_PARTITION__", "2026-01-03"):
        write(f"days/day={value}/x.parquet", table())
    assert len(op.read_log("days", where="day >= DATE '2026-01-03'")) == 6
    assert len(op.read_log("days", where="day IS NULL")) == 6
    for value in ("a%2Fb", "c"):
        write(f"shops/shop={value}/x.parquet", table())
    assert len(op.read_log("shops", where="shop = 'a/b'")) == 6


# -- names of columns ------------------------------------------------------------------------


def test_two_columns_of_one_name(folder, engine):
    data = table().append_column("reward", pa.array([0.0] * 6))
    with refuses(LogError, "reward", file="twice.parquet"):
        op.read_log(write("twice.parquet", data))


def test_columns_that_differ_only_in_case(folder, engine):
    name = write("case.parquet", table(1.0, REWARD=[2.0] * 6, REWARD_1=[3.0] * 6))
    assert rewards(op.read_log(name)) == [1.0] * 6
    for column, value in (("REWARD", 2.0), ("REWARD_1", 3.0)):
        columns = op.Columns(reward=column)
        if engine == "in memory":
            assert rewards(op.read_log(name, columns)) == [value] * 6
        else:
            with refuses(LogError, column, file="case.parquet"):
                op.evaluate(op.read_log(name, columns), "new")
    with refuses(LogError, file="case.parquet"):
        op.read_log(name, where="REWARD > 1")


# -- damage ----------------------------------------------------------------------------------


def flipped(position: int, bit: int, whole: bytes) -> bytes:
    damaged = bytearray(whole)
    damaged[position] ^= 1 << bit
    return bytes(damaged)


def test_a_damaged_footer_loses_no_rows(folder):
    """Every bit of every eleventh byte: refused, or all rows with their values."""
    data = table(n=30).set_column(1, "reward", pa.array([k / 30 for k in range(30)]))
    name = write("log.parquet", data, row_group_size=14, write_page_checksum=True)
    whole = Path(name).read_bytes()
    begins = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    refused = 0
    for position in range(begins, len(whole) - 8, 11):
        Path(name).write_bytes(flipped(position, position % 8, whole))
        for read in (op.read_log, lambda name: ParquetScan([name])):
            try:
                assert rewards(read(name)) == data["reward"].to_pylist()
            except LogError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize("verify", [False, True])
def test_a_footer_that_lost_a_row_group(folder, engine, verify):
    name = write("log.parquet", table(n=30), row_group_size=14, store_schema=False)
    footer = pq.read_metadata(name)
    whole = Path(name).read_bytes()
    begins = len(whole) - 8 - footer.serialized_size
    # FileMetaData: the list of row groups has the head 3c (three structs); say that it has two.
    rows = whole.index(bytes([0x16, 60, 0x19, 0x3C]), begins) + 3
    Path(name).write_bytes(whole[:rows] + b"\x2c" + whole[rows + 1 :])
    with refuses(LogError, "", file="log.parquet"):
        op.read_log(name, verify=verify)


def everything(n: int = 400) -> pa.Table:
    return table(
        n=n,
        ragged=[[0.5] * (k % 4) for k in range(n)],
        nothing=pa.nulls(n),
        lists=[None if k % 3 else [None, "x"] for k in range(n)],
        struct=[{"x": k, "y": [k] * (k % 3)} for k in range(n)],
        text=[f"user {k % 17}" for k in range(n)],
        long=["x" * 3_000] * n,
    )


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("statistics", [True, False])
def test_healthy_files_of_pyarrow(folder, version, index, dictionary, statistics):
    data = everything()
    for n, size in ((400, 50), (400, 400), (1, 1), (0, 1)):
        name = write(
            "x.parquet", data.slice(0, n), row_group_size=size, data_page_version=version,
            write_page_index=index, use_dictionary=dictionary, write_statistics=statistics,
            data_page_size=500, write_page_checksum=index,
        )  # fmt: skip
        assert read_footer(name).rows == n


def test_healthy_files_with_bloom_filters_and_empty_row_groups(folder):
    data = everything()
    with pq.ParquetWriter("x.parquet", data.schema) as writer:
        for part in (data, data.slice(0, 0), data):
            writer.write_table(part)
    assert read_footer("x.parquet").rows == 800
    try:
        write("x.parquet", data, row_group_size=50, bloom_filter_options={"text": {"ndv": 20}})
    except TypeError:
        return  # An older pyarrow.
    assert read_footer("x.parquet").rows == 400


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_healthy_files_of_duckdb(folder, version):
    data = everything(5_000)
    with duckdb.connect() as connection:
        connection.register("data", data)
        for compression in ("uncompressed", "snappy", "zstd"):
            connection.sql(
                f"COPY data TO 'x.parquet' (FORMAT parquet, PARQUET_VERSION {version}, "
                f"COMPRESSION {compression}, ROW_GROUP_SIZE 2048)"
            )
            assert read_footer("x.parquet").rows == 5_000


@pytest.mark.parametrize("statistics", [True, False, "full"])
def test_healthy_files_of_polars(folder, statistics):
    data = pl.from_arrow(everything())
    for n, group, page in ((400, None, None), (400, 30, 200), (0, None, None)):
        data.head(n).write_parquet(
            "x.parquet", statistics=statistics, row_group_size=group, data_page_size=page
        )
        assert read_footer("x.parquet").rows == n
