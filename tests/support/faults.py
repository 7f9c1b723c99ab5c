"""Files with a fault, each named for it, and what is said of them: made by this script, the same
bytes every time.

    python -m tests.support.faults FOLDER

writes them all, and beside them faults.tsv: the file, the exit code, the error, and its place.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from offpolicy.errors import (
    LogError,
    OffpolicyError,
    Place,
    PolicyError,
    PropensityError,
    SupportError,
)

ROWS, BAD = 30, 7
"""Rows of a log, and the one that is malformed."""
POLICY = "new"
Row = dict[str, Any]


class Fault(NamedTuple):
    """A failing file: its name and its bytes, and what is said of it."""

    name: str
    content: bytes
    error: type[OffpolicyError] = LogError
    column: str = ""
    row: int | None = None
    unit: str = "row"
    options: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The exit code."""
        return 1 if issubclass(self.error, SupportError) else 2

    @property
    def place(self) -> Place:
        return Place(self.name, self.column, self.row, self.unit)


def sound() -> list[Row]:
    """The rows of a log that is whole."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for k in range(ROWS):
        logging = [0.25, 0.25, 0.5] if k % 2 else [0.5, 0.25, 0.25]
        action = int(rng.integers(3))
        rows.append(
            {
                "action": action, "reward": float(rng.integers(2)), "propensity": logging[action],
                "logging": logging, "new": [0.125, 0.625, 0.25], "age": k % 7, "user": f"u{k // 6}",
            }
        )  # fmt: skip
    return rows


# -- the same rows in files of every kind ------------------------------------------------------


def as_csv(rows: list[Row], between: str = ",") -> bytes:
    def cell(value: Any) -> str:
        text = "" if value is None else str(value).replace("None", "null")
        return f'"{text}"' if "," in text else text

    lines = [between.join(rows[0])]
    lines += [between.join(cell(value) for value in row.values()) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def as_jsonl(rows: list[Row]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def as_parquet(rows: list[Row] | pa.Table, **settings: Any) -> bytes:
    sink = io.BytesIO()
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


KINDS: dict[str, Callable[[list[Row]], bytes]] = {
    "csv": as_csv,
    "tsv": lambda rows: as_csv(rows, "\t"),
    "jsonl": as_jsonl,
    "csv.gz": lambda rows: gzip.compress(as_csv(rows), mtime=0),
    "jsonl.bz2": lambda rows: bz2.compress(as_jsonl(rows)),
    "parquet": as_parquet,
}


# -- rows that are malformed -------------------------------------------------------------------


class Value(NamedTuple):
    """A value that a row must not have, and what is said of it; in kinds of files that hold it."""

    column: str
    value: Any
    error: type[OffpolicyError] = LogError
    place: str = ""
    kinds: tuple[str, ...] = tuple(KINDS)


VALUES = {
    "reward-missing": Value("reward", None),
    "reward-infinite": Value("reward", float("inf"), kinds=("csv", "tsv", "csv.gz", "parquet")),
    "reward-not-a-number": Value("reward", "one", kinds=("csv", "tsv", "csv.gz")),
    "reward-digits-of-another-script": Value("reward", "١", kinds=("csv", "tsv", "csv.gz")),
    "reward-underscore": Value("reward", "1_000", kinds=("csv", "tsv", "csv.gz")),
    "propensity-zero": Value("propensity", 0.0, PropensityError),
    "propensity-negative": Value("propensity", -0.25, PropensityError),
    "propensity-above-one": Value("propensity", 1.5, PropensityError),
    "propensity-missing": Value("propensity", None),
    "logging-sums-to-half": Value("logging", [0.25, 0.125, 0.125], PropensityError),
    "logging-negative": Value("logging", [-0.5, 1.0, 0.5], PropensityError),
    "logging-with-a-gap": Value("logging", [0.5, None, 0.25]),
    "logging-too-long": Value("logging", [0.25, 0.25, 0.5, 0.0], place="new"),
    "logging-empty": Value("logging", []),
    "policy-sums-to-two": Value("new", [1.0, 0.5, 0.5], PolicyError),
    "policy-missing": Value("new", None),
    "policy-too-short": Value("new", [0.5, 0.5]),
    "action-beyond-the-candidates": Value("action", 9, place="chosen"),
    "action-missing": Value("action", None),
}


def malformed() -> Iterator[Fault]:
    """Each value in files of every kind that can hold it."""
    for name, bad in VALUES.items():
        rows = sound()
        rows[BAD][bad.column] = bad.value
        for kind in bad.kinds:
            content = KINDS[kind](rows)
            yield Fault(f"{name}.{kind}", content, bad.error, bad.place or bad.column, BAD)


# -- text --------------------------------------------------------------------------------------


def text() -> Iterator[Fault]:
    rows = sound()
    csv, jsonl = as_csv(rows), as_jsonl(rows)
    lines, objects = csv.splitlines(keepends=True), jsonl.splitlines(keepends=True)
    before, line, after = b"".join(lines[: BAD + 1]), lines[BAD + 1], b"".join(lines[BAD + 2 :])
    at = BAD + 2  # as an editor counts

    def with_line(changed: bytes) -> bytes:
        return before + changed + after

    yield Fault("empty.csv", b"")
    yield Fault("header-only.csv", lines[0])
    yield Fault("blank-lines.csv", b"\n\n\n")
    yield Fault(
        "cut-in-quotes.csv",
        before + line[: line.rindex(b"[") + 4],
        column="new",
        row=at,
        unit="line",
    )
    yield Fault(
        "text-after-a-quote.csv", with_line(line.replace(b']"', b']"x', 1)),
        column="logging", row=at, unit="line",
    )  # fmt: skip
    yield Fault("too-many-fields.csv", with_line(line[:-1] + b",1\n"), row=at, unit="line")
    yield Fault("too-few-fields.csv", with_line(line[:5] + b"\n"), row=at, unit="line")
    yield Fault("name-twice.csv", csv.replace(b"user", b"reward", 1), column="reward")
    yield Fault("mixed-line-ends.csv", with_line(line[:-1] + b"\r\n"), row=at, unit="line")
    yield Fault(
        "latin-1.csv", with_line(line.replace(b"u1", b"\xfc1")), column="user", row=at, unit="line"
    )
    yield Fault("latin-1-header.csv", csv.replace(b"user", b"m\xfcller", 1), row=1, unit="line")
    yield Fault("utf-16.csv", csv.decode().encode("utf-16"), row=1, unit="line")
    yield Fault("zero-bytes.csv", bytes(100))
    yield Fault(
        "no-list.csv", with_line(line.replace(b"[0.", b"[0.;", 1)), column="logging", row=BAD
    )
    yield Fault("no-column-reward.csv", csv.replace(b"reward", b"payoff", 1), column="reward")
    yield Fault("compressed-and-cut.csv.gz", gzip.compress(csv, mtime=0)[:-20])
    yield Fault("compressed-wrong-checksum.csv.gz", gzip.compress(csv, mtime=0)[:-8] + bytes(8))
    yield Fault("not-compressed.csv.gz", csv)
    yield Fault("not-of-a-known-kind.xlsx", csv)

    before, line, after = b"".join(objects[:BAD]), objects[BAD], b"".join(objects[BAD + 1 :])
    at = BAD + 1
    yield Fault("empty.jsonl", b"")
    yield Fault("cut-off.jsonl", before + line[: len(line) // 2], row=at, unit="line")
    yield Fault("no-object.jsonl", with_line(b"[1, 2]\n"), row=at, unit="line")
    yield Fault("not-json.jsonl", with_line(b"junk\n"), row=at, unit="line")
    yield Fault(
        "name-twice.jsonl", with_line(line.replace(b'"user"', b'"reward"')),
        column="reward", row=at, unit="line",
    )  # fmt: skip
    yield Fault(
        "text-among-numbers.jsonl", with_line(line.replace(b'"reward": ', b'"reward": "x", "x": ')),
        column="reward", row=at, unit="line",
    )  # fmt: skip
    yield Fault("latin-1.jsonl", with_line(line.replace(b"u1", b"\xfc1")), row=at, unit="line")
    deep = b'{"action": 0, "reward": 1, "logging": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    yield Fault("list-100000-deep.jsonl", deep * 2, column="logging")
    event = b'{"EventId": "a", "a": [1, 2], "p": [0.5, 0.5], "_label_cost": 0, "c": {}, '
    event += b'"_label_probability": 0.5, "_label_Action": 1, "_labelIndex": 0}\n'
    deep = event.replace(b"{}", b"[" * 100_000 + b"]" * 100_000)
    yield Fault("100000-deep.dsjson", event + deep, row=2, unit="line")
    many = ", ".join(f'"k{k}": 1' for k in range(20_000))
    yield Fault("20000-names.jsonl", f'{{"action": 0, "reward": 1, {many}}}\n'.encode())


# -- Parquet -----------------------------------------------------------------------------------


def parquet() -> Iterator[Fault]:
    table = pa.Table.from_pylist(sound())
    whole = as_parquet(table, row_group_size=10)
    yield Fault("empty.parquet", b"")
    yield Fault("cut-off.parquet", whole[: len(whole) // 2])
    yield Fault("cut-at-its-end.parquet", whole[:-1])
    yield Fault("text.parquet", as_csv(sound()))
    yield Fault("no-rows.parquet", as_parquet(table.slice(0, 0)))
    twice = table.append_column("reward", table["reward"])
    yield Fault("column-twice.parquet", as_parquet(twice), column="reward")
    yield Fault("no-column-reward.parquet", as_parquet(table.drop(["reward"])), column="reward")
    # FileMetaData: the list of row groups has the head 3c (three structs); say that it has two.
    bare = as_parquet(table, row_group_size=10, store_schema=False)
    begins = len(bare) - 8 - int.from_bytes(bare[-8:-4], "little")
    groups = bare.index(bytes([0x16, 2 * ROWS, 0x19, 0x3C]), begins) + 3
    yield Fault("footer-lost-a-row-group.parquet", bare[:groups] + b"\x2c" + bare[groups + 1 :])
    checked = bytearray(as_parquet(table, write_page_checksum=True, compression="none"))
    checked[40] ^= 1
    yield Fault("flipped-bit-under-a-checksum.parquet", bytes(checked), options=("--verify",))
    for name, kind in {
        "duration": pa.duration("s"), "binary": pa.binary(), "list": pa.list_(pa.float64()),
        "struct": pa.struct([("x", pa.int64())]),
    }.items():  # fmt: skip
        made = pa.array([_VALUE[name]] * ROWS, kind)
        content = as_parquet(table.set_column(1, "reward", made))
        yield Fault(f"reward-of-type-{name}.parquet", content, column="reward")


_VALUE: dict[str, Any] = {"duration": 1, "binary": b"1", "list": [1.0], "struct": {"x": 1}}


def corpus() -> list[Fault]:
    """All failing files."""
    return [*malformed(), *text(), *parquet()]


def write(folder: Path) -> list[Fault]:
    """All of them, and faults.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    faults, lines = corpus(), ["file\texit code\terror\tplace\toptions"]
    for fault in faults:
        (folder / fault.name).write_bytes(fault.content)
        words = (fault.code, fault.error.__name__, fault.place, " ".join(fault.options))
        lines.append("\t".join([fault.name, *map(str, words)]))
    (folder / "faults.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return faults


if __name__ == "__main__":
    print(f"{len(write(Path(sys.argv[1])))} files")
