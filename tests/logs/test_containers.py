"""The same log in every container that people keep one in gives the same bytes, as far as its
values are exact in the types at hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import offpolicy as op
from offpolicy.errors import LogError
from tests.support.refusals import refuses

NAMES = {"action": "item", "reward": "click", "propensity": "p", "cluster": "user"}
REWARDS = {
    "bool": pa.bool_(), "int8": pa.int8(), "uint32": pa.uint32(), "int64": pa.int64(),
    "float32": pa.float32(), "float64": pa.float64(), "decimal": pa.decimal128(12, 4),
}  # fmt: skip
ITEMS = {
    "text": pa.string(), "large text": pa.large_string(), "integer": pa.int32(),
    "categories": pa.dictionary(pa.int32(), pa.string()),
}  # fmt: skip


def rows(n: int, reward: pa.DataType, item: pa.DataType) -> pa.Table:
    """A log whose propensities and policy are powers of two, and rewards whole numbers, which are
    exact in all types and texts."""
    rng = np.random.default_rng(0)
    names = pa.array(rng.integers(1, 4, n))
    if not pa.types.is_integer(item):
        names = pa.array([f"item {k}" for k in names.to_pylist()])
    names = names.dictionary_encode() if pa.types.is_dictionary(item) else names.cast(item)
    click = pa.array(rng.integers(0, 2, n))
    click = (
        click.cast(pa.float64()).cast(reward) if pa.types.is_decimal(reward) else click.cast(reward)
    )
    powers = {"p": (0.5, 0.25), "new": (0.0, 0.125, 0.5)}
    columns = {name: pa.array(rng.choice(values, n)) for name, values in powers.items()}
    user = pa.array(np.arange(n) // 2)
    return pa.table({"item": names, "click": click, "user": user, **columns})


def _written(write: Callable[[pa.Table, Path], None], name: str) -> Callable[[pa.Table, Path], Any]:
    def held(table: pa.Table, folder: Path) -> Path:
        write(table, folder / name)
        return folder / name

    return held


def _plain(table: pa.Table) -> pa.Table:
    """As text writes it: categories are their names, decimals numbers."""
    decoded = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        decoded.append(column.cast(pa.float64()) if pa.types.is_decimal(kind) else column)
    return pa.table(decoded, names=table.column_names)


def _csv(separator: str) -> Callable[[pa.Table, Path], None]:
    options = pa.csv.WriteOptions(delimiter=separator)
    return lambda table, path: pa.csv.write_csv(_plain(table), path, options)


def _json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in _plain(table).to_pylist()))


def _hive(table: pa.Table, folder: Path, parts: int = 1) -> Path:
    """Folders whose rows follow each other: the day is one more column."""
    size = len(table) // parts
    for day in range(parts):
        (folder / f"day={day}").mkdir()
        pq.write_table(table.slice(day * size, size), folder / f"day={day}" / "part-0.parquet")
    return folder


CONTAINERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "pandas": lambda table, _: table.to_pandas(),
    "pandas, nullable": lambda table, _: table.to_pandas().convert_dtypes(),
    "pandas, Arrow": lambda table, _: table.to_pandas().convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars, lazy": lambda table, _: pl.from_arrow(table).lazy(),
    "DuckDB": lambda table, _: duckdb.from_arrow(table),
    "mapping": lambda table, _: {name: table[name] for name in table.column_names},
    "CSV": _written(_csv(","), "log.csv"),
    "TSV": _written(_csv("\t"), "log.tsv"),
    "JSON lines": _written(_json, "log.jsonl"),
    "Parquet": _written(pq.write_table, "log.parquet"),
    "Feather": _written(feather.write_feather, "log.feather"),
    "hive": _hive,
}


def answers(held: Any) -> str:
    return op.evaluate(held, "new", **NAMES).to_json()


def agree(table: pa.Table, names: list[str], folder: Path) -> None:
    expected = answers(table)
    for name in names:
        place = folder / name
        place.mkdir()
        assert answers(CONTAINERS[name](table, place)) == expected, name


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("reward", REWARDS)
def test_ten_rows_of_every_type_in_every_container(reward, item, tmp_path):
    agree(rows(10, REWARDS[reward], ITEMS[item]), list(CONTAINERS), tmp_path)


@pytest.mark.parametrize("name", CONTAINERS)
def test_two_hundred_thousand_rows_in_every_container(name, tmp_path):
    agree(rows(200_000, REWARDS["float64"], ITEMS["text"]), [name], tmp_path)


@pytest.mark.parametrize("reward", REWARDS)
def test_two_hundred_thousand_rows_of_every_type(reward, tmp_path):
    frames = ["pandas, nullable", "polars, lazy", "DuckDB", "Feather"]
    agree(rows(200_000, REWARDS[reward], ITEMS["categories"]), frames, tmp_path)


@pytest.mark.parametrize("n", [10, 200_000])
def test_several_files_round_differently_in_the_last_digits(n, tmp_path):
    """Blocks begin anew in every file."""
    table = rows(n, pa.float64(), pa.string())
    expected = op.evaluate(table, "new", **NAMES)
    found = op.evaluate(_hive(table, tmp_path, 2), "new", **NAMES)
    for one, other in zip(expected, found, strict=True):
        for name in ("value", "stderr", "ess"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12)
    assert expected.headline.value == pytest.approx(found.headline.value, rel=1e-12)
    assert expected.headline.interval == pytest.approx(found.headline.interval, rel=1e-9)


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"no Arrow at all"])
def test_a_feather_file_that_is_none_is_refused(content, tmp_path):
    path = tmp_path / "log.feather"
    path.write_bytes(content)
    with refuses(LogError, file=path.name):
        op.read_log(path)


def test_a_feather_file_that_is_cut_is_refused(tmp_path):
    path = tmp_path / "log.feather"
    feather.write_feather(rows(1000, pa.int64(), pa.string()), path)
    whole = path.read_bytes()
    for kept in range(0, len(whole), len(whole) // 50):
        path.write_bytes(whole[:kept])
        with refuses(LogError, file=path.name):
            op.read_log(path)


def test_files_of_one_log_are_of_one_kind(tmp_path):
    table = rows(10, pa.int64(), pa.string())
    pq.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "b.feather")
    with refuses(LogError):
        op.read_log(tmp_path)
    (tmp_path / "a.parquet").unlink()
    feather.write_feather(table, tmp_path / "c.arrow")
    assert len(op.read_log(tmp_path, op.Columns(**NAMES))) == 20
