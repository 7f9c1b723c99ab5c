"""Reward models and estimated propensities, cross-fitted."""

from __future__ import annotations

from offpolicy.models._cross_fitted import PropensityModel, RewardModel
from offpolicy.models._inputs import chosen_codes

__all__ = ["PropensityModel", "RewardModel", "chosen_codes"]
