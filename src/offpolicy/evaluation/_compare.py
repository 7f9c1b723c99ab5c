"""`compare`: which of these policies is better, and by how much?

All policies are asked about the same decisions, so most of the luck of the draw is common to them
and cancels in the difference, which has a rule of its own (`evidence._differences`). The policy
that wrote the log takes part under the name "logged", with the reward for its contribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple, Unpack, cast

from offpolicy._core.door import Door
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.evaluation._evaluate import (
    Answer,
    answer,
    are_texts,
    findings_of,
    named_policies,
)
from offpolicy.evidence import (
    TOO_FEW_EFFECTIVE,
    Evidence,
    Gap,
    Question,
    Source,
    gap_of,
    gather,
    pair,
)
from offpolicy.intervals import Interval
from offpolicy.logs import BanditLog, LogScan
from offpolicy.logs.files import Reading, as_log
from offpolicy.results import (
    CANNOT_TELL,
    IDENTICAL,
    LOGGED,
    NOT_DECIDED,
    SMALLEST_P,
    Comparison,
    Difference,
    Headline,
)

MULTIPLICITY = ("holm", "none")

_POWER_80 = NormalDist().inv_cdf(0.8)


def compare(
    log: Any,
    policies: Mapping[str, Any] | Sequence[str],
    *,
    prediction: Any = None,
    level: float = 0.95,
    multiplicity: str = "holm",
    reward_range: tuple[float, float] | None = None,
    baseline: str | None = None,
    resume: str | Path | None = None,
    report: str | Path | None = None,
    **reading: Unpack[Reading],
) -> Comparison:
    """Compare policies with each other, and with the one that wrote the log.

    Parameters
    ----------
    log : anything that `evaluate` takes
        With propensities.
    policies : mapping of names to policies
        Each anything that `evaluate` takes; or a list of texts, ``"NAME=SPEC"``. The
        name "logged" is taken: it is the policy that wrote the log.
    prediction : optional
        The reward model δ̂, as for `evaluate`; it serves all policies.
    level : float
        Coverage of the intervals, of all at once if ``multiplicity="holm"``.
    multiplicity : {"holm", "none"}
        With several pairs some will differ by chance. "holm" allows for that: p-values are
        adjusted by Holm's steps and decide, intervals are widened by Bonferroni's rule (which
        is slightly more cautious: an interval may still touch 0 where Holm decides). With "none"
        each pair stands for itself.
    reward_range : (low, high), optional
        Between which rewards lie; by default 0 and 1 if they are binary, else as observed.
    baseline : str, optional
        Compare all other policies with this one only, instead of all pairs; ``"logged"`` is
        compared with others only if it is the baseline.
    resume : folder, optional
        As for `evaluate`.
    report : path, optional
        Also write a page there, the one of ``offpolicy compare --report``.
    reading : options of `read_log`, optional
        As in `evaluate`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, 1000)
    >>> reward = rng.random(1000) < np.where(action == 1, 0.6, 0.3)
    >>> log = BanditLog.from_arrays(action=action, reward=reward, logging=[[0.5, 0.5]] * 1000)
    >>> compared = compare(log, {"new": [[0.2, 0.8]] * 1000, "old": [[0.7, 0.3]] * 1000})
    >>> compared["new", "old"].verdict
    'new is better than old'
    """
    log = as_log(log, reading, compare)
    asked: dict[str, Any] = {
        "prediction": prediction, "level": level, "reward_range": reward_range, "resume": resume,
    }  # fmt: skip
    if report is not None:
        from offpolicy.evaluation._together import compare_and_check

        together = compare_and_check(
            log, policies, multiplicity=multiplicity, baseline=baseline, page=report, **asked
        )
        return cast(Comparison, together.answers[0])
    question = question_of_pairs(log, policies, multiplicity, baseline, **asked)
    return compared(gather(question), multiplicity, baseline)


def question_of_pairs(
    log: BanditLog | LogScan,
    policies: Mapping[str, Any] | Sequence[str],
    multiplicity: str,
    baseline: str | None,
    **asked: Any,
) -> Question:
    """What `compare` asks, its own arguments checked before anything is read."""
    if multiplicity not in MULTIPLICITY:
        raise ParameterError(
            f'multiplicity is "{multiplicity}"; it must be {" or ".join(MULTIPLICITY)}.',
            column="multiplicity",
        )
    named = _named(policies)
    _pairs(list(named), baseline)
    return Question(log, named, verb="compare", **asked)


def compared(
    evidence: Sequence[Evidence], multiplicity: str = "holm", baseline: str | None = None
) -> Comparison:
    """What `compare` returns, from the evidence about every policy."""
    first = evidence[0]
    known = [answer(each) for each in evidence]
    contests = _contests(first.source, known, _pairs(first.source.names, baseline))
    return Comparison(
        _judged(contests, first.source.n, first.level, multiplicity),
        tuple(each.headline for each in known if each.headline is not None),
        first.logged,
        first.level,
        multiplicity,
        baseline,
        first.source.dropped,
        first.source.trained,
        findings_of(evidence, known),
        tuple(each.summary for each in known),
    )


def _named(policies: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    if not isinstance(policies, Mapping) and not are_texts(policies):
        raise ParameterError(
            f'policies must be a mapping of names to policies, {{"new": …, "old": …}}; found a '
            f"{type(policies).__name__}.",
            column="policy",
        )
    named = named_policies(policies, "compare")
    if LOGGED in named:
        raise ParameterError(
            f'The name "{LOGGED}" is taken: it is the policy that wrote the log, and takes part by '
            f"itself. Give this one another name.",
            column="policy",
        )
    return named


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[int, int]]:
    """Which policies `compare` compares, by position; "logged" comes after all the others."""
    everyone = [*names, LOGGED]
    if baseline is None:
        return [(a, b) for a in range(len(everyone)) for b in range(a + 1, len(everyone))]
    if baseline not in everyone:
        raise ParameterError(
            f'baseline is "{baseline}", and there is no such policy.'
            f"{did_you_mean(str(baseline), everyone)} There are {', '.join(everyone)}.",
            column="baseline",
        )
    if len(names) == 1 and baseline != LOGGED:
        raise ParameterError(
            f'"{baseline}" is the only policy, and the baseline: there is nothing to compare it '
            f"with. Give another policy, or {Door.given('baseline', LOGGED)}.",
            column="baseline",
        )
    against = everyone.index(baseline)
    return [(a, against) for a in range(len(names)) if a != against]


# -- pairs -----------------------------------------------------------------------------------


class _Contest(NamedTuple):
    """Two policies and the difference between them; "logged" has no headline."""

    first: str
    second: str
    headlines: tuple[Headline, ...]
    gap: Gap


def _contests(
    source: Source, known: Sequence[Answer], pairs: Sequence[tuple[int, int]]
) -> list[_Contest]:
    """All pairs that `compare` looks at; those of two policies from one more pass over the log."""
    names = [*source.names, LOGGED]
    arms = [each.known for each in known if each.known is not None]
    to_logged = [each.gap for each in known if each.gap is not None]
    headlines = [each.headline for each in known if each.headline is not None]
    gaps = {}
    for k, (a, b) in enumerate(pairs):
        # What is identical to the policy that wrote the log has its difference to any other.
        if b == len(arms) or arms[b].identical:
            gaps[k] = to_logged[a]
        elif arms[a].identical:
            gaps[k] = -to_logged[b]
    others = [k for k in range(len(pairs)) if k not in gaps]
    if others:
        paired = pair(source, arms, [pairs[k] for k in others])
        for j, k in enumerate(others):
            a, b = pairs[k]
            gaps[k] = gap_of(paired, j, arms[a], arms[b])
    return [
        _Contest(names[a], names[b], tuple(headlines[x] for x in (a, b) if x < len(arms)), gaps[k])
        for k, (a, b) in enumerate(pairs)
    ]


# -- verdicts --------------------------------------------------------------------------------


class _Levels(NamedTuple):
    """Of all pairs together; of each interval, by Bonferroni's rule; and of Holm's next step, which
    the undecided pair with the least p-value has to take."""

    together: float
    interval: float
    step: float


def _judged(
    contests: Sequence[_Contest], n: int, level: float, multiplicity: str
) -> tuple[Difference, ...]:
    p_values = [contest.gap.p_value(SMALLEST_P) for contest in contests]
    adjusted, levels = p_values, _Levels(level, level, level)
    if multiplicity == "holm":
        adjusted, alpha = holm(p_values), 1.0 - level
        undecided = sum(p >= alpha for p in adjusted)
        levels = _Levels(level, 1.0 - alpha / len(contests), 1.0 - alpha / max(undecided, 1))
        if 1.0 - levels.interval < SMALLEST_P:
            raise ParameterError(
                f"level is {level}, too near to 1 for {len(contests)} pairs. Ask for less, or for "
                f"fewer pairs with {Door.spelled('baseline')}.",
                column="level",
            )
    return tuple(
        _difference(contest, p, p_all, n, levels)
        for contest, p, p_all in zip(contests, p_values, adjusted, strict=True)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """`compare`'s adjusted p-values: reject those up to α, and no true one goes with chance 1 − α.

    The smallest of m is multiplied by m, the next by m − 1, …; none is below the one before.
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, j in enumerate(sorted(range(len(p_values)), key=lambda j: p_values[j])):
        largest = max(largest, min((len(p_values) - rank) * p_values[j], 1.0))
        adjusted[j] = largest
    return adjusted


def _difference(
    contest: _Contest, p_value: float, adjusted: float, n: int, levels: _Levels
) -> Difference:
    gap, interval = contest.gap, contest.gap.interval(levels.interval)
    decided = adjusted < 1.0 - levels.together or 0.0 not in interval
    value = min(max(gap.value, interval.low), interval.high)
    reason, hopeless = _thin(contest), None
    if reason is None:
        reason = hopeless = _hopeless(contest, decided)
    verdict = NOT_DECIDED if reason is None else CANNOT_TELL
    rows: tuple[float | None, float | None] = (math.inf, math.inf)
    if gap.identical:
        verdict, reason, decided = IDENTICAL, None, False
    elif decided and reason is None:
        up = gap.low + gap.high > 0.0
        better, worse = (contest.first, contest.second) if up else (contest.second, contest.first)
        verdict, rows = f"{better} is better than {worse}", (None, None)
    elif hopeless is None:
        rows = _rows_needed(contest, gap.interval(levels.step), n)
    return Difference(
        first=contest.first,
        second=contest.second,
        value=value,
        stderr=gap.stderr,
        interval=interval,
        p_value=p_value,
        adjusted_p_value=adjusted,
        verdict=verdict,
        reason=reason,
        rows_needed=rows[0],
        rows_needed_80=rows[1],
    )


def _thin(contest: _Contest) -> str | None:
    """Why `compare` needs more rows before it says anything; None if there are enough."""
    for headline in contest.headlines:
        if headline.rewarded < TOO_FEW_EFFECTIVE and headline.refusal is not None:
            return f"{headline.policy}: {headline.refusal}"
    return None


def _hopeless(contest: _Contest, decided: bool) -> str | None:
    """Why `compare` could not tell from any number of rows; None if it could."""
    gap = contest.gap
    if math.isinf(gap.spread):
        return (
            "The standard error is infinite: there is only one cluster, a policy is known through "
            "too few draws, or the numbers are too large."
        )
    if gap.unsupported > 0.0 and gap.low <= 0.0 <= gap.high:
        return (
            f"{gap.unsupported:.1%} of their probability is where they differ and the logger never "
            f"goes; rewards there could put the difference anywhere from {gap.low:.3g} to "
            f"{gap.high:.3g}. More rows of this log would not help: log some decisions that "
            f"explore these candidates."
        )
    if not decided and contest.second == LOGGED:
        # As `evaluate` says it: one log, one answer.
        refusals = (f"{row.policy}: {row.refusal}" for row in contest.headlines if row.refusal)
        return next(refusals, None)
    return None


def _rows_needed(contest: _Contest, interval: Interval, n: int) -> tuple[float, float]:
    """How many more rows `compare` needs to tell two policies apart: on average, and with 80 %.

    With f times the rows, what is noise or measured bias now is smaller by √f; the worst case
    where the logger never goes stays. So 0 is left out when goal − reach/√f is above 0.
    """
    gap = contest.gap
    # The difference that it seems to be is the value, wherever the interval stands.
    moved = gap.value - 0.5 * (gap.low + gap.high)
    if gap.low + moved > 0.0:
        goal, reach = gap.low + moved, gap.low - interval.low
    elif gap.high + moved < 0.0:
        goal, reach = -gap.high - moved, interval.high - gap.high
    else:
        return math.inf, math.inf
    rewarded = min(headline.rewarded for headline in contest.headlines)
    if rewarded == 0.0:
        return math.inf, math.inf
    least = max(TOO_FEW_EFFECTIVE / rewarded, 1.0)

    def rows(reach: float) -> float:
        return _round_up(n * (max((reach / goal) ** 2, least) - 1.0))

    return rows(reach), rows(reach + _POWER_80 * gap.spread)


def _round_up(rows: float) -> float:
    """Rows that `compare` needs, in two digits and zeros, at least 1; infinite beyond 1e15."""
    if not rows < 1e15:
        return math.inf
    step = 10.0 ** max(math.floor(math.log10(max(rows, 1.0))) - 1, 0)
    return max(math.ceil(rows / step) * step, 1.0)
