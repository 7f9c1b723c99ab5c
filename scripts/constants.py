"""Writes the table in docs/method.md that shows what the headline's constants are worth.

python scripts/constants.py --out measured/constants

Each is tried below and above what it is, on the labelled sets of the coverage protocol without a
model. Those of the first group had a part in setting the constants, the others not. About a
quarter of an hour; finished variants are kept in --out.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np

from offpolicy._core.documents import json_safe
from offpolicy.evidence import _plan, _plausible_bias, _recalibration, _risk_curve
from offpolicy.experiments.intervals.outcomes import Cell
from offpolicy.experiments.intervals.protocol import Split, cells_of, logs_of
from offpolicy.experiments.tables import geometric_mean, markdown
from offpolicy.logs import BanditLog

PAGE = Path(__file__).parent.parent / "docs" / "method.md"
BEGIN, END = "<!-- constants -->", "<!-- end of constants -->"
SETS = {"set": ("optdigits", "ecoli", "yeast", "glass"), "other": ("wine", "satimage", "pendigits")}
SPLITS, DRAWS = 20, 5
VARIANTS = {
    "as they are": {},
    "κ before looking 0.1": {"TYPICAL": 0.1},
    "κ before looking 0.4": {"TYPICAL": 0.4},
    "least κ 0.05": {"LEAST": 0.05},
    "least κ 0.2": {"LEAST": 0.2},
    "caution 2.5": {"CAUTION": 2.5},
    "caution 10": {"CAUTION": 10.0},
    "prior rows of s: 3": {"_PRIOR_ROWS": 3.0},
    "prior rows of s: 30": {"_PRIOR_ROWS": 30.0},
    "prior rows of ē: 0.5/κ²": {"PRIOR_SHOWN": 0.5},
    "prior rows of ē: 8/κ²": {"PRIOR_SHOWN": 8.0},
    "constant preferred below 0.5": {"_PREFERRED": 0.5},
    "constant preferred below 0.9": {"_PREFERRED": 0.9},
    "rows count 1 + min(c, 2)": {"_LARGEST_WEIGHT": 2.0},
    "rows count 1 + min(c, 20)": {"_LARGEST_WEIGHT": 20.0},
}
MODULES = (_plan, _plausible_bias, _recalibration, _risk_curve)


@functools.cache
def logs(name: str) -> list[tuple[Split, BanditLog]]:
    """The same for every variant."""
    return list(logs_of(name, 0, SPLITS, DRAWS))


def cells_with(constants: dict[str, float], names: tuple[str, ...]) -> list[Cell]:
    """The cells of some sets, with some constants changed wherever they are used."""
    with ExitStack() as stack:
        for name, value in constants.items():
            homes = [module for module in MODULES if hasattr(module, name)]
            assert homes, name
            for module in homes:
                stack.enter_context(patch.object(module, name, value))
        return [
            cell
            for name in names
            for cell in cells_of(name, "no model", DRAWS, logs(name), ("candidates",))
        ]


def numbers(cells: list[Cell]) -> list[float]:
    errors = [cell.error_ratio()[0] for cell in cells]
    coverage = [cell.coverage for cell in cells]
    return [
        geometric_mean(errors), max(errors), float(np.mean(coverage)), min(coverage),
        geometric_mean([cell.width_ratio for cell in cells]),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for j, (name, constants) in enumerate(VARIANTS.items()):
        kept = folder / f"{j:02d}.json"
        if not kept.exists():
            found = {group: numbers(cells_with(constants, sets)) for group, sets in SETS.items()}
            kept.write_text(
                json.dumps({"variant": name} | json_safe(found)) + "\n", encoding="utf-8"
            )
            print(name, flush=True)
        found = json.loads(kept.read_text(encoding="utf-8"))
        assert found["variant"] == name, f"{kept} is of another variant: delete it"
        cells = []
        for error, worst, covered, least, width in (found["set"], found["other"]):
            assert math.isfinite(error)
            cells += [f"{error:.3f} / {worst:.2f}", f"{covered:.1%} / {least:.0%}", f"{width:.2f}"]
        rows.append([name, *cells])
    head = ["", *("squared error", "covered", "width") * 2]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{markdown(head, rows)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
