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
from typing import Any, ClassVar, final

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, did_you_mean
from offpolicy.estimators import weights
from offpolicy.estimators.weights import Masses, where

GRID: Floats = np.concatenate([[0.0], np.geomspace(0.1, 1e6, 62), [np.inf]])
"""The 64 values of M on which grids are taken unless asked otherwise; never fitted to data."""
GRID.setflags(write=False)
_SHARES: Floats = np.linspace(0.0, 1.0, 65)

_CHOSEN = frozenset({"propensity"})
_MODEL = frozenset({"policy", "prediction"})
_NEEDS = {
    "nothing": _CHOSEN,
    "all": _CHOSEN | _MODEL,
    "share": _CHOSEN | _MODEL,
    "rest": _CHOSEN | _MODEL | {"logging"},
    "own": _CHOSEN | _MODEL | {"logging"},
}


@dataclass(frozen=True, slots=True)
class Estimator(ABC):
    """A member of the family, or a self-normalised relative of one.

    A class states what an observed reward counts for (`weight`) and what the model answers for
    (`imputes`); all else follows, but for what it says otherwise.
    """

    name: ClassVar[str]
    imputes: ClassVar[str]
    """What δ̂ is multiplied with: "nothing"; "all" of π, and then it is taken off the reward as
    well; the "rest" max(π − π₀·weight, 0); or a fixed "share" 1 − τ of π."""
    needs: ClassVar[frozenset[str]]
    """Columns."""
    weights_sum_to_one: ClassVar[bool] = True
    for_ranking: ClassVar[bool]
    adaptive: ClassVar[bool]
    subdifferentiable: ClassVar[bool] = True
    """These four are the paper's desiderata (section 3)."""
    self_normalised: ClassVar[bool] = False
    uses_model: ClassVar[bool]
    """Whether there is a model to be taken off the rewards, or to answer for some."""
    unclipped: ClassVar[bool]
    """Whether rewards count by c itself: only what has no support is left."""
    parameter_name: ClassVar[str | None] = None
    parameter_limit: ClassVar[float] = math.inf
    grid: ClassVar[Floats]
    """Values from which a parameter is chosen: from all model to all weights."""
    typical: ClassVar[tuple[float, ...]] = ()
    """Three values of the parameter that are worth a look."""
    limits: ClassVar[tuple[tuple[float, str], ...]] = ()
    """What it is at the ends of its parameter."""
    formula: ClassVar[str]
    """`weight` in words."""

    def __init_subclass__(cls) -> None:
        """Fill in what follows from the rest, but for bases of several members."""
        stated = vars(cls)
        if not hasattr(cls, "imputes"):
            return
        if "needs" not in stated:
            cls.needs = _NEEDS[cls.imputes]
        if "for_ranking" not in stated:
            cls.for_ranking = cls.imputes in ("nothing", "rest", "share")
        if "adaptive" not in stated:
            cls.adaptive = cls.parameter_name is not None
        cls.uses_model = cls.imputes in ("all", "rest", "share")
        cls.unclipped = cls.weight is weights.full

    def __post_init__(self) -> None:
        """Check the parameter and keep it as a float: 1 and 1.0 are one estimator."""
        if self.parameter_name is not None and self.parameter is not None:
            number = _checked(self, self.parameter)
            object.__setattr__(self, self.parameter_name, number)

    @staticmethod
    @abstractmethod
    def weight(pi: Any, pi0: Any, parameter: Any, /) -> Any:
        """What an observed reward counts for; see `offpolicy.estimators.weights`."""

    @staticmethod
    def slope(pi: Any, pi0: Any, parameter: Any, /) -> Any:
        """π₀ · ∂weight/∂π; for sub-differentiable members."""
        raise TypeError("This estimator has no slope.")

    @staticmethod
    def largest(parameter: float, /) -> float:
        """What no weight can exceed."""
        return math.inf

    @classmethod
    def observed_at(cls, pi: Floats, pi0: Floats, parameter: Floats | np.float64) -> Floats:
        """`weight` of each (context, action) pair; 0 where π or π₀ are 0."""
        with np.errstate(all="ignore"):
            weight = cls.weight(pi, pi0, parameter)
        return np.where((pi == 0.0) | (pi0 == 0.0), 0.0, weight)

    def observed(self, pi: Floats, pi0: Floats) -> Floats:
        """The same with the estimator's own parameter."""
        return self.observed_at(pi, pi0, np.float64(_given(self)))

    def observed_slope(self, pi: Floats, pi0: Floats) -> Floats:
        """`slope` of each pair; 0 where π₀ = 0."""
        with np.errstate(all="ignore"):
            slope = self.slope(pi, pi0, np.float64(_given(self)))
        return np.where(pi0 == 0.0, 0.0, slope)

    def imputed_slope(self, pi: Floats, pi0: Floats) -> Floats:
        """How what is multiplied with the model grows with π, for each pair."""
        if self.imputes != "rest":
            return np.full_like(pi, self.fixed_share)
        none_left = pi0 * self.observed(pi, pi0) > (1.0 + weights.ROUNDING) * pi
        return np.where(none_left, 0.0, 1.0 - self.observed_slope(pi, pi0))

    def masses(self, pi: Floats, pi0: Floats) -> Masses:
        """The three masses of each (context, action) pair; see `offpolicy.estimators.weights`."""
        observed = self.observed(pi, pi0)
        if self.imputes == "rest":
            imputed = weights.leftover(pi, pi0, observed)
        else:
            imputed = self.fixed_share * pi
        return Masses(imputed, observed, -observed if self.imputes == "all" else 0.0 * observed)

    @classmethod
    def share_at(cls, parameter: Any) -> Any:
        """The share of all π that is multiplied with the model, where it is the same everywhere."""
        if cls.imputes == "share":
            return 1.0 - parameter
        return 1.0 if cls.imputes == "all" else 0.0

    @property
    def fixed_share(self) -> float:
        """The same with the estimator's own parameter."""
        return float(self.share_at(_given(self)))

    @property
    def parameter(self) -> float | None:
        """The value of M, tau or lam; None if there is none or it is not chosen yet."""
        return getattr(self, self.parameter_name) if self.parameter_name else None

    @property
    def has_slope(self) -> bool:
        """Whether it can be learned with."""
        return self.subdifferentiable and type(self).slope is not Estimator.slope

    @property
    def resolved(self) -> bool:
        """Whether every parameter has a value."""
        return self.parameter_name is None or self.parameter is not None

    def at(self, parameter: float) -> Estimator:
        """The same estimator with another parameter."""
        return type(self)(**{str(self.parameter_name): parameter})

    def __str__(self) -> str:
        if self.parameter is None:
            return self.name
        return f"{self.name}({self.parameter_name}={_number(self.parameter)})"


@dataclass(frozen=True, slots=True)
class _Clipped(Estimator):
    """Members whose weight is min(c, M)."""

    M: float | None = None
    parameter_name = "M"
    formula = "min(c, M)"
    typical = (2.0, 10.0, 50.0)
    grid = GRID
    weight = staticmethod(weights.clipped)
    slope = staticmethod(weights.clipped_slope)
    largest = staticmethod(weights.clipped_largest)


@dataclass(frozen=True, slots=True)
class _Switched(Estimator):
    """Members whose weight is c up to M, and 0 beyond."""

    M: float | None = None
    parameter_name = "M"
    formula = "c·1{c ≤ M}"
    typical = (2.0, 10.0, 50.0)
    subdifferentiable = False
    grid = GRID
    weight = staticmethod(weights.switched)
    largest = staticmethod(weights.clipped_largest)


@dataclass(frozen=True, slots=True)
class _Subgaussian(Estimator):
    """Members whose weight is a harmonic mean of 1 and c."""

    lam: float | None = None
    parameter_name = "lam"
    formula = "c/(1 − λ + λc)"
    typical = (0.02, 0.1, 0.5)
    parameter_limit = 1.0
    grid = np.concatenate([np.geomspace(1e-6, 1.0, 63)[::-1], [0.0]])

    @staticmethod
    def weight(pi: Any, pi0: Any, lam: Any) -> Any:
        c = pi / pi0
        return where((c == np.inf) & (lam > 0.0), 1.0 / lam, c / (1.0 - lam + lam * c))

    @staticmethod
    def slope(pi: Any, pi0: Any, lam: Any) -> Any:
        under = 1.0 - lam + lam * (pi / pi0)
        return where(lam < 1.0, (1.0 - lam) / (under * under), 0.0)

    @staticmethod
    def largest(lam: float) -> float:
        return 1.0 / lam if lam > 0.0 else math.inf


@final
@dataclass(frozen=True, slots=True)
class DM(Estimator):
    r"""The direct method: trust the model.

    .. math:: \frac1n \sum_i \sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)

    Dudík, Langford and Li 2011. Low variance; as biased as the model.
    """

    name = "DM"
    imputes = "all"
    formula = "0"
    for_ranking = True
    needs = _MODEL
    weight = staticmethod(weights.none)
    slope = staticmethod(weights.none)
    largest = staticmethod(weights.none_largest)


@final
@dataclass(frozen=True, slots=True)
class IPS(Estimator):
    r"""Inverse propensity scoring.

    .. math:: \frac1n \sum_i c_i r_i

    Horvitz and Thompson 1952. Unbiased under full support; where :math:`\pi_0 = 0` it counts
    the reward as 0.
    """

    name = "IPS"
    imputes = "nothing"
    formula = "c"
    weight = staticmethod(weights.full)
    slope = staticmethod(weights.full_slope)


@final
@dataclass(frozen=True, slots=True)
class CIPS(_Clipped):
    r"""Clipped IPS (the paper's cIPS): counts the clipped-off part as reward 0.

    .. math:: \frac1n \sum_i \min(c_i, M)\, r_i

    Strehl, Langford, Li and Kakade 2010. M → ∞ is IPS, M = 0 is 0.
    """

    name = "CIPS"
    imputes = "nothing"
    limits = ((math.inf, "IPS"),)
    weights_sum_to_one = False


@final
@dataclass(frozen=True, slots=True)
class SNIPS(Estimator):
    r"""Self-normalised IPS.

    .. math:: \sum_i c_i r_i \Big/ \sum_i c_i

    Swaminathan and Joachims 2015. Slightly biased, invariant to shifts of the reward, and
    always within the range of observed rewards.
    """

    name = "SNIPS"
    imputes = "nothing"
    formula = "c / mean of c"
    weights_sum_to_one = False
    self_normalised = True
    weight = staticmethod(weights.full)
    slope = staticmethod(weights.full_slope)


@final
@dataclass(frozen=True, slots=True)
class DR(Estimator):
    r"""Doubly robust: the model, corrected by its weighted residuals.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + c_i\,(r_i - \hat\delta(y_i))\Big]

    Dudík, Langford and Li 2011. Unbiased if either the model or the propensities are right.
    """

    name = "DR"
    imputes = "all"
    formula = "c"
    weight = staticmethod(weights.full)
    slope = staticmethod(weights.full_slope)


@final
@dataclass(frozen=True, slots=True)
class SNDR(Estimator):
    r"""Doubly robust with a self-normalised correction.

    .. math:: \frac1n \sum_i \sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \sum_i c_i (r_i - \hat\delta(y_i)) \Big/ \sum_i c_i

    Robins, Sued, Lei-Gomez and Rotnitzky 2007. δ̂ = 0 is SNIPS.
    """

    name = "SNDR"
    imputes = "all"
    formula = "c / mean of c"
    self_normalised = True
    weight = staticmethod(weights.full)
    slope = staticmethod(weights.full_slope)


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
    imputes = "share"
    formula = "τ·c"
    typical = (0.2, 0.5, 0.8)
    limits = ((0.0, "DM"), (1.0, "IPS"))
    parameter_limit = 1.0
    adaptive = False
    grid = _SHARES
    weight = staticmethod(weights.scaled)
    slope = staticmethod(weights.scaled_slope)
    largest = staticmethod(weights.scaled_largest)


@final
@dataclass(frozen=True, slots=True)
class SWITCH(_Switched):
    r"""The model where the weight exceeds M, the observed reward elsewhere.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\,1\{c(\bar y) > M\}\hat\delta(\bar y)
              + c_i\,1\{c_i \le M\}\, r_i\Big]

    Wang, Agarwal and Dudík 2017. M = 0 is DM, M → ∞ is IPS plus DM on {π₀ = 0}. Jumps as a
    function of π, so it cannot be a training objective.
    """

    name = "SWITCH"
    imputes = "rest"
    limits = ((0.0, "DM"),)


@final
@dataclass(frozen=True, slots=True)
class SWITCHDR(_Switched):
    r"""DR whose correction is switched off where the weight exceeds M.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + c_i\,1\{c_i \le M\}(r_i - \hat\delta(y_i))\Big]

    Wang, Agarwal and Dudík 2017. M = 0 is DM, M → ∞ is DR.
    """

    name = "SWITCH-DR"
    imputes = "all"
    limits = ((0.0, "DM"), (math.inf, "DR"))


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
    imputes = "all"
    formula = "λc/(c² + λ)"
    typical = (4.0, 100.0, 2500.0)
    limits = ((0.0, "DM"), (math.inf, "DR"))
    grid = np.concatenate([[0.0], np.geomspace(1e-2, 1e12, 62), [np.inf]])

    @staticmethod
    def weight(pi: Any, pi0: Any, lam: Any) -> Any:
        """So that neither c² nor λ → ∞ overflows."""
        c = pi / pi0
        return where((c == np.inf) & (lam < np.inf), 0.0, c / (1.0 + c * (c / lam)))

    @staticmethod
    def slope(pi: Any, pi0: Any, lam: Any) -> Any:
        """(1 − s)/(1 + s)² with s = c²/λ."""
        c = pi / pi0
        s = c * (c / lam)
        return where(s < 1e150, (1.0 - s) / ((1.0 + s) * (1.0 + s)), 0.0)

    @staticmethod
    def largest(lam: float) -> float:
        return 0.5 * math.sqrt(lam)


@final
@dataclass(frozen=True, slots=True)
class SGIPS(_Subgaussian):
    r"""IPS with the sub-Gaussian shrinkage of the weight.

    .. math:: \frac1n \sum_i \frac{c_i}{1 - \lambda + \lambda c_i}\, r_i

    Metelli, Russo and Restelli 2021. λ = 0 is IPS, λ = 1 the mean of r·1{π > 0}.
    """

    name = "SGIPS"
    imputes = "nothing"
    limits = ((0.0, "IPS"),)
    weights_sum_to_one = False


@final
@dataclass(frozen=True, slots=True)
class SGDR(_Subgaussian):
    r"""DR with the sub-Gaussian shrinkage of the weight.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \frac{c_i}{1 - \lambda + \lambda c_i}(r_i - \hat\delta(y_i))\Big]

    Metelli, Russo and Restelli 2021. λ = 0 is DR.
    """

    name = "SGDR"
    imputes = "all"
    limits = ((0.0, "DR"),)


@final
@dataclass(frozen=True, slots=True)
class IX(Estimator):
    r"""IPS with implicit exploration: as if the logger had taken every action a little more often.

    .. math:: \frac1n \sum_i \frac{\pi(y_i)}{\pi_0(y_i) + \lambda}\, r_i

    Gabbianelli, Neu and Papini 2024. λ = 0 is IPS, λ → ∞ is 0. Rewards that are never negative
    are never overestimated in the mean.
    """

    lam: float | None = None
    name = "IX"
    parameter_name = "lam"
    imputes = "nothing"
    formula = "π/(π₀ + λ)"
    typical = (0.01, 0.05, 0.2)
    limits = ((0.0, "IPS"),)
    weights_sum_to_one = False
    grid = np.concatenate([[np.inf], np.geomspace(1e-6, 100.0, 62)[::-1], [0.0]])

    @staticmethod
    def weight(pi: Any, pi0: Any, lam: Any) -> Any:
        return pi / (pi0 + lam)

    @staticmethod
    def slope(pi: Any, pi0: Any, lam: Any) -> Any:
        return pi0 / (pi0 + lam) + 0.0 * pi

    @staticmethod
    def largest(lam: float) -> float:
        return 1.0 / lam if lam > 0.0 else math.inf


@final
@dataclass(frozen=True, slots=True)
class ES(Estimator):
    r"""IPS with exponential smoothing: propensities are raised to a power below 1.

    .. math:: \frac1n \sum_i \frac{\pi(y_i)}{\pi_0(y_i)^\alpha}\, r_i

    Aouali, Brunel, Rohde and Korba 2023. α = 1 is IPS, α = 0 the mean of π·r.
    """

    alpha: float | None = None
    name = "ES"
    parameter_name = "alpha"
    imputes = "nothing"
    formula = "π/π₀^α"
    typical = (0.5, 0.8, 0.95)
    limits = ((1.0, "IPS"),)
    weights_sum_to_one = False
    parameter_limit = 1.0
    grid = _SHARES

    @staticmethod
    def weight(pi: Any, pi0: Any, alpha: Any) -> Any:
        return pi / pi0**alpha

    @staticmethod
    def slope(pi: Any, pi0: Any, alpha: Any) -> Any:
        return pi0 ** (1.0 - alpha) + 0.0 * pi

    @staticmethod
    def largest(alpha: float) -> float:
        return math.inf if alpha > 0.0 else 1.0


@final
@dataclass(frozen=True, slots=True)
class CAB(_Clipped):
    r"""Continuous adaptive blending: the model answers for what clipping cuts off.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \max(\pi - M\pi_0, 0)\,\hat\delta(\bar y)
              + \min(c_i, M)\, r_i\Big]

    Su, Wang, Santacatterina and Joachims 2019, section 3. M = 0 is DM, M → ∞ is IPS plus DM on
    {π₀ = 0}, δ̂ = 0 is CIPS.
    """

    name = "CAB"
    imputes = "rest"
    limits = ((0.0, "DM"),)


@final
@dataclass(frozen=True, slots=True)
class CABDR(_Clipped):
    r"""CAB with DR in place of IPS, which is DR with clipped weights.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi(\bar y)\hat\delta(\bar y)
              + \min(c_i, M)(r_i - \hat\delta(y_i))\Big]

    Su, Wang, Santacatterina and Joachims 2019, section 3.2; with the same formula Su,
    Dimakopoulou, Krishnamurthy and Dudík 2020 as *pessimistic shrinkage*. M = 0 is DM, M → ∞
    is DR. Needs π₀ of the chosen candidate only, and is invariant to shifts of the reward.
    """

    name = "CAB-DR"
    imputes = "all"
    limits = ((0.0, "DM"), (math.inf, "DR"))


WeightFunction = Callable[[Floats], Floats]


@final
@dataclass(frozen=True, slots=True)
class ICE(Estimator):
    r"""Any member of the family, from its three weights as functions of :math:`c = \pi/\pi_0`.

    .. math:: \frac1n \sum_i \Big[\sum_{\bar y} \pi\, w^\alpha(c)\,\hat\delta
              + c_i w^\beta(c_i)\, r_i + c_i w^\gamma(c_i)\,\hat\delta(y_i)\Big]

    The paper's definition of its family. The functions take and return arrays. ``alpha`` is also
    called with c = ∞ (where π₀ = 0 < π) and decides what is imputed there. With ``slopes``, their
    three derivatives in c, it can be learned with.

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
    slopes: tuple[WeightFunction, WeightFunction, WeightFunction] | None = None
    name = "ICE"
    imputes = "own"
    weights_sum_to_one = False
    adaptive = True
    subdifferentiable = False

    @staticmethod
    def weight(pi: Any, pi0: Any, parameter: Any, /) -> Any:
        """Not known without the functions: `observed` knows."""
        raise TypeError("The weight of an ICE is that of its functions.")

    def observed(self, pi: Floats, pi0: Floats) -> Floats:
        return self.masses(pi, pi0).observed

    def masses(self, pi: Floats, pi0: Floats) -> Masses:
        c = weights.ratio(pi, pi0)
        imputed, beta, gamma = pi * self.alpha(c), self.beta(c), self.gamma(c)
        # Nothing is ever observed where c = ∞; there the products mean nothing.
        finite = np.where(np.isinf(c), 0.0, c)
        return Masses(imputed, finite * beta, finite * gamma)

    @property
    def has_slope(self) -> bool:
        return self.slopes is not None

    def mass_slopes(self, pi: Floats, pi0: Floats) -> Masses:
        """∂/∂π of what is imputed, and π₀ · ∂/∂π of what is observed and controlled: each function
        plus c times its derivative."""
        assert self.slopes is not None
        c = weights.ratio(pi, pi0)
        finite, seen = np.where(np.isinf(c), 0.0, c), pi0 > 0.0
        imputed, beta, gamma = (
            function(of) + finite * slope(finite)
            for function, slope, of in zip(
                (self.alpha, self.beta, self.gamma), self.slopes, (c, finite, finite), strict=True
            )
        )
        return Masses(imputed, np.where(seen, beta, 0.0), np.where(seen, gamma, 0.0))

    def imputed_slope(self, pi: Floats, pi0: Floats) -> Floats:
        return self.mass_slopes(pi, pi0).imputed

    def __str__(self) -> str:
        return self.label


NAMED: dict[str, type[Estimator]] = {
    kind.name: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Estimator) and "name" in vars(kind)
    if kind is not ICE
}
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


def _given(self: Estimator) -> float:
    value = self.parameter
    if self.parameter_name is None:
        return 0.0
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
