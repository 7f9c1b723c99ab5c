"""Decision Service logs as VW reads them (dsjson): one JSON object per line.

Candidates are named by their place in ``c._multi``, from 0 on, and listed in that order. Files
number the actions in ``a`` from 1 or from 0 and put the chosen one first or not; each line says
so itself, and ``_label_probability`` must agree with what it says. The probabilities were written
as float32: they may be off from 1 by 1e-3, and are divided by their sum.

A line with ``_outcomes`` (conditional contextual bandit) is one decision per slot. ``reward`` is
−``_label_cost``, and ``row_weight`` is 1/(1 − ``pdrop``).
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offpolicy._core.door import Door
from offpolicy._core.late import pa
from offpolicy._core.validation import glimpse, need
from offpolicy.errors import LogError, PropensityError
from offpolicy.logs._bad_rows import check_on_bad_row
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import Columns
from offpolicy.logs._validation import LARGEST_REWARD, SMALLEST_PROPENSITY
from offpolicy.logs.formats._lines import DEEPEST, existing, nests_too_deeply, numbered

BLANK, DANGLING, NOT_LEARNT, BAD = "blank", "dangling reward", "_skipLearn", "bad"
"""Why a line was left out."""

ROUNDING = 1e-3
"""How far the sum of probabilities may be from 1."""

_OF_A_DECISION = ("p", "a", "c", "_label_cost", "_outcomes")


class Skipped(Counter[str]):
    """How many lines were left out, by reason.

    Examples
    --------
    >>> print(Skipped({"blank": 2, "_skipLearn": 1}))
    3 lines left out (1 _skipLearn, 2 blank)
    """

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.items()))
        lines = "line" if self.total() == 1 else "lines"
        return f"{self.total():,} {lines} left out" + (f" ({reasons})" if reasons else "")


_Decision = dict[str, Any]
"""One row, by the columns of `schema`."""


def read(
    path: str | Path, *, on_bad_row: str = "error", counts: Skipped | None = None
) -> BanditLog:
    """The log in a dsjson file.

    ``counts``, if given, is told which lines were left out. A log with several slots to an event
    has the events as clusters; a column that says nothing (weights that are all 1, times that are
    partly missing) is left out.
    """
    counts = Skipped() if counts is None else counts
    table = pa.Table.from_batches(batches(path, counts, on_bad_row=on_bad_row), schema())
    if not len(table):
        raise LogError(f"there is not one decision in this file; {counts}.", path)
    facts = Facts()
    facts.add(table)
    return BanditLog.from_frame(table, facts.columns(), source=str(path))


@dataclass
class Facts:
    """What is known of all decisions, and so which columns say something."""

    slots: bool = False
    times_missing: bool = False
    weighted: bool = False

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Look at some of the decisions."""
        self.slots |= bool(rows.column("slot").to_numpy().any())
        self.times_missing |= bool(rows.column("time").null_count)
        self.weighted |= bool((rows.column("row_weight").to_numpy() != 1.0).any())

    def columns(self) -> Columns:
        return Columns(
            cluster="event" if self.slots else "",
            time="" if self.times_missing else "time",
            row_weight="row_weight" if self.weighted else "",
        )


def batches(
    path: str | Path, counts: Skipped, *, on_bad_row: str = "error", batch_rows: int = 16_384
) -> Iterator[pa.RecordBatch]:
    """The decisions of a dsjson file, all batches with the columns of `schema`.

    Lines that are no decision (blank, a reward without its decision, ``_skipLearn``) are left out
    and counted. So are malformed ones if ``on_bad_row`` is "drop"; with "error" the first raises.
    A batch ends after the event that makes it ``batch_rows`` long.
    """
    parts = numbered_batches(path, counts, on_bad_row=on_bad_row, batch_rows=batch_rows)
    return (batch for batch, _ in parts)


def numbered_batches(
    path: str | Path,
    counts: Skipped,
    *,
    on_bad_row: str = "error",
    batch_rows: int = 16_384,
    prefix: str = "",
) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    """`batches` of a dsjson file, each with the line that every decision is from.

    ``prefix`` is put before the names of events that have none of their own.
    """
    check_on_bad_row(on_bad_row)
    need(batch_rows >= 1, "batch_rows", batch_rows, "at least 1")
    return _batches(existing(path), counts, on_bad_row == "drop", batch_rows, prefix)


def schema() -> pa.Schema:
    """The columns of a dsjson file's batches. Only ``time`` may be missing, without Timestamp."""
    return pa.schema(
        {
            "action": pa.int64(),
            "reward": pa.float64(),
            "propensity": pa.float64(),
            "logging": pa.list_(pa.float64()),
            "candidates": pa.list_(pa.int64()),
            "row_weight": pa.float64(),
            "time": pa.string(),
            "event": pa.string(),
            "slot": pa.int64(),
        }
    )


def sniff(first_lines: Iterable[str]) -> bool:
    """Whether these are lines of a dsjson file: one is a decision or a dangling reward."""
    for line in first_lines:
        try:
            record = _object(line.encode())
        except LogError:
            continue
        labelled = {"_label_cost", "_label_probability", "p", "a"} <= record.keys()
        if labelled or "_outcomes" in record or {"RewardValue", "EventId"} <= record.keys():
            return True
    return False


def _batches(
    path: Path, counts: Skipped, drop: bool, batch_rows: int, prefix: str
) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    rows: list[_Decision] = []
    lines: list[int] = []
    for number, line in numbered(path):
        try:
            decisions = _read_line(line, f"{prefix}line {number}")
        except LogError as problem:
            if not drop:
                raise type(problem)(
                    f"{problem} Correct it, or leave such lines out with "
                    f"{Door.given('on_bad_row', 'drop')}.",
                    problem.place._replace(file=str(path), row=number, unit="line"),
                ) from None
            decisions = BAD
        if isinstance(decisions, str):
            counts[decisions] += 1
            continue
        rows += decisions
        lines += [number] * len(decisions)
        if len(rows) >= batch_rows:
            yield pa.RecordBatch.from_pylist(rows, schema()), lines
            rows, lines = [], []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema()), lines


def _read_line(line: bytes, name: str) -> list[_Decision] | str:
    """The decisions of a dsjson line, or why there are none. Errors know the field, no line."""
    if not line.strip():
        return BLANK
    record = _object(line)
    if record.get("_skipLearn"):
        return NOT_LEARNT
    if "EventId" in record and record.keys().isdisjoint(_OF_A_DECISION):
        return DANGLING
    pdrop = 0.0 if record.get("pdrop") is None else _number(record["pdrop"], "pdrop")
    if not 0.0 <= pdrop < 1.0:
        raise LogError(f"{pdrop}; it must be from 0 to less than 1.", column="pdrop")
    time, event = record.get("Timestamp"), record.get("EventId")
    known = {
        "row_weight": 1.0 / (1.0 - pdrop),
        "time": None if time is None else str(time),
        "event": name if event is None else str(event),
    }
    choices = _slots(record) if "_outcomes" in record else [_single(record)]
    return [choice | known | {"slot": slot} for slot, choice in enumerate(choices)]


def _single(record: dict[str, Any]) -> _Decision:
    """A line of dsjson with one choice among all candidates."""
    listed, p = _list(record, "a", whole=True), _probabilities(record, "p")
    features = _features(record)
    K = len(p) if features is None else len(features)
    first = 0 if 0 in listed else 1
    if len(p) != len(listed) or sorted(listed) != list(range(first, first + K)):
        raise LogError(
            f"it and p must list each of the {K} candidates once; it is {glimpse(listed)} and p "
            f"has {len(p)} entries.",
            column="a",
        )
    by_id = dict(sorted(zip(listed, p, strict=True)))
    logging = list(by_id.values())
    return _decision(record, _labelled(record, logging), logging, list(range(K)))


def _labelled(record: dict[str, Any], logging: list[float]) -> int:
    """The candidate that dsjson's ``_labelIndex`` (from 0) and ``_label_Action`` (from 1) speak of.

    Should they disagree, ``_label_probability`` decides.
    """
    stated = _number(record.get("_label_probability"), "_label_probability")
    labels = {name: record[name] for name in ("_labelIndex", "_label_Action") if name in record}
    if not labels:
        raise LogError(
            "there is neither _labelIndex nor _label_Action: what was chosen?", column="_labelIndex"
        )
    places: set[int] = {
        _number(value, name, whole=True) - (name == "_label_Action")
        for name, value in labels.items()
    } & set(range(len(logging)))
    matching = [k for k in places if math.isclose(logging[k], stated, rel_tol=ROUNDING)]
    if len(matching) == 1:
        return matching[0]
    what = " and ".join(f"{name} {value}" for name, value in labels.items())
    listed = " or ".join(f"{logging[k]:.9g}" for k in sorted(places)) or "nothing"
    raise PropensityError(
        f"{stated:.9g}, but p has {listed} for the chosen action ({what}).",
        column="_label_probability",
    )


def _slots(record: dict[str, Any]) -> list[_Decision]:
    """A line of dsjson with a choice for each slot, the chosen first in ``_a``, ids from 0 on."""
    outcomes = record["_outcomes"]
    if not isinstance(outcomes, list) or not outcomes:
        raise LogError(f"it must list the slots; found {glimpse(outcomes)}.", column="_outcomes")
    features = _features(record)
    decisions = []
    for slot, outcome in enumerate(outcomes):
        if not isinstance(outcome, dict) or "_label_cost" not in outcome:
            raise LogError(
                f"slot {slot} has no _label_cost of its own. A reward for all slots together "
                f"(slates) is not the reward of one decision, and cannot be read.",
                column="_outcomes",
            )
        try:
            ids, p = _list(outcome, "_a", whole=True), _probabilities(outcome, "_p")
            K = max(ids) + 1 if features is None else len(features)
            if len(p) != len(ids) or len(set(ids)) != len(ids) or not 0 <= min(ids) <= max(ids) < K:
                raise LogError(
                    f"it and _p must list candidates 0 to {K - 1}, none twice; it is "
                    f"{glimpse(ids)} and _p has {len(p)} entries.",
                    column="_a",
                )
            by_id = dict(sorted(zip(ids, p, strict=True)))
            decisions.append(_decision(outcome, ids[0], list(by_id.values()), list(by_id)))
        except LogError as problem:
            problem.place = problem.place._replace(part=f"slot {slot}")
            raise
    return decisions


def _decision(
    labelled: dict[str, Any], action: int, logging: list[float], candidates: list[int]
) -> _Decision:
    cost = _number(labelled.get("_label_cost"), "_label_cost")
    if abs(cost) > LARGEST_REWARD:
        raise LogError(
            f"{cost}: beyond ±{LARGEST_REWARD:g}, squares overflow.", column="_label_cost"
        )
    propensity = logging[candidates.index(action)]
    if propensity < SMALLEST_PROPENSITY:
        raise PropensityError(
            f"the chosen action, {action}, has probability {propensity}.",
            column="p" if "p" in labelled else "_p",
        )
    return {
        "action": action,
        "reward": 0.0 - cost,  # and not −cost, which may be −0.0
        "propensity": propensity,
        "logging": logging,
        "candidates": candidates,
    }


def _object(line: bytes) -> dict[str, Any]:
    if nests_too_deeply(line):
        raise LogError(f"lists and objects are nested more than {DEEPEST} deep.")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise LogError(f"not JSON ({problem}).") from None
    if not isinstance(record, dict):
        raise LogError(f"{glimpse(record)} is not a JSON object.")
    return record


def _features(record: dict[str, Any]) -> list[Any] | None:
    """The candidates' features in a line of dsjson, ``c._multi``, if they are there."""
    context = record.get("c")
    multi = context.get("_multi") if isinstance(context, dict) else None
    return multi if isinstance(multi, list) else None


def _probabilities(record: dict[str, Any], name: str) -> list[float]:
    """Probabilities in a line of dsjson, divided by their sum, which is 1 but for rounding."""
    values = _list(record, name)
    if min(values) < 0.0:
        raise PropensityError(f"{min(values)}; probabilities are not negative.", column=name)
    total = math.fsum(values)
    if abs(total - 1.0) > ROUNDING:
        raise PropensityError(f"the sum is {total:.9g}, not 1.", column=name)
    return [value / total for value in values]


def _list(record: dict[str, Any], name: str, *, whole: bool = False) -> list[Any]:
    values = record.get(name)
    if not isinstance(values, list) or not values:
        shown = glimpse(values) if name in record else "nothing"
        raise LogError(f"it must list one value for every candidate; found {shown}.", column=name)
    return [_number(value, name, whole=whole) for value in values]


def _number(value: Any, name: str, *, whole: bool = False) -> Any:
    kinds = (int,) if whole else (int, float)
    if type(value) in kinds and abs(value) <= sys.float_info.max:
        return value
    what = "a whole number" if whole else "a finite number"
    raise LogError(f"{glimpse(value)} is not {what}.", column=name)
