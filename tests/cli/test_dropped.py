"""Dropping more than a slip of malformed rows is exit code 1, in the words of the command line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.commands import fails


@pytest.fixture
def shop(tmp_path, monkeypatch) -> None:
    """A log in which a missing reward means that nothing was bought."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    bought = rng.random(2_000) < 0.05
    columns = {
        "action": rng.integers(0, 2, 2_000), "x": rng.normal(size=2_000),
        "reward": pa.array([1.0 if b else None for b in bought]),
        "logging": [[0.5, 0.5]] * 2_000, "new": [[0.9, 0.1]] * 2_000,
    }  # fmt: skip
    pq.write_table(pa.table(columns), "log.parquet")


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "--policy", "new"], ["compare", "--policy", "new"], ["check"],
        ["sweep", "--policy", "new", "-e", "CIPS"], ["learn", "--context", "x", "-o", "p.json"],
    ],
)  # fmt: skip
def test_too_many_dropped_rows_are_exit_code_1(shop, capsys, words):
    verb, *options = words
    code, text = fails([verb, "log.parquet", "--on-bad-row", "drop", *options], capsys)
    assert code == 1
    assert text.startswith("SupportError: log.parquet: 1,890 of 2,000 rows (94.5%)")
    assert "--max-dropped 0.95" in text
    assert "max_dropped=" not in text
    words = [verb, "log.parquet", "--on-bad-row", "drop", "--max-dropped", "2", *options]
    assert fails(words, capsys)[0] == 2
