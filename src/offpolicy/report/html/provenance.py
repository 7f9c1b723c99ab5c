"""How a result came about: the command, the versions, the files, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class File:
    """A file of the log. ``rows`` that were used of it, and ``sha256``, are None if not known."""

    name: str
    size: int
    rows: int | None
    sha256: str | None


@final
@dataclass(frozen=True, slots=True)
class Provenance:
    """``command`` is the command line, word by word; ``seconds`` the time that it took until
    ``finished`` (UTC); ``seed`` None where nothing is drawn at random."""

    command: tuple[str, ...]
    versions: Mapping[str, str]
    files: tuple[File, ...]
    finished: str
    seconds: float
    seed: int | None = None
    engine: str = "embedded"
