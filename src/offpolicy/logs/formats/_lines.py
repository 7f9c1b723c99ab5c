"""Lines of a text file, plain or compressed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from offpolicy.errors import LogError


def existing(path: str | Path) -> Path:
    """The path of a log in someone else's format, if it is a file."""
    file = Path(path)
    if file.is_dir():
        raise LogError("this is a folder; give a file.", path)
    if not file.is_file():
        raise LogError("there is no such file.", path)
    return file


def numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line of a log's file and its number, from 1 on; .gz, .bz2 and .zst are unpacked."""
    import pyarrow as pa

    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            yield from enumerate(io.BufferedReader(stream, 2**20), start=1)
    except (pa.ArrowException, OSError) as problem:
        raise cut_off(path, problem) from None


def cut_off(path: Path, problem: Exception) -> LogError:
    """The error for a log's file that ends too early, or that the disk does not give."""
    return LogError(
        f"the file cannot be read to its end ({problem}). If it is still being written or "
        f"copied, wait; else fetch it again.",
        path,
    )
