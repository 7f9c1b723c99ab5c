r"""`check`: is this log fit to answer, and about this policy?

What can be counted is counted. What is left to chance (do the logged probabilities fit what was
chosen? did anything drift?) is judged by two inequalities that hold whatever the distribution,
for rare actions and heavy weights as well, so that an honest log stays silent.

Bennett: a sum of independent terms, each at most :math:`b` above its mean, with total variance
:math:`V`, is :math:`t` above its mean with a chance of at most

.. math:: \exp\Big(-\frac{V}{b^2}\, h\big(\tfrac{tb}{V}\big)\Big), \qquad
          h(u) = (1+u)\log(1+u) - u .

Betting: if independent :math:`x_i \ge -1` have means of at most 0, then the wealth
:math:`\prod_i (1 + \lambda x_i)` of one who stakes a share :math:`\lambda` each time has a mean of
at most 1, and reaches :math:`1/\alpha` with a chance of at most :math:`\alpha`.

Rows of one cluster make one term, whose variance is taken from the clusters' totals.
"""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from offpolicy import weights
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.evaluation import need_log, resolve_prediction
from offpolicy.files import write_whole
from offpolicy.labels import encode
from offpolicy.log import BanditLog
from offpolicy.policies import Target, resolve
from offpolicy.results import json_safe
from offpolicy.scan import Block, blocks, each_block, effective_size, whole_block
from offpolicy.softmax import Ints, decision_of_candidate, row_sums
from offpolicy.weights import Floats

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "offpolicy.check/1"

ALPHA = 1e-3
"""A test calls an honest log dishonest at most this often."""
OFF_BY = (0.0, 0.01, 0.1)
"""Relative error of probabilities from which it is a note, a warning, a problem: 1 % hides behind
most standard errors, and 10 % of the value is what many questions turn on."""
UNSUPPORTED = (1e-6, 1e-3, 0.05)
"""Likewise the policy's mass without support: the bias it may cause, in units of the rewards'
range."""
THIN = (1e-3, 0.01, 0.1)
"""Likewise the mass on actions so rare that their weights must be clipped: better than none."""
THIN_ROWS, THIN_WEIGHT = 100, 10.0
"""Weights must be clipped where one row would stand for more than a hundredth of the log, but not
below 10, the M that is the default elsewhere."""
SMALL, TINY = 100, 20
"""Effective rows below which intervals are wide, and below which the normal ones are untrue."""
SMALL_SHARE = 0.01
"""Effective rows, as a share of all, below which most of the log is of no use."""
TOP, TOP_SHARE = 0.01, (0.2, 0.3, 0.7)
"""The heaviest hundredth of the rows, and the share of all weight it may hold. Of log-normal
weights it holds 9 % with σ = 1, 37 % with σ = 2, and 75 % with σ = 3."""
CLIPS = (0.5, 2.0, 10.0, 100.0, 1000.0)
"""Values of M at which the mean of min(c, M) is tested: small ones see many rows."""
EDGES = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99)
"""Limits of the classes of probability whose frequencies are compared."""
STAKES = (0.5, 0.1, 0.02, 0.005, 0.001, 1e-4)
"""Shares λ to stake, in equal parts: large ones for short logs, small ones for heavy weights."""
RECHECKED = 10
"""Of many comparisons that take long, this many of the most suspicious are made."""
TENTHS, FEWEST_FOR_DRIFT = 10, 200
"""Drift is looked for between tenths, of at least 20 rows, and between halves."""
DRIFT, DRIFT_CLIP = 0.05, 10.0
"""Less than 5 % of the mean (or of the spread, if that is less) is not worth a word. Weights are
clipped, so that one row is not taken for drift."""
FEW_CLUSTERS = 30
"""With fewer, 95 % intervals covered less than 95 % in simulation (docs/logs.md)."""
COARSE, FEWEST_ON_GRID = 0.1, 10
"""Rounding to d decimals moves a propensity by up to 0.5·10⁻ᵈ: more than 10 % of it below 5·10⁻ᵈ.
Fewer than 10 different values may well be meant as they are."""
DETERMINISTIC = (1e-9, 0.1, 1.0)
"""Share of the rows that had no choice."""
OUTLIER = 1000.0
"""A reward is worth a look if it is this many times as far from the median as nine in ten."""
FEW_VALUES, REPEATED = 10, 5
"""Rewards of few values, each seen several times, may be codes rather than amounts."""
BEYOND = 0.1
"""Predictions may leave the range by a tenth of it: straight lines do."""
CALIBRATION = 0.05
"""Share of the mean reward (or of its spread, if that is less) by which a model may be off."""
SETTLED = 50
"""A mean may be far off because its largest terms have not come up yet, if its squares rest on
fewer rows than this: 0.8 % of honest logs of heavy rewards were called miscalibrated without."""

Severity = Literal["note", "warning", "problem"]
_ORDER: tuple[Severity, ...] = ("problem", "warning", "note")
_LARGEST = 1e100
"""Weights are capped here, so that they can be squared."""

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
    "duplicates": "Look for a double write, or a join that multiplies rows, and keep each decision "
    "once. Standard errors are too small otherwise, unless all copies of a row are in one cluster.",
    "effective-size": "Log more decisions, explore more, or ask about a policy that is closer to "
    "the logger.",
    "frequencies": "The logged probabilities are not those of the system that chose. Look for a "
    "rule or a filter behind the draw, for rounding, or for probabilities of another version or "
    "another action. Until it is found, estimate them from the log.",
    "heavy-weights": "Use an estimator that bounds the weights (CAB-DR; CIPS without a model). The "
    "intervals of IPS, SNIPS and DR are not to be trusted here.",
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
        counts = {severity: sum(one.severity == severity for one in self) for severity in _ORDER}
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


def check(
    log: BanditLog,
    policy: Any = None,
    *,
    prediction: Any = None,
    reward_range: tuple[float, float] | None = None,
) -> Report:
    """Is this log fit to answer, and about this policy?

    Parameters
    ----------
    log : BanditLog
    policy : optional
        As in `evaluate`: a policy, an array, a column name, or a mapping of names to these.
        Without one, only the log itself is looked at.
    prediction : optional
        The reward model δ̂, as in `evaluate`.
    reward_range : (low, high), optional
        The least and the greatest reward there can be.

    Examples
    --------
    >>> log = BanditLog.from_arrays(
    ...     action=[0, 1] * 500, reward=[1, 0, 0, 1] * 250, logging=[[0.5, 0.5, 0.0]] * 1000
    ... )
    >>> report = check(log, [[0.2, 0.2, 0.6]] * 1000)
    >>> report.worst
    'problem'
    >>> print(report["support"].message)
    policy puts 60% of its probability where the logger has none: on action 2 (60%).
    """
    need_log(log)
    limits = _checked_range(reward_range)
    targets = [resolve(log, one, name) for name, one in _named(policy).items()]
    for target in targets:
        target.check(log)
    delta_hat = resolve_prediction(log, prediction)
    whole_block(log, _logger(log), delta_hat).check_whole()
    rows = _Rows.of(log)
    found = [
        *_about_clusters(rows),
        *_about_rewards(log.reward, limits),
        *_about_propensities(log),
        *_frequencies(log, rows),
        *_duplicates(log),
        *_drift(log, rows),
    ]
    if delta_hat is not None:
        found += _about_prediction(log, rows, delta_hat, limits)
    if targets and log.propensity is not None:
        for target in targets:
            found += _about_policy(log, rows, target)
    else:
        found += _about_size(log, rows, np.ones(len(log)), None)
    return Report(tuple(sorted(found, key=lambda one: _ORDER.index(one.severity))))


def _named(policy: Any) -> dict[str, Any]:
    if policy is None:
        return {}
    if not isinstance(policy, Mapping):
        return {policy if isinstance(policy, str) else "policy": policy}
    if not policy:
        raise ParameterError("There is no policy to check.")
    names = {str(name): one for name, one in policy.items()}
    if len(names) < len(policy):
        raise ParameterError("Two policies have the same name; every name must be different.")
    return names


def _checked_range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = (float(limit) for limit in given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ParameterError(
            f"reward_range is {given!r}; it must be two numbers, the least and the greatest reward "
            f"there can be."
        )
    return low, high


def _logger(log: BanditLog) -> Target:
    """Stands in where no policy is asked about."""
    return Target("logging", None, log.propensity)


def _found(
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


def _grade(value: float, steps: tuple[float, float, float]) -> Severity | None:
    """Note, warning or problem from these values on."""
    note, warning, problem = steps
    if value >= problem:
        return "problem"
    if value >= warning:
        return "warning"
    return "note" if value >= note else None


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}%" if share < 0.995 else f"{100.0 * share:.0f}%"


# -- chance ----------------------------------------------------------------------------------


def _tail(excess: Any, variance: Any, bound: Any) -> Floats:
    """How likely, at most, a sum is this far above its mean: Bennett's inequality.

    1 where nothing varies, as all that is left then is rounding (of which Bennett makes nothing
    elsewhere: the exponent is at most t/b·log(1 + tb/V)).
    """
    excess, variance = np.asarray(excess, dtype=float), np.asarray(variance, dtype=float)
    varies = (excess > 0.0) & (variance > 0.0) & np.isfinite(variance)
    with np.errstate(all="ignore"):
        u = excess * bound / variance
        exponent = variance / bound**2 * ((1.0 + u) * np.log1p(u) - u)
        return np.where(varies, np.exp(-exponent), 1.0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which rows are independent of which, and how much each stands for (1 on average)."""

    omega: Floats
    cluster: Ints | None
    plain: bool
    """Whether all rows are independent, and alike."""

    @classmethod
    def of(cls, log: BanditLog) -> _Rows:
        omega = np.ones(len(log))
        if log.row_weight is not None:
            omega = np.asarray(log.row_weight / log.row_weight.mean())
        cluster = None if log.cluster is None else encode(log.cluster, "cluster", log.source)[1]
        return cls(omega, cluster, log.row_weight is None and cluster is None)

    def totals(self, x: Floats) -> Floats:
        """Σ ωx of every independent unit: row or cluster."""
        y = self.omega * x
        if self.cluster is not None:
            y = np.bincount(self.cluster, weights=y).astype(np.float64)
        return y

    def sizes(self) -> Floats:
        """The weight of every independent unit."""
        return self.totals(np.ones(len(self.omega)))

    def spread(self, x: Floats) -> float:
        """Standard deviation of Σ ωx, if its mean is 0."""
        return math.sqrt(float((self.totals(x) ** 2).sum()))

    def chance(self, x: Floats, variance: float, bound: float) -> float:
        """How likely Σ ωx is this far from 0 either way; ``variance`` as if rows were alone."""
        if not self.plain:
            variance = max(variance, self.spread(x) ** 2)
        excess = abs(float((self.omega * x).sum()))
        return min(1.0, 2.0 * float(_tail(excess, variance, bound * float(self.sizes().max()))))

    def chance_above(self, x: Floats, least: float) -> float:
        """How likely Σ ωx is this far above 0, if no x is below ``least`` and means are at most 0:
        one over the wealth of one who bets on it."""
        y = self.totals(x) / (-least * float(self.sizes().max()))
        gains = [float(np.log1p(stake * y).sum()) for stake in STAKES]
        best = max(gains)
        wealth = best + math.log(sum(math.exp(gain - best) for gain in gains) / len(STAKES))
        return math.exp(-max(wealth, 0.0))


def _kish(w: Floats) -> float:
    """(Σw)²/Σw²; 0 if all are 0."""
    top = float(w.max(initial=0.0))
    if top == 0.0:
        return 0.0
    scaled = w / top
    return effective_size(float(scaled.sum()), float((scaled * scaled).sum())) or 0.0


# -- clusters, rewards, size -----------------------------------------------------------------


def _about_clusters(rows: _Rows) -> list[Finding]:
    if rows.cluster is None:
        return []
    sizes = rows.sizes()
    count, effective = len(sizes), _kish(sizes)
    if effective >= FEW_CLUSTERS:
        return []
    if count == 1:
        message = "There is 1 cluster. Alone it says nothing of the spread: errors are infinite."
    else:
        worth = "" if effective > count - 0.5 else f", worth {effective:.1f} of equal size"
        message = (
            f"There are {count:,} clusters{worth}. With fewer than {FEW_CLUSTERS}, normal "
            f"intervals are too short."
        )
    severity: Severity = "problem" if count == 1 else "warning"
    return _found("clusters", severity, message, clusters=count, effective=effective)


def _about_size(log: BanditLog, rows: _Rows, c: Floats, name: str | None) -> list[Finding]:
    """How many rows, and how many rewarded ones, stand behind an answer."""
    who, n = "the log" if name is None else name, len(log)
    w = rows.omega * c
    ess = _kish(w)
    severity: Severity | None = "problem" if ess < TINY else "warning" if ess < SMALL else None
    if severity is None and ess < SMALL_SHARE * n:
        severity = "note"
    if name is None:
        worth = "" if ess > n - 0.05 else f", worth {ess:,.1f} of equal weight"
        message = f"The log has {n:,} decision{'s' * (n > 1)}{worth}."
    elif ess > 0.0:
        message = (
            f"Of {n:,} decision{'s' * (n > 1)}, {ess:,.1f} effective ones stand behind {name} "
            f"({_percent(ess / n)})."
        )
    else:
        message = (
            f"{name} gives probability 0 to every action that was chosen: no reward in the log "
            f"says anything about it."
        )
    found = _found("effective-size", severity, message, name, ess=ess, n=n, share=ess / n)
    usual = _usual_reward(log.reward)
    if usual is None:
        return found
    rewarded = log.reward != usual
    count, ess = int(rewarded.sum()), _kish(w[rewarded])
    if ess < SMALL:
        message = (
            f"{count:,} of {n:,} rewards differ from {usual:g}; for {who} they count as "
            f"{ess:,.1f}. Fewer than {TINY if ess < TINY else SMALL} tell "
            f"{'next to nothing' if ess < TINY else 'little'}, whatever the estimator."
        )
        severity = "problem" if ess < TINY else "warning"
        found += _found("rare-rewards", severity, message, name, ess=ess, rows=count, usual=usual)
    return found


def _usual_reward(reward: Floats) -> float | None:
    """The reward of a decision that led to nothing: the commoner of two, or 0 if that is most."""
    low, high = float(reward.min()), float(reward.max())
    at_low, at_high = np.count_nonzero(reward == low), np.count_nonzero(reward == high)
    if low < high and at_low + at_high == len(reward):
        return low if (at_low, -abs(low)) >= (at_high, -abs(high)) else high
    return 0.0 if 2 * np.count_nonzero(reward == 0.0) >= len(reward) else None


def _about_rewards(reward: Floats, limits: tuple[float, float] | None) -> list[Finding]:
    n, low, high = len(reward), float(reward.min()), float(reward.max())
    found = []
    if limits is not None and (low < limits[0] or high > limits[1]):
        outside = (reward < limits[0]) | (reward > limits[1])
        count, row = int(outside.sum()), int(np.argmax(outside))
        message = (
            f"{count:,} of {n:,} rewards are outside the declared range from {limits[0]:g} to "
            f"{limits[1]:g}; row {row} has {reward[row]:g}, and they go from {low:g} to {high:g}."
        )
        found += _found("reward-range", "problem", message, rows=count, row=row, low=low, high=high)
    if low == high:
        message = f"All {n:,} rewards are {low:g}."
        return found + _found("constant-reward", "warning" if n > 1 else None, message, reward=low)
    found += _outlier(reward)
    values, counts = np.unique(reward, return_counts=True)
    repeated = n - int(counts.max()) >= REPEATED * (len(values) - 1)
    binary = values.tolist() == [0.0, 1.0]
    if limits is None and not binary and len(values) <= FEW_VALUES and repeated:
        listed = ", ".join(f"{value:g}" for value in values)
        message = f"The rewards take only {len(values)} values: {listed}."
        found += _found("reward-values", "note", message, count=len(values), values=listed)
    return found


def _outlier(reward: Floats) -> list[Finding]:
    median = float(np.median(reward))
    apart = np.abs(reward - median)
    usual = float(np.quantile(apart[apart > 0.0], 0.9, method="higher"))
    row = int(np.argmax(apart))
    value = float(reward[row])
    message = (
        f"The reward of row {row}, {value:g}, is {apart[row] / usual:,.0f} times as far from the "
        f"median ({median:g}) as nine in ten of the others."
    )
    severity: Severity | None = "note" if apart[row] > OUTLIER * usual else None
    return _found("reward-outlier", severity, message, row=row, reward=value, median=median)


# -- propensities ----------------------------------------------------------------------------


def _about_propensities(log: BanditLog) -> list[Finding]:
    if log.propensity is None:
        message = "The log has no propensities: nothing says how likely each choice was."
        return _found("no-propensity", "problem", message)
    certain = log.propensity >= 1.0 - 1e-9
    if log.candidates_known:
        certain = certain & (np.diff(log.offsets) > 1)
    count, share = int(certain.sum()), float(certain.mean())
    message = (
        f"{count:,} of {len(log):,} decisions ({_percent(share)}) have propensity 1: the logger "
        f"had no choice."
    )
    found = _found("deterministic", _grade(share, DETERMINISTIC), message, rows=count, share=share)
    return found + _constant(log, log.propensity) + _rounded(log.propensity)


def _constant(log: BanditLog, propensity: Floats) -> list[Finding]:
    """One propensity for all rows, that is not one over the number of candidates."""
    p = float(propensity[0])
    if log.logging is not None or not log.candidates_known or len(log) < FEWEST_ON_GRID:
        return []
    lengths = np.diff(log.offsets)
    fewest, most = int(lengths.min()), int(lengths.max())
    fits = fewest == most and abs(p * most - 1.0) < 1e-3
    likely = p ** len(log) >= ALPHA  # the likeliest action every time
    if fits or likely or not (propensity == p).all():
        return []
    impossible = p * float(lengths.mean()) < 1.0 - 1e-3
    candidates = f"{most}" if fewest == most else f"{fewest} to {most}"
    even = f"{1.0 / most:.3g}" if fewest == most else f"{1.0 / most:.3g} to {1.0 / fewest:.3g}"
    message = f"Every propensity is {p:g}, but decisions have {candidates} candidates: " + (
        "they cannot all be that unlikely." if impossible else f"drawn alike, each has {even}."
    )
    return _found(
        "constant-propensity", "problem" if impossible else "warning", message,
        propensity=p, fewest_candidates=fewest, most_candidates=most,
    )  # fmt: skip


def _rounded(propensity: Floats) -> list[Finding]:
    for decimals in (2, 3):
        steps = propensity * 10**decimals
        if not (np.abs(steps - np.round(steps)) < 1e-5).all():
            continue
        error = 0.5 * 10.0**-decimals
        limit, least = error / COARSE, float(propensity.min())
        count, values = int((propensity < limit).sum()), len(np.unique(np.round(steps)))
        message = (
            f"All propensities have at most {decimals} decimals, and {count:,} of "
            f"{len(propensity):,} are below {limit:g}, where rounding may be off by more than "
            f"{_percent(COARSE)} (the least, {least:g}, by {_percent(error / least)})."
        )
        bad = count > 0 and values >= FEWEST_ON_GRID
        return _found(
            "rounded-propensities", "warning" if bad else None, message,
            decimals=decimals, rows=count, least=least, values=values,
        )  # fmt: skip
    return []


def _frequencies(log: BanditLog, rows: _Rows) -> list[Finding]:
    """Were actions, and candidates of like probability, chosen as often as logged?"""
    if log.propensity is None:
        return []
    if log.logging is None:
        return _inverse_propensities(log, rows, log.propensity)
    K = _number_of_actions(log)
    observed, expected, variance = _class_totals(log, rows, K)
    off = np.abs(observed - expected)
    chance = 2.0 * _tail(off, variance, float(rows.omega.max()))
    tests = max(int(np.count_nonzero(variance > 0.0)), 1)
    worst = np.lexsort((-off, chance))
    if not rows.plain:
        anew = np.ones_like(chance)
        for k in worst[:RECHECKED]:
            if chance[k] * tests < ALPHA:
                anew[k] = rows.chance(_deviation(log, int(k), K), float(variance[k]), 1.0)
        chance, worst = anew, np.lexsort((-off, anew))
    k = int(worst[0])
    failing = int(np.count_nonzero(chance * tests < ALPHA))
    if not failing:
        return []
    spread = math.sqrt(variance[k]) if rows.plain else rows.spread(_deviation(log, k, K))
    what = _action(log, k) if k < K else f"candidates with {_bin(k - K)}"
    also = "" if failing == 1 else f" {failing} of {tests} such comparisons fail."
    message = (
        f"{what[0].upper()}{what[1:]} {'was' if k < K else 'were'} chosen {observed[k]:,.0f} "
        f"times; the logged probabilities add up to {expected[k]:,.0f} (give or take "
        f"{spread:,.0f}).{also}"
    )
    return _found(
        "frequencies", _grade(off[k] / expected[k], OFF_BY), message, what=what,
        observed=float(observed[k]), expected=float(expected[k]), stderr=spread,
        chance=float(chance[k]), failing=failing, tests=tests,
    )  # fmt: skip


def _number_of_actions(log: BanditLog) -> int:
    return len(log.actions) if log.actions is not None else int(np.diff(log.offsets).max())


def _positions(log: BanditLog) -> Ints:
    return np.arange(int(log.offsets[-1])) - np.repeat(log.offsets[:-1], np.diff(log.offsets))


def _codes(log: BanditLog) -> Ints:
    """Each candidate's action; its position in the decision where actions have no names."""
    return _positions(log) if log.actions is None else log.candidate_codes()


def _chosen_codes(log: BanditLog) -> Ints:
    return log.chosen if log.candidate is None else log.candidate[log.chosen_index]


def _action(log: BanditLog, k: int) -> str:
    return f"position {k}" if log.actions is None else f"action {log.actions[k]!r}"


def _bin(k: int) -> str:
    if k == 0:
        return f"a logged probability up to {EDGES[0]:g}"
    if k == len(EDGES):
        return f"a logged probability above {EDGES[-1]:g}"
    return f"a logged probability from {EDGES[k - 1]:g} to {EDGES[k]:g}"


def _normalised(log: BanditLog) -> Floats:
    """π₀ of every candidate, without the rounding that its sums are allowed."""
    assert log.logging is not None
    sums = np.repeat(row_sums(log.logging, log.offsets), np.diff(log.offsets))
    return np.asarray(log.logging / sums)


def _part(log: BanditLog, part: BanditLog) -> slice:
    """Where in ``log`` the rows of ``part`` are."""
    start = part.first_row - log.first_row
    return slice(start, start + len(part))


def _class_totals(log: BanditLog, rows: _Rows, K: int) -> tuple[Floats, Floats, Floats]:
    """How often each of K actions, and then each class of probability, was chosen, the mean of
    that by the logged probabilities, and its variance."""
    B = len(EDGES) + 1

    def of_block(block: Block) -> Floats:
        part = block.log
        n, omega = len(part), rows.omega[_part(log, part)]
        p, codes = _normalised(part), _codes(part)
        bins = np.searchsorted(EDGES, p)
        decision, at = decision_of_candidate(part.offsets), part.chosen_index
        each = omega[decision]
        shares = np.bincount(decision * B + bins, weights=p, minlength=n * B).reshape(n, B)
        spread = shares * np.maximum(1.0 - shares, 0.0)
        total = np.empty((3, K + B))
        total[0, :K] = np.bincount(codes[at], weights=omega, minlength=K)
        total[0, K:] = np.bincount(bins[at], weights=omega, minlength=B)
        total[1, :K] = np.bincount(codes, weights=each * p, minlength=K)
        total[1, K:] = (omega[:, None] * shares).sum(axis=0)
        total[2, :K] = np.bincount(codes, weights=each * each * p * (1.0 - p), minlength=K)
        total[2, K:] = (omega[:, None] ** 2 * spread).sum(axis=0)
        return total

    observed, expected, variance = _added(each_block(of_block, blocks(log, _logger(log), None)))
    return observed, expected, variance


def _deviation(log: BanditLog, k: int, K: int) -> Floats:
    """Of every decision: was one of class ``k`` chosen, less the probability of that."""

    def of_block(block: Block) -> Floats:
        part = block.log
        p = _normalised(part)
        member = _codes(part) == k if k < K else np.searchsorted(EDGES, p) == k - K
        mean = row_sums(np.where(member, p, 0.0), part.offsets)
        return np.asarray(member[part.chosen_index] - mean)

    return np.concatenate(list(each_block(of_block, blocks(log, _logger(log), None))))


def _added(parts: Iterator[Floats]) -> Floats:
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _inverse_propensities(log: BanditLog, rows: _Rows, propensity: Floats) -> list[Finding]:
    """Where only the chosen action's probability is known: Σ 1{chosen k}/π₀ estimates how many
    decisions could have chosen k, and Σ 1/π₀ how many candidates there were. Too few may be for
    lack of support, or by chance; too many cannot be."""
    codes, n = _chosen_codes(log), len(log)
    inverse = 1.0 / np.maximum(propensity, 1.0 / _LARGEST)
    total = np.bincount(codes, weights=rows.omega * inverse)
    squares = np.bincount(codes, weights=(rows.omega * inverse) ** 2)
    suspicion = (total - n) / np.sqrt(np.maximum(squares, 1.0))
    tests = int(np.count_nonzero(total)) + 1
    worst = ("", 1.0, 1.0, 1.0)
    for k in np.argsort(-suspicion, kind="stable")[:RECHECKED]:
        if suspicion[k] > 1.0:
            chance = rows.chance_above(np.where(codes == k, inverse, 0.0) - 1.0, -1.0)
            this = (_action(log, int(k)), chance, float(total[k]) / n, 1.0)
            worst = min(worst, this, key=_second)
    if log.candidates_known:
        lengths = np.diff(log.offsets).astype(np.float64)
        chance = rows.chance_above(inverse - lengths, -float(lengths.max()))
        mean, most = float((rows.omega * inverse).mean()), float((rows.omega * lengths).mean())
        worst = min(worst, ("all actions together", chance, mean, most), key=_second)
    who, chance, mean, most = worst
    if chance * tests >= ALPHA:
        return []
    message = (
        f"For {who}, 1/propensity averages {mean:.4g}, where {most:.4g} is the most there can be: "
        f"it was chosen more often than the propensities say."
    )
    return _found(
        "frequencies", _grade(mean / most - 1.0, OFF_BY), message, what=who,
        mean=mean, most=most, chance=chance, tests=tests,
    )  # fmt: skip


def _second(item: tuple[Any, ...]) -> Any:
    return item[1]


# -- copies and drift ------------------------------------------------------------------------


def _duplicates(log: BanditLog) -> list[Finding]:
    """Do rows repeat others more often than chance allows?

    Rows with the same context, time, cluster and probabilities are paired. Honest rows are drawn
    anew, so the second of a pair repeats the first one's action with its propensity at most. (Where
    probabilities differ unseen, less often: Σ_y π₀π₀′ is at most the mean of Σ_y π₀² and Σ_y π₀′².)
    """
    if log.propensity is None:
        return []
    situation = _situations(log)
    row = situation
    for values in (_chosen_codes(log), log.propensity, log.reward):
        row = _mixed(row, _bits(values))
    order = np.argsort(situation, kind="stable")
    ordered, index = situation[order], np.arange(len(log))
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    inside = index - np.maximum.accumulate(np.where(starts, index, 0))
    second = np.flatnonzero(inside % 2 == 1)
    first, second = order[second - 1], order[second]
    p = 0.5 * (log.propensity[first] + log.propensity[second])
    alike, expected = int((row[first] == row[second]).sum()), float(p.sum())
    if float(_tail(alike - expected, (p * (1.0 + p)).sum(), 1.0)) >= ALPHA:
        return []
    count, n = len(log) - len(np.unique(row)), len(log)
    message = (
        f"{count:,} of {n:,} rows ({_percent(count / n)}) are exact copies of another. Of "
        f"{len(p):,} pairs of rows in one situation {alike:,} are alike; drawn anew, at most "
        f"{expected:,.0f} or so would be."
    )
    return _found(
        "duplicates", "note" if log.cluster is not None else "warning", message,
        rows=count, share=count / n, pairs=len(p), alike=alike, expected=expected,
    )  # fmt: skip


def _situations(log: BanditLog) -> NDArray[np.uint64]:
    """A hash of all that is known of each decision before the choice."""

    def of_block(block: Block) -> NDArray[np.uint64]:
        part = block.log
        if part.logging is None:
            return np.zeros(len(part), dtype=np.uint64)
        values = _mixed(_bits(part.logging), _bits(_positions(part)))
        return np.add.reduceat(values, part.offsets[:-1])

    parts = list(each_block(of_block, blocks(log, _logger(log), None)))
    state = _mixed(np.concatenate(parts), _bits(np.diff(log.offsets)))
    context = [] if log.context is None else list(log.context.T)
    for column in (log.cluster, log.time, *context):
        if column is not None:
            state = _mixed(state, _bits(column))
    return state


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """One integer for each value, the same for equal values."""
    if values.dtype.kind == "f":
        return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    if values.dtype.kind in "biumM":
        return np.ascontiguousarray(values).astype(np.int64).view(np.uint64)
    return encode(values, "column", "")[1].view(np.uint64)


def _mixed(state: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Two hashes as one (multiply and shift, as in MurmurHash3)."""
    x = state * np.uint64(0x9E3779B97F4A7C15) + bits
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x ^= x >> np.uint64(33)
        x *= np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(33)))


class _Move(NamedTuple):
    """The part of the log whose mean stands out most."""

    chance: float
    share: float
    """How far it is from the mean, as a share of the mean or of the spread, whichever is less."""
    text: str
    there: float
    elsewhere: float

    def matters(self, tests: float) -> bool:
        return self.chance * tests < ALPHA and self.share >= DRIFT


def _moved(rows: _Rows, x: Floats, order: Ints | None) -> _Move | None:
    """Compare each tenth of the log, and the first half, with the whole; None if all x are equal.

    Were rows in random order, a part would be a sample without replacement, whose sum strays less
    than that of independent draws (Hoeffding 1963), whatever the values are.
    """
    n, mean = len(x), float((rows.omega * x).mean())
    scale = float(np.abs(x - mean).max())
    if scale <= 1e-9 * abs(mean):
        return None
    y, omega, cluster = rows.omega * ((x - mean) / scale), rows.omega, rows.cluster
    if order is not None:
        y, omega = y[order], omega[order]
        cluster = None if cluster is None else cluster[order]
    edges = _tenths(n)
    total = _with_half(np.add.reduceat(y, edges[:-1]))
    size = _with_half(np.diff(edges))
    variance = size * (n - size) / (n - 1.0) * float((y * y).mean())
    bound = float(np.abs(y).max())
    if cluster is not None:
        tenth = np.repeat(np.arange(TENTHS), np.diff(edges))
        table = np.bincount(cluster * TENTHS + tenth, weights=y)
        table.resize((int(cluster.max()) + 1, TENTHS), refcheck=False)
        variance = np.maximum(variance, (_with_half(table) ** 2).sum(axis=0))
        bound = float(rows.sizes().max())
    chance = _tail(np.abs(total), variance, bound)
    at = int(np.argmin(chance))
    weight = float(_with_half(np.add.reduceat(omega, edges[:-1]))[at])
    there = _rounded_off(mean + scale * float(total[at]) / weight, scale)
    elsewhere = _rounded_off(mean - scale * float(total[at]) / (n - weight), scale)
    spread = scale * math.sqrt(float((y * y).mean()))
    where = "the first half" if at == TENTHS else f"tenth {at + 1} of {TENTHS}"
    return _Move(
        2.0 * len(chance) * float(chance[at]),
        abs(there - mean) / min(abs(mean) or spread, spread),
        f"is {there:.4g} in {where} and {elsewhere:.4g} in the rest",
        there,
        elsewhere,
    )


def _rounded_off(value: float, scale: float) -> float:
    """0 for what is 0 but for rounding."""
    return value if abs(value) > 1e-12 * scale else 0.0


def _tenths(n: int) -> Ints:
    return np.arange(TENTHS + 1) * n // TENTHS


def _with_half(parts: NDArray[Any]) -> Floats:
    """Sums over each tenth (the last axis), and over the first half."""
    half = parts[..., : TENTHS // 2].sum(axis=-1, keepdims=True)
    return np.concatenate([parts, half], axis=-1).astype(np.float64)


def _order_in_time(log: BanditLog) -> Ints | None:
    if log.time is None:
        return None
    try:
        return np.argsort(log.time, kind="stable")
    except TypeError:  # times of different kinds: the log's own order has to do
        return None


def _drift(log: BanditLog, rows: _Rows) -> list[Finding]:
    if len(log) < FEWEST_FOR_DRIFT:
        return []
    order, codes = _order_in_time(log), _chosen_codes(log)
    tests = 3.0 * (int(codes.max()) + 1)
    found = {}
    for name, column in (("reward", log.reward), ("propensity", log.propensity)):
        move = None if column is None else _moved(rows, column, order)
        if move is not None and move.matters(3.0):
            found[f"mean {name}"] = move
    for k in _restless(rows, codes, order):
        move = _moved(rows, (codes == k).astype(np.float64), order)
        if move is not None and move.matters(tests):
            found[f"share of {_action(log, k)}"] = move
    if not found:
        return []
    said = [f"the {name} {move.text}" for name, move in found.items()]
    more = "; and more" if len(said) > 3 else ""
    by = "the rows' order" if order is None else "time"
    numbers: dict[str, Any] = {"moved": len(found)}
    for name, move in found.items():
        numbers |= {name: move.there, f"{name} elsewhere": move.elsewhere}
    severity: Severity = "warning" if "mean reward" in found else "note"
    return _found("drift", severity, f"By {by}, {'; '.join(said[:3])}{more}.", **numbers)


def _restless(rows: _Rows, codes: Ints, order: Ints | None) -> list[int]:
    """The actions whose shares seem to move most."""
    n, K, omega = len(codes), int(codes.max()) + 1, rows.omega
    if order is not None:
        codes, omega = codes[order], omega[order]
    edges = _tenths(n)
    tenth = np.repeat(np.arange(TENTHS), np.diff(edges))
    counts = np.bincount(codes * TENTHS + tenth, weights=omega, minlength=K * TENTHS)
    table = _with_half(counts.reshape(K, TENTHS))
    weight = _with_half(np.add.reduceat(omega, edges[:-1]))
    share = table[:, :TENTHS].sum(axis=1, keepdims=True) / n
    off, variance = np.abs(table - share * weight), share * (1.0 - share) * weight
    chance = _tail(off, variance, 1.0).min(axis=1)
    worst = [int(k) for k in np.argsort(chance, kind="stable")[:RECHECKED]]
    return [k for k in worst if chance[k] * K < ALPHA]


# -- one policy ------------------------------------------------------------------------------


def _about_policy(log: BanditLog, rows: _Rows, target: Target) -> list[Finding]:
    name, c = target.name, np.minimum(whole_block(log, target, None).c, _LARGEST)
    found = _about_size(log, rows, c, name)
    if not c.any():
        return found
    M = max(_kish(rows.omega) / THIN_ROWS, THIN_WEIGHT)
    if log.logging is not None and target.flat is not None:
        masses = _masses(log, rows, target, M)
        found += _support(log, name, masses)
        found += _weight_mean(log, rows, target)
        thin = masses.thin
    else:
        found += _missing_mass(rows, name, c)
        found += _weights_above_one(rows, name, c)
        beyond = float((rows.omega * np.maximum(c - M, 0.0)).mean())
        thin = min(beyond, 1.0 - float((rows.omega * np.minimum(c, M)).mean()))
    message = (
        f"{_percent(thin)} of the probability of {name} is on actions so rare in the log that "
        f"their weights go beyond {M:,.4g}."
    )
    found += _found("thin-support", _grade(thin, THIN), message, name, mass=thin, M=M)
    return found + _heavy_weights(rows, name, c) + _weight_drift(log, rows, name, c)


class _Masses(NamedTuple):
    """A policy's probability where the logger has none, or too little."""

    unsupported: Floats
    """By action."""
    thin: float


def _masses(log: BanditLog, rows: _Rows, target: Target, M: float) -> _Masses:
    K = _number_of_actions(log)

    def of_block(block: Block) -> Floats:
        part, pi = block.log, block.target.flat
        assert pi is not None
        assert part.logging is not None
        each = np.repeat(rows.omega[_part(log, part)], np.diff(part.offsets))
        gone = np.where(part.logging == 0.0, pi, 0.0)
        thin = float((each * (weights.clipped(pi, part.logging, M) - gone)).sum())
        return np.append(np.bincount(_codes(part), weights=each * gone, minlength=K), thin)

    total = _added(each_block(of_block, blocks(log, target, None))) / len(log)
    return _Masses(total[:-1], float(total[-1]))


def _support(log: BanditLog, name: str, masses: _Masses) -> list[Finding]:
    by_action, mass = masses.unsupported, float(masses.unsupported.sum())
    most = [int(k) for k in np.argsort(-by_action, kind="stable")[:3] if by_action[k] > 0.0]
    listed = ", ".join(f"{_action(log, k)} ({_percent(by_action[k])})" for k in most)
    count = int(np.count_nonzero(by_action))
    more = f" and {count - len(most)} more" if count > len(most) else ""
    message = (
        f"{name} puts {_percent(mass)} of its probability where the logger has none: on "
        f"{listed}{more}."
    )
    return _found("support", _grade(mass, UNSUPPORTED), message, name, mass=mass, actions=count)


def _missing_mass(rows: _Rows, name: str, c: Floats) -> list[Finding]:
    """Where the logger's other probabilities are unknown: the mean of c is the supported mass."""
    mass = 1.0 - float((rows.omega * c).mean())
    spread = rows.spread(c - 1.0)
    bound = float(c.max()) * float(rows.sizes().max())
    if float(_tail(mass * len(c), spread**2, bound)) >= ALPHA:
        return []
    stderr = spread / len(c)
    message = (
        f"The weights of {name} average {1.0 - mass:.3g}, not 1: about {_percent(mass)} (give or "
        f"take {_percent(stderr)}) of its probability is on actions that the log shows never, or "
        f"hardly ever."
    )
    return _found("support", _grade(mass, UNSUPPORTED), message, name, mass=mass, stderr=stderr)


def _heavy_weights(rows: _Rows, name: str, c: Floats) -> list[Finding]:
    w = rows.omega * c
    w = w[w > 0.0]
    if len(w) < SMALL:  # effective-size speaks
        return []
    top = math.ceil(TOP * len(w))
    share = float(np.partition(w, -top)[-top:].sum() / w.sum())
    message = (
        f"The heaviest {top:,} of {len(w):,} rows hold {_percent(share)} of all weight for {name}; "
        f"the largest weight is {c.max():,.4g}."
    )
    return _found(
        "heavy-weights", _grade(share, TOP_SHARE), message, name,
        share=share, rows=top, largest=float(c.max()),
    )  # fmt: skip


def _weight_mean(log: BanditLog, rows: _Rows, target: Target) -> list[Finding]:
    """min(c, M) against its exact mean under the logged probabilities, Σ_y min(π, Mπ₀)."""

    def of_block(block: Block) -> tuple[Floats, Floats]:
        """For every M: how far each row is from its mean; the sums of means and of variances."""
        pi, pi0, offsets = block.target.flat, block.log.logging, block.log.offsets
        assert pi is not None
        assert pi0 is not None
        c, total = weights.ratio(pi, pi0), row_sums(pi0, offsets)
        omega = rows.omega[_part(log, block.log)]
        off, sums = np.empty((len(CLIPS), len(omega))), np.empty((len(CLIPS), 2))
        for j, M in enumerate(CLIPS):
            mass = np.minimum(pi, M * pi0)
            mean = row_sums(mass, offsets) / total
            squares = row_sums(mass * np.minimum(c, M), offsets) / total
            # Never 0 through rounding alone: the rarest choice must count as possible.
            variance = np.maximum(squares - mean * mean, 1e-15 * squares)
            off[j] = np.minimum(block.c, M) - mean
            sums[j] = (omega * mean).sum(), (omega * omega * variance).sum()
        return off, sums

    parts = list(each_block(of_block, blocks(log, target, None)))
    off = np.concatenate([part for part, _ in parts], axis=1)
    mean, variance = _added(sums for _, sums in parts).T
    chances = [rows.chance(off[j], float(variance[j]), M) for j, M in enumerate(CLIPS)]
    failing = [j for j, chance in enumerate(chances) if chance * len(CLIPS) < ALPHA]
    if not failing:
        return []
    j = failing[-1]  # the nearest to the weights as they are
    expected = float(mean[j]) / len(log)
    found = expected + float((rows.omega * off[j]).mean())
    stderr = (math.sqrt(variance[j]) if rows.plain else rows.spread(off[j])) / len(log)
    message = (
        f"The weights of {target.name}, clipped at {CLIPS[j]:g}, average {found:.4g}; by the "
        f"logged probabilities it should be {expected:.4g} (give or take {stderr:.2g})."
    )
    return _found(
        "weight-mean", _grade(abs(found / expected - 1.0), OFF_BY), message, target.name,
        M=CLIPS[j], mean=found, expected=expected, stderr=stderr, chance=chances[j],
    )  # fmt: skip


def _weights_above_one(rows: _Rows, name: str, c: Floats) -> list[Finding]:
    """Without the other probabilities, all that is known of the mean is that it is at most 1."""
    chance, mean = rows.chance_above(c - 1.0, -1.0), float((rows.omega * c).mean())
    if chance >= ALPHA:
        return []
    stderr = rows.spread(c - mean) / len(c)
    message = (
        f"The weights of {name} average {mean:.4g} (give or take {stderr:.2g}), where 1 is the "
        f"most there can be."
    )
    return _found(
        "weight-mean", _grade(mean - 1.0, OFF_BY), message, name,
        mean=mean, expected=1.0, stderr=stderr, chance=chance,
    )  # fmt: skip


def _weight_drift(log: BanditLog, rows: _Rows, name: str, c: Floats) -> list[Finding]:
    if len(log) < FEWEST_FOR_DRIFT:
        return []
    move = _moved(rows, np.minimum(c, DRIFT_CLIP), _order_in_time(log))
    if move is None or not move.matters(1.0):
        return []
    message = f"The mean weight of {name} (clipped at {DRIFT_CLIP:g}) {move.text}."
    numbers = {"there": move.there, "elsewhere": move.elsewhere}
    return _found("weight-drift", "note", message, name, **numbers)


# -- the reward model ------------------------------------------------------------------------


def _about_prediction(
    log: BanditLog, rows: _Rows, delta_hat: Floats, limits: tuple[float, float] | None
) -> list[Finding]:
    found = _calibration(log, rows, delta_hat[log.chosen_index])
    low, high, N = float(delta_hat.min()), float(delta_hat.max()), len(delta_hat)
    if limits is None and _is_binary(log.reward):
        limits = (0.0, 1.0)
    least, most = limits or (float(log.reward.min()), float(log.reward.max()))
    outside = int(np.count_nonzero((delta_hat < least) | (delta_hat > most)))
    far = max(least - low, high - most) > BEYOND * (most - least)
    message = (
        f"{outside:,} of {N:,} predictions ({_percent(outside / N)}) are outside the "
        f"{'rewards seen' if limits is None else 'range of rewards'}, {least:g} to {most:g}: they "
        f"go from {low:g} to {high:g}."
    )
    severity: Severity | None = "warning" if far and limits is not None else "note"
    found += _found(
        "prediction-range", severity if outside else None, message,
        low=low, high=high, outside=outside,
    )  # fmt: skip
    starts = log.offsets[:-1]
    differ = np.maximum.reduceat(delta_hat, starts) > np.minimum.reduceat(delta_hat, starts)
    alike = not differ.any() and bool((np.diff(log.offsets) > 1).any())
    value = f": {low:g} for all" if low == high else ""
    message = f"In every decision the predictions of all candidates are equal{value}."
    return found + _found(
        "constant-prediction", "note" if alike else None, message, low=low, high=high
    )


def _is_binary(reward: Floats) -> bool:
    return bool(np.isin(reward, (0.0, 1.0)).all())


def _may_be_unseen(rows: _Rows, reward: Floats, x: Floats, error: float) -> bool:
    """Whether rewards that would set the mean right may just not have come up yet."""
    usual = _usual_reward(reward)
    if usual is not None and np.count_nonzero(reward != usual) < TINY:
        return True
    heavy_side = error * float((rows.omega * x**3).sum()) > 0.0
    return not heavy_side and _kish((rows.omega * x) ** 2) < SETTLED


def _calibration(log: BanditLog, rows: _Rows, predicted: Floats) -> list[Finding]:
    """Does the model get the mean reward of the log itself right?"""
    off = log.reward - predicted
    scale = float(np.abs(off).max())
    if scale == 0.0:
        return []
    x = off / scale
    variance = float(((rows.omega * x) ** 2).sum())
    error, reward = float((rows.omega * off).mean()), float((rows.omega * log.reward).mean())
    if _is_binary(log.reward) and predicted.min() >= 0.0 and predicted.max() <= 1.0:
        by_model = float((rows.omega**2 * predicted * (1.0 - predicted)).sum()) / scale**2
        chance = rows.chance(x, max(variance, by_model), 1.0 / scale)
    elif _may_be_unseen(rows, log.reward, x, error):
        return []
    else:
        chance = rows.chance(x, variance, 1.0)
    spread = float(log.reward.std())
    if chance >= ALPHA or abs(error) < CALIBRATION * min(abs(reward) or spread, spread):
        return []
    stderr = scale * rows.spread(x) / len(log)
    message = (
        f"For what was chosen, the model predicts {reward - error:.4g} on average; the mean reward "
        f"is {reward:.4g} (the difference is known to ±{stderr:.2g})."
    )
    return _found(
        "prediction-calibration", "warning", message,
        predicted=reward - error, reward=reward, stderr=stderr, chance=chance,
    )  # fmt: skip
