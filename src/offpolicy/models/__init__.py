"""Reward models and estimated propensities, cross-fitted."""

from __future__ import annotations

from offpolicy.models._cross_fitted import ENOUGH_ROWS, PropensityModel, RewardModel
from offpolicy.models._predictions import resolve_prediction

__all__ = ["ENOUGH_ROWS", "PropensityModel", "RewardModel", "resolve_prediction"]
