"""The named estimators in lists, as their classes say what they are."""

from __future__ import annotations

from offpolicy.estimators import NAMED, Estimator

PLAIN = [name for name, kind in NAMED.items() if kind.parameter_name is None]
PARAMETRIC = [name for name, kind in NAMED.items() if kind.parameter_name is not None]


def at(kind: type[Estimator], values: list[float]) -> list[str]:
    """With each of these values, if there is a parameter."""
    if kind.parameter_name is None:
        return [kind.name]
    return [str(kind(**{kind.parameter_name: value})) for value in values]


def members(*values: int, needs: set[str] | None = None, **facts: object) -> list[str]:
    """All that a class says these things of, with some of its typical values: −1 and 3 are the ends
    of its grid; ``needs`` are exactly the columns."""
    found = []
    for kind in NAMED.values():
        if any(getattr(kind, name) != fact for name, fact in facts.items()):
            continue
        if needs is None or kind.needs == needs:
            five = (*kind.typical, *getattr(kind, "grid", [])[-1:], *getattr(kind, "grid", [])[:1])
            found += at(kind, [float(five[k]) for k in values] if five else [])
    return found


TYPICAL = members(0)
"""Each once."""
ENDS = members(3, -1)
ALL_MEMBERS = list(dict.fromkeys([
    *TYPICAL, *members(1), *ENDS,
    *(f"{name}(M={M})" for name in PARAMETRIC for M in ("0.5", "1", "3.7", "1e9")
      if NAMED[name].parameter_name == "M"),
]))  # fmt: skip
LIMITS = [
    (str(kind(**{str(kind.parameter_name): end})), same)
    for kind in NAMED.values() for end, same in kind.limits
]  # fmt: skip
CHOSEN_ONLY = members(0, needs={"propensity"})
BOTH = members(0, needs={"propensity", "policy", "prediction"})
EVERYTHING = members(0, needs={"propensity", "policy", "prediction", "logging"})
DIFFERENTIABLE = members(0, 3, -1, subdifferentiable=True)
