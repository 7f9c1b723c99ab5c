"""Writing files: complete, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str | bytes) -> None:
    """Write beside, then rename: the file is complete or absent."""
    content = text if isinstance(text, bytes) else text.encode()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
