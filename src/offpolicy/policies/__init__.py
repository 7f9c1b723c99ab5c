"""What a policy is, and what users may hand over in place of one."""

from __future__ import annotations

from offpolicy.policies._inputs import need_log, remember, resolve_prediction
from offpolicy.policies._policies import (
    Classifier,
    Deterministic,
    EpsilonGreedy,
    Mixture,
    MonteCarlo,
    Policy,
    Softmax,
    Tabular,
    Target,
    Uniform,
    resolve,
)

__all__ = [
    "Classifier", "Deterministic", "EpsilonGreedy", "Mixture", "MonteCarlo", "Policy", "Softmax",
    "Tabular", "Target", "Uniform", "learned", "need_log", "remember", "resolve",
    "resolve_prediction",
]  # fmt: skip
