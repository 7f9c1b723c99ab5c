"""Learned policies in files: a JSON that says what they are, and a NumPy file of their numbers.

No pickle: nothing in either file can be run. The name of the second holds its hash, and the first
is replaced last, so that whenever writing stops, the JSON there is has the numbers it speaks of.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy.errors import OffpolicyError, PolicyError
from offpolicy.files import write_whole
from offpolicy.labels import as_action_names
from offpolicy.learning.features import FeatureMap
from offpolicy.learning.policy import LinearSoftmax
from offpolicy.weights import Floats

SCHEMA = "offpolicy.policy/1"
_MAPS = {"context": "map", "candidate": "candidate_map"}
_WEIGHTS = {"context": "weights", "candidate": "candidate_weights"}
_OWN = re.compile(r"[0-9a-f]{16}\.npy")
_DAMAGED = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, MemoryError,
)  # fmt: skip


def save_policy(
    policy: LinearSoftmax, path: str | Path, *, learned: Mapping[str, Any] | None = None
) -> None:
    """Write a policy to ``path``, which ends in .json, and its numbers to a file beside it.

    ``learned`` is kept as it is: how the policy came about. A policy that was there is replaced,
    numbers and all, or, if anything goes wrong, left as it was.
    """
    from offpolicy import __version__

    path = _checked(path)
    arrays = _arrays(policy)
    flat = np.concatenate([np.empty(0), *(array.reshape(-1) for array in arrays.values())])
    if not np.isfinite(flat).all():
        raise PolicyError("A weight of the policy is not a finite number: it is not written.")
    stream = io.BytesIO()
    np.save(stream, flat.astype("<f8"), allow_pickle=False)
    raw = stream.getvalue()
    digest = hashlib.sha256(raw).hexdigest()
    numbers = path.with_name(f"{path.stem}-{digest[:16]}.npy")
    body = {
        "schema": SCHEMA,
        "offpolicy": __version__,
        "actions": None if policy.actions is None else [_plain(name) for name in policy.actions],
        "context_columns": policy.columns,
        "gamma": {
            part: one.gamma for part, one in _maps(policy).items() if one.centres is not None
        },
        "numbers": {
            "file": numbers.name,
            "sha256": digest,
            "shapes": {name: array.shape for name, array in arrays.items()},
        },
        "learned": dict(learned or {}),
    }
    try:
        text = json.dumps(body, indent=1, allow_nan=False)
    except ValueError as problem:
        raise PolicyError(f"{path}: this policy cannot be written as JSON ({problem}).") from None
    before = _numbers_of(path)
    write_whole(numbers, raw)
    write_whole(path, text + "\n")
    if before is not None and before != numbers:
        before.unlink(missing_ok=True)


def load_policy(path: str | Path) -> LinearSoftmax:
    """The policy that `save_policy` wrote, to the last bit; a damaged file is a `PolicyError`."""
    path = _checked(path)
    body = _read(path)
    try:
        return _built(path, body)
    except OffpolicyError as problem:
        if isinstance(problem, PolicyError):
            raise
        raise PolicyError(f"{path}: the policy is damaged ({problem})") from None
    except _DAMAGED as problem:
        kind = type(problem).__name__
        raise PolicyError(f"{path}: the policy is damaged ({kind}: {problem}).") from None


def how_learned(path: str | Path) -> dict[str, Any]:
    """What is kept of how a policy came about: its learner's parameters and report."""
    path = _checked(path)
    found = _read(path).get("learned")
    if not isinstance(found, dict):
        raise PolicyError(f"{path}: the policy is damaged (it does not say how it was learned).")
    return found


# -- writing -----------------------------------------------------------------------------------


def _checked(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise PolicyError(f"{path}: the name of a policy's file must end in .json.")
    return path


def _maps(policy: LinearSoftmax) -> dict[str, FeatureMap]:
    found = {part: getattr(policy, name) for part, name in _MAPS.items()}
    return {part: one for part, one in found.items() if one is not None}


def _arrays(policy: LinearSoftmax) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for part, one in _maps(policy).items():
        own = {"shift": one.shift, "scale": one.scale, "centres": one.centres, "root": one.root}
        own["weights"] = getattr(policy, _WEIGHTS[part])
        found |= {f"{part} {name}": array for name, array in own.items() if array is not None}
    return found


def _plain(name: Hashable) -> Hashable:
    """JSON keeps these types apart by itself."""
    if name is None or type(name) in (str, int, bool):
        return name
    if type(name) is float and math.isfinite(name):
        return name
    raise PolicyError(
        f"Action {name!r} cannot be kept: a policy's file holds names that are text, whole or "
        f"finite numbers, True, False or None."
    )


def _numbers_of(path: Path) -> Path | None:
    """The numbers of a policy that is there already, if it is one of ours."""
    try:
        name = json.loads(path.read_bytes())["numbers"]["file"]
        own = name.startswith(f"{path.stem}-") and _OWN.fullmatch(name[len(path.stem) + 1 :])
    except (OSError, *_DAMAGED):
        return None
    return path.with_name(name) if own else None


# -- reading -----------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except OSError as problem:
        raise PolicyError(f"{path}: cannot be read ({problem.strerror}).") from None
    except (ValueError, RecursionError, MemoryError):
        raise PolicyError(f"{path}: this is not a policy: it is not JSON.") from None
    if not isinstance(body, dict) or "schema" not in body:
        raise PolicyError(f"{path}: this is not a policy: it is no JSON object with a schema.")
    if body["schema"] != SCHEMA:
        raise PolicyError(
            f'{path}: the schema is {body["schema"]!r}; this version reads "{SCHEMA}".'
        )
    return body


def _built(path: Path, body: dict[str, Any]) -> LinearSoftmax:
    arrays = _numbers(path, body["numbers"])
    actions = body["actions"]
    if actions is not None:
        if not isinstance(actions, list):
            raise TypeError("actions is not a list")
        actions = as_action_names(_plain(name) for name in actions)
    columns = body["context_columns"]
    if columns is not None:
        if not (isinstance(columns, list) and all(isinstance(one, str) for one in columns)):
            raise TypeError("context_columns is not a list of names")
        columns = tuple(columns)
    maps = {part: _map(part, arrays, body["gamma"]) for part in _MAPS}
    weights = {part: arrays.pop(f"{part} weights", None) for part in _MAPS}
    if arrays:
        raise ValueError(f"nothing is known of {min(arrays)!r}")
    if maps["context"] is None and maps["candidate"] is None:
        raise ValueError("it has no weights")
    expected = {
        "context": (len(actions or ()), maps["context"].width) if maps["context"] else None,
        "candidate": (maps["candidate"].width - 1,) if maps["candidate"] else None,
    }
    for part, shape in expected.items():
        own = weights[part]
        if (None if own is None else own.shape) != shape:
            raise ValueError(f"{part} weights do not have the shape {shape}")
    if columns is not None and (maps["context"] is None or len(columns) != maps["context"].inputs):
        raise ValueError("context_columns are not as many as the context has")
    return LinearSoftmax(
        actions, maps["context"], weights["context"],
        maps["candidate"], weights["candidate"], columns,
    )  # fmt: skip


def _map(part: str, arrays: dict[str, Floats], gammas: dict[str, Any]) -> FeatureMap | None:
    shift, scale, centres, root = (
        arrays.pop(f"{part} {name}", None) for name in ("shift", "scale", "centres", "root")
    )
    if shift is None or scale is None:
        if not (shift is scale is centres is root is None):
            raise ValueError(f"{part} lacks its shift or scale")
        return None
    if shift.ndim != 1 or shift.shape != scale.shape or not len(shift) or not (scale > 0.0).all():
        raise ValueError(f"{part} shift and scale do not fit together")
    if centres is None or root is None:
        if centres is not root:
            raise ValueError(f"{part} lacks its centres or their root")
        return FeatureMap(shift, scale)
    gamma = gammas[part]
    if (
        centres.ndim != 2 or root.ndim != 2 or centres.shape[1] != len(shift)
        or root.shape[0] != len(centres) or not root.size
        or type(gamma) not in (int, float) or not 0.0 < gamma < math.inf
    ):  # fmt: skip
        raise ValueError(f"{part} centres, their root and gamma do not fit together")
    return FeatureMap(shift, scale, centres, root, float(gamma))


def _numbers(path: Path, facts: dict[str, Any]) -> dict[str, Floats]:
    """The arrays, if the file beside is what was written."""
    name = facts["file"]
    if Path(name).name != name or "\\" in name or not name.endswith(".npy"):
        raise PolicyError(f"{path}: {name!r} is not the name of a file beside it.")
    beside = path.with_name(name)
    try:
        raw = beside.read_bytes()
    except OSError as problem:
        raise PolicyError(
            f"{beside}: the numbers of {path.name} cannot be read ({problem.strerror}). A policy "
            f"is two files: move and copy both."
        ) from None
    if hashlib.sha256(raw).hexdigest() != facts["sha256"]:
        raise PolicyError(
            f"{beside}: these are not the numbers that {path.name} was written with (their SHA-256 "
            f"differs). Copy both files again, or learn again."
        )
    flat = _list_of_floats(raw)
    if flat is None:
        raise PolicyError(f"{beside}: it must be a NumPy file with one list of 64-bit floats.")
    if not np.isfinite(flat).all():
        raise PolicyError(f"{beside}: a number is not finite.")
    found: dict[str, Floats] = {}
    at = 0
    for key, given in facts["shapes"].items():
        if not all(type(side) is int and side >= 0 for side in given):
            raise ValueError(f"the shape of {key!r} is {given}")
        size = math.prod(given)
        found[key] = flat[at : at + size].reshape(given)
        at += size
    if at != len(flat):
        raise ValueError(f"the shapes ask for {at} numbers, and there are {len(flat)}")
    return found


def _list_of_floats(raw: bytes) -> Floats | None:
    """What NumPy wrote, without its reader, which would make room for whatever a header says."""
    stream = io.BytesIO(raw)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            return None
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception:  # a header is parsed as Python's, and can be wrong in as many ways
        return None
    start = stream.tell()
    if dtype != np.dtype("<f8") or len(shape) != 1 or len(raw) - start != 8 * shape[0]:
        return None
    return np.frombuffer(raw, dtype="<f8", offset=start).astype(np.float64)
