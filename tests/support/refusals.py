"""Refusals by class and place, not by their words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offpolicy.errors import OffpolicyError


@contextmanager
def refuses(
    error: type[OffpolicyError], column: str | None = None, row: int | None = None, *,
    file: str | None = None, part: str | None = None, rows: list[int] | None = None,
    match: str | None = None,
) -> Iterator[pytest.ExceptionInfo[Any]]:  # fmt: skip
    """An error of exactly this class is raised, about this place as far as it is given; ``rows``
    are all that are malformed in this way."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    problem = caught.value
    assert type(problem) is error
    place = {
        "file": Path(problem.file).name, "column": problem.column, "row": problem.row,
        "part": problem.place.part, "rows": None if rows is None else problem.rows.tolist(),
    }  # fmt: skip
    asked = {"file": file, "column": column, "row": row, "part": part, "rows": rows}
    wanted = {name: value for name, value in asked.items() if value is not None}
    assert {name: place[name] for name in wanted} == wanted, str(problem)
