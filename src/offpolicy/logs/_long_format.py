"""The long format: one row per decision and candidate, turned into one row per decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpolicy._core.late import pa
from offpolicy._core.ragged import offsets_of, position_in_decision
from offpolicy._core.types import Ints
from offpolicy._core.validation import malformed, where
from offpolicy.errors import LogError
from offpolicy.logs._columns import Columns, missing_column

_PER_DECISION = ("reward", "propensity", "cluster", "time", "row_weight")


def one_row_per_decision(
    table: pa.Table, columns: Columns, source: str
) -> tuple[pa.Table, Columns]:
    """A log in the long format with one row per decision, by first appearance, and its roles.

    What belongs to the decision (reward, propensity, cluster, time, row weight, context) is taken
    from the row of the chosen candidate; every other column becomes a list over the candidates.
    """
    decision = columns.decision
    assert decision is not None
    for name in (decision, columns.chosen, columns.action, columns.candidates):
        if name and name not in table.column_names:
            raise missing_column(table.column_names, name, "", source)
    ids = table.column(decision).combine_chunks()
    if ids.null_count:
        missing = ids.is_null().to_numpy(zero_copy_only=False)
        raise malformed(missing, decision, source, "the decision's id is missing.")
    codes = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    order = np.argsort(codes, kind="stable")
    offsets = offsets_of(np.bincount(codes))
    chosen_rows = _chosen_rows(table, columns, source, codes, ids)
    per_decision = {getattr(columns, role) or role for role in _PER_DECISION} | set(
        columns.context_in(table.column_names)
    )
    wide: dict[str, Any] = {}
    for name in table.column_names:
        if name in (decision, columns.chosen):
            continue
        column = table.column(name)
        if name in per_decision or name == columns.action:
            wide[name] = column.take(pa.array(chosen_rows))
        else:
            values = column.take(pa.array(order)).combine_chunks()
            wide[name] = pa.LargeListArray.from_arrays(pa.array(offsets), values)
    wide[decision] = ids.take(pa.array(chosen_rows))
    roles = replace(columns, decision=None, chosen=None)
    names = columns.candidates or ("candidates" if "candidates" in wide else "")
    if columns.chosen:
        # What was chosen is known by its row: as a name if candidates have names, else a place.
        position = np.empty(len(order), dtype=np.int64)
        position[order] = position_in_decision(offsets)
        key = "action" if "action" not in wide else "the chosen candidate"
        wide[key] = (
            table.column(names).take(pa.array(chosen_rows))
            if names
            else pa.array(position[chosen_rows], pa.int64())
        )
        roles = replace(roles, action=key)
    return pa.table(wide), roles


def _chosen_rows(
    table: pa.Table, columns: Columns, source: str, codes: Ints, ids: pa.Array
) -> Ints:
    """In a log in the long format, the row of the chosen candidate of every decision."""
    if columns.chosen:
        flag = _flags(table, columns.chosen, source, codes)
        how = f'"{columns.chosen}" marks'
    else:
        action, names = columns.action or "action", columns.candidates or "candidates"
        for name in (action, names):
            if name not in table.column_names:
                raise LogError(
                    f'there is no column "{name}". In the long format either chosen marks the row '
                    f"of what was chosen, or action names it and candidates names the candidate of "
                    f"every row.",
                    source,
                    column=name,
                )
        flag = np.asarray(table.column(action).to_numpy() == table.column(names).to_numpy())
        how = f'"{names}" equals "{action}" in'
    count = np.bincount(codes, flag, int(codes.max()) + 1 if len(codes) else 0)
    odd = np.flatnonzero(count != 1)
    if len(odd):
        row = int(np.argmax(codes == odd[0]))
        raise LogError(
            f"{how} {int(count[odd[0]])} of the rows of decision {ids[row].as_py()!r} "
            f"({len(odd):,} of {len(count):,} decisions are like this). It must be one: that of "
            f"the candidate which was chosen.",
            where(source, columns.chosen or "action", row),
            np.flatnonzero(np.isin(codes, odd)),
        )
    chosen_rows = np.empty(len(count), dtype=np.int64)
    rows = np.flatnonzero(flag)
    chosen_rows[codes[rows]] = rows
    return chosen_rows


def _flags(table: pa.Table, name: str, source: str, codes: Ints) -> NDArray[Any]:
    column, values = table.column(name), table.column(name).to_numpy()
    missing, odd = column.is_null().to_numpy(), ~((values == 0) | (values == 1))
    for bad, sentence in (
        (missing, "the value is missing; write 0 or 1."),
        (odd, "{!r} is neither 0 nor 1."),
    ):
        if bad.any():
            row, of_same_decisions = int(np.argmax(bad)), np.flatnonzero(np.isin(codes, codes[bad]))
            sentence = sentence.format(column[row].as_py())
            raise LogError(sentence, where(source, name, row), of_same_decisions)
    return np.asarray(values == 1)
