"""How likely is each rank examined?"""

from __future__ import annotations

from offpolicy.ranking.propensities._curve import Propensities
from offpolicy.ranking.propensities._estimate import estimate_propensities

__all__ = ["Propensities", "estimate_propensities"]
