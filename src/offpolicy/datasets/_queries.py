"""Learning to rank: `letor` reads any file, `ranking` finds those of a known set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from offpolicy._core.door import Door
from offpolicy._core.validation import need
from offpolicy.datasets import catalogue
from offpolicy.datasets._folders import first_whole, roots
from offpolicy.datasets.catalogue import Ranking
from offpolicy.errors import DatasetError, LogError, ParameterError
from offpolicy.logs.formats import letor as text
from offpolicy.logs.formats.letor import Queries

SPLITS = ("train", "vali", "test")
_PACKED = (".gz", ".bz2", ".zst")


def letor(
    source: str | Path | Sequence[str | Path],
    *,
    features: int | None = None,
    dtype: DTypeLike = np.float64,
) -> Queries:
    """Queries from LETOR text: a file, several, or all .txt (.txt.gz) in a folder, by name.

    Several files are read as if they were one. `offpolicy.formats.letor` says what is read how.
    """
    if isinstance(source, (str, Path)) and Path(source).is_dir():
        folder = Path(source)
        names = sorted(p for p in folder.iterdir() if p.is_file() and _is_text(p))
        if not names:
            raise LogError("there is no .txt in it.", folder)
        return text.read(names, features=features, dtype=dtype)
    return text.read(source, features=features, dtype=dtype)


def ranking(
    name: str,
    split: str | None = None,
    *,
    fold: int | None = None,
    part: str | None = None,
    folder: str | Path | None = None,
    dtype: DTypeLike = np.float64,
) -> Queries:
    """A data set that you have, in its official layout: ``ranking("MQ2008", "train", fold=1)``.

    ``part`` is one of the five that folds are made of, "S1" … "S5"; with neither, all queries
    are read. Looked for in ``folder``, else in ``ltr/<name>`` of the folder that
    ``OFFPOLICY_DATA`` names. These sets have terms to be accepted, and are never fetched.
    """
    known = catalogue.for_ranking(name)
    files = ranking_files(known, Asked(split, fold, part), folder)
    return text.read(files, features=known.features, dtype=dtype)


class Asked(NamedTuple):
    """What of a set is wanted; all of it if nothing is said."""

    split: str | None = None
    fold: int | None = None
    part: str | None = None


ALL = Asked()


def ranking_files(
    known: Ranking, asked: Asked = ALL, folder: str | Path | None = None
) -> list[Path]:
    """The files of a data set for ranking with what is asked for, in the first layout there is."""
    wanted = _ways(known, asked)
    places = _places(known, folder)
    files = first_whole(
        [place / f"{stem}.txt" for stem in names] for place in places for names in wanted
    )
    if files is not None:
        return files
    expected = " or ".join(", ".join(f"{stem}.txt" for stem in names) for names in wanted)
    looked = " or ".join(str(place) for place in places)
    raise DatasetError(
        f"{known.name}: there is no {expected} (or .gz) in {looked}. It is not fetched, because of "
        f"its terms: get it from {known.page} and give its folder ({Door.spelled('folder')}), or "
        "put it there."
    )


def find(known: Ranking) -> Path | None:
    """The folder in which the whole data set for ranking is."""
    try:
        folders = [file.parent for file in ranking_files(known)]
    except DatasetError:
        return None
    return folders[0] if len(set(folders)) == 1 else folders[0].parent


def _places(known: Ranking, folder: str | Path | None) -> list[Path]:
    if folder is None:
        bases = [root / "ltr" / known.name for root in roots()]
    else:
        bases = [Path(folder).expanduser(), Path(folder).expanduser() / known.name]
    return [place for base in bases for place in (base, *(base / name for name in known.inside))]


def _ways(known: Ranking, asked: Asked) -> list[list[str]]:
    """Layouts of a data set for ranking: lists of files without their ending; one is enough."""
    split, fold, part = asked
    if split == "valid":
        asked = asked._replace(split="vali")
    else:
        need(split in (None, *SPLITS), "split", f'"{split}"', "train, vali or test")
    need(fold in (None, *range(1, 6)), "fold", fold, "1 to 5")
    need(part in (None, "S1", "S2", "S3", "S4", "S5"), "part", f'"{part}"', "S1 to S5")
    if part is not None and (split is not None or fold is not None):
        raise ParameterError("Give a part, or a fold and a split, not both.")
    make, has = _LAYOUTS[known.layouts[0]]
    ways = make(known, asked)
    if not ways:
        raise ParameterError(f"{known.name} {has}.", column="split")
    return ways


def _folds(known: Ranking, asked: Asked) -> list[list[str]]:
    """A data set's fold k trains on Sₖ, Sₖ₊₁, Sₖ₊₂, validates on Sₖ₊₃ and tests on Sₖ₊₄."""
    split, fold, part = asked
    if part is not None:
        folds, parts = [f"Fold{int(part[1]) % 5 + 1}/test"], [part]
    elif fold is not None and split is not None:
        turns = {"train": (0, 1, 2), "vali": (3,), "test": (4,)}[split]
        folds, parts = [f"Fold{fold}/{split}"], [f"S{(fold - 1 + k) % 5 + 1}" for k in turns]
    elif fold is None and split is None:
        folds, parts = [f"Fold1/{split}" for split in SPLITS], [f"S{k}" for k in range(1, 6)]
    else:
        return []
    return [folds, parts] if "parts" in known.layouts else [folds]


def _splits(known: Ranking, asked: Asked) -> list[list[str]]:
    """A data set in splits: all of it is two files where none is for validation."""
    if asked.fold is not None or asked.part is not None:
        return []
    train, vali, test = known.stems
    if asked.split is None:
        return [[train, vali, test], [train, test]]
    return [[known.stems[SPLITS.index(asked.split)]]]


def _tests(known: Ranking, asked: Asked) -> list[list[str]]:
    if asked.part is not None or asked.split not in (None, "test"):
        return []
    return [[f"Fold{k}.test" for k in ((1, 2, 3, 4, 5) if asked.fold is None else (asked.fold,))]]


_LAYOUTS = {
    "folds": (
        _folds,
        "has five folds: give fold and split together, a part S1 to S5, or none of them",
    ),
    "splits": (_splits, "has the splits train, vali and test, no folds"),
    "tests": (_tests, "has the test sets of five folds: give fold, or nothing"),
    "union": (
        lambda _, asked: [["mq2007_union"]] if asked == ALL else [],
        "is one file: give no split, fold or part",
    ),
}
"""How files are laid out, and what there is to ask for."""


def _is_text(path: Path) -> bool:
    inner = path.with_suffix("") if path.suffix in _PACKED else path
    return inner.suffix == ".txt" and not path.name.startswith(".")
