"""What experiments find, in files: JSON and back, and a folder of numbers, tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from offpolicy._core.documents import dumps
from offpolicy._core.files import write_whole
from offpolicy.errors import MissingPackageError


def save(
    folder: Path,
    texts: Mapping[str, Any],
    pictures: Mapping[str, Callable[[Path], None]] | None = None,
) -> list[Path]:
    """Write each under its name: texts as they are, anything else as JSON; pictures only if
    matplotlib is there."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / name for name in texts]
    for path, text in zip(written, texts.values(), strict=True):
        write_whole(path, text if isinstance(text, str) else dumps(text, ascii_only=True) + "\n")
    try:
        for name, draw in (pictures or {}).items():
            draw(folder / name)
            written.append(folder / name)
    except MissingPackageError:
        pass
    return written


def encoded(value: Any) -> str:
    """As JSON that `decoded` reads; dataclasses as their fields, arrays as lists."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.tolist()


def decoded(kind: Any, body: Any) -> Any:
    """What JSON holds as a value of the type that was encoded."""
    inner = get_args(kind)
    if get_origin(kind) is list:
        return [decoded(inner[0], item) for item in body]
    if get_origin(kind) is dict:
        return {key: decoded(inner[1], item) for key, item in body.items()}
    if get_origin(kind) is np.ndarray:
        return np.array(body)
    if isinstance(kind, type) and is_dataclass(kind):
        fields = get_type_hints(kind)
        return kind(**{name: decoded(fields[name], item) for name, item in body.items()})
    return body
