"""Writing files: complete, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside the file to write to; it takes the file's place if nothing goes wrong."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with open(part, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write any file beside, then rename: it is complete or absent."""
    content = text if isinstance(text, bytes) else text.encode()
    with replacing(path) as part:
        part.write_bytes(content)
