"""What verbs return: results, comparisons, findings; as text, tables and JSON."""

from __future__ import annotations

from offpolicy.results._check_report import Report
from offpolicy.results._comparison import (
    CANNOT_TELL,
    COMPARISONS,
    LOGGED,
    NOT_DECIDED,
    Comparison,
    Difference,
)
from offpolicy.results._findings import (
    CODES,
    ORDER,
    Finding,
    Kind,
    Severity,
    finding,
    read_finding,
)
from offpolicy.results._result import RESULTS, Estimate, Headline, Logged, Result, Tuned, json_safe
from offpolicy.results._summary import (
    LONGEST_NAME,
    Action,
    Calibration,
    OverLog,
    Summary,
    Support,
    Weights,
)

__all__ = [
    "CANNOT_TELL",
    "CODES",
    "COMPARISONS",
    "LOGGED",
    "LONGEST_NAME",
    "NOT_DECIDED",
    "ORDER",
    "RESULTS",
    "Action",
    "Calibration",
    "Comparison",
    "Difference",
    "Estimate",
    "Finding",
    "Headline",
    "Kind",
    "Logged",
    "OverLog",
    "Report",
    "Result",
    "Severity",
    "Summary",
    "Support",
    "Tuned",
    "Weights",
    "finding",
    "json_safe",
    "read_finding",
]
