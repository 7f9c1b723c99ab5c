"""Results to make pages of."""

from __future__ import annotations

import functools

import numpy as np

import offpolicy as op

SCRIPT = '</script><script>document.title="owned"</script>'
IMAGE = '"><img src=x onerror=alert(1)>'
MARKS = "\u202e" * 1_000_000
HOSTILE = (SCRIPT, IMAGE, MARKS, "a\x00b\u2066c", "<!--", "]]>", "{{7*7}}", "\u200f" * 50)


def problem(n: int = 1500, seed: int = 0):
    """A logger, a bolder policy, and a model that is off."""
    rng = np.random.default_rng(seed)

    def soft(score):
        return np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)

    taste = rng.standard_normal((n, 6))
    pays = 1 / (1 + np.exp(1 - taste))
    running = soft(taste + rng.standard_normal((n, 6)))
    new = soft(2 * taste + rng.standard_normal((n, 6)))
    action = (rng.random((n, 1)) > running.cumsum(axis=1)).sum(axis=1)
    reward = rng.random(n) < pays[np.arange(n), action]
    return action, reward, running, new, np.clip(pays + 0.1 * rng.standard_normal((n, 6)), 0, 1)


@functools.cache
def evaluated(*, names: tuple[str, ...] | None = None, policies: tuple[str, ...] = ("new",)):
    """An evaluation of policies by these names, on actions by those."""
    action, reward, running, new, guess = problem()
    actions = None if names is None else list(names)
    given = action if actions is None else np.array(actions, dtype=object)[action]
    log = op.BanditLog.from_arrays(action=given, reward=reward, logging=running, actions=actions)
    mixed = {name: (k * running + new) / (k + 1) for k, name in enumerate(policies)}
    return op.evaluate(log, mixed, prediction=guess)


@functools.cache
def compared(policies: tuple[str, ...] = ("new", "old")):
    """A comparison of policies by these names."""
    action, reward, running, new, guess = problem()
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=running)
    mixed = {name: (k * running + new) / (k + 1) for k, name in enumerate(policies)}
    return op.compare(log, mixed, prediction=guess)


@functools.cache
def unsupported():
    """An evaluation of which the log says little."""
    log = op.BanditLog.from_arrays(
        action=[0, 1] * 500, reward=[0, 1, 1, 1] * 250, logging=[[0.5, 0.5, 0.0]] * 1000
    )
    return op.evaluate(log, {"lost": [[0.3, 0.3, 0.4]] * 1000})
