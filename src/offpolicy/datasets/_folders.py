"""Where data sets are kept. The cache has the layout of the user's own folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from offpolicy._core.files import write_whole
from offpolicy.errors import DatasetError


def data_folder() -> Path | None:
    """The user's own folder, which ``OFFPOLICY_DATA`` names; nothing is ever written there."""
    named = os.environ.get("OFFPOLICY_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """Where fetched files go: ``OFFPOLICY_CACHE``, else the platform's folder for such."""
    named = os.environ.get("OFFPOLICY_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "offpolicy" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "offpolicy"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "offpolicy"


def roots() -> list[Path]:
    """The folders to look in, in order."""
    own = data_folder()
    return [cache_folder()] if own is None else [own, cache_folder()]


def either(path: Path) -> Path | None:
    """This file, or the same gzipped, or None."""
    for found in (path.with_name(f"{path.name}.gz"), path):
        if found.is_file():
            return found
    return None


def keep(path: Path, content: bytes) -> None:
    """Write a fetched file, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as problem:
        raise DatasetError(
            f"{path} cannot be written ({problem.strerror or problem}). Name another folder with "
            f"the environment variable OFFPOLICY_CACHE."
        ) from None
