"""Learned policies in files: a JSON that says what they are, and a NumPy file of their numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy._core.contexts import ContextEncoder
from offpolicy._core.documents import built, damage_named, json_safe
from offpolicy._core.saved import read_body, read_both, write_both
from offpolicy._core.types import Floats
from offpolicy.errors import PolicyError
from offpolicy.logs.labels import as_action_names
from offpolicy.policies.learned._features import FeatureMap
from offpolicy.policies.learned._linear_softmax import LinearSoftmax

SCHEMA = "offpolicy.policy/1"
WHAT = "policy"


def save_policy(
    policy: LinearSoftmax, path: str | Path, *, learned: Mapping[str, Any] | None = None
) -> None:
    """Write a policy to ``path``, which ends in .json, and its numbers to a file beside it.

    ``learned`` is kept as it is: how the policy came about. A policy that was there is replaced,
    numbers and all, or, if anything goes wrong, left as it was.
    """
    body = {
        "actions": None if policy.actions is None else [_plain(name) for name in policy.actions],
        "context": None if policy.encoder is None else json_safe(policy.encoder),
        "gamma": {part: map_.gamma for part, map_, _ in _parts(policy) if map_.root is not None},
        "learned": dict(learned or {}),
        "learned_from": policy.learned_from,
    }
    write_both(path, body, _arrays(policy), SCHEMA, WHAT)


def load_policy(path: str | Path) -> LinearSoftmax:
    """The policy that `save_policy` wrote, to the last bit; a damaged file is a `PolicyError`."""
    return read_both(path, SCHEMA, WHAT, _built)


def how_learned(path: str | Path) -> dict[str, Any]:
    """What a policy's file keeps of how it came about: its learner's parameters and report."""
    body = read_body(path, SCHEMA, WHAT)
    with damage_named(WHAT, error=PolicyError, place=path):
        return dict(body["learned"])


# -- writing -----------------------------------------------------------------------------------


def _parts(policy: LinearSoftmax) -> Iterator[tuple[str, FeatureMap, Floats | None]]:
    for part, map_, weights in (
        ("context", policy.map, policy.weights),
        ("candidate", policy.candidate_map, policy.candidate_weights),
    ):
        if map_ is not None:
            yield part, map_, weights


def _arrays(policy: LinearSoftmax) -> dict[str, Floats]:
    return {
        f"{part} {name}": array
        for part, map_, weights in _parts(policy)
        for name, array in (vars(map_) | {"weights": weights}).items()
        if isinstance(array, np.ndarray)
    }


def _plain(name: Hashable) -> Hashable:
    """An action's name, if a learned policy's file can keep it: JSON tells these types apart."""
    if name is None or type(name) in (str, int, bool):
        return name
    if type(name) is float and math.isfinite(name):
        return name
    raise PolicyError(
        f"Action {name!r} cannot be kept: a policy's file holds names that are text, whole or "
        f"finite numbers, True, False or None.",
        column="actions",
    )


# -- reading -----------------------------------------------------------------------------------


def _built(body: dict[str, Any], arrays: dict[str, Floats]) -> LinearSoftmax:
    actions = built(tuple[Any, ...] | None, body["actions"])
    if actions is not None:
        actions = as_action_names(map(_plain, actions))
    encoder = built(ContextEncoder | None, body["context"])
    maps = {part: _map(part, arrays, body["gamma"]) for part in ("context", "candidate")}
    weights = {part: arrays.pop(f"{part} weights", None) for part in maps}
    if arrays:
        raise ValueError(f"nothing is known of {min(arrays)!r}")
    if maps["context"] is None and maps["candidate"] is None:
        raise ValueError("it has no weights")
    expected = {
        "context": (len(actions or ()), maps["context"].width) if maps["context"] else None,
        "candidate": (maps["candidate"].width - 1,) if maps["candidate"] else None,
    }
    for part, shape in expected.items():
        if getattr(weights[part], "shape", None) != shape:
            raise ValueError(f"{part} weights do not have the shape {shape}")
    seen = None if maps["context"] is None else maps["context"].inputs
    if (encoder and encoder.width) != seen:
        raise ValueError("context is not what the policy's weights are for")
    return LinearSoftmax(
        actions, maps["context"], weights["context"],
        maps["candidate"], weights["candidate"], encoder,
        built(tuple[str, ...], body["learned_from"]),
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
