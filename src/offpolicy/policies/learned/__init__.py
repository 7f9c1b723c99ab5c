"""Policies that were learned: linear softmax over features, and their files."""

from __future__ import annotations

from offpolicy.policies.learned._features import FeatureMap, numeric
from offpolicy.policies.learned._linear_softmax import LinearSoftmax
from offpolicy.policies.learned._saved import how_learned, load_policy, save_policy
from offpolicy.policies.learned._scores import LOWEST, Dense, Ragged, Scores

__all__ = [
    "LOWEST", "Dense", "FeatureMap", "LinearSoftmax", "Ragged", "Scores", "how_learned",
    "load_policy", "numeric", "save_policy",
]  # fmt: skip
