"""The family: each member with its weights, limits and theory."""

from __future__ import annotations

from offpolicy.estimators._choice import choose_estimators
from offpolicy.estimators._named import (
    CAB,
    CABDR,
    CIPS,
    DM,
    DR,
    ES,
    GRID,
    ICE,
    IPS,
    IX,
    NAMED,
    SB,
    SGDR,
    SGIPS,
    SNDR,
    SNIPS,
    SWITCH,
    SWITCHDR,
    DRos,
    Estimator,
    as_estimator,
    parse,
)

__all__ = [
    "CAB", "CABDR", "CIPS", "DM", "DR", "ES", "GRID", "ICE", "IPS", "IX", "NAMED", "SB", "SGDR",
    "SGIPS", "SNDR", "SNIPS", "SWITCH", "SWITCHDR", "DRos", "Estimator", "as_estimator",
    "choose_estimators", "parse", "theory", "weights",
]  # fmt: skip
