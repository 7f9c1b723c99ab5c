"""Which kept cells of coverage the code as it is would answer otherwise: their first logs again.

python scripts/coverage_cells.py [--delete]

Half a minute. Of data sets that are not at hand nothing can be said. With --delete those cells are
deleted, and `make coverage` computes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from offpolicy.datasets import files_of
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.intervals import coverage, protocol, variations
from offpolicy.experiments.intervals.outcomes import Cell

FOLDER = Path(__file__).parent.parent / "measured" / "coverage"
FULL = (protocol.SETS, 200, 10, 2000, (50, 200, 2000, 20_000))
"""What `offpolicy reproduce coverage` does by default."""
_LOGS = 3
_FEW: dict[Callable[..., Any], Callable[..., tuple[Any, ...]]] = {
    protocol.run_block: lambda name, model, start, *_: (name, model, start, 1, _LOGS),
    protocol.run_differences: lambda name, *_: (name, 1, _LOGS),
    variations.run_variation: lambda name, n, *_: (name, n, _LOGS),
    coverage.run_one: lambda name, n, *_: (name, n, _LOGS),
}


def kept(folder: Path = FOLDER) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The cells that are there and whose data are at hand: a function, and what it was asked."""
    cells = Cells(folder / "cells")
    away = {name for name, files in files_of(protocol.SETS[:-1]).items() if not files}
    for function, asked in coverage.work(*FULL).values():
        for cell in asked:
            if cell[0] not in away and cells.path(function, cell).is_file():
                yield function, cell


def differs(function: Callable[..., Any], cell: tuple[Any, ...], folder: Path = FOLDER) -> str:
    """What of a kept cell's first logs is answered otherwise now; nothing if it is of this code."""
    before = _counted(Cells(folder / "cells").kept(function, [cell])[0])
    with threadpool_limits(1):
        now = _counted(function(*_FEW[function](*cell)))
    assert [one.name for one in before] == [one.name for one in now]
    return ", ".join(
        one.name
        for one, other in zip(before, now, strict=True)
        if not np.allclose(one.first, other.first, rtol=1e-5, atol=1e-7)
    )


def _counted(found: Any) -> Sequence[Cell]:
    return found if isinstance(found, list) else [found.cell]


if __name__ == "__main__":
    for function, cell in kept():
        if difference := differs(function, cell):
            print(f"{function.__name__}{cell}: {difference}")
            if "--delete" in sys.argv:
                Cells(FOLDER / "cells").path(function, cell).unlink()
