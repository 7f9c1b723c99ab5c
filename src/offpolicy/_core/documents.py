"""Documents: dataclasses as JSON with a schema, and back. What cannot be read is said here."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from offpolicy._core.files import write_whole
from offpolicy.errors import OffpolicyError, ResultError

DOCUMENTS: dict[str, type[Document]] = {}
"""The kinds of documents by their schemas; each room adds its own."""

DAMAGE = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError,
    RecursionError, MemoryError, OSError, EOFError, zipfile.BadZipFile,
)  # fmt: skip
"""What reading a damaged file can raise, and using what it held."""


class Document:
    """A dataclass that is kept as JSON under a schema."""

    __slots__ = ()
    schema: ClassVar[str] = ""
    what: ClassVar[str] = "result"
    """What it is called in messages."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that are written too, for programs that read the JSON."""

    def __repr__(self) -> str:
        """The short text, for dataclasses that have one and no ``repr`` of their own."""
        return str(self)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.schema:
            DOCUMENTS[cls.schema] = cls

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """As JSON text; written to ``path`` whole or not at all.

        Equal inputs give equal bytes. Infinite numbers are the strings "inf" and "-inf".
        """
        return written(dumps(self) + "\n", path)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        document: Self = read(text, [cls])
        return document

    def _check_read(self) -> None:
        """Raise a ValueError if what was read cannot have been written."""


def written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Any text; written to the file ``path`` whole or not at all."""
    if path is not None:
        write_whole(Path(path), text)
    return text


# -- writing -----------------------------------------------------------------------------------


def dumps(value: Any, indent: int | None = 1, *, ascii_only: bool = False) -> str:
    """Any value as JSON text; a list of numbers is one line of it."""
    text = json.dumps(json_safe(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)
    return _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)


_NUMBERS = re.compile(r'\[\n((?:\s*(?:-?[0-9][0-9.e+-]*|"-?inf"|null),?\n)+)\s*\]')
"""No text in JSON holds the end of a line."""


def json_safe(value: Any) -> Any:
    """Any value in the numbers, text, lists and dicts of JSON, infinite numbers as the strings
    "inf" and "-inf". What an array has of NaN is None."""
    if is_dataclass(value):
        names = [item.name for item in fields(value)]
        names = [*(["schema"] * hasattr(value, "schema")), *names, *getattr(value, "derived", ())]
        return {name: json_safe(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        cells = value.astype(object)
        cells[np.isnan(value)] = None
        return json_safe(cells.tolist())
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


# -- reading -----------------------------------------------------------------------------------


def read(
    text: str | bytes,
    kinds: Collection[type[Document]],
    *,
    error: type[OffpolicyError] = ResultError,
    place: str | os.PathLike[str] = "",
) -> Any:
    """The document that this JSON is, of one of these kinds."""
    first, *_ = kinds
    body = envelope(text, [kind.schema for kind in kinds], first.what, error=error, place=place)
    kind = DOCUMENTS[body["schema"]]
    with damage_named(kind.what, error=error, place=place):
        return built(kind, body)


def envelope(
    text: str | bytes,
    schemas: Collection[str],
    what: str,
    *,
    error: type[OffpolicyError] = ResultError,
    place: str | os.PathLike[str] = "",
) -> dict[str, Any]:
    """The JSON object, if it is of one of these schemas; ``place`` begins the message if not."""
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError, MemoryError):
        body = None
    if not isinstance(body, dict) or "schema" not in body:
        raise error(f"This is not a {what}: no JSON object with a schema.", place)
    if not isinstance(body["schema"], str) or body["schema"] not in schemas:
        known = ", ".join(f'"{schema}"' for schema in schemas)
        raise error(f'The schema is "{body["schema"]}"; this version reads {known}.', place)
    return body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@contextmanager
def damage_named(
    what: str,
    *,
    error: type[OffpolicyError] = ResultError,
    place: str | os.PathLike[str] = "",
    advice: str = "",
) -> Iterator[None]:
    """Whatever reading a damaged file, JSON or arrays, can raise, as a sentence."""
    try:
        yield
    except (OffpolicyError, *DAMAGE) as problem:
        if isinstance(problem, error):
            raise
        kind = type(problem).__name__
        raise error(f"The {what} is damaged ({kind}: {problem}).{advice}", place) from None


def built(kind: Any, stored: Any) -> Any:
    """From JSON to a value of this type: what `json_safe` made of it, as it was."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return stored
    if origin in (Union, UnionType):
        if stored is None and NoneType in inner:
            return None
        rest = [part for part in inner if part is not NoneType]
        return built(rest[0], stored) if len(rest) == 1 else _of_type(rest, stored)
    if origin is Literal:
        if stored not in inner:
            raise ValueError(f"{stored!r:.40} is none of {inner}")
        return stored
    if origin is np.ndarray:
        return np.array(_of_type([list], stored), dtype=np.float64)
    if origin is list:
        return [built(inner[0], x) for x in _of_type([list], stored)]
    if origin is tuple:
        if inner[1:] != (...,):
            return tuple(built(part, x) for part, x in zip(inner, stored, strict=True))
        return tuple(built(inner[0], x) for x in _of_type([list], stored))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: built(inner[1], x) for key, x in _of_type([dict], stored).items()}
    if kind is float:
        return float(stored if stored in ("inf", "-inf") else _of_type([int, float], stored))
    if is_dataclass(kind) or kind is Document:
        return _record(kind, _of_type([dict], stored))
    if issubclass(kind, tuple):
        return kind(
            *(built(part, x) for part, x in zip(_hints(kind).values(), stored, strict=True))
        )
    return _of_type([kind], stored)


def _record(kind: Any, stored: dict[str, Any]) -> Any:
    if issubclass(kind, Document):
        registered = DOCUMENTS[stored["schema"]]
        if not issubclass(registered, kind):
            raise ValueError(f"the schema is {registered.schema}, not {kind.schema}")
        kind = registered
    hints = _hints(kind)
    names = [item.name for item in fields(kind)]
    unknown = stored.keys() - {*names, *getattr(kind, "derived", ()), "schema"}
    if unknown:
        raise ValueError(f"nothing is known of {min(unknown)!r:.40}")
    record = kind(**{name: built(hints[name], stored[name]) for name in names})
    if isinstance(record, Document):
        record._check_read()
    return record


def _of_type(kinds: list[type], stored: Any) -> Any:
    if type(stored) not in kinds:
        raise TypeError(f"{stored!r:.40} is not {' or '.join(kind.__name__ for kind in kinds)}")
    return stored


_hints = functools.cache(get_type_hints)
