"""Which action each candidate is, where a log has no names, or only those of its own part."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from offpolicy.logs._bandit_log import BanditLog


def with_names(log: BanditLog) -> BanditLog:
    """A log without names, as many candidates in every decision: named by their positions."""
    if log.actions is not None or not log.candidates_known or not log.has_equal_lengths:
        return log
    return log.replace(actions=tuple(range(int(log.offsets[1]))), trusted=True)


def with_names_of(log: BanditLog, actions: tuple[Hashable, ...]) -> BanditLog:
    """A part of a log, with the names of all of it, which are ``actions``; as it is, if positions
    are the names, and not as many."""
    named = with_names(log)
    if named.actions == actions:
        return named
    if log.actions is None:
        return log
    return log.replace(actions=actions, candidate=log.codes_among(actions), trusted=True)


def all_action_names(parts: Iterable[tuple[Hashable, ...]]) -> tuple[Hashable, ...]:
    """All names of actions in the parts of a log, sorted if they can be."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    try:
        return tuple(sorted(names))  # type: ignore[type-var]
    except TypeError:
        return tuple(names)
