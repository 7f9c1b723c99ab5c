"""Long experiments in cells, each kept in a file of its own: a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_type_hints

from offpolicy import __version__
from offpolicy._core.files import write_whole
from offpolicy.errors import ParameterError
from offpolicy.experiments.saving import decoded, encoded

_T = TypeVar("_T")


class Shown(Protocol):
    """Passes parts through, showing how many of ``total`` are done."""

    def __call__(self, parts: Iterable[_T], total: int, what: str) -> Iterable[_T]: ...


def _in_silence(parts: Iterable[_T], total: int, what: str) -> Iterable[_T]:
    return parts


@dataclass(frozen=True)
class Cells:
    """A folder that keeps what was found, and by how many processes the rest is computed."""

    folder: Path
    jobs: int = 1
    shown: Shown = _in_silence

    def each(
        self,
        function: Callable[..., _T],
        cells: Sequence[tuple[Any, ...]],
        made_from: Mapping[str, str] | None = None,
    ) -> Iterator[_T]:
        """``function(*cell)`` of every cell, in order: of the type that the function says it
        returns, made of dataclasses, lists, dictionaries, arrays and what JSON can hold.

        What is in the folder already, from the same arguments, is not computed again.
        ``made_from`` names what else the numbers depend on, such as files: if that was another
        when the folder was filled, it is refused.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        _refuse_others(self.folder, {"version": __version__, **(made_from or {})})
        kept = [self.folder / f"{_name(function, cell)}.json" for cell in cells]
        missing = [k for k, path in enumerate(kept) if not _is_whole(path)]
        work = [(function, cells[k], kept[k]) for k in missing]
        kind = get_type_hints(function)["return"]
        if self.jobs == 1 or len(work) < 2:
            yield from _in_order(kind, kept, missing, (_run(*item) for item in work))
            return
        parent = (os.getpid(),)
        with ProcessPoolExecutor(self.jobs, initializer=_end_with, initargs=parent) as pool:
            yield from _in_order(kind, kept, missing, pool.map(_run, *zip(*work, strict=True)))

    def all(
        self,
        what: str,
        function: Callable[..., _T],
        cells: Sequence[tuple[Any, ...]],
        made_from: Mapping[str, str] | None = None,
    ) -> list[_T]:
        """The same as a list, with how many are done on the way."""
        return list(self.shown(self.each(function, cells, made_from), len(cells), what))


def _refuse_others(folder: Path, now: dict[str, str]) -> None:
    """Raise if what is kept there was made from something else."""
    path = folder / "made_from.txt"
    before = json.loads(path.read_text()) if path.is_file() else {}
    for name, stamp in now.items():
        if before.get(name, stamp) != stamp:
            raise ParameterError(
                f"{folder} holds results of an earlier run, for which {name} was another. Give "
                f"another --out, or delete that folder."
            )
    if now.items() - before.items():
        write_whole(path, json.dumps(before | now, indent=1) + "\n")


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True


def _end_with(parent: int) -> None:
    """Let this process end when its parent does: if that is killed, nobody else tells it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_order(
    kind: Any, kept: Sequence[Path], missing: Sequence[int], done: Iterator[Path]
) -> Iterator[Any]:
    waiting = set(missing)
    for k, path in enumerate(kept):
        if k in waiting:
            next(done)
        yield decoded(kind, json.loads(path.read_text()))


def _run(function: Callable[..., Any], cell: tuple[Any, ...], path: Path) -> Path:
    """With one thread for matrices: more would add up in another order on another machine, and
    processes side by side would wait for one another."""
    import scipy.linalg  # noqa: F401  what is not loaded yet cannot be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        found = function(*cell)
    write_whole(path, encoded(found))
    return path


def _name(function: Callable[..., Any], cell: tuple[Any, ...]) -> str:
    text = repr((function.__module__.rpartition(".")[2], function.__qualname__, cell))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
