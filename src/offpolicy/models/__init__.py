"""Reward models and estimated propensities, cross-fitted."""

from __future__ import annotations

from offpolicy.models._cross_fitted import PropensityModel, RewardModel
from offpolicy.models._predictions import resolve_prediction

__all__ = ["PropensityModel", "RewardModel", "resolve_prediction"]
