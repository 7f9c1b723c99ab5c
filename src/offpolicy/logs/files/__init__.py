"""Logs in files: Parquet, text and Spark, small and large."""

from __future__ import annotations

from offpolicy.logs.files._filter import as_expression, kept_rows
from offpolicy.logs.files._filter import values as expression_values
from offpolicy.logs.files._read import Reading, as_log, check_names, files_of, read_log
from offpolicy.logs.files._text import kind_of, read_table

__all__ = [
    "Reading", "as_expression", "as_log", "check_names", "expression_values", "files_of",
    "kept_rows", "kind_of", "read_log", "read_table",
]  # fmt: skip
