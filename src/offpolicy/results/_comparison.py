"""Which policy is better, by how much, and is it decided: the result of `compare`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.intervals import Interval
from offpolicy.logs import Dropped
from offpolicy.results._findings import Finding
from offpolicy.results._result import Headline, Logged, TrainedModel
from offpolicy.results._summary import Summary
from offpolicy.results._table import ResultTable

LOGGED = "logged"
"""The name of the policy that wrote the log."""
NOT_DECIDED = "not decided"
SMALLEST_P = 2e-12
"""No p-value is found below this."""
HELD_BY_HOLM = "*"
"""Marks a verdict beside an interval that holds 0."""
LEARNED_HERE = "Measured on training data, which is optimistic: "
"""Stands before a verdict about a policy that was learned from the rows asked about."""
CANNOT_TELL = "this log cannot tell"
IDENTICAL = "identical"


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """By how much one policy is better than another, on the same log.

    Attributes
    ----------
    first, second
        Names of the policies; ``"logged"`` is the one that wrote the log.
    value, stderr
        Value of the first less that of the second, and its standard error, from paired
        contributions (and clusters, where there are any). It knows of noise alone; the interval
        also knows of bias.
    interval
        For the difference of the two policies' values; simultaneous over all pairs, unless
        ``multiplicity="none"``.
    p_value
        The smallest 1 − level whose interval (of this pair alone) leaves out 0; two-sided, and
        never below 2e-12 (shown as "< 2e-12").
    adjusted_p_value
        The same, allowing for the number of pairs (Holm 1979).
    verdict
        ``"new is better than old"``, ``"not decided"``, ``"this log cannot tell"``, or
        ``"identical"``: they do the same wherever the log can see.
    reason
        Why the log cannot tell; None if it can.
    rows_needed, rows_needed_80
        How many more rows would decide it with a chance of one half, and of 80 %, if the
        difference is what it seems to be; None if it is decided, infinite if no number would.
    """

    first: str
    second: str
    value: float
    stderr: float
    interval: Interval
    p_value: float
    adjusted_p_value: float
    verdict: str
    reason: str | None
    rows_needed: float | None
    rows_needed_80: float | None

    @property
    def decided(self) -> bool:
        """Whether one of the two was found to be better."""
        return self.rows_needed is None

    @property
    def against_interval(self) -> bool:
        """Whether it is decided although the interval, the more cautious, holds 0."""
        return self.decided and 0.0 in self.interval

    @property
    def better(self) -> str | None:
        """The better one's name, if it is decided."""
        if not self.decided:
            return None
        return self.first if self.value > 0.0 else self.second

    @property
    def can_tell(self) -> bool:
        """Whether the log is fit to answer."""
        return self.reason is None

    def __neg__(self) -> Difference:
        """The same with first and second exchanged."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            value=0.0 - self.value,
            interval=Interval(0.0 - self.interval.high, 0.0 - self.interval.low),
        )

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """In words: "new is better than old by 0.031 [0.012, 0.05]."."""
        shown = -self if self.better == self.second else self
        low, high = (f"{end:.3g}" for end in shown.interval)
        span = f"{shown.value:.3g} [{low}, {high}]"
        if shown.against_interval:
            return (
                f"{shown.verdict} by {span}. The interval holds 0 because it is the more cautious "
                f"of two rules (Bonferroni's); the adjusted p, {shown.adjusted_p_value:.2g} "
                f"(Holm's), decides."
            )
        if shown.decided:
            return f"{shown.verdict} by {span}."
        if shown.verdict == IDENTICAL:
            return f"{shown.first} and {shown.second} are identical on this log."
        text = f"{shown.first} minus {shown.second} is {span}: {shown.verdict}"
        if shown.reason is not None:
            return f"{text}. {shown.reason}"
        assert shown.rows_needed is not None
        assert shown.rows_needed_80 is not None
        if math.isinf(shown.rows_needed):
            return f"{text}, and no number of rows would decide it."
        return (
            f"{text}. About {shown.rows_needed:,.0f} more rows would decide it with a chance of "
            f"one half, {shown.rows_needed_80:,.0f} with 80%, if the difference is what it seems."
        )


@final
@dataclass(frozen=True, slots=True, repr=False)
class Comparison(ResultTable[Difference]):
    """All differences. Index by two names: ``comparison["new", "old"]``, either way round.

    Attributes
    ----------
    differences
        One for each pair; against the baseline only, if there is one.
    headlines
        The one answer about each policy, as `evaluate` gives it.
    logged
        How the policy that wrote the log did.
    level, multiplicity, baseline
        As asked for.
    dropped
        Malformed rows that were left out; None if they are errors.
    trained, findings, summaries
        As in `Result`.
    """

    schema: ClassVar[str] = "offpolicy.comparison/1"
    what: ClassVar[str] = "comparison"
    rows: ClassVar[str] = "differences"
    row: ClassVar[type] = Difference

    differences: tuple[Difference, ...]
    headlines: tuple[Headline, ...]
    logged: Logged
    level: float
    multiplicity: str
    baseline: str | None = None
    dropped: Dropped | None = None
    trained: TrainedModel | None = None
    findings: tuple[Finding, ...] = ()
    summaries: tuple[Summary, ...] = ()

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of all that take part."""
        return tuple(
            dict.fromkeys(
                [row.policy for row in self.headlines] + [row.second for row in self.differences]
            )
        )

    @property
    def best(self) -> str | None:
        """The policy with the highest value among those about which the log can tell."""
        values = {row.policy: row.value for row in self.headlines if row.can_tell}
        if LOGGED in self.policies:
            values[LOGGED] = self.logged.value
        return max(values, key=lambda name: values[name]) if values else None

    @property
    def contenders(self) -> tuple[str, ...]:
        """The policies that were not found to be worse than `best`."""
        best = self.best
        settled = [row for row in self.differences if row.decided and row.better == best]
        beaten = {name for row in settled for name in (row.first, row.second)}
        return tuple(name for name in self.policies if name not in beaten | {best})

    @property
    def can_tell(self) -> bool:
        """Whether the log is fit to answer about one pair at least."""
        return any(row.can_tell for row in self.differences)

    def __getitem__(self, pair: tuple[str, ...] | str) -> Difference:
        if isinstance(pair, str) or len(pair) != 2:
            raise ParameterError('Ask for two policies: comparison["new", "old"].')
        names = self.policies
        for name in pair:
            if name not in names:
                raise ParameterError(
                    f'There is no policy "{name}".{did_you_mean(str(name), names)} '
                    f"The policies are {', '.join(names)}."
                )
        for row in self.differences:
            if (row.first, row.second) == pair:
                return row
            if (row.second, row.first) == pair:
                return -row
        if pair[0] == pair[1]:
            raise ParameterError(f'"{pair[0]}" is not compared with itself.')
        raise ParameterError(
            f'"{pair[0]}" and "{pair[1]}" were not compared: the baseline is "{self.baseline}".'
        )

    def __str__(self) -> str:
        return f"{ResultTable.__str__(self)}\n\n{self._note()}"

    def sentence(self) -> str:
        """What is known of the best policy, or of all against the baseline, a line each."""
        best, rows = self.best, self.differences
        if self.baseline is None and best is not None:
            rivals = [row for row in rows if best in (row.first, row.second)]
            rows = tuple(row if row.first == best else -row for row in rivals)
        codes = ", ".join(dict.fromkeys(one.code for one in self.problems))
        doubt = [f"There is a problem ({codes}), so these verdicts are not to be relied on."]
        told = [
            f"{LEARNED_HERE * self.flatters(row.first, row.second)}{row.sentence()}" for row in rows
        ]
        return "\n".join(doubt * bool(codes) + told)

    def _cells(self) -> list[list[str]]:
        level = f"{self.level:.4g}"
        head = ["first", "second", "difference", "stderr", f"low {level}", f"high {level}"]
        head += ["p", "adjusted p", "rows needed", "verdict"]
        return [head] + [
            [row.first, row.second]
            + [f"{x:.4g}" for x in (row.value, row.stderr, *row.interval)]
            + [_at_most(x, row.p_value) for x in (row.p_value, row.adjusted_p_value)]
            + ["–" if row.rows_needed is None else _count(row.rows_needed)]
            + [f"{row.verdict}{HELD_BY_HOLM * row.against_interval}"]
            for row in self.differences
        ]

    def _note(self) -> str:
        pairs = len(self.differences)
        note = f"The {pairs} intervals hold together (Bonferroni); verdicts and adjusted p by Holm."
        if any(row.against_interval for row in self.differences):
            note += (
                f"\n{HELD_BY_HOLM} Decided by the adjusted p (Holm), though the interval, which is "
                f"more cautious (Bonferroni), holds 0."
            )
        if self.multiplicity == "none" or pairs == 1:
            note = "Each interval covers the difference of two policies' values by itself."
        if self.dropped is not None and self.dropped.rows:
            note += f"\n{self.dropped}."
        if self.trained is not None:
            note += f"\nNo prediction was given: {self.trained}."
        return note


def _at_most(p: float, found: float) -> str:
    """A p-value in a comparison's table; one that was ``found`` to be the smallest is a limit."""
    return f"< {p:.2g}" if found <= SMALLEST_P else f"{p:.2g}"


def _count(rows: float) -> str:
    return "∞" if math.isinf(rows) else f"{rows:,.0f}"
