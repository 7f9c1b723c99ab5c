"""LETOR text, which is SVMlight's with a query: ``2 qid:10 1:0.03 2:1 … # docid = …``.

One line per document. Features that a line leaves out are 0, and what follows ``#`` is not looked
at. The documents of a query need not stand together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from offpolicy._core.late import pa
from offpolicy._core.types import Floats, Ints
from offpolicy._core.validation import need
from offpolicy.errors import LogError, Place
from offpolicy.logs.formats._lines import cut_off, existing

BLOCK = 32 * 2**20
"""Bytes of text that are held at once."""
LARGEST_FEATURE = 100_000
"""The features are held densely, so a number far beyond any real one is taken for a mistake."""
_LATE = 2 * LARGEST_FEATURE
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


class Queries(NamedTuple):
    """The documents of query i are the rows offsets[i] : offsets[i + 1]."""

    X: NDArray[Any]
    """Features, (N, d)."""
    relevance: Floats
    """Of every document, (N,)."""
    offsets: Ints
    """Where each query's documents begin, and N: (Q + 1,)."""
    qid: Ints
    """The label of every query, in the order in which they first occur, (Q,)."""
    scattered: int
    """How many queries had documents that did not stand together; they now do, in file order."""


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    features: int | None = None,
    dtype: DTypeLike = np.float64,
) -> Queries:
    """The queries in one or several LETOR files, as if they were one; .gz, .bz2, .zst are unpacked.

    ``features`` is their number, d; without it, the largest that occurs. ``dtype`` of X is
    float64 or float32.
    """
    kind = np.dtype(dtype)
    need(kind in (np.float64, np.float32), "dtype", kind, "float64 or float32")
    fine = features is None or 1 <= features <= LARGEST_FEATURE
    need(fine, "features", features, f"1 to {LARGEST_FEATURE:,}")
    files = [existing(p) for p in ([paths] if isinstance(paths, (str, Path)) else paths)]
    parts = [part for file in files for part in _parts(file, features, kind)]
    names = ", ".join(map(str, files))
    if not sum(len(relevance) for _, relevance, _ in parts):
        raise LogError("there is not one document.", names)
    relevance = np.concatenate([relevance for _, relevance, _ in parts])
    qid = np.concatenate([qid for _, _, qid in parts])
    X = _together([X for X, _, _ in parts], kind)
    return _grouped(X, relevance, qid)


def _together(blocks: list[NDArray[Any]], kind: np.dtype[Any]) -> NDArray[Any]:
    """One array from LETOR blocks, perhaps of different widths; each is let go once copied."""
    if len(blocks) == 1:
        return blocks[0]
    X = np.zeros((sum(map(len, blocks)), max(block.shape[1] for block in blocks)), kind)
    blocks.reverse()
    start = 0
    while blocks:
        block = blocks.pop()
        X[start : start + len(block), : block.shape[1]] = block
        start += len(block)
    return X


def _grouped(X: NDArray[Any], relevance: Floats, qid: Ints) -> Queries:
    """LETOR queries in the order of first occurrence, each with its documents in file order."""
    begins = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    labels, first, which = np.unique(qid[begins], return_index=True, return_inverse=True)
    scattered = int((np.bincount(which) > 1).sum())
    if scattered:
        place = np.empty(len(labels), np.int64)
        place[np.argsort(first)] = np.arange(len(labels))
        of_row = np.repeat(place[which], np.diff(np.r_[begins, len(qid)]))
        order = np.argsort(of_row, kind="stable")
        X, relevance, qid = X[order], relevance[order], qid[order]
        begins = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    offsets = np.r_[begins, len(qid)].astype(np.int64)
    return Queries(X, relevance, offsets, qid[begins], scattered)


def _parts(
    path: Path, features: int | None, kind: np.dtype[Any]
) -> Iterator[tuple[NDArray[Any], Floats, Ints]]:
    """Features, relevance and query of the documents in a LETOR file, block by block."""
    line = 1
    for text in _blocks(path):
        yield _block(path, text if text.endswith(b"\n") else text + b"\n", line, features, kind)
        line += text.count(b"\n")


def _blocks(path: Path) -> Iterator[bytes]:
    """The text of a LETOR file, cut at ends of lines."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            rest = stream.read(BLOCK).removeprefix(b"\xef\xbb\xbf")
            while more := stream.read(BLOCK):
                cut = more.rfind(b"\n") + 1
                if cut:
                    yield rest + more[:cut]
                    rest = more[cut:]
                else:
                    rest += more
            if rest:
                yield rest
    except (pa.ArrowException, OSError) as problem:
        raise cut_off(path, problem) from None


def _block(
    path: Path, text: bytes, line: int, features: int | None, kind: np.dtype[Any]
) -> tuple[NDArray[Any], Floats, Ints]:
    from offpolicy.logs.formats import _letor_kernels as scanning

    def refused(byte: int, sentence: str) -> LogError:
        return LogError(
            sentence, Place(str(path), row=line + text.count(b"\n", 0, byte), unit="line")
        )

    d = features
    if d is None:
        widths = [_last_feature(words) for words in text.split(b"\n")]
        d = max(1, *widths)
        if d > LARGEST_FEATURE:
            place = Place(str(path), row=line + widths.index(d), unit="line")
            raise LogError(f"feature {d}, but at most {LARGEST_FEATURE:,} are read.", place)
    rows = text.count(b"\n")
    X = np.zeros((rows, d), kind)
    relevance, qid = np.empty(rows), np.empty(rows, np.int64)
    late = np.empty((_LATE, 4), np.int64)
    code = np.frombuffer(text, np.uint8)
    n = start = 0
    while start < len(text):
        start, n, count, wrong = scanning.scan(code, start, n, X, relevance, qid, late)
        for row, feature, begin, end in late[:count].tolist():
            value = float(text[begin:end])
            if not np.isfinite(value):
                raise refused(begin, f"{text[begin:end].decode()} is too large.")
            if feature < 0:
                relevance[row] = value
            else:
                X[row, feature] = value
        if wrong:
            stop = text.index(b"\n", start)
            raise refused(start, _what_is_wrong(text[start:stop].decode(errors="replace"), d))
    return X[:n], relevance[:n], qid[:n]


def _last_feature(line: bytes) -> int:
    """The largest feature of a line of LETOR text, if they are in order; 0 if there is none."""
    words = line.partition(b"#")[0].rpartition(b":")[0].rsplit(None, 1)
    return int(words[-1][:18]) if words and words[-1].isdigit() else 0


def _what_is_wrong(line: str, d: int) -> str:
    """What is wrong in a line of LETOR text that the compiled loop does not take."""
    words = re.split("[ \t\r]+", line.partition("#")[0].strip(" \t\r"))
    relevance, query, pairs = words[0], "".join(words[1:2]), words[2:]
    if not _NUMBER.fullmatch(relevance):
        return f'"{relevance[:60]}" is not a number; a line begins with the relevance.'
    if not query.startswith("qid:"):
        shown = f'"{query[:60]}"' if query else "the end of the line"
        return f"after the relevance there must be qid:NUMBER, not {shown}."
    if not re.fullmatch("qid:-?[0-9]{1,18}", query):
        return f'"{query[:60]}" does not name a query by a whole number of at most 18 digits.'
    last = 0
    for pair in pairs:
        number, _, value = pair.partition(":")
        if not re.fullmatch("[0-9]+:.*", pair):
            return f'"{pair[:60]}" is not a feature and its value, such as 3:0.25.'
        feature = int(number[:18])
        if 0 < feature == last:
            return f"feature {number[:60]} is given twice."
        if 0 < feature < last:
            return f"feature {number[:60]} after feature {last}; they must be in order."
        if not 1 <= feature <= d:
            return f"feature {number[:60]}, but they are numbered from 1 to {d}."
        if not _NUMBER.fullmatch(value):
            return f'"{pair[:60]}": the value is not a number. Correct it or leave the line out.'
        last = feature
    raise AssertionError(f"nothing is wrong with {line!r}")
