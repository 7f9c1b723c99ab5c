"""Writing files: complete, or not at all; and temporary folders.

What is being written is held with a lock that ends with the process, however that ends. So what a
killed process left can be told from what another is still writing, and the next one removes it.
"""

from __future__ import annotations

import atexit
import errno
import glob
import itertools
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from offpolicy.errors import LogError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed in any case
    fcntl = None  # type: ignore[assignment]

STDOUT = "/dev/stdout"
_STREAMS = {STDOUT: 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:proc/(?:self|thread-self|\d+)|dev)/fd/(\d+)")
_PREFIX = "offpolicy-"
_LOCK = ".lock"
_count = itertools.count()


def write_whole(path: Path, text: str | bytes) -> None:
    """Write any file beside, then rename: it is complete or absent."""
    content = text if isinstance(text, bytes) else text.encode()
    with replacing(path) as part:
        part.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to; it takes the file's place if nothing goes wrong.

    A symlink stays, and what it points to is replaced; the file keeps its mode and its owner. A
    device or a pipe is written to when all is there, and never replaced.
    """
    try:
        if descriptor_of(path) is not None or is_device(path):
            with temporary_folder() as folder:
                yield (part := folder / path.name)
                _copy_into(part, path)
        else:
            with _beside(Path(os.path.realpath(path))) as part:
                yield part
    except OSError as problem:
        if problem.filename == str(path) or not _is_ours(problem):
            raise
        # Of a full disk, neither Python nor Arrow says which file it was.
        why = problem.strerror or str(problem)
        raise OSError(problem.errno or errno.EIO, why, str(path)) from problem


def _is_ours(problem: OSError) -> bool:
    """Whether it is about the file being written: it names none, or the one beside."""
    return problem.filename is None or str(problem.filename).endswith(".part")


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file of the same folder, which is then renamed."""
    before = path.stat() if path.exists() else None
    _remove_stale(path.parent.glob(f".{glob.escape(path.name)}.*.part"))
    part = path.with_name(f".{path.name}.{os.getpid()}-{next(_count)}.part")
    held = _hold(part, 0o666 if before is None else 0o600)
    try:
        yield part
        if before is not None:
            _take_over(part, before)
        os.fsync(held)
        if fcntl is None:
            os.close(held)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
        with suppress(OSError):
            os.close(held)


def _take_over(part: Path, before: os.stat_result) -> None:
    """Give a file the owner, as far as that is allowed, and the mode of the one it replaces."""
    now = part.stat()
    if hasattr(os, "chown") and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(OSError):
            os.chown(part, before.st_uid, before.st_gid)
    part.chmod(stat.S_IMODE(before.st_mode))


# -- devices ---------------------------------------------------------------------------------


def descriptor_of(path: Path) -> int | None:
    """Which of this process's open files a name such as /dev/stdout stands for.

    Opened anew by its name, a file that output is redirected to would be emptied.
    """
    name = str(path)
    for _ in range(40):  # as many links as Linux follows
        known = _DESCRIPTOR.fullmatch(name)
        if name in _STREAMS or known:
            return _STREAMS[name] if known is None else int(known[1])
        if not os.path.islink(name):
            return None
        name = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(name)))
    return None


def is_device(path: Path) -> bool:
    """Whether something is there, and neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _copy_into(part: Path, path: Path) -> None:
    number = descriptor_of(path)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what was printed before comes before
    with part.open("rb") as source, open(path if number is None else os.dup(number), "wb") as out:
        shutil.copyfileobj(source, out)


# -- what a killed process leaves --------------------------------------------------------------


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of TMPDIR, for as long as it is needed."""
    folder = make_temporary_folder()
    try:
        yield folder
    finally:
        remove_temporary_folder(folder)


def make_temporary_folder() -> Path:
    """A folder of TMPDIR. What others have left that were killed is removed before."""
    try:
        root = Path(tempfile.gettempdir())
        with suppress(OSError):
            _remove_stale(root.glob(f"{_PREFIX}*/{_LOCK}"))
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as problem:
        raise LogError(f"There is no place for temporary files: {problem}. Set TMPDIR.") from None
    _held[folder] = (os.getpid(), _hold(folder / _LOCK, 0o600))
    return folder


def remove_temporary_folder(folder: Path) -> None:
    """Remove a folder of `make_temporary_folder`, if this process made it."""
    owner, lock = _held.get(folder, (0, 0))
    if owner == os.getpid():
        del _held[folder]
        if fcntl is None:
            os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
        if fcntl is not None:
            os.close(lock)


_held: dict[Path, tuple[int, int]] = {}
"""Temporary folders, with the process that made them and their locks."""


@atexit.register
def _remove_all() -> None:
    for folder in list(_held):
        remove_temporary_folder(folder)


def _hold(path: Path, mode: int) -> int:
    """A new file, open and locked, with this mode from the first."""
    while True:
        held = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if fcntl is not None:
            with suppress(OSError):  # there are file systems without locks
                fcntl.flock(held, fcntl.LOCK_EX)
        if os.fstat(held).st_nlink:
            return held
        os.close(held)  # it was taken for stale before it was locked


def _remove_stale(paths: Iterable[Path]) -> None:
    """Remove parts that no process holds any more, and folders by their locks."""
    for path in paths:
        with suppress(OSError), _taken(path):
            path.unlink()
            if path.name == _LOCK:
                shutil.rmtree(path.parent, ignore_errors=True)


@contextmanager
def _taken(path: Path) -> Iterator[None]:
    """Hold a file of ours that nobody holds; raise an OSError if somebody does."""
    if fcntl is None:
        yield
        return
    opened = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if os.fstat(opened).st_uid != os.getuid():
            raise PermissionError
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
