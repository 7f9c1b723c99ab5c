"""What `evaluate` returns: estimates, as a table, a frame, JSON, or notebook HTML."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from offpolicy.errors import EstimatorError, ParameterError, ResultError, did_you_mean
from offpolicy.estimators import Estimator, parse
from offpolicy.files import write_whole
from offpolicy.intervals import Interval

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "offpolicy.result/1"


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimator's answer about one policy.

    Attributes
    ----------
    value, stderr, interval
        The estimate, its standard error, and the normal interval at ``level``. The interval
        covers the *estimator's own mean*. With true propensities, a clipped or blended estimator
        is off by at most the imputed mass times the largest error of what is imputed (the
        model's, or, where 0 is imputed, the largest expected reward).
    imputed_mass
        Share of the policy's probability for which no observed reward answers: the model (or,
        in IPS and CIPS, the number 0) does: Σ max(π − π₀·weight, 0).
    ess
        Effective number of rewards, (Σw)²/Σw² over the weights put on rewards; None if none.
    largest_weight
        The largest weight put on one reward.
    policy_stderr
        Error from knowing the policy only through draws (`MonteCarlo`); part of the interval.
    """

    policy: str
    estimator: str
    value: float
    stderr: float
    interval: Interval
    level: float
    imputed_mass: float
    ess: float | None
    largest_weight: float
    policy_stderr: float = 0.0

    @property
    def member(self) -> Estimator:
        """The estimator itself (not for `ICE`, whose label says nothing)."""
        return parse(self.estimator)

    @property
    def M(self) -> float | None:
        """Its clipping constant, if it has one."""
        try:
            member = self.member
        except EstimatorError:
            return None
        return member.parameter if member.parameter_name == "M" else None


@final
@dataclass(frozen=True, slots=True)
class Logged:
    """How the policy that wrote the log did: its mean reward, from ``n`` decisions."""

    n: int
    value: float
    stderr: float
    interval: Interval


@final
@dataclass(frozen=True, slots=True)
class Result:
    """All estimates, in the order asked for. Index by estimator, or by (policy, estimator)."""

    estimates: tuple[Estimate, ...]
    logged: Logged

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.policy for row in self.estimates))

    @property
    def headline(self) -> Estimate:
        """The one answer, about the first policy: the most trustworthy estimator computed."""
        own = [row for row in self.estimates if row.policy == self.policies[0]]
        for name in ("CAB-DR", "CAB", "DR", "SNIPS"):
            for row in own:
                if row.estimator.split("(")[0] == name:
                    return row
        return own[0]

    def __getitem__(self, key: str | Estimator | tuple[str, str | Estimator]) -> Estimate:
        if isinstance(key, tuple) and len(key) != 2:
            raise ParameterError("Ask for result[estimator] or result[policy, estimator].")
        policy, wanted = key if isinstance(key, tuple) else (None, key)
        rows = [row for row in self.estimates if policy is None or row.policy == str(policy)]
        if not rows:
            raise ParameterError(
                f'There is no policy "{policy}".{did_you_mean(str(policy), self.policies)} '
                f"The policies are {', '.join(self.policies)}."
            )
        name = _canonical(str(wanted))
        hits = [row for row in rows if row.estimator == name] or [
            row for row in rows if row.estimator.split("(")[0] == name
        ]
        if not hits:
            names = list(dict.fromkeys(row.estimator for row in rows))
            raise ParameterError(
                f'"{name}" was not among the estimators.{did_you_mean(name, names)} '
                f"There are {', '.join(names)}."
            )
        if len({row.policy for row in hits}) > 1:
            raise ParameterError(
                f'There are {len(self.policies)} policies: ask for result["{hits[0].policy}", '
                f'"{name}"].'
            )
        if len(hits) > 1:
            raise ParameterError(f'"{name}" could be {" or ".join(row.estimator for row in hits)}.')
        return hits[0]

    # -- as text -----------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.sentence()}\n\n{self.to_text()}"

    def sentence(self) -> str:
        """The answer in one line."""
        row = self.headline
        gap = row.value - self.logged.value
        side = "above" if gap >= 0 else "below"
        unit = "decision" if self.logged.n == 1 else "decisions"
        return (
            f"{row.policy}: {_short(row.value)} [{_short(row.interval.low)}, "
            f"{_short(row.interval.high)}] by {row.estimator}, {_short(abs(gap))} {side} what ran "
            f"({_short(self.logged.value)}, {self.logged.n:,} {unit})."
        )

    def to_text(self) -> str:
        """An aligned table."""
        head, *body = self._cells()
        widths = [max(len(row[j]) for row in [head, *body]) for j in range(len(head))]
        left = 2 if len(self.policies) > 1 else 1
        lines = [
            "  ".join(
                cell.ljust(width) if j < left else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [head, ["─" * width for width in widths], *body]
        ]
        return "\n".join(lines)

    def _cells(self) -> list[list[str]]:
        several = len(self.policies) > 1
        level = f"{self.estimates[0].level:.4g}"
        head = ["policy"] if several else []
        head += ["estimator", "value", "stderr", f"low {level}", f"high {level}"]
        head += ["imputed", "ess", "max weight"]
        cells = [head]
        for row in self.estimates:
            ess = "–" if row.ess is None else f"{row.ess:,.1f}"
            cells.append(
                ([row.policy] if several else [])
                + [row.estimator, _short(row.value), _short(row.stderr)]
                + [_short(row.interval.low), _short(row.interval.high)]
                + [f"{row.imputed_mass:.1%}", ess, f"{row.largest_weight:.4g}"]
            )
        return cells

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        cell = "<{0} style='text-align:right'>{1}</{0}>"
        rows = "".join(
            "<tr>" + "".join(cell.format("td", html.escape(text)) for text in row) + "</tr>"
            for row in body
        )
        top = "".join(cell.format("th", html.escape(text)) for text in head)
        return f"<p>{html.escape(self.sentence())}</p><table><tr>{top}</tr>{rows}</table>"

    # -- as data -----------------------------------------------------------------------------

    def to_frame(self) -> pa.Table:
        """One row per estimate, as an Arrow table (``pl.from_arrow(…)``, ``.to_pandas()``)."""
        import pyarrow as pa

        rows = []
        for row in self.estimates:
            flat = {item.name: getattr(row, item.name) for item in fields(row)}
            flat["low"], flat["high"] = flat.pop("interval")
            rows.append(flat)
        text = ("policy", "estimator")
        types = {name: pa.string() if name in text else pa.float64() for name in rows[0]}
        return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """As JSON text (schema ``offpolicy.result/1``); written to ``path`` whole or not at all.

        Equal inputs give equal bytes. Infinite numbers are the strings "inf" and "-inf".
        """
        body = {
            "schema": SCHEMA,
            "logged": asdict(self.logged) | {"interval": list(self.logged.interval)},
            "estimates": [asdict(row) | {"interval": list(row.interval)} for row in self.estimates],
        }
        text = json.dumps(json_safe(body), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            write_whole(Path(path), text)
        return text

    @classmethod
    def from_json(cls, text: str) -> Result:
        """The inverse of `to_json`."""
        try:
            body = json.loads(text)
            schema = body["schema"]
        except (ValueError, KeyError, TypeError):
            raise ResultError("This is not a result: no JSON object with a schema.") from None
        if schema != SCHEMA:
            raise ResultError(f'The schema is "{schema}"; this version reads "{SCHEMA}".')
        try:
            estimates = tuple(Estimate(**_row(row)) for row in body["estimates"])
            logged = Logged(**_row(body["logged"]))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            kind = type(problem).__name__
            raise ResultError(f"The result is damaged ({kind}: {problem}).") from None
        if not estimates:
            raise ResultError("The result is damaged (it holds no estimates).")
        return cls(estimates, logged)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["interval"]
    cells = {key: _cell(key, value) for key, value in row.items() if key != "interval"}
    return cells | {"interval": Interval(float(low), float(high))}


def _cell(key: str, value: Any) -> Any:
    """A stored value as it was: text, a count, or a number that may be infinite or absent."""
    if key in ("policy", "estimator", "n") or (key == "ess" and value is None):
        return value
    return float(value)


def _canonical(name: str) -> str:
    """The name as it is written in results, if it can be parsed: cab(10) is CAB(M=10)."""
    try:
        return str(parse(name))
    except EstimatorError:
        return name


def json_safe(value: Any) -> Any:
    """The same, with infinite numbers as the strings "inf" and "-inf"."""
    if isinstance(value, dict):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _short(value: float) -> str:
    """Five significant digits."""
    return f"{value:.5g}"
