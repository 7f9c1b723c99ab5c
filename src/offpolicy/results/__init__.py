"""What verbs return: results, comparisons, findings; as text, tables and JSON."""

from __future__ import annotations

from offpolicy.results._check_report import Report
from offpolicy.results._comparison import (
    CANNOT_TELL,
    IDENTICAL,
    LEARNED_HERE,
    LOGGED,
    NOT_DECIDED,
    SMALLEST_P,
    Comparison,
    Difference,
)
from offpolicy.results._findings import ORDER, Finding, Severity, finding
from offpolicy.results._parameter_curve import ParameterCurve
from offpolicy.results._result import (
    FEW_EFFECTIVE,
    IMPUTED,
    TOO_HEAVY,
    WORTH,
    Estimate,
    Headline,
    Logged,
    Result,
    TrainedModel,
    Tuned,
    cells_of_estimates,
    notes_of_estimates,
    shown_estimator,
)
from offpolicy.results._summary import (
    LONGEST_NAME,
    Action,
    Calibration,
    OverLog,
    Summary,
    Support,
    Weights,
)
from offpolicy.results._table import ResultTable, estimate_named

__all__ = [
    "CANNOT_TELL", "FEW_EFFECTIVE", "IDENTICAL", "IMPUTED", "LEARNED_HERE", "LOGGED",
    "LONGEST_NAME", "NOT_DECIDED", "ORDER", "SMALLEST_P", "TOO_HEAVY", "WORTH", "Action",
    "Calibration", "Comparison", "Difference", "Estimate", "Finding", "Headline", "Logged",
    "OverLog", "ParameterCurve", "Report", "Result", "ResultTable", "Severity", "Summary",
    "Support", "TrainedModel", "Tuned", "Weights", "cells_of_estimates", "estimate_named",
    "finding", "notes_of_estimates", "shown_estimator",
]  # fmt: skip
