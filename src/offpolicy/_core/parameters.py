"""Scikit-learn's conventions for parameters, without its base class, which would import it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any, Self

from offpolicy.errors import ParameterError, did_you_mean


@dataclass(eq=False)
class Parameters:
    """The fields of a learner are its parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; if ``deep``, also those of what is a parameter here, as
        ``model__alpha``."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        inner = {
            f"{name}__{key}": value
            for name, thing in own.items()
            if deep and hasattr(thing, "get_params") and not isinstance(thing, type)
            for key, value in thing.get_params(deep=True).items()
        }
        return own | inner

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; those of what is a parameter here as ``model__alpha``."""
        known = [item.name for item in fields(self) if item.init]
        inner: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for given, value in params.items():
            name, _, within = given.partition("__")
            if name not in known:
                raise ParameterError(
                    f'{type(self).__name__} has no parameter "{name}".{did_you_mean(name, known)} '
                    f"The parameters are {', '.join(known)}.",
                    column=name,
                )
            if within:
                inner[name][within] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            thing = getattr(self, name)
            if not hasattr(thing, "set_params"):
                raise ParameterError(
                    f"{name} is {thing!r}, which has no parameters to set.", column=name
                )
            thing.set_params(**values)
        return self

    def copy(self, **params: Any) -> Self:
        """One that is not fitted, with the same parameters but for these."""
        return type(self)(**self.get_params(deep=False)).set_params(**params)

    def __sklearn_tags__(self) -> Any:
        """Neither a classifier nor a regressor: what is fitted is a log."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def need_fitted(made: object, attribute: str, how: str = "fit(log)") -> None:
    """Raise unless a learner has what it has once it is fitted."""
    if not hasattr(made, attribute):
        sentence = f"This {type(made).__name__} is not fitted yet: call {how} first."
        raise ParameterError(sentence, column=attribute)
