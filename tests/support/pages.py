"""Results to make pages of."""

from __future__ import annotations

import functools
from html.parser import HTMLParser
from pathlib import PurePath

import numpy as np

import offpolicy as op
from offpolicy.learning import FitReport, LearnedPolicy, Trial
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.evaluation._evaluate import evaluate as evaluate_ranker
from offpolicy.ranking.learning._learned import Fit, LearnedRanker
from offpolicy.ranking.propensities._estimate import estimate_propensities

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


@functools.cache
def clicked():
    """A log of clicks on rankings, with propensities and a model."""
    rng = np.random.default_rng(3)
    n, k = 80, 6
    rank = np.concatenate([rng.permutation(k) + 1 for _ in range(n)])
    X = rng.random((n * k, 2))
    p = 1.0 / rank
    return RankingLog.from_arrays(
        offsets=np.arange(0, n * k + 1, k), rank=rank, propensity=p, X=X,
        click=rng.random(n * k) < p * X[:, 0], prediction=0.3 + 0.4 * X[:, 0],
    )  # fmt: skip


@functools.cache
def ranked(names: tuple[str, ...] = ("new",), metrics: tuple[str, ...] = ("average rank",)):
    """Results about rankers by these names."""
    log = clicked()
    return tuple(
        evaluate_ranker(log, log.X[:, k % 2], ["IPS", "CAB"], metric).named(name)
        for k, name in enumerate(names)
        for metric in metrics
    )


@functools.cache
def examined():
    """A curve with a rank that nothing is known of."""
    rng = np.random.default_rng(0)
    rank = np.concatenate([rng.permutation(4) + 1 for _ in range(600)])
    return estimate_propensities(
        RankingLog.from_arrays(
            offsets=np.arange(0, 2401, 4), rank=rank,
            click=(rng.random(2400) < 0.8 / rank) & (rank < 4),
            query=np.arange(600) % 30, document=np.tile(np.arange(4), 600),
        )
    )  # fmt: skip


def learned(policy: str = "policy.json", *, held_out: bool = True) -> LearnedPolicy:
    """What ``learn`` finds."""
    return LearnedPolicy(
        policy, 6, 2, 1500, 1500 if held_out else None, {"estimator": "CAB-DR(M=30)"},
        FitReport(0.6, 3, True, "", "model"),
        (((1, 0.1), (2, 0.5), (3, 0.6)), ((1, 0.61), (2, 0.62))),
        evaluated() if held_out else None,
    )  # fmt: skip


def learned_ranker(ranker: str = "ranker.json", *, held_out: bool = True) -> LearnedRanker:
    """What ``rank learn`` finds."""
    tried = [
        Trial({"estimator": f"CAB(M={M})", "loss": loss}, 3 + M / loss, 9)
        for M in (1, 5)
        for loss in (1.0, 10.0)
    ]
    (result,) = ranked()
    return LearnedRanker(
        ranker, 2, 80, 80, 100, 80 if held_out else None, True, {"estimator": "CAB(M=1)"},
        Fit(0.5, 1.0, 0.0004, 12, True), "average rank", False, "cab90", tuple(tried),
        result.named(PurePath(ranker).stem) if held_out else None,
    )  # fmt: skip


class Page(HTMLParser):
    """Tags, ids and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.events: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name.startswith("on") or name == "style":
                self.events.append(name)

    def handle_data(self, data: str) -> None:
        self.text += data
