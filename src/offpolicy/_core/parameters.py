"""Scikit-learn's conventions for parameters, without its base class, which would import it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from offpolicy.errors import ParameterError, did_you_mean


@dataclass(eq=False)
class Parameters:
    """The fields of a learner are its parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.init}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        known = [item.name for item in fields(self) if item.init]
        for name, value in params.items():
            if name not in known:
                raise ParameterError(
                    f'{type(self).__name__} has no parameter "{name}".{did_you_mean(name, known)} '
                    f"The parameters are {', '.join(known)}.",
                    column=name,
                )
            setattr(self, name, value)
        return self

    def copy(self, **params: Any) -> Self:
        """One that is not fitted, with the same parameters but for these."""
        return type(self)(**self.get_params(deep=False)).set_params(**params)
