"""Reward models and estimated propensities, cross-fitted."""

from __future__ import annotations

from offpolicy.models._cross_fitted import PropensityModel, RewardModel

__all__ = ["PropensityModel", "RewardModel"]
