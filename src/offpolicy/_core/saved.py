"""What was learned, in two files: a JSON that says what it is, and NumPy's with its numbers.

No pickle: nothing in either file can be run. The name of the second holds its hash, and the first
is replaced last, so that whenever writing stops, the JSON there is has the numbers it speaks of.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from offpolicy._core.documents import DAMAGE, damage_named, dumps, envelope
from offpolicy._core.files import write_whole
from offpolicy._core.types import Floats
from offpolicy.errors import PolicyError

_OWN = re.compile(r"[0-9a-f]{16}\.npy")
Made = TypeVar("Made")


def saved_file(name: str) -> Path | None:
    """The file of something learned, if that is what a text names."""
    file = Path(name.removeprefix("file:"))
    saved = name.startswith("file:") or (file.suffix.lower() == ".json" and file.is_file())
    return file if saved else None


def _checked_name(path: str | Path, what: str) -> Path:
    """The path, if its name is that of a JSON file."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise PolicyError(f"the name of a {what}'s file must end in .json.", path)
    return path


# -- writing -----------------------------------------------------------------------------------


def write_both(
    path: str | Path,
    body: Mapping[str, Any],
    arrays: Mapping[str, Floats],
    schema: str,
    what: str,
) -> None:
    """Write a JSON file with any body under a schema, and its arrays in a NumPy file beside.

    What was there is replaced, numbers and all, or, if anything goes wrong, left as it was.
    """
    from offpolicy import __version__

    path = _checked_name(path, what)
    flat = np.concatenate([np.empty(0), *(array.reshape(-1) for array in arrays.values())])
    if not np.isfinite(flat).all():
        raise PolicyError(f"a weight of the {what} is not a finite number: not written.", path)
    stream = io.BytesIO()
    np.save(stream, flat.astype("<f8"), allow_pickle=False)
    raw = stream.getvalue()
    digest = hashlib.sha256(raw).hexdigest()
    path = Path(os.path.realpath(path))  # what a symlink points to finds its numbers, too
    numbers = path.with_name(f"{path.stem}-{digest[:16]}.npy")
    facts = {
        "file": numbers.name,
        "sha256": digest,
        "shapes": {name: array.shape for name, array in arrays.items()},
    }
    try:
        body = {"schema": schema, "offpolicy": __version__, **body, "numbers": facts}
        text = dumps(body, ascii_only=True)  # names need not be valid Unicode
    except ValueError as problem:
        raise PolicyError(f"this {what} cannot be written as JSON ({problem}).", path) from None
    before = _numbers_of(path)
    write_whole(numbers, raw)
    write_whole(path, text + "\n")
    if before is not None and before != numbers:
        before.unlink(missing_ok=True)


def _numbers_of(path: Path) -> Path | None:
    """The NumPy file beside a JSON file that is there already, if it is one of ours."""
    try:
        name = json.loads(path.read_bytes())["numbers"]["file"]
        ours = name.startswith(f"{path.stem}-") and _OWN.fullmatch(name[len(path.stem) + 1 :])
    except DAMAGE:
        return None
    return path.with_name(name) if ours else None


# -- reading -----------------------------------------------------------------------------------


def read_body(path: str | Path, schema: str, what: str) -> dict[str, Any]:
    """What a JSON file of `write_both` says, if it is of this schema."""
    path = _checked_name(path, what)
    try:
        text = path.read_bytes()
    except OSError as problem:
        raise PolicyError(f"cannot be read ({problem.strerror}).", path) from None
    return envelope(text, [schema], what, error=PolicyError, place=path)


def read_both(
    path: str | Path,
    schema: str,
    what: str,
    build: Callable[[dict[str, Any], dict[str, Floats]], Made],
) -> Made:
    """What ``build`` makes of a JSON file's body and the arrays in the NumPy file beside."""
    body = read_body(path, schema, what)
    with damage_named(what, error=PolicyError, place=path):
        return build(body, _read_numbers(Path(path), body["numbers"], what))


def _read_numbers(path: Path, facts: dict[str, Any], what: str) -> dict[str, Floats]:
    """The arrays, if the NumPy file beside the JSON file is what was written."""
    name = facts["file"]
    if Path(name).name != name or "\\" in name or not name.endswith(".npy"):
        raise PolicyError(f"{name!r} is not the name of a file beside it.", path)
    beside = Path(os.path.realpath(path)).with_name(name)
    try:
        raw = beside.read_bytes()
    except OSError as problem:
        raise PolicyError(
            f"the numbers of {path.name} cannot be read ({problem.strerror}). A {what} "
            f"is two files: move and copy both.",
            beside,
        ) from None
    if hashlib.sha256(raw).hexdigest() != facts["sha256"]:
        raise PolicyError(
            f"these are not the numbers that {path.name} was written with (their SHA-256 "
            f"differs). Copy both files again, or learn again.",
            beside,
        )
    try:
        flat = np.load(io.BytesIO(raw), allow_pickle=False)
    except Exception:  # a header is parsed as Python's, and can be wrong in as many ways
        flat = None
    if not isinstance(flat, np.ndarray) or flat.dtype != np.dtype("<f8") or flat.ndim != 1:
        raise PolicyError("it must be a NumPy file with one list of 64-bit floats.", beside)
    if not np.isfinite(flat).all():
        raise PolicyError("a number is not finite.", beside)
    arrays: dict[str, Floats] = {}
    start = 0
    for key, shape in facts["shapes"].items():
        if not all(type(side) is int and side >= 0 for side in shape):
            raise ValueError(f"the shape of {key!r} is {shape}")
        size = math.prod(shape)
        arrays[key] = flat[start : start + size].reshape(shape)
        start += size
    if start != len(flat):
        raise ValueError(f"the shapes ask for {start} numbers, and there are {len(flat)}")
    return arrays
