"""How the way from a log to an answer goes through the house: calls from one module into another.

python scripts/switches.py

One `op.evaluate` of 400 decisions with a model, by `sys.setprofile`. A switch is a call (or the
resuming of a generator) of a function of offpolicy by one of another module; it is upward if it
goes to a room that stands above the caller's in the contract of pyproject.toml.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import offpolicy as op

ROOT = Path(__file__).parent.parent
PACKAGE = Path(op.__file__).parent


def ranks() -> dict[str, int]:
    """Rooms from top to bottom, by the contract."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {
        room.strip().strip("()").removeprefix("offpolicy."): place
        for place, layer in enumerate(layers)
        for room in layer.split("|")
    }


def module_of(frame: FrameType | None) -> str | None:
    """The module of a function of offpolicy; None for others."""
    if frame is None:
        return None
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def counted(function: Any) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """The switches of a call, and those of them that go upward between rooms."""
    place, found, upward = ranks(), Counter[tuple[str, str]](), Counter[tuple[str, str]]()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        to, back = module_of(frame), frame.f_back
        while back is not None and module_of(back) is None:
            back = back.f_back
        caller = module_of(back)
        if to is None or caller is None or to == caller:
            return
        found[caller, to] += 1
        rooms = [name.split(".")[0] for name in (caller, to)]
        if rooms[0] != rooms[1] and place.get(rooms[1], 99) < place.get(rooms[0], 99):
            upward[caller, to] += 1

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found, upward


def of_one_evaluate() -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """The switches of one evaluate of 400 decisions with a model, warmed up."""
    rng = np.random.default_rng(0)
    n, K = 400, 5
    pi0, pi = rng.dirichlet(np.ones(K), n), rng.dirichlet(np.ones(K), n)
    action = (rng.random((n, 1)) > pi0.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    log = op.BanditLog.from_arrays(action=action, reward=rng.random(n) < 0.3, logging=pi0)
    model = rng.random((n, K))
    op.evaluate(log, pi, prediction=model)
    return counted(lambda: op.evaluate(log, pi, prediction=model))


def main() -> None:
    found, upward = of_one_evaluate()
    print(f"{sum(found.values()):,} switches between modules, {sum(upward.values()):,} upward")
    for title, counts in (("most", found), ("upward", upward)):
        print(f"\n{title}:")
        for (caller, to), count in counts.most_common(15):
            print(f"{count:6,}  {caller} → {to}")


if __name__ == "__main__":
    main()
