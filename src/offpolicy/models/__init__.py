"""Reward models and estimated propensities, cross-fitted."""

from __future__ import annotations

from offpolicy.models._cross_fitted import ENOUGH_ROWS, PropensityModel, RewardModel
from offpolicy.models._predictions import resolve_prediction
from offpolicy.models._scaled_ridge import ScaledRidge

__all__ = ["ENOUGH_ROWS", "PropensityModel", "RewardModel", "ScaledRidge", "resolve_prediction"]
