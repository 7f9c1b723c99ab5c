"""What `evaluate` returns: estimates, as a table, a frame, JSON, or notebook HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from offpolicy._core.documents import json_safe
from offpolicy._core.frames import Frames
from offpolicy._core.late import pa
from offpolicy._core.types import Floats
from offpolicy.errors import EstimatorError, ParameterError, did_you_mean
from offpolicy.estimators import Estimator, parse
from offpolicy.intervals import Interval
from offpolicy.logs import Dropped
from offpolicy.results._findings import Finding
from offpolicy.results._summary import Summary
from offpolicy.results._table import ResultTable, estimate_named

TOO_HEAVY = "†"
"""Marks an estimate whose weights are too heavy for its interval."""
FEW_EFFECTIVE = "Too few effective rows for such weights: the interval may be too narrow."
"""What the mark means."""
OUTSIDE = "‡"
"""Marks an estimate outside its own interval."""
OUTSIDE_OF_INTERVAL = (
    "The value is outside its interval, which ends where rewards do: heavy weights took it beyond "
    "what a mean reward can be."
)
"""What the mark means."""
IMPUTED = "share answered by a model, not by rewards"
WORTH = "rows of equal weight that say as much"
"""What the columns "imputed" and "ess" (effective rows) hold, for those who do not know."""
FLATTERED = "(measured on its training data, which is optimistic)"
"""Stands before the verdict about a policy that was learned from the rows asked about."""
FEWEST_EFFECTIVE = 100
"""Effective rows below which the standard errors of heavy weights are not to be trusted."""


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimator's answer about one policy.

    Attributes
    ----------
    value, stderr, interval
        The estimate, its standard error, and the interval at ``level`` for the policy's value;
        ``covers`` says in words what it allows for.
    imputed_mass
        Share of the policy's probability for which no observed reward answers: the model (or,
        in IPS and CIPS, the number 0) does: Σ max(π − π₀·weight, 0).
    ess
        Effective number of rewards, (Σw)²/Σw² over the weights put on rewards; None if none.
    largest_weight
        The largest weight put on one reward.
    policy_stderr
        Error from knowing the policy only through draws (`MonteCarlo`), or the logger only by
        estimated propensities; part of the interval.
    plausible_bias
        What clipping, blending or the model may have added to the value, and the interval allows
        for: imputed mass times the root-mean-square error of what is imputed.
    bias_bound
        The most that it can be: imputed mass times the largest error of what is imputed.
    from_headline
        How far the value is above the headline's, in standard errors of the difference; None
        where there is no headline.
    reason
        Why its parameter was chosen; None if it was given.
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
    covers: str = ""
    plausible_bias: float = 0.0
    bias_bound: float = math.inf
    from_headline: float | None = None
    reason: str | None = None

    @property
    def too_heavy(self) -> bool:
        """Whether so few effective rows stand behind it that a standard error says little."""
        return self.ess is not None and self.ess < FEWEST_EFFECTIVE and self.largest_weight > 1.0

    @property
    def is_outside(self) -> bool:
        """Whether the value is beyond what rewards can be, where its interval ends."""
        return self.value not in self.interval and self.covers.startswith("the policy's value")

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
class Headline:
    """The one answer about a policy: CAB-DR around a model fitted to the log.

    Attributes
    ----------
    value, stderr, interval, level, covers, imputed_mass, policy_stderr
        As in `Estimate`; the standard error is that of the noise alone, scaled up to the weights
        that could have been drawn.
    M
        Where it clips; ``reason`` says why there.
    model
        What it is around: the reward "model", recalibrated on the log; a regression on the
        "policy"'s probabilities; a "constant" (then it is nearly SNIPS). Or "logger", where the
        policy is the one that wrote the log, and the answer is the logged mean.
    correction
        What was added to CAB-DR: the model's mean error on the mass left to it, as far as rows
        show it.
    kappa
        The model's mean error over its root-mean-square error, as bins of the weight show it.
    interval_M, interval_imputed_mass, plausible_bias, bias_bound
        The M around which the interval stands, the mass left to the model there, the bias that the
        interval allows for, and what no bias can exceed there.
    versus_logged
        Interval for the policy's value less that of the policy that ran, from paired differences.
        This decides which of the two is better, not whether ``interval`` holds what ran. None
        for rankers: it is not known what ran was worth.
    rewarded
        Effective number of rewarded rows behind the number.
    refusal
        None, or why this log cannot tell and what would.
    grid, values, stderrs, errors
        The whole curve over M: estimate, standard error, and estimated root mean squared error
        (noise and bias), of which the least was taken.
    """

    policy: str
    M: float
    model: str
    value: float
    stderr: float
    interval: Interval
    level: float
    covers: str
    imputed_mass: float
    correction: float
    kappa: float
    interval_M: float
    interval_imputed_mass: float
    plausible_bias: float
    bias_bound: float
    rewarded: float
    policy_stderr: float
    versus_logged: Interval | None
    reason: str
    refusal: str | None
    grid: tuple[float, ...] = field(repr=False)
    values: tuple[float, ...] = field(repr=False)
    stderrs: tuple[float, ...] = field(repr=False)
    errors: tuple[float, ...] = field(repr=False)

    @property
    def estimator(self) -> str:
        """Its name among estimators: the row "CAB-DR" is another, around the model given."""
        return "headline"

    @property
    def around(self) -> str:
        """What it is around, in words."""
        return {
            "model": "the reward model, recalibrated on the log",
            "policy": "a regression on the policy's probabilities",
            "constant": "a constant",
            "logger": "the logged mean",
            "relevance": "the relevance model, recalibrated on the clicks",
            "ranks": "a regression on the ranks that the ranker gives",
        }[self.model]

    @property
    def compared(self) -> Interval:
        """`versus_logged`; without it, everything."""
        return self.versus_logged or Interval(-math.inf, math.inf)

    @property
    def verdict(self) -> str:
        """Against what ran: "better", "worse", "not decided" or "identical"."""
        if self.model == "logger":
            return "identical"
        low, high = self.compared
        return "better" if low > 0.0 else "worse" if high < 0.0 else "not decided"

    @property
    def how(self) -> str:
        """How the value was made, in a sentence."""
        matters = abs(self.correction) > 0.05 * self.stderr
        added = f", corrected by {self.correction:+.2g}" if matters else ""
        name = "CAB" if self.model in ("relevance", "ranks") else "CAB-DR"
        return (
            f"Method: {name}, weights capped at M = {self.M:.4g} (chosen from the log), around "
            f"{self.around}{added}; {self.reason}."
        )

    @property
    def can_tell(self) -> bool:
        """Whether the log is fit to answer."""
        return self.refusal is None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tuned(Frames):
    """A parameter chosen from the log, and the table it was chosen from.

    For every value in ``grid``: the estimate, its standard error, the bias and its uncertainty,
    the variance (by the paper's theory), and the imputed mass.
    """

    policy: str
    estimator: str
    """With its parameter: ``"CAB(M=3.2)"``."""
    rule: str
    parameter: str
    chosen: float
    reason: str
    grid: Floats = field(repr=False)
    value: Floats = field(repr=False)
    stderr: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    bias_stderr: Floats = field(repr=False)
    variance: Floats = field(repr=False)
    imputed_mass: Floats = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tuned) and json_safe(self) == json_safe(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def mse(self) -> Floats:
        """Estimated mean squared error at each value of the parameter."""
        with np.errstate(over="ignore"):
            return self.bias**2 + self.bias_stderr**2 + self.variance

    def to_arrow(self) -> pa.Table:
        """One row per value of the parameter, as an Arrow table."""
        columns = ("value", "stderr", "bias", "bias_stderr", "variance", "mse", "imputed_mass")
        return pa.table({self.parameter: self.grid} | {c: getattr(self, c) for c in columns})


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
class TrainedModel:
    """The reward model that the library trained itself: the best of a few, by what they say of
    decisions held out.

    Attributes
    ----------
    decisions : how many it was trained on
    kind : "ridge per action", …
    fit : R² on the decisions held out: the share of the rewards' variance that it explains
    tried : R² of every kind that was tried
    """

    decisions: int
    kind: str
    fit: float
    tried: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        others = [f"{kind} {fit:.3f}" for kind, fit in self.tried.items() if kind != self.kind]
        beside = f"; {', '.join(others)}" if others else ""
        return (
            f"a reward model was trained on the contexts of {self.decisions:,} decisions: "
            f"{self.kind}, R² {self.fit:.3f} where held out{beside}"
        )


@final
@dataclass(frozen=True, slots=True, repr=False)
class Result(ResultTable[Estimate]):
    """All estimates, in the order asked for. Index by estimator, or by (policy, estimator)."""

    schema: ClassVar[str] = "offpolicy.result/1"
    row: ClassVar[type] = Estimate

    estimates: tuple[Estimate, ...]
    logged: Logged
    headlines: tuple[Headline, ...] = ()
    """One for each policy; none if the log has no propensities."""
    tuned: tuple[Tuned, ...] = ()
    """One for each parameter that was left out, and each policy."""
    dropped: Dropped | None = None
    """Malformed rows that were left out; None if they are errors."""
    trained: TrainedModel | None = None
    """The reward model that was trained on the contexts, if none was given and it could be."""
    findings: tuple[Finding, ...] = ()
    """What the scan came across that is worth knowing; `check` looks further."""
    summaries: tuple[Summary, ...] = ()
    """One for each policy: what `to_html` draws besides estimates and headlines."""

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.policy for row in self.estimates))

    @property
    def headline(self) -> Headline | Estimate:
        """The one answer, about the first policy; without propensities, the first estimate."""
        return self.headlines[0] if self.headlines else self.estimates[0]

    @property
    def can_tell(self) -> bool:
        """Whether the log is fit to answer about every policy."""
        return all(row.can_tell for row in self.headlines)

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
        return estimate_named(rows, wanted)

    def sentence(self) -> str:
        """The answer about every policy, a line each, and what its interval covers."""
        lines = [line for row in self.headlines for line in self._answer(row)]
        if sum(row.can_tell for row in self.headlines) > 1:
            lines.append("Each paired difference stands for itself; compare holds them together.")
        if not self.headlines:
            first = self.estimates[0]
            by = f"by {shown_estimator(first.estimator)}"
            lines.append(f"{first.policy}: {_short(first.value)} {_span(first.interval)}, {by}.")
            lines.append(f"  The interval covers {first.covers}.")
        if self.dropped is not None and self.dropped.rows:
            lines.append(f"{self.dropped}.")
        if self.trained is not None:
            lines.append(f"No prediction was given: {self.trained}.")
        return "\n".join(lines)

    def _answer(self, row: Headline) -> list[str]:
        if row.refusal is not None:
            return [
                f"{row.policy}: this log cannot tell: {row.refusal}",
                f"  The estimate would be {_short(row.value)} {_span(row.interval)}.",
            ]
        unit = "decision" if self.logged.n == 1 else "decisions"
        earned, ran = _short(row.value), _short(self.logged.value)
        seen = f"{earned} {_span(row.interval)}"
        how = [] if row.model == "logger" else [f"  {row.how}"]
        problems = {one.code: None for one in self.problems if one.place in (None, row.policy)}
        if problems:
            first = (
                f"{row.policy}: there is a problem ({', '.join(problems)}), so these numbers are "
                f"not to be relied on: {earned} per decision; what ran earned {ran}."
            )
        elif row.model == "logger":
            first = f"{row.policy} does what ran, and earns the same: {ran} per decision."
        elif row.verdict == "not decided":
            first = (
                f"{row.policy} may be better or worse than what ran: it would have earned about "
                f"{earned} per decision, what ran earned {ran}."
            )
        else:
            first = (
                f"{row.policy} is {row.verdict} than what ran: it would have earned {earned} per "
                f"decision, not {ran}."
            )
        if row.model != "logger":
            low, high = row.compared
            gap = min(max(row.value - self.logged.value, low), high)
            seen += f"; difference {gap:+.5g} {_span(row.compared)}"
        if self.flatters(row.policy):
            first = f"{row.policy} {FLATTERED}{first.removeprefix(row.policy)}"
        level = f"{100.0 * row.level:.4g}%"
        return [
            first,
            f"  {level} intervals from {self.logged.n:,} {unit}: {seen}.",
            f"  The first covers {row.covers}.",
            *how,
        ]

    def _cells(self) -> list[list[str]]:
        return cells_of_estimates(self.estimates)

    def _notes(self) -> list[str]:
        return notes_of_estimates(self.estimates)


def cells_of_estimates(estimates: Sequence[Estimate]) -> list[list[str]]:
    """Estimates as a table of text, under its head; one interval of all rows is left to a note."""
    several = len({row.policy for row in estimates}) > 1
    level = f"{estimates[0].level:.4g}"
    ends = [] if _same_interval(estimates) else [f"low {level}", f"high {level}"]
    head = ["policy"] * several + ["estimator", "value", "stderr", *ends]
    cells = [[*head, "from headline", "imputed", "ess", "max weight"]]
    for row in estimates:
        ess = "–" if row.ess is None else f"{row.ess:,.1f}{TOO_HEAVY * row.too_heavy}"
        far = "–" if row.from_headline is None else f"{row.from_headline:+z.1f} se"
        value = f"{_short(row.value)}{OUTSIDE * row.is_outside}"
        cells.append(
            [row.policy] * several
            + [shown_estimator(row.estimator), value, _short(row.stderr)]
            + [_short(end) for end in row.interval if ends]
            + [far, f"{row.imputed_mass:.1%}", ess, f"{row.largest_weight:.4g}"]
        )
    return cells


def notes_of_estimates(estimates: Sequence[Estimate]) -> list[str]:
    """What stands below the table: what its columns and marks mean, and an interval that all rows
    share."""
    capped = any(row.M is not None for row in estimates)
    notes = [f"{'M: cap on weights; ' * capped}imputed: {IMPUTED}; ess: {WORTH}."]
    if any(row.is_outside for row in estimates):
        notes.append(f"{OUTSIDE} {OUTSIDE_OF_INTERVAL}")
    if any(row.too_heavy for row in estimates):
        notes.append(f"{TOO_HEAVY} {FEW_EFFECTIVE}")
    if _same_interval(estimates):
        notes.append(f"Every row has the interval {_span(estimates[0].interval)}.")
    return notes


def _same_interval(estimates: Sequence[Estimate]) -> bool:
    return len(estimates) > 1 and len({row.interval for row in estimates}) == 1


def _short(value: float) -> str:
    """A number in a result's table: five significant digits."""
    return f"{value:.5g}"


def _span(interval: Interval) -> str:
    return f"[{_short(interval.low)}, {_short(interval.high)}]"


def shown_estimator(estimator: str) -> str:
    """An estimator's name in a result's table, its parameter rounded: CAB(M=3.21)."""
    try:
        member = parse(estimator)
    except EstimatorError:
        return estimator
    if member.parameter is None:
        return estimator
    return f"{member.name}({member.parameter_name}={member.parameter:.4g})"
