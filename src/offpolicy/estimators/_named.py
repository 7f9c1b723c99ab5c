r"""The named estimators: who they are, what they need, how they are written.

An estimator is a frozen value. Its name is the object is the command-line word:
``parse("CAB(M=10)") == CAB(M=10)`` and ``str(CAB(M=10)) == "CAB(M=10)"``.

In every formula :math:`c = \pi/\pi_0` is the weight of the chosen candidate,
:math:`\hat\delta` the reward model, and the mean is over the log's decisions. A parameter left
out (``CAB()``) is one that has yet to be chosen.

*Clipped DR* is not a name of its own here: with the weight :math:`\min(c, M)` it is
algebraically `CABDR`. A hard cut, :math:`c\,1\{c \le M\}`, is `SWITCHDR`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, did_you_mean
from offpolicy.estimators import weights
from offpolicy.estimators.weights import Masses


class Share(NamedTuple):
    """A part of the policy's probability, by the name under which the kernels know it."""

    kind: str
    parameter: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimator(ABC):
    """A member of the family, or a self-normalised relative of one.

    The class variables state the columns it needs and the paper's four desiderata (section 3).
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    weights_sum_to_one: ClassVar[bool]
    for_ranking: ClassVar[bool]
    adaptive: ClassVar[bool]
    subdifferentiable: ClassVar[bool]
    self_normalised: ClassVar[bool] = False
    parameter_name: ClassVar[str | None] = None
    parameter_limit: ClassVar[float] = math.inf
    imputed_share: ClassVar[str | None] = None
    left_share: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        """Check the parameter and keep it as a float: 1 and 1.0 are one estimator."""
        if self.parameter_name is not None and self.parameter is not None:
            number = _checked(self, self.parameter)
            object.__setattr__(self, self.parameter_name, number)

    @abstractmethod
    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        """The three masses of each (context, action) pair; see `offpolicy.estimators.weights`."""

    @property
    def imputes(self) -> Share | None:
        """The share of π that is multiplied with the model, if any."""
        return _share(self, self.imputed_share)

    @property
    def leaves(self) -> Share | None:
        """max(π − π₀·observed, 0), the imputed mass. None: only `masses` knows (`ICE`)."""
        return _share(self, self.left_share)

    @property
    def parameter(self) -> float | None:
        """The value of M, tau or lam; None if there is none or it is not chosen yet."""
        return getattr(self, self.parameter_name) if self.parameter_name else None

    @property
    def resolved(self) -> bool:
        """Whether every parameter has a value."""
        return self.parameter_name is None or self.parameter is not None

    def __str__(self) -> str:
        if self.parameter is None:
            return self.name
        return f"{self.name}({self.parameter_name}={_number(self.parameter)})"


_CHOSEN = frozenset({"propensity"})
_MODEL = frozenset({"policy", "prediction"})
_MODEL_CHOSEN = _CHOSEN | _MODEL
_EVERYTHING = _MODEL_CHOSEN | {"logging"}


@final
@dataclass(frozen=True, slots=True)
class DM(Estimator):
    r"""The direct method: trust the model.

    .. math:: \frac1n \sum_i \sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)

    Dudík, Langford and Li 2011. Low variance; as biased as the model.
    """

    name = "DM"
    needs = _MODEL
    weights_sum_to_one = True
    for_ranking = True
    adaptive = False
    subdifferentiable = True
    imputed_share = "all"
    left_share = "all"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.dm(pi, c)


@final
@dataclass(frozen=True, slots=True)
class IPS(Estimator):
    r"""Inverse propensity scoring.

    .. math:: \frac1n \sum_i c_i r_i

    Horvitz and Thompson 1952. Unbiased under full support; where :math:`\pi_0 = 0` it counts
    the reward as 0.
    """

    name = "IPS"
    needs = _CHOSEN
    weights_sum_to_one = True
    for_ranking = True
    adaptive = False
    subdifferentiable = True
    left_share = "unsupported"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.ips(pi, c)


@final
@dataclass(frozen=True, slots=True)
class CIPS(Estimator):
    r"""Clipped IPS (the paper's cIPS): counts the clipped-off part as reward 0.

    .. math:: \frac1n \sum_i \min(c_i, M)\, r_i

    Strehl, Langford, Li and Kakade 2010. M → ∞ is IPS, M = 0 is 0.
    """

    M: float | None = None
    name = "CIPS"
    parameter_name = "M"
    needs = _CHOSEN
    weights_sum_to_one = False
    for_ranking = True
    adaptive = True
    subdifferentiable = True
    left_share = "clip"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.cips(pi, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class SNIPS(Estimator):
    r"""Self-normalised IPS.

    .. math:: \sum_i c_i r_i \Big/ \sum_i c_i

    Swaminathan and Joachims 2015. Slightly biased, invariant to shifts of the reward, and
    always within the range of observed rewards.
    """

    name = "SNIPS"
    needs = _CHOSEN
    weights_sum_to_one = False
    for_ranking = True
    adaptive = False
    subdifferentiable = True
    self_normalised = True
    left_share = "unsupported"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.ips(pi, c)


@final
@dataclass(frozen=True, slots=True)
class DR(Estimator):
    r"""Doubly robust: the model, corrected by its weighted residuals.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + c_i\,(r_i - \hat\delta(y_i))\Big]

    Dudík, Langford and Li 2011. Unbiased if either the model or the propensities are right.
    """

    name = "DR"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = False
    adaptive = False
    subdifferentiable = True
    imputed_share = "all"
    left_share = "unsupported"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.dr(pi, c)


@final
@dataclass(frozen=True, slots=True)
class SNDR(Estimator):
    r"""Doubly robust with a self-normalised correction.

    .. math:: \frac1n \sum_i \sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \sum_i c_i (r_i - \hat\delta(y_i)) \Big/ \sum_i c_i

    Robins, Sued, Lei-Gomez and Rotnitzky 2007. δ̂ = 0 is SNIPS.
    """

    name = "SNDR"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = False
    adaptive = False
    subdifferentiable = True
    self_normalised = True
    imputed_share = "all"
    left_share = "unsupported"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.dr(pi, c)


@final
@dataclass(frozen=True, slots=True)
class SB(Estimator):
    r"""Static blending of the direct method and IPS.

    .. math:: (1-\tau)\,\hat R_{DM} + \tau\,\hat R_{IPS}

    After Thomas and Brunskill 2016. τ = 0 is DM, τ = 1 is IPS.
    """

    tau: float | None = None
    name = "SB"
    parameter_name = "tau"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = True
    adaptive = False
    subdifferentiable = True
    parameter_limit = 1.0
    imputed_share = "scaled"
    left_share = "static"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.sb(pi, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class SWITCH(Estimator):
    r"""The model where the weight exceeds M, the observed reward elsewhere.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\,1\{c(\bar y) > M\}\hat\delta(\bar y)
              + c_i\,1\{c_i \le M\}\, r_i\Big]

    Wang, Agarwal and Dudík 2017. M = 0 is DM, M → ∞ is IPS plus DM on {π₀ = 0}. Jumps as a
    function of π, so it cannot be a training objective.
    """

    M: float | None = None
    name = "SWITCH"
    parameter_name = "M"
    needs = _EVERYTHING
    weights_sum_to_one = True
    for_ranking = True
    adaptive = True
    subdifferentiable = False
    imputed_share = "switch"
    left_share = "switch"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.switch(pi, pi0, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class SWITCHDR(Estimator):
    r"""DR whose correction is switched off where the weight exceeds M.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + c_i\,1\{c_i \le M\}(r_i - \hat\delta(y_i))\Big]

    Wang, Agarwal and Dudík 2017. M = 0 is DM, M → ∞ is DR.
    """

    M: float | None = None
    name = "SWITCH-DR"
    parameter_name = "M"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = False
    adaptive = True
    subdifferentiable = False
    imputed_share = "all"
    left_share = "switch"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.switch_dr(pi, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class DRos(Estimator):
    r"""Doubly robust with optimistic shrinkage of the weight.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \frac{\lambda c_i}{c_i^2 + \lambda}(r_i - \hat\delta(y_i))\Big]

    Su, Dimakopoulou, Krishnamurthy and Dudík 2020. λ = 0 is DM, λ → ∞ is DR.
    """

    lam: float | None = None
    name = "DRos"
    parameter_name = "lam"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = False
    adaptive = True
    subdifferentiable = True
    imputed_share = "all"
    left_share = "optimistic"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.dros(pi, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class SGIPS(Estimator):
    r"""IPS with the sub-Gaussian shrinkage of the weight.

    .. math:: \frac1n \sum_i \frac{c_i}{1 - \lambda + \lambda c_i}\, r_i

    Metelli, Russo and Restelli 2021. λ = 0 is IPS, λ = 1 the mean of r·1{π > 0}.
    """

    lam: float | None = None
    name = "SGIPS"
    parameter_name = "lam"
    needs = _CHOSEN
    weights_sum_to_one = False
    for_ranking = True
    adaptive = True
    subdifferentiable = True
    parameter_limit = 1.0
    left_share = "subgaussian"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.sgips(pi, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class SGDR(Estimator):
    r"""DR with the sub-Gaussian shrinkage of the weight.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \frac{c_i}{1 - \lambda + \lambda c_i}(r_i - \hat\delta(y_i))\Big]

    Metelli, Russo and Restelli 2021. λ = 0 is DR.
    """

    lam: float | None = None
    name = "SGDR"
    parameter_name = "lam"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = False
    adaptive = True
    subdifferentiable = True
    parameter_limit = 1.0
    imputed_share = "all"
    left_share = "subgaussian"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.sgdr(pi, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class CAB(Estimator):
    r"""Continuous adaptive blending: the model answers for what clipping cuts off.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \max(\pi - M\pi_0, 0)\,\hat\delta(\bar y)
              + \min(c_i, M)\, r_i\Big]

    Su, Wang, Santacatterina and Joachims 2019, section 3. M = 0 is DM, M → ∞ is IPS plus DM on
    {π₀ = 0}, δ̂ = 0 is CIPS.
    """

    M: float | None = None
    name = "CAB"
    parameter_name = "M"
    needs = _EVERYTHING
    weights_sum_to_one = True
    for_ranking = True
    adaptive = True
    subdifferentiable = True
    imputed_share = "clip"
    left_share = "clip"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.cab(pi, pi0, c, _given(self))


@final
@dataclass(frozen=True, slots=True)
class CABDR(Estimator):
    r"""CAB with DR in place of IPS, which is DR with clipped weights.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \min(c_i, M)(r_i - \hat\delta(y_i))\Big]

    Su, Wang, Santacatterina and Joachims 2019, section 3.2; with the same formula Su,
    Dimakopoulou, Krishnamurthy and Dudík 2020 as *pessimistic shrinkage*. M = 0 is DM, M → ∞
    is DR. Needs π₀ of the chosen candidate only, and is invariant to shifts of the reward.
    """

    M: float | None = None
    name = "CAB-DR"
    parameter_name = "M"
    needs = _MODEL_CHOSEN
    weights_sum_to_one = True
    for_ranking = False
    adaptive = True
    subdifferentiable = True
    imputed_share = "all"
    left_share = "clip"

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        return weights.cab_dr(pi, c, _given(self))


WeightFunction = Callable[[Floats], Floats]


@final
@dataclass(frozen=True, slots=True)
class ICE(Estimator):
    r"""Any member of the family, from its three weights as functions of :math:`c = \pi/\pi_0`.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi\, w^\alpha(c)\,\hat\delta
              + c_i w^\beta(c_i)\, r_i + c_i w^\gamma(c_i)\,\hat\delta(y_i)\Big]

    Definition 1 of the paper. The functions take and return arrays. ``alpha`` is also called
    with c = ∞ (where π₀ = 0 < π) and decides what is imputed there.

    >>> import numpy as np
    >>> square_root = ICE(
    ...     alpha=lambda c: 1 - 1 / np.sqrt(np.maximum(c, 1)),
    ...     beta=lambda c: 1 / np.sqrt(np.maximum(c, 1)),
    ...     gamma=lambda c: np.zeros_like(c),
    ... )
    """

    alpha: WeightFunction
    beta: WeightFunction
    gamma: WeightFunction
    label: str = "ICE"
    name = "ICE"
    needs = _EVERYTHING
    weights_sum_to_one = False
    for_ranking = False
    adaptive = True
    subdifferentiable = False

    def masses(self, pi: Floats, pi0: Floats, c: Floats) -> Masses:
        imputed, beta, gamma = pi * self.alpha(c), self.beta(c), self.gamma(c)
        # Nothing is ever observed where c = ∞; there the products mean nothing.
        finite = np.where(np.isinf(c), 0.0, c)
        return Masses(imputed, finite * beta, finite * gamma)

    def __str__(self) -> str:
        return self.label


NAMED: dict[str, type[Estimator]] = {
    kind.name: kind
    for kind in (
        DM, IPS, CIPS, SNIPS, DR, SNDR, SB, SWITCH, SWITCHDR, DRos, SGIPS, SGDR, CAB, CABDR,
    )
}  # fmt: skip
"""Every named estimator, by name."""

_PATTERN = re.compile(r"\s*([A-Za-z-]+)\s*(?:\(\s*(?:([A-Za-z]+)\s*=\s*)?([^()=]*?)\s*\))?\s*")


def parse(text: str) -> Estimator:
    """The estimator of that name: ``parse("CAB(M=10)") == CAB(M=10)``; inverse of ``str``."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise EstimatorError(
            f'"{text}" is not an estimator. Write a name, with its parameter in brackets: '
            f'"IPS", "CAB(M=10)", "SB(tau=0.5)".'
        )
    word, key, value = match.groups()
    by_fold = {name.casefold(): kind for name, kind in NAMED.items()}
    kind = by_fold.get(word.casefold())
    if kind is None:
        raise EstimatorError(
            f'There is no estimator "{word}".{did_you_mean(word, NAMED)} '
            f"The names are {', '.join(NAMED)}."
        )
    parameter = kind.parameter_name
    if parameter is None and "(" in text:
        raise EstimatorError(f'"{text}": {kind.name} has no parameter. Write "{kind.name}".')
    if not value or parameter is None:
        if key is not None:
            raise EstimatorError(f'"{text}": the parameter has no value.')
        return kind()
    if key is not None and key.casefold() != parameter.casefold():
        raise EstimatorError(
            f'"{text}": the parameter of {kind.name} is {parameter}, not {key}. '
            f'Write "{kind.name}({parameter}={value})".'
        )
    try:
        number = float(value)
    except ValueError:
        raise EstimatorError(f'"{text}": "{value}" is not a number.') from None
    return kind(**{parameter: number})


def as_estimator(estimator: Estimator | str) -> Estimator:
    """The estimator itself, or the one of that name."""
    if isinstance(estimator, str):
        return parse(estimator)
    if not isinstance(estimator, Estimator):
        raise EstimatorError(
            f'{estimator!r} is not an estimator. Give a name such as "CAB(M=10)", or an object '
            f"such as CAB(M=10)."
        )
    return estimator


def _checked(self: Estimator, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number <= self.parameter_limit:
        limit = self.parameter_limit
        span = ", 0 or more" if math.isinf(limit) else f" from 0 to {_number(limit)}"
        raise EstimatorError(
            f"{self.name}: {self.parameter_name} is {value!r}; it must be a number{span}.",
            column=self.parameter_name or "",
        )
    return number + 0.0


def _share(self: Estimator, kind: str | None) -> Share | None:
    if kind is None:
        return None
    return Share(kind, 0.0 if kind in ("all", "unsupported") else _given(self))


def _given(self: Estimator) -> float:
    value = self.parameter
    if value is None:
        raise EstimatorError(
            f"{self.name}: {self.parameter_name} is not given. "
            f'Write, for example, "{self.name}({self.parameter_name}=0.5)".',
            column=self.parameter_name or "",
        )
    return value


def _number(value: float) -> str:
    """An estimator's parameter as the shortest text that reads back as the same number."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
