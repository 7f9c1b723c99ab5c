"""The Open Bandit Dataset: CSV files of fashion items shown in one of three positions.

An item's probability of being shown is known for the item that was shown; under the uniformly
random policy it is 1/K for every item. ``timestamp``, ``item_id``, ``click`` and
``propensity_score`` become time, action, reward and propensity. ``position`` stays a column; the
user's features, which are hashed categories, are the context. ``user-item_affinity_*`` is left
out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from offpolicy._core.door import Door
from offpolicy._core.late import pa, pc
from offpolicy._core.validation import need, refuse
from offpolicy.errors import LogError, Place
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import Columns
from offpolicy.logs.formats._lines import existing, numbered

ROLES = {
    "timestamp": "time",
    "item_id": "action",
    "position": "position",
    "click": "reward",
    "propensity_score": "propensity",
}
"""What the file's columns are called here."""
_KINDS = {
    "timestamp": datetime, "item_id": int, "position": int, "click": float,
    "propensity_score": float,
}  # fmt: skip


def read(path: str | Path, *, items: int | None = None) -> BanditLog:
    """The log in a file of the Open Bandit Dataset (.csv or .csv.gz).

    ``items`` is the number of items that could have been shown, 0 … K − 1 (80, 34 or 46). With
    it, the candidates are known; if also every propensity is 1/K, so is ``logging``. Without
    it, K is taken from the items that occur, but only if every propensity is then 1/K.
    """
    parts = list(batches(path))
    if not parts:
        raise LogError("there is not one row below the header.", path)
    table = pa.Table.from_batches(parts)
    log = BanditLog.from_frame(table, columns_of(table.column_names), source=str(path))
    facts = Facts()
    facts.add(table)
    K = facts.candidates() if items is None else items
    if K is None:
        return log
    uniform = facts.uniform(K)
    action = table.column("action").to_numpy()
    refuse(
        (action < 0) | (action >= K),
        f"{{value}}, but with {Door.given('items', K)} they are 0 to {K - 1}. Give the number of "
        f"all items of the campaign.",
        "item_id", str(path), value=action,
    )  # fmt: skip
    return log.replace(
        offsets=np.arange(len(log) + 1, dtype=np.int64) * K,
        chosen=action,
        actions=tuple(range(K)),
        candidate=None,
        logging=np.full(len(log) * K, 1.0 / K) if uniform else None,
        candidates_known=True,
    )


@dataclass
class Facts:
    """What is known of all rows: the items that occur, and the least and largest propensity."""

    items: set[int] = field(default_factory=set)
    least: float = math.inf
    largest: float = -math.inf

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Look at some of the rows."""
        self.items |= set(pc.unique(rows.column("action")).to_pylist())
        ends = pc.min_max(rows.column("propensity")).as_py()
        if ends["min"] is not None:
            self.least = min(self.least, ends["min"])
            self.largest = max(self.largest, ends["max"])

    def uniform(self, K: int) -> bool:
        """Whether every propensity is 1/K."""
        return abs(self.least * K - 1.0) <= 1e-6 and abs(self.largest * K - 1.0) <= 1e-6

    def candidates(self) -> int | None:
        """K, if the items that occur are 0 … K − 1 and every propensity is 1/K."""
        K = len(self.items)
        return K if self.uniform(K) and self.items == set(range(K)) else None


def columns_of(names: Iterable[str]) -> Columns:
    """The roles in an Open Bandit log with these columns: the user's features are the context."""
    return Columns(context=[name for name in names if name.startswith("user_feature_")])


def batches(path: str | Path, *, batch_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """The rows of an Open Bandit file, at most ``batch_rows`` at a time, in our columns."""
    need(batch_rows >= 1, "batch_rows", batch_rows, "at least 1")
    file = existing(path)
    header = _header(file)
    missing = [name for name in ROLES if name not in header]
    if missing:
        raise LogError(
            f'there is no column "{missing[0]}", as there is in the Open Bandit Dataset. '
            f"The columns are {', '.join(header[:12])}{', …' if len(header) > 12 else ''}.",
            path,
            column=missing[0],
        )
    return _batches(file, header, batch_rows)


def sniff(header: str) -> bool:
    """Whether a CSV file with this first line is of the Open Bandit Dataset."""
    return {"item_id", "position", "click", "propensity_score"} <= set(_names(header))


def _batches(path: Path, header: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv as arrow_csv

    types = {datetime: pa.timestamp("us", tz="UTC"), int: pa.int64(), float: pa.float64()}
    kinds = {name: types[kind] for name, kind in _KINDS.items()}
    kinds |= {name: pa.string() for name in header if name.startswith("user_feature_")}
    options = arrow_csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
    names = [ROLES.get(name, name) for name in kinds]
    try:
        with arrow_csv.open_csv(path, convert_options=options) as reader:
            for batch in reader:
                for start in range(0, len(batch), batch_rows):
                    yield batch.slice(start, batch_rows).rename_columns(names)
    except (pa.ArrowException, OSError) as problem:
        wrong = _first_bad_row(path, header)
        raise (wrong or LogError(f"not readable ({problem}).", path)) from None


def _first_bad_row(path: Path, header: list[str]) -> LogError | None:
    """The first row of an Open Bandit log that cannot be converted; Arrow does not tell which."""
    for number, line in numbered(path):
        values, row = _names(line.decode(errors="replace")), number - 2
        if row < 0 or not values:
            continue
        if len(values) != len(header):
            sentence = f"{len(values)} fields, but the header has {len(header)}."
            return LogError(sentence, Place(str(path), row=row))
        for name, kind in _KINDS.items():
            text = values[header.index(name)]
            try:
                if text:
                    datetime.fromisoformat(text) if kind is datetime else kind(text)
            except ValueError:
                what = "time" if name == "timestamp" else "number"
                sentence = f'"{text[:60]}" is not a {what}. Correct it or leave the row out.'
                return LogError(sentence, Place(str(path), name, row))
    return None


def _header(path: Path) -> list[str]:
    for _, line in numbered(path):
        return _names(line.decode("utf-8-sig", errors="replace"))
    raise LogError("the file is empty.", path)


def _names(header: str) -> list[str]:
    """The fields of a line; none where they cannot be told apart."""
    try:
        return next(csv.reader(header.strip().splitlines()), [])
    except csv.Error:
        return []
