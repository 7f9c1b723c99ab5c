"""What `evaluate` says about a ranker."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from offpolicy._core.files import write_whole
from offpolicy.errors import ParameterError, ResultError, did_you_mean
from offpolicy.estimators import Estimator, as_estimator, parse
from offpolicy.intervals import Interval
from offpolicy.ranking.data._metrics import parse_metric
from offpolicy.results import Finding, Tuned, json_safe, read_finding

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "offpolicy.ranking-result/1"


@final
@dataclass(frozen=True, slots=True)
class RankingEstimate:
    """One estimator's answer.

    Attributes
    ----------
    estimator : str
        With its parameter: ``"CAB(M=10)"``.
    value, stderr
        The estimate, and its standard error over queries: impressions of one query may depend on
        each other.
    interval, level, covers
        The interval, its level, and what it covers: the ranker's value, if the model's error can
        be measured, else the estimator's own mean.
    bias, bias_stderr
        What of the value is thought to be bias, and how uncertain that is.
    imputed_mass
        The share of what counts as relevant that comes from the model.
    clicks
        Effective number of clicks behind the number; None if it rests on the model alone.
    largest_weight
        Of a click.
    recalibrated : bool
        Whether the model was recalibrated on the log's clicks.
    reason : str or None
        Why this parameter, if it was chosen.
    """

    estimator: str
    value: float
    stderr: float
    interval: Interval
    level: float
    covers: str
    bias: float
    bias_stderr: float
    imputed_mass: float
    clicks: float | None
    largest_weight: float
    recalibrated: bool
    reason: str | None

    @property
    def M(self) -> float | None:
        """Its clipping constant, if it has one."""
        member = parse(self.estimator)
        return member.parameter if member.parameter_name == "M" else None


@final
@dataclass(frozen=True, slots=True)
class RankingResult:
    """All estimates, in the order asked for; index by estimator: ``result["CAB"]``."""

    metric: str
    impressions: int
    queries: int
    clicks: int
    estimates: tuple[RankingEstimate, ...]
    headline: RankingEstimate
    """The one answer: CAB around the recalibrated model, M chosen from the log."""
    tuned: tuple[Tuned, ...] = ()
    """One for each parameter that was left out, the headline's first."""
    findings: tuple[Finding, ...] = ()
    """What stands against trusting the answer."""

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the metric is better."""
        return parse_metric(self.metric).higher_is_better

    def __iter__(self) -> Iterator[RankingEstimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __getitem__(self, key: str | Estimator) -> RankingEstimate:
        wanted = as_estimator(key)
        names = [row.estimator for row in self.estimates]
        hits = [row for row in self.estimates if row.estimator == str(wanted)]
        if not wanted.resolved:
            hits = [row for row in self.estimates if parse(row.estimator).name == wanted.name]
        if not hits:
            raise ParameterError(
                f'"{wanted}" was not among the estimators.{did_you_mean(str(wanted), names)} There '
                f"are {', '.join(names)}."
            )
        if len(hits) > 1:
            raise ParameterError(
                f'"{wanted}" could be {" or ".join(row.estimator for row in hits)}.'
            )
        return hits[0]

    def __str__(self) -> str:
        return f"{self.sentence()}\n\n{self.to_text()}"

    def sentence(self) -> str:
        """The answer in words, what its interval covers, and what is doubtful."""
        row = self.headline
        better = "higher" if self.higher_is_better else "lower"
        lines = [
            f"{self.metric}: {row.value:.5g} [{row.interval.low:.5g}, {row.interval.high:.5g}] "
            f"({better} is better), from {self.impressions:,} impressions of {self.queries:,} "
            f"queries with {self.clicks:,} clicks.",
            f"  The interval covers {row.covers}.",
        ]
        if row.reason is not None:
            model = " around the recalibrated model" if row.recalibrated else ""
            lines.append(f"  By {_shown(row.estimator)}{model}; {row.reason}.")
        return "\n".join([*lines, *(f"  {one}" for one in self.findings)])

    def to_text(self) -> str:
        """An aligned table."""
        level = f"{self.headline.level:.4g}"
        head = ["estimator", "value", "stderr", f"low {level}", f"high {level}", "bias"]
        table = [[*head, "imputed", "clicks", "max weight"]]
        for row in self.estimates:
            numbers = [row.value, row.stderr, row.interval.low, row.interval.high, row.bias]
            clicks = "–" if row.clicks is None else f"{row.clicks:,.1f}"
            cells = [
                _shown(row.estimator),
                *(f"{x:.5g}" for x in numbers),
                f"{row.imputed_mass:.1%}",
            ]
            table.append([*cells, clicks, f"{row.largest_weight:.4g}"])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        table.insert(1, ["─" * width for width in widths])
        return "\n".join(
            "  ".join(
                cell.rjust(width) if j else cell.ljust(width)
                for j, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        )

    def to_frame(self) -> pa.Table:
        """One row per estimate, as an Arrow table."""
        import pyarrow as pa

        rows = []
        for row in self.estimates:
            flat = asdict(row)
            flat["low"], flat["high"] = flat.pop("interval")
            rows.append(flat)
        return pa.Table.from_pylist(rows)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """As JSON text; written to ``path`` whole or not at all. Equal inputs give equal bytes."""
        body = {
            "schema": SCHEMA,
            "metric": self.metric,
            "impressions": self.impressions,
            "queries": self.queries,
            "clicks": self.clicks,
            "headline": asdict(self.headline),
            "estimates": [asdict(row) for row in self.estimates],
            "tuned": [_listed(choice) for choice in self.tuned],
            "findings": [asdict(one) for one in self.findings],
        }
        text = json.dumps(json_safe(body), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            write_whole(Path(path), text)
        return text

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, ranker: str = "The ranker"
    ) -> str:
        """The result as a page: one HTML file that needs nothing else, with the warnings, the
        charts and the tables behind them. Written to ``path`` whole or not at all."""
        from offpolicy.report.ranking_document import RankingDocument

        return RankingDocument(((ranker, self),)).to_html(path)

    @classmethod
    def from_json(cls, text: str) -> RankingResult:
        """The inverse of `to_json`."""
        try:
            body = json.loads(text)
            schema = body["schema"]
        except (ValueError, KeyError, TypeError):
            raise ResultError("This is not a result: no JSON object with a schema.") from None
        if schema != SCHEMA:
            raise ResultError(f'The schema is "{schema}"; this version reads "{SCHEMA}".')
        try:
            return cls(
                metric=str(parse_metric(body["metric"])),
                impressions=int(body["impressions"]),
                queries=int(body["queries"]),
                clicks=int(body["clicks"]),
                estimates=tuple(_estimate(row) for row in body["estimates"]),
                headline=_estimate(body["headline"]),
                tuned=tuple(_tuned(row) for row in body["tuned"]),
                findings=tuple(read_finding(one) for one in body["findings"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            kind = type(problem).__name__
            raise ResultError(f"The result is damaged ({kind}: {problem}).") from None


_NUMBERS = ("value", "stderr", "level", "bias", "bias_stderr", "imputed_mass", "largest_weight")


def _estimate(row: dict[str, Any]) -> RankingEstimate:
    """From stored cells: infinite numbers are text."""
    low, high = row["interval"]
    cells = row | {name: float(row[name]) for name in _NUMBERS}
    clicks = None if row["clicks"] is None else float(row["clicks"])
    return RankingEstimate(
        **cells | {"interval": Interval(float(low), float(high)), "clicks": clicks}
    )


def _tuned(row: dict[str, Any]) -> Tuned:
    """The inverse of `_listed`."""
    arrays = {
        name: np.array([float(x) for x in cells])
        for name, cells in row.items()
        if isinstance(cells, list)
    }
    return Tuned(**row | arrays | {"chosen": float(row["chosen"])})


def _listed(choice: Tuned) -> dict[str, Any]:
    """With lists for arrays."""
    cells = {item.name: getattr(choice, item.name) for item in fields(choice)}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in cells.items()}


def _shown(estimator: str) -> str:
    """The name with its parameter rounded, for people."""
    member = parse(estimator)
    if member.parameter is None:
        return estimator
    return f"{member.name}({member.parameter_name}={member.parameter:.4g})"
