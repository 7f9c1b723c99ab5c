"""Logs as tables and files of every kind, and results compared."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from tests.support.cases import Case


def lists(case: Case, values: np.ndarray) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(case.offsets, pa.int32()), pa.array(values))


def table_of(case: Case, **extra: object) -> pa.Table:
    columns: dict[str, object] = {
        "action": case.chosen,
        "reward": case.reward,
        "logging": lists(case, case.pi0),
        "new": lists(case, case.pi),
        "q": lists(case, case.delta_hat),
    }
    if case.row_weight is not None:
        columns["row_weight"] = case.row_weight
    return pa.table(columns | extra)


def write(folder: Path, table: pa.Table, files: int = 1, group: int = 1000) -> list[Path]:
    """The table in several files of different length."""
    ends = np.linspace(0, 1, files + 1) ** 1.5 * len(table)
    paths = []
    for k in range(files):
        start, stop = int(ends[k]), int(ends[k + 1])
        paths.append(folder / f"part-{k}.parquet")
        pq.write_table(table.slice(start, stop - start), paths[-1], row_group_size=group)
    return paths


def same(a: op.Result, b: op.Result) -> None:
    """All numbers to 1e-12 of their size, all words equal."""
    one, other = a.to_arrow().to_pylist(), b.to_arrow().to_pylist()
    assert len(one) == len(other)
    for row, twin in zip(one, other, strict=True):
        for name, value in row.items():
            if isinstance(value, float):
                assert twin[name] == pytest.approx(value, rel=1e-12, abs=1e-13), (name, row)
            else:
                assert twin[name] == value
    assert b.headline.value == pytest.approx(a.headline.value, rel=1e-12)
    assert b.headline.interval == pytest.approx(a.headline.interval, rel=1e-12)
    assert b.headline.M == a.headline.M
    assert b.logged.value == pytest.approx(a.logged.value, rel=1e-12)


def as_csv(table: pa.Table, path: Path, start: int = 0, stop: int | None = None) -> Path:
    lines = [",".join(table.column_names)]
    for row in table.slice(start, None if stop is None else stop - start).to_pylist():
        cells = [json.dumps(v) if isinstance(v, list) else str(v) for v in row.values()]
        lines.append(",".join(f'"{cell}"' if "," in cell else cell for cell in cells))
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def as_jsonl(table: pa.Table, path: Path) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
