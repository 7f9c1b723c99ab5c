"""Public data sets: found where they are, fetched when asked.

Looked for in the folder that ``OFFPOLICY_DATA`` names, then in the cache (`cache_folder`). Only
`fetch`, or ``download=True``, goes to the network.
"""

from __future__ import annotations

from offpolicy.datasets.classic import Examples, load
from offpolicy.datasets.finding import fetch
from offpolicy.datasets.folders import cache_folder, data_folder
from offpolicy.datasets.openbandit import open_bandit, open_bandit_file
from offpolicy.datasets.queries import letor, ranking
from offpolicy.formats.letor import Queries

__all__ = [
    "Examples", "Queries", "cache_folder", "data_folder", "fetch", "letor", "load", "open_bandit",
    "open_bandit_file", "ranking",
]  # fmt: skip
