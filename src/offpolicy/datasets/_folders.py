"""Where data sets are kept. The cache has the layout of the user's own folder."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from offpolicy._core.files import write_whole
from offpolicy.errors import DatasetError


def data_folder() -> Path | None:
    """The user's own folder of data sets, ``OFFPOLICY_DATA``; nothing is ever written there."""
    named = os.environ.get("OFFPOLICY_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """Where fetched data sets go: ``OFFPOLICY_CACHE``, else the platform's folder for such."""
    named = os.environ.get("OFFPOLICY_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else _home() / "AppData" / "Local") / "offpolicy" / "Cache"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "offpolicy"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else _home() / ".cache") / "offpolicy"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a container's user that is only a number
        raise DatasetError(
            "This user has no home folder, and so none for fetched data sets. Name one with the "
            "environment variable OFFPOLICY_CACHE, or the folder of your own with OFFPOLICY_DATA."
        ) from None


def roots() -> list[Path]:
    """The folders to look for data sets in, in order."""
    folder = data_folder()
    if folder is None:
        return [cache_folder()]
    with contextlib.suppress(DatasetError):
        return [folder, cache_folder()]
    return [folder]


def first_whole(ways: Iterable[Iterable[Path]]) -> list[Path] | None:
    """A data set's files: the first of several layouts in which all are there, perhaps gzipped."""
    for way in ways:
        paths = [[path.with_name(f"{path.name}.gz"), path] for path in way]
        there = [next((path for path in either if path.is_file()), None) for either in paths]
        if all(there):
            return [path for path in there if path is not None]
    return None


def keep_fetched(path: Path, content: bytes) -> None:
    """Write a data set's fetched file into the cache, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as problem:
        raise DatasetError(
            f"it cannot be written ({problem.strerror or problem}). Name another folder with the "
            f"environment variable OFFPOLICY_CACHE.",
            path,
        ) from None
