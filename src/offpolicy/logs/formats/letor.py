"""LETOR text, which is SVMlight's with a query: ``2 qid:10 1:0.03 2:1 … # docid = …``.

One line per document. Features that a line leaves out are 0, and what follows ``#`` is not looked
at. The documents of a query need not stand together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import LogError, ParameterError, Place
from offpolicy.logs.formats._lines import cut_off, existing

BLOCK = 32 * 2**20
"""Bytes of text that are held at once."""
LARGEST_FEATURE = 100_000
"""The features are held densely, so a number far beyond any real one is taken for a mistake."""
_LATE = 2 * LARGEST_FEATURE


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
    """The queries in one or several files, as if they were one; .gz, .bz2 and .zst are unpacked.

    ``features`` is their number, d; without it, the largest that occurs. ``dtype`` of X is
    float64 or float32.
    """
    kind = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ParameterError(f"dtype is {kind}; it must be float64 or float32.", column="dtype")
    if features is not None and not 1 <= features <= LARGEST_FEATURE:
        raise ParameterError(f"features is {features}; it must be 1 to {LARGEST_FEATURE:,}.")
    files = [existing(p) for p in ([paths] if isinstance(paths, (str, Path)) else paths)]
    parts = [part for file in files for part in _parts(file, features, kind)]
    names = ", ".join(map(str, files))
    if not sum(len(relevance) for _, relevance, _ in parts):
        raise LogError(f"{names}: there is not one document.")
    relevance = np.concatenate([relevance for _, relevance, _ in parts])
    qid = np.concatenate([qid for _, _, qid in parts])
    X = _together([X for X, _, _ in parts], kind)
    return _grouped(X, relevance, qid)


def _together(blocks: list[NDArray[Any]], kind: np.dtype[Any]) -> NDArray[Any]:
    """One array from several of perhaps different widths; each is let go once it is copied."""
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
    """Queries in the order in which they first occur, each with its documents in file order."""
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
    """Features, relevance and query of the documents, block by block."""
    line = 1
    for text in _blocks(path):
        found = _block(path, text, line, features, kind)
        line += text.count(b"\n")
        yield found


def _blocks(path: Path) -> Iterator[bytes]:
    """The text, cut at ends of lines."""
    import pyarrow as pa

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

    code = np.frombuffer(text, np.uint8)
    d = features or max(1, scanning.largest_feature(code))
    if d > LARGEST_FEATURE:
        raise _too_large(path, text, line)
    rows = text.count(b"\n") + 1
    X = np.zeros((rows, d), kind)
    relevance, qid = np.empty(rows), np.empty(rows, np.int64)
    late = np.empty((_LATE, 5), np.int64)
    state = np.zeros(8, np.int64)
    state[scanning.LINE] = line
    while True:
        scanning.scan(code, X, relevance, qid, late, state)
        for row, feature, start, stop, at in late[: state[scanning.LATE]].tolist():
            value = float(text[start:stop])
            if not np.isfinite(value):
                what = f"{text[start:stop].decode()} is too large."
                raise LogError(what, Place(str(path), row=at, unit="line"))
            if feature < 0:
                relevance[row] = value
            else:
                X[row, feature] = value
        if state[scanning.PROBLEM] != scanning.FULL:
            break
    if state[scanning.PROBLEM] != scanning.FINE:
        place = Place(str(path), row=int(state[scanning.LINE]), unit="line")
        raise LogError(_what_is_wrong(text, state, d), place)
    n = int(state[scanning.ROW])
    return X[:n], relevance[:n], qid[:n]


def _too_large(path: Path, text: bytes, line: int) -> LogError:
    """The first feature number that is beyond any real one."""
    for at, one in enumerate(text.split(b"\n"), start=line):
        for word in one.partition(b"#")[0].split():
            number = word.partition(b":")[0]
            if number.isdigit() and b":" in word and int(number) > LARGEST_FEATURE:
                return LogError(
                    f"feature {int(number)}, but at most {LARGEST_FEATURE:,} are read.",
                    Place(str(path), row=at, unit="line"),
                )
    raise AssertionError("a number this large was seen")


def _what_is_wrong(text: bytes, state: Ints, d: int) -> str:
    from offpolicy.logs.formats import _letor_kernels as scanning

    word = text[state[scanning.FROM] : state[scanning.TO]].decode(errors="replace")
    shown = f'"{word[:60]}"' if word else "the end of the line"
    number, last = word.partition(":")[0], state[scanning.LAST]
    sentences = {
        scanning.RELEVANCE: f"{shown} is not a number; a line begins with the relevance.",
        scanning.NO_QID: f"after the relevance there must be qid:NUMBER, not {shown}.",
        scanning.QID: f"{shown} does not name a query by a whole number of at most 18 digits.",
        scanning.PAIR: f"{shown} is not a feature and its value, such as 3:0.25.",
        scanning.NUMBER: f"{shown}: the value is not a number. Correct it or leave the line out.",
        scanning.OUTSIDE: f"feature {number}, but they are numbered from 1 to {d}.",
        scanning.ORDER: f"feature {number} after feature {last}; they must be in order.",
        scanning.TWICE: f"feature {number} is given twice.",
    }
    return sentences[int(state[scanning.PROBLEM])]
