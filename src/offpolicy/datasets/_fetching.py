"""Getting a file from its public source: all of it, or an error that says what to do."""

from __future__ import annotations

import hashlib
import http.client
import io
import sys
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import PurePosixPath

from offpolicy import __version__
from offpolicy.datasets import _lzw as lzw
from offpolicy.errors import DatasetError

TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""
LARGEST = 256 * 2**20
"""Bytes; no file that is fetched comes near."""


def tell_progress(text: str, end: str = "") -> None:
    """How far fetching a data set is, on stderr; on a terminal in place of what was told before."""
    erase = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{erase}{text}{end}")
    sys.stderr.flush()


def amount_fetched(done: int, total: int | None) -> str:
    """How much of a data set is fetched: '120,000 of 240,000 bytes (50%)'."""
    if not total:
        return f"{done:,} bytes"
    return f"{done:,} of {total:,} bytes ({done / total:.0%})"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def get(url: str, instead: str) -> bytes:
    """A data set's file at its address; ``instead`` says what else the user can do."""
    name, shown = url.rpartition("/")[2], 0.0
    request = urllib.request.Request(url, headers={"User-Agent": f"offpolicy/{__version__}"})
    body = io.BytesIO()
    total: int | None = None
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            length = answer.headers.get("Content-Length", "")
            total = int(length) if length.isdigit() else None
            while piece := answer.read(2**16):
                body.write(piece)
                if sys.stderr.isatty() and time.monotonic() - shown >= 0.1:
                    shown = time.monotonic()
                    tell_progress(f"{name}: {amount_fetched(body.tell(), total)}")
                if body.tell() > LARGEST:
                    raise DatasetError(f"it gives more than {LARGEST:,} bytes. {instead}", url)
            whole = total is None or body.tell() >= total
    except urllib.error.HTTPError as problem:
        problem.close()
        sentence = f"it answers {problem.code} ({problem.reason}). {instead}"
        raise DatasetError(sentence, url) from None
    except (OSError, http.client.HTTPException) as problem:
        whole = False
        if not body.tell():
            reason = getattr(problem, "reason", None) or problem
            raise DatasetError(f"it cannot be reached ({reason}). {instead}", url) from None
    if not whole:
        done = amount_fetched(body.tell(), total)
        sentence = f"it broke off after {done}. Try again later. {instead}"
        raise DatasetError(sentence, url)
    tell_progress(f"{name}: {body.tell():,} bytes fetched", "\n")
    return body.getvalue()


def archive_members(archive: bytes, wanted: list[str], url: str, instead: str) -> list[bytes]:
    """Files of a fetched data set's zip archive, in any subfolder, unpacked if they end in .Z."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            entries = {PurePosixPath(info.filename).name: info for info in zipped.infolist()}
            contents = []
            for name in wanted:
                info = entries.get(name) or entries.get(f"{name}.Z")
                if info is None:
                    raise DatasetError(f"it holds no {name}. {instead}", url)
                if info.file_size > LARGEST:
                    raise DatasetError(f"its {name} is larger than any real one. {instead}", url)
                content = zipped.read(info)
                packed = not info.filename.endswith(name)
                contents.append(lzw.unpack(content, name) if packed else content)
            return contents
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as problem:
        if isinstance(problem, DatasetError):
            raise
        raise DatasetError(
            f"it is not a whole zip archive ({problem}). Try again later. {instead}", url
        ) from None


def check_hash(content: bytes, expected: str | None, place: str, instead: str) -> None:
    """A fetched data set's file must be what the catalogue pins, if it pins it."""
    actual = sha256(content)
    if expected is not None and actual != expected:
        raise DatasetError(
            f"this is not the official file: its SHA-256 is {actual}, not {expected}. {instead}",
            place,
        )
