"""The verbs: evaluate, compare, sweep, check."""

from __future__ import annotations

from offpolicy.evaluation._check import check
from offpolicy.evaluation._compare import compare, holm
from offpolicy.evaluation._evaluate import evaluate
from offpolicy.evaluation._sweep import Curve, sweep
from offpolicy.evaluation._together import (
    Together,
    compare_and_check,
    evaluate_and_check,
    evaluate_and_compare,
)

__all__ = [
    "Curve", "Together", "check", "compare", "compare_and_check", "evaluate", "evaluate_and_check",
    "evaluate_and_compare", "holm", "sweep",
]  # fmt: skip
