"""A column is read alike, or refused alike, by every engine from every container."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.errors import LogError, PolicyError, PredictionError, PropensityError
from offpolicy.logs._arrow_types import settled, settled_type
from offpolicy.logs.files._parquet import ParquetScan
from tests.support.arrow_types import KINDS, LISTS, column, outcomes, page
from tests.support.refusals import refuses

CASES = [
    pytest.param(kind, role, id=f"{kind}-{role}")
    for kinds, roles in ((KINDS, ("reward", "cluster")), (LISTS, ("logging", "candidates")))
    for kind in kinds
    for role in roles
]


@pytest.mark.parametrize(("name", "role"), CASES)
def test_every_type_in_every_engine(tmp_path, name, role):
    kind = (KINDS | LISTS)[name]
    is_read = kind.number if role in ("reward", "logging") else kind.name
    for arrow in kind.types:
        found = outcomes(column(arrow, kind.values), role, tmp_path)
        different = {str(value) for key, value in found.items() if key != "polars"}
        assert len(different) == 1, (arrow, found)
        for value in found.values():
            assert (value == f"refused: {role}") == (not is_read), (arrow, found)


def test_the_page_says_so():
    text = Path("docs/reliability.md").read_text()
    assert page() in text


@pytest.mark.parametrize("text", ["1_000", "١", "abc", "", "0x1"])
def test_text_that_is_no_number_is_named_by_row_and_value(tmp_path, text):
    data = pa.table({"action": [0] * 3, "reward": ["1", text, "2"], "logging": [[1.0]] * 3})
    path = tmp_path / "log.parquet"
    pq.write_table(data, path)
    with refuses(LogError, "reward", 1, match="is not a number"):
        op.BanditLog.from_frame(data)
    with refuses(LogError, "reward", 1, file="log.parquet"):
        op.read_log(path)
    with refuses(LogError, "reward", 1, file="log.parquet"):
        op.evaluate(ParquetScan([path]), op.Uniform())
    with refuses(LogError, "reward"):
        op.BanditLog.from_arrays(action=[0] * 3, reward=["1", text, "2"], logging=[[1.0]] * 3)


def test_what_must_hold_numbers_says_where(tmp_path):
    data = pa.table({
        "action": [0, 1], "reward": [1.0, 0.0], "logging": [[0.5, 0.5], [0.5, 0.5]],
        "new": [["a", "b"], ["c", "d"]], "when": pa.array([1, 2], pa.timestamp("us")),
    })  # fmt: skip
    path = tmp_path / "log.parquet"
    pq.write_table(data, path)
    for log in (op.read_log(path), ParquetScan([path])):
        with refuses(PolicyError, "new", 0, file="log.parquet", part="candidate 0"):
            op.evaluate(log, "new")
        with refuses(PredictionError, "new", 0, file="log.parquet", part="candidate 0"):
            op.evaluate(log, op.Uniform(), prediction="new")
    with refuses(PropensityError, "new", 0, file="log.parquet"):
        op.read_log(path, op.Columns(logging="new"))
    with refuses(LogError, "when", 0, file="log.parquet"):
        op.read_log(path, op.Columns(reward="when"))


def frame_with_views(n: int) -> pl.DataFrame:
    text = [f"user {k % 7}" for k in range(n)]
    return pl.DataFrame({
        "action": ["a", "b"] * (n // 2),
        "candidates": [["a", "b"]] * n,
        "logging": [[0.5, 0.5]] * n,
        "reward": [float(k % 3) for k in range(n)],
        "cluster": text,
        "category": pl.Series(text, dtype=pl.Categorical),
        "categories": pl.Series([[name] for name in text], dtype=pl.List(pl.Categorical)),
        "struct": [{"name": name} for name in text],
        "bytes": [name.encode() for name in text],
    })  # fmt: skip


@pytest.mark.parametrize("n", [60, 6_000])
def test_polars_frames_with_text(n):
    frame = frame_with_views(n)
    log = op.BanditLog.from_frame(frame)
    rows = np.arange(n)[::-3]
    part = log.take(rows)
    assert part.named_column("category").tolist() == frame["category"].to_list()[::-3]
    assert part.table["struct"].to_pylist() == [{"name": name} for name in frame["cluster"][::-3]]
    bad = frame.with_columns(reward=pl.when(pl.col("reward") == 1).then(None).otherwise(1.0))
    dropped = op.BanditLog.from_frame(bad, on_bad_row="drop", max_dropped=0.5)
    assert dropped.dropped.rows == n // 3
    assert op.evaluate(log, op.Uniform(), estimators=["IPS"])["IPS"].value == pytest.approx(1.0)


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="an older pyarrow has no views")
def test_views_are_settled_wherever_they_are():
    text = pa.array(["a", None, "b", "a"], pa.string_view())
    dictionary = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 0]), pa.array(["a", "b"], pa.string_view())
    )
    lists = pa.array([["a"], None, [], ["b", None]], pa.list_(pa.string_view()))
    struct = pa.array([{"x": "a", "y": ["b"]}, None, {"x": None, "y": None}, {"x": "c", "y": []}],
        pa.struct([("x", pa.string_view()), ("y", pa.list_(pa.string_view()))]))  # fmt: skip
    fixed = pa.array([["a"], None, ["b"], ["c"]], pa.list_(pa.string_view(), 1))
    views = pa.array([["a"], None, [], ["b"]], pa.list_view(pa.string_view()))
    table = pa.table({
        "text": text, "dictionary": dictionary, "lists": lists, "struct": struct, "fixed": fixed,
        "views": views, "runs": pa.RunEndEncodedArray.from_arrays([1, 4], [1.0, 2.0]),
    })  # fmt: skip
    for part in (table, table.slice(1, 3), table.slice(2), pa.concat_tables([table, table])):
        plain = settled(part)
        assert plain.to_pylist() == part.to_pylist()
        for field in plain.schema:
            assert settled_type(field.type) == field.type
            assert "view" not in str(field.type)
        plain.take(pa.array([0, 1]))
