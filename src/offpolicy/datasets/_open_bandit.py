"""The Open Bandit Dataset: the small sample of 10,000 rows, or your copy of the full release."""

from __future__ import annotations

import os
from pathlib import Path

from offpolicy._core.door import Door
from offpolicy.datasets import _fetching as fetching
from offpolicy.datasets import catalogue
from offpolicy.datasets._folders import cache_folder, first_whole, keep_fetched, roots
from offpolicy.datasets.catalogue import OpenBandit
from offpolicy.errors import DatasetError, ParameterError
from offpolicy.logs import BanditLog
from offpolicy.logs.formats import obd

LARGE = 256 * 2**20
"""Bytes; a larger file is not read into memory at once."""
_FULL = "open_bandit_dataset"


def open_bandit(
    behaviour: str = "random",
    campaign: str = "all",
    *,
    folder: str | Path | None = None,
    download: bool = False,
) -> BanditLog:
    """A log of the Open Bandit Dataset, candidates known: what `open_bandit_file` finds, in memory.

    The files of the full release have up to several GB: those are for ``op.read_log``.
    """
    known = _known(behaviour, campaign)
    path = open_bandit_file(behaviour, campaign, folder=folder, download=download)
    size = path.stat().st_size
    if size > LARGE:
        raise DatasetError(
            f"it has {size:,} bytes: read it piece by piece, with "
            f"op.read_log(datasets.open_bandit_file(…)).",
            path,
        )
    return obd.read(path, items=known.items)


def open_bandit_file(
    behaviour: str = "random",
    campaign: str = "all",
    *,
    folder: str | Path | None = None,
    download: bool = False,
) -> Path:
    """Where the Open Bandit log of a policy (random, bts) and a campaign (all, men, women) is.

    With ``folder``, or where ``OFFPOLICY_OBD`` names one: in the full release, in its official
    layout. Else the small sample, from ``OFFPOLICY_DATA``, the cache, or, with ``download``, its
    public source.
    """
    known = _known(behaviour, campaign)
    full = folder or os.environ.get("OFFPOLICY_OBD")
    if full:
        return _in_full(Path(full).expanduser(), known)
    path = fetch(known) if download else find(known)
    if path is None:
        looked = " or ".join(str(root) for root in roots())
        raise DatasetError(
            f'{known.name} is not in {looked}. Run "offpolicy datasets fetch {known.name}", or '
            f"give the folder of the full release ({Door.spelled('folder')}, or OFFPOLICY_OBD).",
            column="download",
        )
    return path


def find(known: OpenBandit) -> Path | None:
    """Where the Open Bandit Dataset's small sample is, if it is here."""
    paths = first_whole([root / _place(known)] for root in roots())
    return None if paths is None else paths[0]


def fetch(known: OpenBandit) -> Path:
    """Get one log of the Open Bandit Dataset's small sample from its source, unless at hand."""
    path = find(known)
    if path is not None:
        return path
    path = cache_folder() / _place(known)
    instead = f"Or get it from {known.page} yourself and put it there as {path}."
    content = fetching.get(known.url, instead)
    fetching.check_hash(content, known.sha256, known.url, instead)
    keep_fetched(path, content)
    return path


def _place(known: OpenBandit) -> Path:
    return Path("logs") / "obd" / f"{known.behaviour}_{known.campaign}.csv"


def _known(behaviour: str, campaign: str) -> OpenBandit:
    known = catalogue.OPEN_BANDIT.get(f"open-bandit/{behaviour}/{campaign}")
    if known is None:
        raise ParameterError(
            f'There is no log of behaviour "{behaviour}" and campaign "{campaign}"; behaviour is '
            f"random or bts, campaign all, men or women.",
            column="behaviour",
        )
    return known


def _in_full(folder: Path, known: OpenBandit) -> Path:
    inner = Path(known.behaviour) / known.campaign / f"{known.campaign}.csv"
    paths = first_whole([base / inner] for base in (folder, folder / _FULL))
    if paths is None:
        raise DatasetError(
            f"it does not hold {inner}, as the full Open Bandit Dataset does. Give the folder "
            f"{_FULL} of the release.",
            folder,
        )
    return paths[0]
