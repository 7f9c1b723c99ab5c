"""Simulated logs as Parquet: the columns that every verb finds by itself, and the truth.

It is in the file's metadata, under ``offpolicy.truth``, where no estimator looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from offpolicy._core.documents import Document, read
from offpolicy._core.files import descriptor_of, replacing
from offpolicy._core.late import pa, pq
from offpolicy._core.types import Floats, Ints
from offpolicy.datasets._population import Population, Synthetic
from offpolicy.errors import LogError, ParameterError

SUFFIXES = (".parquet", ".pq")
_KEY = b"offpolicy.truth"
_CANDIDATES = 1 << 20
"""In a row group, whose decisions are as many for every n."""


@dataclass(frozen=True)
class Truth(Document):
    """What is known of a simulated log.

    ``value`` and ``logger_value`` are what policy and logger earn on average, exactly;
    ``shared`` is the probability that they have in common, and ``unsupported`` the policy's where
    the logger never goes. ``settings`` says how to simulate the log again.
    """

    schema: ClassVar[str] = "offpolicy.truth/1"
    what: ClassVar[str] = "truth"

    value: float
    logger_value: float
    shared: float
    unsupported: float
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, population: Population, **settings: Any) -> Self:
        names = ("value", "logger_value", "shared", "unsupported")
        return cls(**{name: getattr(population, name) for name in names}, settings=settings)


def read_truth(path: str | Path) -> Truth:
    """The truth of a file that ``offpolicy simulate`` wrote."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
    except FileNotFoundError:
        raise LogError("this file does not exist.", path) from None
    except (pa.ArrowException, OSError) as problem:
        raise LogError(f"not readable as Parquet ({problem}).", path) from None
    if _KEY not in metadata:
        raise LogError(
            'nothing is known of its truth, as "offpolicy simulate" did not write it.', path
        )
    truth: Truth = read(metadata[_KEY], [Truth], error=LogError, place=path)
    return truth


def write_log(
    path: Path,
    population: Population,
    truth: Truth,
    *,
    n: int,
    seed: int,
    with_expected: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> float:
    """Simulate ``n`` decisions into a Parquet file, a row group at a time: the mean reward in it.

    The columns are action, reward, propensity, logging, policy, prediction (and ``expected`` if
    asked for), candidates where they differ, and the context as x0, x1, …
    """
    check_name(path)
    total, done = 0.0, 0
    rows = max(1, _CANDIDATES // population.policy.shape[1])
    schema = simulated_table(population.draw(1, seed), with_expected=with_expected).schema
    schema = schema.with_metadata({_KEY: truth.to_json()})
    try:
        with (
            replacing(path) as part,
            pq.ParquetWriter(part, schema, write_page_checksum=True) as writer,
        ):
            for piece in population.draws(n, seed, rows=rows):
                table = simulated_table(piece, with_expected=with_expected)
                writer.write_table(table, row_group_size=len(table))
                total += float(piece.log.reward.sum())
                done += len(table)
                if progress is not None:
                    progress(done, n)
    except (pa.ArrowException, OSError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise ParameterError(f"it cannot be written: {reason}.", path) from None
    return total / n


def check_name(path: Path) -> None:
    """Raise unless a simulated log can be written here, under a name that the verbs know."""
    if descriptor_of(path) is not None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise ParameterError(
            f"a simulated log is written as Parquet, so that its name must end in "
            f"{' or '.join(SUFFIXES)}.",
            path,
        )
    if not path.parent.is_dir():
        raise ParameterError(f"it cannot be written: there is no folder {path.parent}.", path)


def simulated_table(piece: Synthetic, *, with_expected: bool = False) -> pa.Table:
    """A simulated log as an Arrow table, columns under the names by which they are looked for."""
    log = piece.log
    assert log.logging is not None
    assert log.context is not None
    columns: dict[str, Any] = {
        "action": log.chosen,
        "reward": log.reward,
        "propensity": log.propensity,
        "logging": _lists(log.logging, log.offsets),
        "policy": _lists(piece.policy, log.offsets),
        "prediction": _lists(piece.prediction, log.offsets),
    }
    if log.candidate is not None:
        names = np.asarray(log.actions)[log.candidate]
        columns["action"] = names[log.chosen_index]
        columns["candidates"] = _lists(names, log.offsets)
    if with_expected:
        columns["expected"] = _lists(piece.expected, log.offsets)
    for j in range(log.context.shape[1]):
        columns[f"x{j}"] = log.context[:, j]
    return pa.table(columns)


def _lists(values: Floats | Ints, offsets: Ints) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
