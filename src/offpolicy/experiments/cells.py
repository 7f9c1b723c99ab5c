"""Long experiments in cells, each kept in a file of its own: a run that was killed goes on."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from offpolicy import __version__
from offpolicy._core.documents import built, dumps
from offpolicy._core.door import Door
from offpolicy._core.files import write_whole
from offpolicy.errors import ParameterError

_T = TypeVar("_T")


Shown = Callable[[Iterable[Any], int, str], Iterable[Any]]
"""Passes parts through, showing how many of a total are done, and of what."""


@dataclass(frozen=True)
class Cells:
    """A folder that keeps what was found, and by how many processes the rest is computed."""

    folder: Path
    jobs: int = 1
    shown: Shown = lambda parts, total, what: parts
    only_kept: bool = False
    """Whether nothing is computed, and what is not kept is left out."""

    def within(self, part: str) -> Cells:
        """A folder in this one, of a kind of cells."""
        return replace(self, folder=self.folder / part)

    def all(
        self,
        what: str,
        function: Callable[..., _T],
        cells: Sequence[tuple[Any, ...]],
        files: Mapping[str, Iterable[Path]] | None = None,
    ) -> list[_T]:
        """``function(*cell)`` of every cell: of the type that the function says it returns, made
        of dataclasses, lists, dictionaries, arrays and what JSON can hold.

        What is in the folder already, from the same arguments, is not computed again.
        If the ``files`` of a data set were others when the folder was filled, it is refused; of one
        that is not at hand there are none.
        """
        if self.only_kept:
            there = [cell for cell in cells if _is_whole(self.path(function, cell))]
            if cells and not there:
                raise ParameterError(f"{self.folder} holds none of these {what}.", column="kept")
            return self.kept(function, there)
        if not cells:
            return []
        self.folder.mkdir(parents=True, exist_ok=True)
        stamps = {name: " ".join(map(_stamp, paths)) for name, paths in (files or {}).items()}
        at_hand = {name: stamp for name, stamp in stamps.items() if stamp}
        _refuse_others(self.folder, {"version": __version__, **at_hand})
        paths = [self.path(function, cell) for cell in cells]
        work = [
            (function, cell, file)
            for cell, file in zip(cells, paths, strict=True)
            if not _is_whole(file)
        ]
        if self.jobs == 1 or len(work) < 2:
            list(self.shown(itertools.starmap(_run, work), len(work), what))
        else:
            others = set(multiprocessing.active_children())
            with ProcessPoolExecutor(self.jobs, initializer=_end_with_parent) as pool:
                try:
                    done = pool.map(_run, *zip(*work, strict=True))
                    list(self.shown(done, len(work), what))
                except KeyboardInterrupt:  # the pool would wait for the cells that are begun
                    for worker in set(multiprocessing.active_children()) - others:
                        worker.kill()
                    raise
        return self.kept(function, cells)

    def kept(self, function: Callable[..., _T], cells: Sequence[tuple[Any, ...]]) -> list[_T]:
        """What the folder holds of these cells, which must all be there."""
        kind = get_type_hints(function)["return"]
        files = [self.path(function, cell) for cell in cells]
        return [built(kind, json.loads(file.read_text(encoding="utf-8"))) for file in files]

    def path(self, function: Callable[..., Any], cell: tuple[Any, ...]) -> Path:
        text = repr((function.__module__.rpartition(".")[2], function.__qualname__, cell))
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _refuse_others(folder: Path, now: dict[str, str]) -> None:
    """Raise if the cells of an experiment that are kept there were made from something else."""
    path = folder / "made_from.txt"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, stamp in now.items():
        if before.get(name, stamp) != stamp:
            raise ParameterError(
                f"{folder} holds results of an earlier run, for which {name} was another. Give "
                f"another {Door.named('out')}, or delete that folder."
            )
    if now.items() - before.items():
        write_whole(path, json.dumps(before | now, indent=1) + "\n")


def _stamp(path: Path) -> str:
    """By what it holds, not by when it was written: other machines may go on from here."""
    return _digest(path, path.stat().st_size, path.stat().st_mtime_ns)


@functools.cache
def _digest(path: Path, size: int, when: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:24]


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _end_with_parent() -> None:
    """Let a process that computes cells end with its parent: if that is killed, nobody tells it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])  # on every system; getppid is not
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(function: Callable[..., Any], cell: tuple[Any, ...], path: Path) -> None:
    """A cell of an experiment, with one thread for matrices: more would add up in another order on
    another machine, and processes side by side would wait for one another."""
    import scipy.linalg  # noqa: F401  what is not loaded yet cannot be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        result = function(*cell)
    write_whole(path, dumps(result, indent=None))
