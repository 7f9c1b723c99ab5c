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
    asks_for_arms,
    columns_of,
    resolve,
    settle,
)
from offpolicy.policies._spec import named, parse_policy, policies_of

__all__ = [
    "Classifier", "Deterministic", "EpsilonGreedy", "Mixture", "MonteCarlo", "Policy", "Softmax",
    "Tabular", "Target", "Uniform", "asks_for_arms", "columns_of", "learned", "named",
    "parse_policy", "policies_of", "resolve", "settle",
]  # fmt: skip
