"""The verbs: evaluate, compare, sweep, check."""

from __future__ import annotations

from offpolicy.evaluation._check import check
from offpolicy.evaluation._compare import compare, holm
from offpolicy.evaluation._evaluate import evaluate
from offpolicy.evaluation._sweep import Curve, sweep

__all__ = ["Curve", "check", "compare", "evaluate", "holm", "sweep"]
