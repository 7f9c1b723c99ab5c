"""What a log is: decisions, candidates, columns, names, malformed rows."""

from __future__ import annotations

from offpolicy.logs._bad_rows import Dropped, keep, listed, located, refuse_many
from offpolicy.logs._bandit_log import BanditLog, need_log
from offpolicy.logs._columns import (
    Columns,
    as_table,
    column_of,
    matching,
    missing_column,
    read_plain,
)
from offpolicy.logs._naming import context_columns, together, with_names, with_names_of
from offpolicy.logs._scan import (
    BLOCK,
    SAMPLED_PLACES,
    Distributed,
    LogScan,
    RewardSummary,
    Sums,
    sample_ranges,
    width_of,
)
from offpolicy.logs._validation import (
    SMALLEST_PROPENSITY,
    check_chosen_probabilities,
    check_probabilities,
    tolerance_of,
    widened,
)

__all__ = [
    "BLOCK", "SAMPLED_PLACES", "SMALLEST_PROPENSITY", "BanditLog", "Columns", "Distributed",
    "Dropped", "LogScan", "RewardSummary", "Sums", "as_table",
    "check_chosen_probabilities", "check_probabilities", "column_of", "context_columns", "files",
    "formats", "keep", "labels", "listed", "located", "matching", "missing_column", "need_log",
    "read_plain", "refuse_many", "sample_ranges", "together", "tolerance_of", "widened", "width_of",
    "with_names", "with_names_of",
]  # fmt: skip
