"""From numbers to places on the paper, with the numbers worth marking."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from offpolicy.report.html.numbers import short


class Scale(NamedTuple):
    """``at`` says where a number is; ``ticks`` are some of them, and what is written there."""

    at: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]
    start: float
    stop: float


def linear(
    low: float,
    high: float,
    start: float,
    stop: float,
    *,
    about: int = 5,
    percent: bool = False,
    ticks: Sequence[tuple[float, str]] | None = None,
) -> Scale:
    """A chart's axis on which equal steps are equally long; with these ticks, or about so many."""
    if not high > low:
        low, high = low - 0.5, high + 0.5

    def at(value: float) -> float:
        return start + (stop - start) * (value - low) / (high - low)

    if ticks is None:
        step = _step((high - low) / about)
        first = math.ceil(low / step - 1e-9)
        values = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
        places = max(0, -math.floor(math.log10(step * (100.0 if percent else 1.0)) + 1e-9))
        ticks = [(value, _label(value, places, percent)) for value in values]
    return Scale(at, tuple(ticks), start, stop)


def decades(first: float, second: float) -> list[tuple[float, str]]:
    """A chart's ticks at powers of ten, on even logarithmic steps: 1 is ``first``, 2 ``second``."""
    step = math.log10(second / first)
    return [
        (1.0 + (power - math.log10(first)) / step, short(10.0**power)) for power in range(-1, 7)
    ]


def _label(value: float, places: int, percent: bool) -> str:
    shown = f"{100.0 * value:,.{places}f}%" if percent else f"{value:,.{places}f}"
    zero = float(shown.rstrip("%").replace(",", "")) == 0.0
    return shown.removeprefix("-") if zero else shown.replace("-", "−")


def _step(rough: float) -> float:
    """The step between a chart's ticks: the nearest of 1, 2, 5 times a power of 10."""
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [step * power for step in (1.0, 2.0, 5.0, 10.0)]
    return min(steps, key=lambda step: abs(math.log(step / rough)))


def around(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Limits of a chart's axis: the least and the largest finite number, and some room."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = share * (high - low) or 0.05 * abs(low) or 0.5
    return low - room, high + room


def with_room_for(limits: tuple[float, float], value: float) -> tuple[float, float]:
    """A chart's limits stretched to show a value, unless all else would then be squeezed."""
    low, high = limits
    wide, far = high - low, around([low, high, value])
    outside = not low <= value <= high
    return far if outside and far[1] - far[0] <= 4.0 * wide else limits
