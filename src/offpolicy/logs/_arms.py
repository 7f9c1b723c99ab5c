"""Arms that are the same in every decision, named by the user or found in the log; and what one
propensity for all of them says of the logger."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.door import Door
from offpolicy.errors import ParameterError, PropensityError
from offpolicy.logs._encoded import Encoded

MOST_ARMS = 100
"""Different actions of a log that may be taken for its arms if nobody names them."""
_SHOWN = 6


class FoundArms(tuple[Hashable, ...]):
    """Arms that were found in a log. Nobody said in which order lists would have them."""

    __slots__ = ()


def as_found(names: Sequence[Hashable]) -> FoundArms | None:
    """The different actions of a log as its arms; None if they are too many."""
    return FoundArms(names) if len(names) <= MOST_ARMS else None


def is_number(value: Any) -> bool:
    """Whether a role is played by a number instead of a column."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_constant_propensity(propensity: Any, arms: Sequence[Hashable] | None) -> None:
    """Raise unless a log's one propensity, of as many arms as there are, is a probability."""
    if not 0.0 < propensity <= 1.0:
        raise ParameterError(
            f"{Door.named('propensity')} is {propensity:g}; it must be above 0 and at most 1.",
            column="propensity",
        )
    if arms is None or math.isclose(total := propensity * len(arms), 1.0, abs_tol=1e-6):
        return
    found = ""
    if isinstance(arms, FoundArms):
        found = f" The arms were found in the log: {listed(arms)}."
    raise PropensityError(
        f"{Door.named('propensity')} is {propensity:.6g} for each of {len(arms)} arms: that sums "
        f"to {total:.6g}, and must sum to 1.{found} Name all arms ({Door.spelled('actions')}); "
        f"write 1/{len(arms)} if all were equally likely; where arms differ, give a column.",
        column="propensity",
    )


def listed(arms: Iterable[Hashable]) -> str:
    """Some of a log's arms, for messages."""
    names = [str(arm) for arm in arms]
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def as_held(arms: Sequence[Hashable], values: NDArray[Any] | Encoded) -> list[Hashable]:
    """Arms as a log's column holds them: text that was typed as numbers, or the other way."""
    kind = "text" if isinstance(values, Encoded) else values.dtype.kind
    if isinstance(values, Encoded) or (kind in "OU" and isinstance(next(iter(values), 0), str)):
        return [arm if isinstance(arm, tuple) else str(arm) for arm in arms]
    if kind not in "iuf":
        return list(arms)
    numbers = [as_number(arm) if isinstance(arm, str) else arm for arm in arms]
    return [arm if number is None else number for arm, number in zip(arms, numbers, strict=True)]


def as_number(text: str) -> int | float | None:
    """The number that a text says, if it says one, as in 3, 0.25 or 1e-3."""
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        return int(text)
    number = math.nan
    if re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", text, re.ASCII):
        with contextlib.suppress(ValueError):
            number = float(text)
    return number if math.isfinite(number) else None


def as_ratio(text: str) -> float | None:
    """The number that a text says, if it says one, as in 0.25 or 1/3."""
    above, slash, below = text.partition("/")
    numbers = [as_number(part.strip()) for part in ((above, below) if slash else (above,))]
    if None in numbers or (slash and not numbers[1]):
        return None
    return float(numbers[0] / numbers[1] if slash else numbers[0])  # type: ignore[operator,arg-type]
