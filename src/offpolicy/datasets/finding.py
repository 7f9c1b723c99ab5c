"""The three kinds of data sets under one name each."""

from __future__ import annotations

from pathlib import Path

from offpolicy.datasets import _classic as classic
from offpolicy.datasets import _open_bandit as openbandit
from offpolicy.datasets import _queries as queries
from offpolicy.datasets import catalogue
from offpolicy.datasets.catalogue import Entry, Labelled, OpenBandit
from offpolicy.errors import DatasetError

GROUP = "open-bandit"
"""All six logs of the small sample."""


def entries_named(name: str) -> list[Entry]:
    """The data sets that a name stands for: one entry of the catalogue, or a group."""
    if name.casefold() == GROUP:
        return list(catalogue.OPEN_BANDIT.values())
    return [catalogue.entry(name)]


def find(known: Entry) -> list[Path] | None:
    """Where a data set is, if it is here: its files, or the folder of a set for ranking."""
    if isinstance(known, Labelled):
        return classic.find(known.name)
    path = openbandit.find(known) if isinstance(known, OpenBandit) else queries.find(known)
    return None if path is None else [path]


def fetch(name: str) -> list[Path]:
    """Get a data set from its public source, unless it is at hand; the paths of its files.

    Labelled sets, and the logs of the Open Bandit Dataset's small sample ("open-bandit" is all of
    them). Each file is compared with its known SHA-256, or, where there is none, its shape and
    class counts with the known ones. Progress goes to stderr.
    """
    paths: list[Path] = []
    for known in entries_named(name):
        if isinstance(known, Labelled):
            paths += classic.fetch(known.name)
        elif isinstance(known, OpenBandit):
            paths.append(openbandit.fetch(known))
        else:
            raise DatasetError(
                f"{known.name} is not fetched, because of its terms: get it from {known.page}, and "
                f"put it into ltr/{known.name} of the folder that OFFPOLICY_DATA names."
            )
    return paths
