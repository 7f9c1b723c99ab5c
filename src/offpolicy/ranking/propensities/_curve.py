"""`Propensities`: how likely each rank is examined, relative to the first, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from offpolicy._core import validation as check
from offpolicy._core.documents import Document, read
from offpolicy._core.door import Door
from offpolicy._core.frames import as_pandas, as_polars
from offpolicy._core.late import pa
from offpolicy._core.tables import aligned
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import ParameterError, Place, ResultError, SupportError
from offpolicy.intervals import t_quantile
from offpolicy.ranking.data._log import RankingLog
from offpolicy.results import Finding, finding

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@final
@dataclass(frozen=True, slots=True)
class Convergence:
    """How regression-EM ended."""

    em_steps: int
    scoring_steps: int
    """Fisher scoring on all rows, from where EM ended."""
    log_likelihood: float
    distance: float
    """From the maximum, in standard errors of the parameters."""
    converged: bool


@final
@dataclass(frozen=True, slots=True)
class ContextModel:
    """log p_k(x) = a_k + b_k · (x − centre)/spread; rank 1 has a = b = 0."""

    coefficients: Floats
    """(top, 1 + d): a, then b."""
    covariance: Floats
    """Of the coefficients, rank by rank, (top (1 + d), top (1 + d))."""
    centre: Floats
    spread: Floats

    def design(self, context: Floats) -> Floats:
        """[1, (x − centre)/spread] of every row."""
        return np.insert((context - self.centre) / self.spread, 0, 1.0, axis=1)

    def log_covariance(self, row: Floats) -> Floats:
        """Of log p_k(x) over ranks, (top, top), for one row of the design."""
        top, width = self.coefficients.shape
        blocks = self.covariance.reshape(top, width, top, width)
        if np.isinf(blocks).any():
            return blocks[:, 0, :, 0]
        return np.asarray(np.einsum("aibj,i,j->ab", blocks, row, row))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Propensities(Document):
    """Examination by rank, relative to rank 1.

    Attributes
    ----------
    method : str
        How it was estimated.
    propensity : float64[top]
        p_k/p_1; NaN where the log cannot tell, and ``findings`` say why.
    log_covariance : float64[top, top]
        Of log propensity; queries are independent, impressions of one query need not be.
    degrees : float64[top]
        Degrees of freedom of each variance: about the number of queries it rests on, less one.
    shown, clicks : float64[top]
        Documents shown at each rank, and clicks on them, in the log.
    findings : tuple of Finding
        What to know before use.
    convergence : Convergence or None
        Of ``method="em"``.
    context : ContextModel or None
        Of ``method="contextual"``; ``propensity`` is then the curve at the mean context.
    """

    schema: ClassVar[str] = "offpolicy.propensities/1"
    what: ClassVar[str] = "file of propensities"

    method: str
    propensity: Floats
    log_covariance: Floats
    degrees: Floats
    shown: Floats
    clicks: Floats
    findings: tuple[Finding, ...] = ()
    convergence: Convergence | None = None
    context: ContextModel | None = None

    @classmethod
    def known(cls, curve: ArrayLike) -> Propensities:
        """A curve that is known from elsewhere, rank by rank, as if there were no doubt of it."""
        p = check.as_vector(curve, "propensity", ParameterError)
        bad = ~(np.isnan(p) | ((p > 0.0) & (p <= 1.0)))
        if bad.any():
            rank = int(np.argmax(bad)) + 1
            raise ParameterError(
                f"{p[rank - 1]} of rank {rank}; it must be above 0 and at most 1.",
                Place(column="propensity", row=rank - 1),
            )
        top = len(p)
        nothing = np.zeros(top)
        gaps = np.flatnonzero(np.isnan(p)) + 1
        findings = rank_finding("curve-gap", gaps, "the curve has no number.")
        unsure = np.zeros((top, top))
        return cls("known", p, unsure, np.full(top, np.inf), nothing, nothing, findings)

    @classmethod
    def power(cls, eta: float, top: int) -> Propensities:
        """(1/rank)^η for the first ``top`` ranks: the curve that most simulations assume."""
        check.need(0.0 <= eta < math.inf, "eta", eta, "0 or more")
        return cls.known(np.arange(1.0, top + 1.0) ** -eta)

    def __len__(self) -> int:
        """How many ranks there are."""
        return len(self.propensity)

    def interval(self, level: float = 0.95) -> Floats:
        """Low and high of every rank, (top, 2): symmetric on the logarithmic scale."""
        half = self.log_stderr * [t_quantile(level, degrees) for degrees in self.degrees]
        with np.errstate(over="ignore"):
            return np.stack(
                [self.propensity * np.exp(-half), self.propensity * np.exp(half)], axis=1
            )

    @property
    def log_stderr(self) -> Floats:
        """Standard error of log propensity: about the relative error; 0 at rank 1."""
        return np.sqrt(np.diagonal(self.log_covariance))

    def at(self, context: ArrayLike) -> Propensities:
        """The curve of one context, (d,)."""
        model = self._model()
        row = self._design(np.atleast_2d(check.as_floats(context, "context")), 1)[0]
        curve, spread = np.exp(model.coefficients @ row), model.log_covariance(row)
        return replace(self, propensity=curve, log_covariance=spread, context=None)

    def of(self, log: RankingLog, context: ArrayLike | None = None) -> Floats:
        """The propensity of every document of a log; 0 for those not shown.

        No more than 1: that noise puts a lower rank above the first is not believed. ``context``
        (n, d), one row per impression, is for the contextual method.
        """
        top = len(self)
        lowest = int(log.rank.max(initial=0))
        if lowest > top:
            row = int(np.argmax(log.rank > top))
            raise ParameterError(
                f"rank {log.rank[row]}, but propensities are known for the first {top} ranks only. "
                f"Estimate with {Door.given('top', lowest)}, or leave out documents below rank "
                f"{top}.",
                log.place(row, "rank"),
            )
        place = np.maximum(log.rank - 1, 0)
        if context is not None:
            design = self._design(context, len(log))[log.impression]
            curve = np.exp((self._model().coefficients[place] * design).sum(axis=1))
        elif self.context is None:
            curve = self.propensity[place]
        else:
            raise ParameterError(
                f"These propensities depend on the context: give {Door.spelled('context')}, a row "
                "of "
                f"{len(self.context.centre)} numbers for each impression.",
                column="context",
            )
        unknown = np.isnan(curve) & (log.rank > 0)
        if unknown.any():
            ranks = ranks_in_words(sorted(set(log.rank[unknown].tolist())))
            raise SupportError(
                f"The log has documents at {ranks}, whose propensity could not be estimated: "
                f"{sentences(self.findings)}",
                column="rank",
            )
        return np.where(log.rank > 0, np.minimum(curve, 1.0), 0.0)

    def filled(self, log: RankingLog, context: ArrayLike | None = None) -> RankingLog:
        """The log with these propensities."""
        return log.replace(propensity=self.of(log, context))

    def _model(self) -> ContextModel:
        if self.context is None:
            raise ParameterError(
                f"These propensities are by the method {self.method}, the same in every context; "
                f"a context is for the method contextual.",
                column="context",
            )
        return self.context

    def _design(self, context: ArrayLike, rows: int) -> Floats:
        model = self._model()
        return model.design(as_context(context, rows, len(model.centre)))

    # -- as data ---------------------------------------------------------------------------

    def _check_read(self) -> None:
        """All is of as many ranks."""
        top = len(self)
        lengths = {len(x) for x in (self.log_covariance, self.degrees, self.shown, self.clicks)}
        if lengths != {top} or self.log_covariance.shape != (top, top):
            raise ValueError("its lengths differ")
        p, least = self.propensity, np.minimum(self.degrees, np.diagonal(self.log_covariance))
        if ((p <= 0.0) | np.isinf(p) | (least < 0.0)).any():
            raise ValueError("a propensity, its variance or degrees of freedom are out of range")
        self.interval()
        if self.context is not None:
            width = len(self.context.design(np.zeros((1, len(self.context.centre))))[0])
            self.context.log_covariance(np.zeros(width))
            if self.context.coefficients.shape != (top, width):
                raise ValueError("its coefficients are not as many as ranks and context ask for")

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """`to_arrow` as a pandas DataFrame (needs pandas: ``pip install offpolicy[pandas]``)."""
        return as_pandas(self.to_arrow(level))

    def to_polars(self, level: float = 0.95) -> pl.DataFrame:
        """`to_arrow` as a polars DataFrame (needs polars: ``pip install offpolicy[polars]``)."""
        return as_polars(self.to_arrow(level))

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """One row per rank, as an Arrow table."""
        low, high = self.interval(level).T
        columns = {"propensity": self.propensity, "low": low, "high": high}
        counts = {"shown": self.shown, "clicks": self.clicks}
        return pa.table({"rank": np.arange(1, len(self) + 1)} | columns | counts)

    def save(self, path: str | Path) -> None:
        """Write JSON, whole or not at all."""
        self.to_json(path)

    def to_html(self, path: str | Path | None = None) -> str:
        """The curve as a page: one HTML file that needs nothing else. Written to ``path`` whole or
        not at all."""
        from offpolicy.report.document import Results

        return Results((self,)).to_html(path)

    @classmethod
    def load(cls, path: str | Path) -> Propensities:
        """Read what `save` wrote."""
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise ResultError(f"cannot be read: {error}.", path) from None
        propensities: Propensities = read(text, [cls], place=path)
        return propensities

    # -- as text ---------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Propensities({self.method}, {len(self)} ranks)"

    def __str__(self) -> str:
        rows = [["rank", "propensity", "95% low", "high", "shown", "clicks"]]
        for k, (p, (low, high)) in enumerate(zip(self.propensity, self.interval(), strict=True)):
            numbers = ["–" if math.isnan(x) else f"{x:.4f}" for x in (p, low, high)]
            rows.append([str(k + 1), *numbers, f"{self.shown[k]:,.0f}", f"{self.clicks[k]:,.0f}"])
        lines = [aligned(rows, ruled=False)]
        if self.convergence is not None:
            end = self.convergence
            lines.append(
                f"{'Converged' if end.converged else 'Not converged'} after {end.em_steps} steps "
                f"of EM and {end.scoring_steps} of scoring."
            )
        return "\n".join([*lines, *(sentences([item]) for item in self.findings)])


def as_context(values: ArrayLike, rows: int, width: int | None = None) -> Floats:
    """The context in which ranks are examined: a row of finite numbers for each impression."""
    context = check.as_floats(values, "context", ParameterError)
    context = context[:, None] if context.ndim == 1 else context
    if context.ndim != 2 or context.shape != (rows, width or max(context.shape[1], 1)):
        numbers = "numbers" if width is None else f"{width} numbers, as when they were estimated,"
        raise ParameterError(
            f"context has shape {context.shape}; it must hold a row of {numbers} for each of the "
            f"{rows:,} impressions.",
            column="context",
        )
    check.check_finite(context, "context", error=ParameterError)
    return context


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Ranks of documents in words: 'rank 4', 'ranks 4, 5 and 9'."""
    words = list(map(str, ranks))
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


def rank_finding(code: str, ranks: Ints, sentence: str) -> tuple[Finding, ...]:
    """A finding about the examination of these ranks, if there are any."""
    if not len(ranks):
        return ()
    place = ranks_in_words(ranks.tolist())
    return tuple(finding(code, "warning", f"{place.capitalize()}: {sentence}", place))


def sentences(findings: Sequence[Finding]) -> str:
    """What was found about the examination of ranks, and what to do, in a row."""
    return " ".join(f"{item.sentence} {item.advice}" for item in findings)
