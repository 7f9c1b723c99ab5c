"""What a log is: decisions, candidates, columns, names, malformed rows."""

from __future__ import annotations

from offpolicy.logs._arms import FoundArms, as_number, as_ratio, listed
from offpolicy.logs._arrow_types import holds_lists
from offpolicy.logs._bad_rows import (
    Dropped,
    keep_well_formed,
    listed_reasons,
    refuse_many,
    source_of_kept,
)
from offpolicy.logs._bandit_log import BanditLog, need_log
from offpolicy.logs._columns import (
    Columns,
    as_table,
    column_of,
    likely_columns,
    matching_columns,
    missing_column,
    read_plain,
)
from offpolicy.logs._encoded import Encoded
from offpolicy.logs._naming import all_action_names, with_names, with_names_of
from offpolicy.logs._part import Buckets, Part
from offpolicy.logs._scan import (
    BLOCK,
    Derived,
    Distributed,
    LogScan,
    Sums,
    identity,
    sample_ranges,
)
from offpolicy.logs._validation import (
    SMALLEST_PROPENSITY,
    check_chosen_probabilities,
    check_probabilities,
    tolerance_of,
    without_rounding,
)

__all__ = [
    "BLOCK", "SMALLEST_PROPENSITY", "BanditLog", "Buckets", "Columns", "Derived", "Distributed",
    "Dropped", "Encoded", "FoundArms", "LogScan", "Part", "Sums",
    "all_action_names", "as_number", "as_ratio", "as_table", "check_chosen_probabilities",
    "check_probabilities", "column_of", "files", "formats", "holds_lists", "identity",
    "keep_well_formed", "labels", "likely_columns", "listed", "listed_reasons", "matching_columns",
    "missing_column", "need_log", "read_plain", "refuse_many", "sample_ranges", "source_of_kept",
    "tolerance_of", "with_names", "with_names_of", "without_rounding",
]  # fmt: skip
