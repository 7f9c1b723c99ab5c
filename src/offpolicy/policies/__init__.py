"""What a policy is, and what users may hand over in place of one."""

from __future__ import annotations

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
    "Tabular", "Target", "Uniform", "learned", "resolve",
]  # fmt: skip
