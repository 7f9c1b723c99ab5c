"""Public data sets: found where they are, fetched when asked.

Looked for in the folder that ``OFFPOLICY_DATA`` names, then in the cache (`cache_folder`). Only
`fetch`, or ``download=True``, goes to the network.
"""

from __future__ import annotations

from offpolicy.datasets._classic import Examples, files_of, load
from offpolicy.datasets._fetching import sha256
from offpolicy.datasets._folders import cache_folder, data_folder, roots
from offpolicy.datasets._from_labels import (
    check_rewards,
    expected_rewards,
    sample_actions,
    simulate_bandit,
)
from offpolicy.datasets._open_bandit import open_bandit, open_bandit_file
from offpolicy.datasets._parquet import Truth, check_name, read_truth, write_log
from offpolicy.datasets._population import Population, TwoValued, without_support
from offpolicy.datasets._queries import find, letor, ranking, ranking_files
from offpolicy.datasets._synthetic import make_population, simulate_synthetic
from offpolicy.datasets.finding import fetch
from offpolicy.logs.formats.letor import Queries

__all__ = [
    "Examples", "Population", "Queries", "Truth", "TwoValued", "cache_folder", "catalogue",
    "check_name", "check_rewards", "data_folder", "expected_rewards", "fetch", "files_of", "find",
    "finding", "letor", "load", "make_population", "open_bandit", "open_bandit_file", "ranking",
    "ranking_files", "read_truth", "roots", "sample_actions", "sha256", "simulate_bandit",
    "simulate_synthetic", "without_support", "write_log",
]  # fmt: skip
