"""Which estimators a verb computes: those asked for, or the usual ones, as far as columns allow."""

from __future__ import annotations

from collections.abc import Sequence

from offpolicy._core.door import Door
from offpolicy.errors import EstimatorError, MissingColumnError
from offpolicy.estimators._named import NAMED, Estimator, as_estimator

DEFAULT_ESTIMATORS = tuple(map(as_estimator, ("DM", "IPS", "SNIPS", "DR", "CAB", "CAB-DR")))
"""What is computed unless asked otherwise, as far as the columns allow."""


def choose_estimators(
    wanted: Sequence[str | Estimator] | None, have: frozenset[str]
) -> tuple[Estimator, ...]:
    """The estimators that `evaluate` is asked for, all computable; or the default ones that are."""
    if wanted is None:
        usable = tuple(member for member in DEFAULT_ESTIMATORS if member.needs <= have)
        if not usable:
            _refuse_missing_columns(as_estimator("IPS"), have)
        return usable
    if isinstance(wanted, (str, Estimator)):
        wanted = [wanted]
    members = [as_estimator(item) for item in wanted]
    if not members:
        raise EstimatorError("There is no estimator to compute.", column="estimators")
    names = [str(member) for member in members]
    for member, name in zip(members, names, strict=True):
        if not member.needs <= have:
            _refuse_missing_columns(member, have)
        if names.count(name) > 1:
            raise EstimatorError(
                f'"{name}" is asked for twice.'
                f"{Door.in_python(' (An ICE takes a label= of its own.)')}",
                column=name,
            )
    return tuple(members)


_WHAT = {
    "propensity": "the propensity of the chosen action",
    "logging": "logging, the logger's probability of every candidate",
    "policy": "the policy's probability of every candidate",
    "prediction": "prediction, the reward model's estimate for every candidate",
}


def _refuse_missing_columns(member: Estimator, have: frozenset[str]) -> None:
    missing = [name for name in _WHAT if name in member.needs - have]
    needed = " and ".join(_WHAT[name] for name in missing)
    works = [name for name, kind in NAMED.items() if kind.needs <= have]
    rest = f" These still work: {', '.join(works)}." if works else " No estimator works without."
    how = f" Say which column it is with {Door.spelled(missing[0])}"
    if missing[0] == "propensity":
        how += ", or the number, if it is the same in all rows: 1/3."
    else:
        how = "" if missing[0] == "policy" else f"{how}."
    raise MissingColumnError(f"{member.name} needs {needed}.{how}{rest}", column=missing[0])
