"""The logs that everyone in `make bench-peers` is given, written once into a folder."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PART = 122_880
"""Rows made at a time, and in a row group."""


@dataclass(frozen=True)
class Arrays:
    """A log in memory, as all libraries take it."""

    pi: Floats
    pi0: Floats
    q: Floats
    action: NDArray[np.int64]
    reward: Floats

    @classmethod
    def load(cls, folder: Path) -> Arrays:
        return cls(**{name: np.load(folder / f"{name}.npy") for name in cls.__annotations__})

    @property
    def chosen(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.arange(len(self.action)), self.action

    def first(self, n: int) -> Arrays:
        return Arrays(*(getattr(self, name)[:n] for name in type(self).__annotations__))


def arrays(folder: Path, n: int, K: int) -> None:
    """Logger and policy prefer different candidates; a model that is about right."""
    parts = list(_parts(n, K))
    for name in Arrays.__annotations__:
        np.save(folder / f"{name}.npy", np.concatenate([getattr(part, name) for part in parts]))


def _parts(n: int, K: int) -> Iterator[Arrays]:
    rng = np.random.default_rng(0)
    for start in range(0, n, PART):
        m = min(PART, n - start)
        score = rng.standard_normal((m, K))
        pi0 = _softmax(score + rng.standard_normal((m, K)))
        pi = _softmax(1.5 * score + rng.standard_normal((m, K)))
        q = 1.0 / (1.0 + np.exp(2.0 - score))
        action = _drawn(pi0, rng)
        reward = (rng.random(m) < q[np.arange(m), action]).astype(float)
        yield Arrays(pi, pi0, q + 0.2 * rng.standard_normal((m, K)), action, reward)


def parquet(folder: Path, n: int, K: int, policies: int = 1) -> None:
    """The same as `log.parquet`; more policies are drawn anew, as ``new1`` and so on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    writer = None
    for part in _parts(n, K):
        columns = {"action": part.action, "reward": part.reward}
        columns |= {"logging": _lists(part.pi0), "new": _lists(part.pi), "q": _lists(part.q)}
        for k in range(1, policies):
            other = _softmax(np.log(part.pi) + rng.standard_normal(part.pi.shape))
            columns[f"new{k}"] = _lists(other)
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(
            folder / "log.parquet", table.schema, compression="zstd"
        )
        writer.write_table(table, row_group_size=PART)
    assert writer is not None
    writer.close()


def both(folder: Path, n: int, K: int) -> None:
    """As arrays, and as a file."""
    arrays(folder, n, K)
    parquet(folder, n, K)


def csv(folder: Path, n: int, K: int) -> None:
    """The same as `log.csv`, lists as JSON writes them."""
    with open(folder / "log.csv", "w", encoding="utf-8") as file:
        file.write("action,reward,logging,new,q\n")
        for part in _parts(n, K):
            lists = [np.round(values, 6) for values in (part.pi0, part.pi, part.q)]
            for values in lists[:2]:
                values[np.arange(len(values)), values.argmax(axis=1)] += 1.0 - values.sum(axis=1)
            rows = zip(part.action, part.reward, *(v.tolist() for v in lists), strict=True)
            for action, reward, *given in rows:
                texts = [json.dumps([round(x, 6) for x in each]) for each in given]
                file.write(f'{action},{reward:g},"{texts[0]}","{texts[1]}","{texts[2]}"\n')


def contexts(folder: Path, n: int, K: int, d: int) -> None:
    """Contexts on which the reward depends, other for every action; no model."""
    rng = np.random.default_rng(2)
    X, theta = rng.standard_normal((n, d)), rng.standard_normal((K, d)) / np.sqrt(d)
    score = X @ theta.T
    pi0, pi = _softmax(score + rng.standard_normal((n, K))), _softmax(2.0 * score)
    action = _drawn(pi0, rng)
    truth = 1.0 / (1.0 + np.exp(1.0 - 2.0 * score))
    reward = (rng.random(n) < truth[np.arange(n), action]).astype(float)
    made = {"X": X, "pi0": pi0, "pi": pi, "action": action, "reward": reward, "truth": truth}
    for name, values in made.items():
        np.save(folder / f"{name}.npy", values)


def contexts_parquet(folder: Path, n: int, K: int, d: int) -> None:
    """The same, and as `log.parquet`, to learn from."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    contexts(folder, n, K, d)
    X, pi0, action, reward = (
        np.load(folder / f"{name}.npy") for name in ("X", "pi0", "action", "reward")
    )
    columns = {f"x{k}": X[:, k] for k in range(d)}
    columns |= {"action": action, "reward": reward, "logging": _lists(pi0)}
    pq.write_table(pa.table(columns), folder / "log.parquet", row_group_size=PART)


def letor(folder: Path) -> None:
    """MQ2007 as one file, its queries as they are."""
    import gzip
    import os

    parts = sorted((Path(os.environ["OFFPOLICY_DATA"]) / "ltr" / "MQ2007_85pct").glob("*.gz"))
    with open(folder / "queries.txt", "wb") as file:
        for part in parts:
            file.write(gzip.decompress(part.read_bytes()))


_DUE: dict[Path, Callable[[], None]] = {}


def made(root: Path, name: str, make: Callable[..., None], *size: int) -> Path:
    """The folder that a log of this size will have once it is asked for by `ready`."""
    folder = root / "-".join([name, *map(str, size)])
    _DUE[folder] = partial(make, folder, *size)
    return folder


def ready(folder: Path) -> None:
    """Write a log if it is not there: in a process of its own, as the peak of this one's memory is
    where those that it starts begin to count."""
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        writer = multiprocessing.get_context("spawn").Process(target=_DUE[folder])
        writer.start()
        writer.join()
        if writer.exitcode:
            raise SystemExit(f"{folder} could not be written.")
        (folder / "done").touch()


def _lists(values: Floats) -> object:
    import pyarrow as pa

    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32) * values.shape[1])
    return pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))


def _softmax(score: Floats) -> Floats:
    mass = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def _drawn(pi0: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    below = rng.random((len(pi0), 1)) > pi0.cumsum(axis=1)
    return np.asarray(below.sum(axis=1).clip(0, pi0.shape[1] - 1))
