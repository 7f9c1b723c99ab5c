"""Long experiments in cells, each kept in a file of its own: a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from offpolicy import __version__
from offpolicy._core.files import write_whole
from offpolicy.errors import ParameterError


def each_cell(
    function: Callable[..., Any],
    cells: Sequence[tuple[Any, ...]],
    *,
    folder: Path,
    jobs: int = 1,
    made_from: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """``function(*cell)`` of every cell, in order: something that JSON can hold.

    What is in ``folder`` already, from the same arguments, is not computed again. ``made_from``
    names what else the numbers depend on, such as files: if that was another when the folder was
    filled, it is refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_others(folder, {"version": __version__, **(made_from or {})})
    kept = [folder / f"{_name(function, cell)}.json" for cell in cells]
    missing = [k for k, path in enumerate(kept) if not _is_whole(path)]
    work = [(function, cells[k], kept[k]) for k in missing]
    if jobs == 1 or len(work) < 2:
        done = (_run(*item) for item in work)
        yield from _in_order(kept, missing, done)
        return
    with ProcessPoolExecutor(jobs, initializer=_end_with, initargs=(os.getpid(),)) as pool:
        yield from _in_order(kept, missing, pool.map(_run, *zip(*work, strict=True)))


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


def _in_order(kept: Sequence[Path], missing: Sequence[int], done: Iterator[Path]) -> Iterator[Any]:
    waiting = set(missing)
    for k, path in enumerate(kept):
        if k in waiting:
            next(done)
        yield json.loads(path.read_text())


def _run(function: Callable[..., Any], cell: tuple[Any, ...], path: Path) -> Path:
    """With one thread for matrices: more would add up in another order on another machine, and
    processes side by side would wait for one another."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        found = function(*cell)
    write_whole(path, json.dumps(found))
    return path


def _name(function: Callable[..., Any], cell: tuple[Any, ...]) -> str:
    text = repr((function.__module__.rpartition(".")[2], function.__qualname__, cell))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
