"""The classic labelled sets: `load` them, `fetch` them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import _fetching as fetching
from offpolicy.datasets import catalogue
from offpolicy.datasets._folders import cache_folder, data_folder, first_whole, keep_fetched, roots
from offpolicy.datasets.catalogue import Labelled
from offpolicy.errors import DatasetError, Place


class Examples(NamedTuple):
    """Features and labels 0 … K − 1, in the order of the official files."""

    X: Floats
    """(m, d)."""
    y: Ints
    """(m,)."""
    train: NDArray[np.bool_] | None = None
    """Which examples the source means for training; None if it does not say."""
    features: tuple[str, ...] = ()
    """Their names, d of them."""
    classes: tuple[str, ...] = ()
    """Their names, K of them."""


BUNDLED = ("digits", "wine")


def load(name: str, *, download: bool = False) -> Examples:
    """A labelled data set by its name, such as "satimage"; "digits" and "wine" come with
    scikit-learn.

    Looked for as ``uci/<name>.csv.gz`` or as the official files in ``uci/raw/``, first in the
    folder that ``OFFPOLICY_DATA`` names, then in the cache; with ``download`` it is then fetched.
    A set of your own is ``uci/<name>.csv.gz`` with a column ``label`` (0 … K − 1), perhaps a
    column ``split`` (train, test), and features.
    """
    if name in BUNDLED:
        from sklearn import datasets

        return Examples(*getattr(datasets, f"load_{name}")(return_X_y=True))
    known = catalogue.LABELLED.get(name)
    where = fetch(name) if download and known is not None else find(name)
    if where is None:
        raise _missing(name)
    if known is None or where[0].name == f"{name}.csv.gz":
        examples = _from_csv(where[0], known)
    else:
        instead = f'Delete it and run "offpolicy datasets fetch {name}".'
        contents = [_content(path) for path in where]
        examples = from_members(known, contents, [str(path) for path in where], instead)
    if known is not None:
        _check_shape(examples, known, ", ".join(map(str, where)))
    return examples


def files_of(names: Iterable[str]) -> dict[str, list[Path]]:
    """The files of each labelled data set that is at hand."""
    return {name: find(name) or [] for name in names}


def fetch(name: str) -> list[Path]:
    """Get a labelled data set's official files from their source, unless at hand; their paths."""
    known = catalogue.LABELLED[name]
    paths = find(name)
    if paths is not None:
        return paths
    folder = cache_folder() / "uci" / "raw"
    names = [member.name for member in known.members]
    instead = (
        f"Or get {', '.join(names)} from {known.page} yourself and put "
        f"{'it' if len(names) == 1 else 'them'} into {folder}."
    )
    contents = fetching.archive_members(fetching.get(known.url, instead), names, known.url, instead)
    places = [f"{known.url}, {name}" for name in names]
    _check_shape(from_members(known, contents, places, instead), known, known.url)
    paths = [folder / name for name in names]
    for path, content in zip(paths, contents, strict=True):
        keep_fetched(path, content)
    return paths


def find(name: str) -> list[Path] | None:
    """Where a labelled data set is: our table, or all official files; None if it is not here."""
    if Path(name).name != name:
        raise catalogue.unknown(name, list(catalogue.LABELLED))
    ways = []
    for root in roots():
        ways.append([root / "uci" / f"{name}.csv.gz"])
        if name in catalogue.LABELLED:
            members = catalogue.LABELLED[name].members
            ways.append([root / "uci" / "raw" / member.name for member in members])
    return first_whole(ways)


def from_members(
    known: Labelled, contents: list[bytes], places: list[str], instead: str
) -> Examples:
    """The examples in a data set's official files, or an error with what to do ``instead``."""
    rows: list[list[float]] = []
    labels: list[int] = []
    train: list[bool] = []
    code = {label: k for k, label in enumerate(known.labels)}
    d = len(known.features)
    for member, content, place in zip(known.members, contents, places, strict=True):
        fetching.check_hash(content, member.sha256, place, instead)
        for number, line in enumerate(content.decode("latin-1").splitlines(), start=1):
            fields = [field.strip() for field in line.strip().split(known.separator)]
            if fields in ([], [""]) or line.startswith(";") or fields[0] == (known.header or None):
                continue
            label = fields.pop(0 if known.label_first else -1)
            values = fields[1:] if known.named else fields
            try:
                row = [float(value) for value in values]
                if len(row) != d:
                    raise ValueError
                labels.append(code[label])
            except (ValueError, KeyError):
                raise DatasetError(
                    f'"{line[:60]}" is not {d} numbers and a label of {known.name}.',
                    Place(place, row=number, unit="line"),
                ) from None
            rows.append(row)
            train.append(member.split == "train" or len(train) < known.train)
    split = np.array(train) if known.train or known.members[0].split else None
    return Examples(
        np.array(rows, dtype=np.float64).reshape(len(rows), d),
        np.array(labels, dtype=np.int64),
        split,
        known.features,
        known.class_names,
    )


def _from_csv(path: Path, known: Labelled | None) -> Examples:
    """A data set in our own table: a header, features, ``label``, and perhaps ``split``."""
    try:
        with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
    except (OSError, EOFError, ValueError) as problem:
        raise DatasetError(f"it cannot be read ({problem}).", path) from None
    if "label" not in head:
        raise DatasetError("there is no such column.", Place(str(path), "label"))
    features = [j for j, column in enumerate(head) if column not in ("label", "split")]
    label = head.index("label")
    X, y = np.empty((len(rows), len(features))), np.empty(len(rows), np.int64)
    for i, row in enumerate(rows):
        try:
            X[i] = [float(row[j]) for j in features]
            y[i] = int(row[label])
        except (ValueError, IndexError):
            what = "the features must be numbers, the label a whole number."
            raise DatasetError(what, Place(str(path), row=i)) from None
    K = int(y.max(initial=-1)) + 1
    if not rows or y.min() < 0 or not np.isfinite(X).all():
        raise DatasetError("it must hold rows of finite numbers and labels from 0 on.", path)
    split = [row[head.index("split")] for row in rows] if "split" in head else []
    train = np.array([word == "train" for word in split]) if "train" in split else None
    names = known.class_names if known else tuple(str(k) for k in range(K))
    return Examples(X, y, train, tuple(head[j] for j in features), names)


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, ValueError) as problem:
        raise DatasetError(f"it cannot be read ({problem}).", path) from None


def _check_shape(examples: Examples, known: Labelled, where: str) -> None:
    """The data set is what it is called: as many rows, features, and examples of each class."""
    counts = tuple(np.bincount(examples.y, minlength=len(known.counts)).tolist())
    shape = (known.rows, len(known.features))
    if examples.X.shape != shape or counts != known.counts:
        m, d = examples.X.shape
        raise DatasetError(
            f"this is not the official {known.name}: {m:,} × {d} with classes of "
            f"{', '.join(map(str, counts))}, not {shape[0]:,} × {shape[1]} with classes of "
            f"{', '.join(map(str, known.counts))}.",
            where,
        )


def _missing(name: str) -> DatasetError:
    if name not in catalogue.LABELLED:
        folder = data_folder()
        problem = catalogue.unknown(name, list(catalogue.LABELLED))
        where = f" A set of your own would be {folder / 'uci'}/{name}.csv.gz." if folder else ""
        return DatasetError(f"{problem}{where}", column="name")
    looked = " or ".join(str(root) for root in roots())
    return DatasetError(
        f'{name} is not in {looked}. Run "offpolicy datasets fetch {name}", or let OFFPOLICY_DATA '
        f"name a folder with uci/{name}.csv.gz or with the official files in uci/raw/.",
        column="download",
    )
