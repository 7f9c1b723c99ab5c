"""What `check` found: findings, the worst first, as text and as data."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.files import write_whole
from offpolicy.results import json_safe

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "offpolicy.check/1"

Severity = Literal["note", "warning", "problem"]
ORDER: tuple[Severity, ...] = ("problem", "warning", "note")

ADVICE = {
    "clusters": "Log for longer, or name finer clusters (users rather than days) if these are "
    "independent of each other.",
    "constant-prediction": "Such a model can steady an estimate, but not tell one action from "
    "another. Check that it is given the candidates.",
    "constant-propensity": "Check that it is not a stand-in. If the logger chose among some of the "
    "candidates only, list only those.",
    "constant-reward": "Every policy then looks the same. Check that this is the right column.",
    "deterministic": "These rows say nothing about any other action. Check that 1 is the truth and "
    "not a stand-in; to learn more, let the logger explore.",
    "drift": "An answer is about the whole time of the log, on average. Look at what changed, and "
    "use the part that is like the time to come. (If rows are sorted by something else, give "
    "time.)",
    "dropped": "An answer is about the rows that are left, and off if it is no accident which rows "
    "are malformed. Correct the export.",
    "duplicates": "Look for a double write, or a join that multiplies rows, and keep each decision "
    "once. Standard errors are too small otherwise, unless all copies of a row are in one cluster.",
    "effective-size": "Log more decisions, explore more, or ask about a policy that is closer to "
    "the logger.",
    "frequencies": "The logged probabilities are not those of the system that chose. Look for a "
    "rule or a filter behind the draw, for rounding, or for probabilities of another version or "
    "another action. Until it is found, estimate them from the log.",
    "heavy-weights": "Use an estimator that bounds the weights (CAB-DR; CIPS without a model). The "
    "standard errors of IPS, SNIPS and DR are not to be trusted here.",
    "no-propensity": "Log the probability with which each action was drawn. Without it, only DM "
    "works.",
    "prediction-calibration": "DM is off by as much, and the other estimators then lean on their "
    "weights. Fit the model anew, or recalibrate it on a part of the log.",
    "prediction-range": "Clip them, or use a model that keeps to the range (a classifier, for "
    "rewards of 0 and 1).",
    "rare-rewards": "Log more decisions, or use a reward that comes more often (clicks rather than "
    "orders).",
    "reward-outlier": "Check that it is real: a single such row can decide the answer.",
    "reward-range": "Declare the range as it is, or correct the rewards. Bounds that use the range "
    "are untrue.",
    "reward-values": "Make sure that each is an amount and not a code (−1 for missing, say); then "
    "declare reward_range.",
    "rounded-propensities": "Log propensities with all their digits.",
    "sample": "What is rare in the log may be missing here. To look at every row, check the log in "
    "parts.",
    "support": "No reward in the log speaks for it: estimators fill it in from the model (DM, DR, "
    "CAB) or with 0 (IPS). Let the logger try these actions, or keep the policy off them.",
    "thin-support": "Use an estimator that clips, with a reward model (CAB-DR), or let the logger "
    "try these actions more often.",
    "weight-drift": "With true propensities weights average 1 at all times, but for what is "
    "clipped or has no support. Look at what changed: the logger, the candidates, or the policy.",
    "weight-mean": "The logged probabilities, or the policy's, are not those of what was chosen, "
    "in a way that matters for this policy. See also frequencies.",
}  # fmt: skip
"""Every code a finding can have, and what to do about it."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a log that its user should know.

    Attributes
    ----------
    code : a key of `ADVICE`
    severity : "note", "warning" or "problem"
        A problem: the answer may be plainly wrong, or there is none. A warning: it may be off by
        more than its standard error says. A note: good to know.
    policy : name of the policy concerned, or None if it is the log itself
    message, advice : what was found, and what to do
    numbers : the numbers of the message, for programs
    """

    code: str
    severity: Severity
    policy: str | None
    message: str
    advice: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict, hash=False)


@final
@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the worst first. ``"support" in report`` asks whether there is one;
    ``report["support"]`` and ``report["new", "support"]`` give it (the worst, if several)."""

    findings: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def worst(self) -> Severity | None:
        """The worst severity found; None if there are no findings."""
        return self.findings[0].severity if self.findings else None

    def __contains__(self, key: object) -> bool:
        return bool(self._having(key))

    def __getitem__(self, key: str | tuple[str, str]) -> Finding:
        hits = self._having(key)
        if not hits:
            code = key[-1] if isinstance(key, tuple) and key else key
            hint = "" if code in ADVICE else did_you_mean(str(code), ADVICE)
            there = ", ".join(dict.fromkeys(one.code for one in self)) or "none at all"
            raise ParameterError(f"There is no finding {key!r}.{hint} The findings: {there}.")
        return hits[0]

    def _having(self, key: object) -> list[Finding]:
        if isinstance(key, tuple):
            return [one for one in self.findings if (one.policy, one.code) == key]
        return [one for one in self.findings if one.code == key]

    # -- as text -----------------------------------------------------------------------------

    def __str__(self) -> str:
        parts = [self.sentence()]
        for one in self:
            about = "" if one.policy is None else f" of {one.policy}"
            parts.append(f"{one.severity}: {one.code}{about}\n  {one.message}\n  {one.advice}")
        return "\n\n".join(parts)

    def sentence(self) -> str:
        """How many findings of which severity, in one line."""
        counts = {severity: sum(one.severity == severity for one in self) for severity in ORDER}
        said = [f"{many} {severity}{'s' * (many > 1)}" for severity, many in counts.items() if many]
        if not said:
            return "No findings: the log passed every check that its columns allow."
        return f"Found {', '.join(said)}."

    def _repr_html_(self) -> str:
        head = ("severity", "code", "policy", "message", "advice")
        cell = "<{0} style='text-align:left'>{1}</{0}>"
        rows = [[str(getattr(one, name) or "") for name in head] for one in self]
        body = "".join(
            "<tr>" + "".join(cell.format("td", html.escape(text)) for text in row) + "</tr>"
            for row in rows
        )
        top = "".join(cell.format("th", name) for name in head)
        table = f"<table><tr>{top}</tr>{body}</table>" if rows else ""
        return f"<p>{html.escape(self.sentence())}</p>{table}"

    # -- as data -----------------------------------------------------------------------------

    def to_frame(self) -> pa.Table:
        """One row per finding, as an Arrow table; ``numbers`` as JSON text."""
        import pyarrow as pa

        names = ("code", "severity", "policy", "message", "advice", "numbers")
        rows = [asdict(one) | {"numbers": _dumps(one.numbers)} for one in self]
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """As JSON text (schema ``offpolicy.check/1``); written to ``path`` whole or not at all.

        Equal inputs give equal bytes. Infinite numbers are the strings "inf" and "-inf".
        """
        body = {"schema": SCHEMA, "worst": self.worst, "findings": [asdict(one) for one in self]}
        text = _dumps(body, indent=1) + "\n"
        if path is not None:
            write_whole(Path(path), text)
        return text


def _dumps(value: Any, indent: int | None = None) -> str:
    return json.dumps(json_safe(value), indent=indent, ensure_ascii=False, allow_nan=False)


def finding(
    code: str,
    severity: Severity | None,
    message: str,
    policy: str | None = None,
    **numbers: float | int | str,
) -> list[Finding]:
    """The finding, if it is severe enough to be one."""
    if severity is None:
        return []
    return [Finding(code, severity, policy, message, ADVICE[code], numbers)]


def grade(value: float, steps: tuple[float, float, float]) -> Severity | None:
    """Note, warning or problem from these values on."""
    note, warning, problem = steps
    if value >= problem:
        return "problem"
    if value >= warning:
        return "warning"
    return "note" if value >= note else None


def percent(share: float) -> str:
    """With two digits; whole from 99.5% on."""
    return f"{100.0 * share:.2g}%" if share < 0.995 else f"{100.0 * share:.0f}%"
