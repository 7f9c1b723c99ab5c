"""Refusals by class and place, not by their words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offpolicy.errors import OffpolicyError


@contextmanager
def refuses(error: type[OffpolicyError], *about: Any, match: str | None = None) -> Iterator[Any]:
    """An error of exactly this class is raised; ``about`` are its place: a column, or a column and
    a row, or a `Path` (of which the name is compared) before them."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    problem = caught.value
    assert type(problem) is error
    known = [Path(problem.file), problem.column, problem.row]
    asked = list(about) if about and isinstance(about[0], Path) else [known[0], *about]
    assert [known[0].name, *known[1 : len(asked)]] == [asked[0].name, *asked[1:]], str(problem)
