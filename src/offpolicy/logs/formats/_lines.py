"""Lines of a text file, plain or compressed."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from offpolicy._core.files import is_device, temporary_folder
from offpolicy._core.late import pa
from offpolicy.errors import LogError, Place

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
LONGEST_LINE = 2**24
"""Bytes of a row of text, at most."""
DEEPEST = 128
"""Brackets of JSON that may be open at once."""
NOT_UTF_8 = "the text is not UTF-8. Convert the file first."
_BLOCK = 2**20
_PATTERN = re.compile(r"[*?\[\]{}]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?')


def existing(path: str | Path) -> Path:
    """The path of a log in someone else's format, if it is a file."""
    file = Path(path)
    if file.is_dir():
        raise LogError("this is a folder; give a file.", path)
    refuse_pipe(file)
    if not file.is_file():
        raise LogError("there is no such file.", path)
    return file


def refuse_pipe(path: Path) -> None:
    """Raise if this is there, but is neither a file nor a folder: logs are read more than once."""
    if is_device(path):
        raise LogError(
            "this is a pipe or a device, which can be read only once. Write what comes from it to "
            "a file, and give that.",
            path,
        )


def numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line of a log's file and its number, from 1 on; .gz, .bz2 and .zst are unpacked."""
    with _unpacking(path) as stream:
        lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > LONGEST_LINE:
                raise LogError(
                    f"the line has more than {LONGEST_LINE:,} bytes. Does the file have lines?",
                    Place(str(path), row=number, unit="line"),
                )
            yield number, line


def unpacked_size(path: Path, most: int) -> int:
    """The bytes of text in a log's file, which is unpacked for that; where there are more than
    ``most``, any number above it."""
    if path.suffix.lower() not in COMPRESSED:
        return path.stat().st_size
    size = 0
    with _unpacking(path) as stream:
        while size <= most and (block := stream.read(_BLOCK)):
            size += len(block)
    return size


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The log's file, or a temporary one with what it holds, that DuckDB can read: it compares no
    checksums, and takes characters in names for patterns."""
    compressed = path.suffix.lower() in COMPRESSED
    if not compressed and _is_plain(str(path)):
        yield path
        return
    with temporary_folder() as folder:
        plain = Path(folder, "plain")
        if compressed:
            with _unpacking(path) as packed:
                _write(packed, plain)
        else:
            try:
                plain.symlink_to(path.absolute())
            except OSError:
                shutil.copyfile(path, plain)
        yield plain


def nests_too_deeply(line: bytes) -> bool:
    """Whether more than `DEEPEST` brackets of a line of JSON are open at once."""
    if line.count(b"[") + line.count(b"{") <= DEEPEST:
        return False
    bytes_ = np.frombuffer(_STRING.sub(b"", line), dtype=np.uint8)
    opened, closed = np.isin(bytes_, [*b"[{"]), np.isin(bytes_, [*b"]}"])
    depth = np.cumsum(opened.astype(np.int64) - closed)
    return bool(depth.max(initial=0) > DEEPEST)


def cut_off(path: Path, problem: Exception) -> LogError:
    """The error for a log's file that ends too early, or that the disk does not give."""
    return LogError(
        f"the file cannot be read to its end ({problem}). If it is still being written or "
        f"copied, wait; else fetch it again.",
        path,
    )


@contextlib.contextmanager
def _unpacking(path: Path) -> Iterator[IO[bytes]]:
    packing = COMPRESSED.get(path.suffix.lower())
    try:
        with path.open("rb") as raw:  # by Python, whose names of files need not be UTF-8
            if packing is None:
                yield raw
            else:
                with pa.CompressedInputStream(raw, packing) as stream:
                    yield io.BufferedReader(stream, _BLOCK)
    except (pa.ArrowException, OSError) as problem:
        raise cut_off(path, problem) from None


def _write(packed: IO[bytes], plain: Path) -> None:
    with plain.open("wb") as out:
        while block := packed.read(_BLOCK):
            try:
                out.write(block)
            except OSError as problem:
                raise LogError(
                    f"There is no room to unpack the log in {plain.parent} ({problem}). Set TMPDIR "
                    f"to a folder on a larger disk."
                ) from None


def _is_plain(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return not _PATTERN.search(path)
