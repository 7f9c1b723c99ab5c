"""obp's ``bandit_feedback`` and ``action_dist``, from arrays and to arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core import validation as check
from offpolicy._core.types import Floats
from offpolicy.errors import LogError, OffpolicyError, PolicyError, did_you_mean
from offpolicy.logs._bandit_log import BanditLog


def from_bandit_feedback(
    feedback: Mapping[str, Any], *, action_features: bool = False
) -> BanditLog:
    """The log in obp's ``bandit_feedback``.

    ``pi_b``, at each round's own position, becomes ``logging``; without it ``pscore`` is all that
    is known of the logging policy. ``expected_reward`` is not looked at. With ``action_features``,
    ``action_context`` becomes ``candidate_features``, which takes n·K·d numbers.

    Examples
    --------
    >>> feedback = {
    ...     "n_rounds": 2, "n_actions": 2, "context": np.eye(2), "action": np.array([0, 1]),
    ...     "position": None, "reward": np.array([1, 0]), "pscore": np.array([0.5, 0.8]),
    ...     "pi_b": np.array([[[0.5], [0.5]], [[0.2], [0.8]]]),
    ... }
    >>> from_bandit_feedback(feedback)
    BanditLog(2 decisions, 2 candidates each, logging, propensity, context)
    """
    n, K = (_count(feedback, name) for name in ("n_rounds", "n_actions"))
    reward, position = _value(feedback, "reward"), feedback.get("position")
    check.check_length(reward, n, "reward", "rounds (n_rounds)")
    logging = feedback.get("pi_b")
    if logging is not None:
        logging = _at_position(logging, position, "pi_b", LogError)
    features = feedback.get("action_context") if action_features else None
    if features is not None:
        per_action = check.as_floats(features, "action_context")
        fine = per_action.ndim == 2 and len(per_action) == K
        check.need_shape(fine, "action_context", per_action, f"({K}, d)")
        features = np.broadcast_to(per_action, (n, *per_action.shape))
    return BanditLog.from_arrays(
        action=check.as_integers(_value(feedback, "action"), "action"),
        reward=reward,
        propensity=_value(feedback, "pscore") if logging is None else feedback.get("pscore"),
        logging=logging,
        actions=K,
        context=feedback.get("context"),
        candidate_features=features,
    )


def from_action_dist(action_dist: ArrayLike, position: ArrayLike | None = None) -> NDArray[Any]:
    """obp's (n, K, L) policy as (n, K) probabilities: each round's at its own position."""
    return _at_position(action_dist, position, "action_dist", PolicyError)


def to_action_dist(probabilities: ArrayLike, len_list: int = 1) -> Floats:
    """(n, K) probabilities as obp's (n, K, L) policy, the same at every position."""
    array = check.as_floats(probabilities, "probabilities", PolicyError)
    check.need_shape(array.ndim == 2, "probabilities", array, "(n, K)", PolicyError)
    return np.repeat(array[:, :, None], len_list, axis=2)


def _at_position(
    values: Any, position: Any, name: str, error: type[OffpolicyError]
) -> NDArray[Any]:
    array = np.asarray(values)
    check.need_shape(array.ndim == 3, name, array, "(n, K, L), as in obp", error)
    n, _, L = array.shape
    if L == 1:
        return array[:, :, 0]
    if position is None:
        raise error(
            f"{name} has {L} positions, but nothing says which one each round is about.",
            column=name,
        )
    place = check.as_integers(position, "position")
    check.check_length(place, n, "position", "rounds", error)
    sentence = f"{{value}}, but {name} has the positions 0 to {L - 1}."
    check.refuse((place < 0) | (place >= L), sentence, "position", "", error, value=place)
    return array[np.arange(n), :, place]


def _value(feedback: Mapping[str, Any], key: str) -> Any:
    value = feedback.get(key)
    if value is None:
        raise LogError(
            f'bandit_feedback has no "{key}".{did_you_mean(key, feedback)} It must have n_rounds, '
            f"n_actions, action, reward, and pi_b or pscore.",
            column=key,
        )
    return value


def _count(feedback: Mapping[str, Any], key: str) -> int:
    value = _value(feedback, key)
    fine = isinstance(value, (int, np.integer)) and int(value) >= 1
    check.need(fine, key, repr(value), "a whole number above 0", LogError)
    return int(value)
