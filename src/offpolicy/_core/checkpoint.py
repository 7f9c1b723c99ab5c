"""A walk over a log, kept on the way: after a kill it goes on where it was, to the same bytes.

A folder belongs to one log, whose fingerprint it holds. Every question asked of that log has a
file of its own: the sums so far, and over how many blocks. Files are NumPy archives of plain arrays
and a JSON tree that says how they belong together; nothing in them is ever executed.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from offpolicy._core.documents import damage_named, dumps
from offpolicy._core.files import write_whole
from offpolicy.errors import LogError, OffpolicyError, ParameterError

SCHEMA = "offpolicy.checkpoint/1"
_TREE = "tree"
_LOG = "log.json"


class Kept(NamedTuple):
    """The sums over the first ``done`` blocks; no sums yet if that is 0."""

    done: int
    sums: Any


class Checkpoint:
    """A folder in which walks over one log are kept."""

    def __init__(self, folder: str | Path, *, fingerprint: str, source: str, version: str) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise self._refused("is a file; give a folder.")
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = {"schema": SCHEMA, "version": version, "log": source, "fingerprint": fingerprint}
        path = self.folder / _LOG
        if path.exists():
            self._compare(path, facts)
        elif any(self.folder.iterdir()):
            raise self._refused("holds other things. Give a new folder, or one of an earlier run.")
        else:
            write_whole(path, dumps(facts) + "\n")

    def _refused(self, why: str, error: type[OffpolicyError] = ParameterError) -> OffpolicyError:
        return error(f"resume: {self.folder} {why}", column="resume")

    def _compare(self, path: Path, facts: dict[str, str]) -> None:
        """Raise if the folder is of another log or another version."""
        advice = " Give another folder."
        with damage_named("file", error=ParameterError, place=f"resume: {path}", advice=advice):
            stored = json.loads(path.read_text(encoding="utf-8"))
            theirs = {name: str(stored[name]) for name in facts}
        for name in ("schema", "version"):
            if theirs[name] != facts[name]:
                raise self._refused(
                    f'was written by {name} "{theirs[name]}", this is "{facts[name]}". Start anew '
                    f"in another folder."
                )
        if theirs["fingerprint"] != facts["fingerprint"]:
            raise self._refused(
                f"was begun on {theirs['log']}, and {facts['log']} is not the same log, or not as "
                f"it was then (names, sizes, times of change, columns or condition differ). Start "
                f"anew in another folder.",
                LogError,
            )

    def load(self, question: str) -> Kept:
        """What is kept of a question; nothing if it was not asked before."""
        path = self._path(question)
        if not path.exists():
            return Kept(0, None)
        advice = " Remove it, or give another folder."
        with damage_named("file", error=ParameterError, place=f"resume: {path}", advice=advice):
            done, sums = decode(path.read_bytes())
            return Kept(int(done), sums)

    def save(self, question: str, kept: Kept) -> None:
        """Keep this in place of what was kept before."""
        write_whole(self._path(question), encode(tuple(kept)))

    def _path(self, question: str) -> Path:
        return self.folder / f"{question}.npz"


# -- dataclasses of arrays, as bytes -----------------------------------------------------------


_Kind = TypeVar("_Kind", bound=type)
_KINDS: dict[str, type] = {}


def storable(kind: _Kind) -> _Kind:
    """Let records of this class be encoded, a dataclass or NamedTuple, under its name: wherever the
    class moves, files stay readable."""
    if _KINDS.setdefault(_tag(kind), kind) is not kind:
        raise TypeError(f"two classes that can be kept are called {_tag(kind)}")
    return kind


def _tag(kind: type) -> str:
    return kind.__name__.lstrip("_")


def encode(value: Any) -> bytes:
    """As bytes: numbers, text, arrays, lists and tuples of them, records of `storable` classes."""
    arrays: dict[str, Any] = {}
    tree = dumps(_flatten(value, arrays), indent=None, ascii_only=True)
    arrays[_TREE] = np.frombuffer(tree.encode(), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def decode(content: bytes) -> Any:
    """The inverse of `encode`: from bytes back to numbers, text, arrays and records."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return _built(json.loads(arrays[_TREE].tobytes()), arrays)


def _flatten(value: Any, arrays: dict[str, Any]) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return {"float": float(value).hex()}
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if is_dataclass(value) or hasattr(value, "_fields"):
        kind = type(value)
        if _KINDS.get(_tag(kind)) is not kind:
            raise TypeError(f"{kind.__name__} cannot be kept")
        items = [_flatten(getattr(value, name), arrays) for name in _names(kind)]
        return {"class": _tag(kind), "fields": items}
    if isinstance(value, (list, tuple)):
        kind_of = "list" if isinstance(value, list) else "tuple"
        return {kind_of: [_flatten(item, arrays) for item in value]}
    raise TypeError(f"{type(value).__name__} cannot be kept")


def _built(tree: Any, arrays: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float.fromhex(tree["float"])
    if "array" in tree:
        return arrays[tree["array"]]
    if "list" in tree:
        return [_built(item, arrays) for item in tree["list"]]
    if "tuple" in tree:
        return tuple(_built(item, arrays) for item in tree["tuple"])
    return _KINDS[tree["class"]](*(_built(item, arrays) for item in tree["fields"]))


def _names(kind: type) -> list[str]:
    names: tuple[str, ...] = getattr(kind, "_fields", ())
    return list(names) if names else [item.name for item in fields(kind)]


# -- recognising a question ----------------------------------------------------------------------


def digest(*parts: Any) -> str:
    """A hash of any numbers, text and arrays, the same in every process."""
    hasher = hashlib.sha256()
    for part in parts:
        _feed(hasher, part)
    return hasher.hexdigest()[:24]


def _feed(hasher: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        hasher.update(f"{value.dtype.str}{value.shape}".encode())
        hasher.update(np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, (bool, int, float, str, np.generic)):
        hasher.update(f"{type(value).__name__}:{value!r};".encode())
    elif isinstance(value, dict):
        for name in sorted(value, key=str):
            _feed(hasher, [name, value[name]])
    elif isinstance(value, (frozenset, set)):
        _feed(hasher, sorted(value))
    elif is_dataclass(value) or hasattr(value, "_fields"):
        kind = type(value)
        hasher.update(f"{kind.__qualname__}(".encode())
        for name in _names(kind):
            _feed(hasher, getattr(value, name))
    elif isinstance(value, (list, tuple, np.ndarray)):
        hasher.update(f"[{len(value)}".encode())
        for item in value:
            _feed(hasher, item)
    else:
        raise ParameterError(
            f"resume: an object of kind {type(value).__name__} cannot be recognised in a later "
            f"run. Give probabilities or predictions as columns or arrays.",
            column="resume",
        )
