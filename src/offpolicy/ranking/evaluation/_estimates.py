"""One estimator's row about a ranker: its value, and an interval by the headline's rule."""

from __future__ import annotations

import math

import numpy as np

from offpolicy import intervals
from offpolicy.errors import SupportError
from offpolicy.estimators import IPS, Estimator, parse
from offpolicy.evidence import Apart, by_clusters, disagreement
from offpolicy.intervals import Interval
from offpolicy.ranking.data._weights import blended, weights_at
from offpolicy.ranking.evaluation._click_path import Question
from offpolicy.ranking.evaluation._headline import NOISE, Known
from offpolicy.ranking.evaluation._sums import Value, effective_clicks, value_of
from offpolicy.results import Estimate, Finding, Tuned

OWN_MEAN = "the estimator's own mean: this log has no propensities to say more"


def estimate(
    asked: Question, member: Estimator, known: Known | None, choice: Tuned | None = None
) -> Estimate:
    """The row of an estimator, with its parameter by ``choice`` if it has none; ``known`` is None
    where no headline can be had."""
    member = member if choice is None else parse(choice.estimator)
    log, own = asked.log, _value(asked, member)
    weight, omega = weights_at(member, log.p).observed, np.abs(own.weight)
    counted, total = omega * weight * log.click, float(omega.sum())
    left = float((omega * np.maximum(1.0 - weight * log.p, 0.0)).sum())
    bias, bound, covers, degrees = 0.0, math.inf, OWN_MEAN, max(log.queries - 1, 1)
    if log.propensity is not None:
        bias = left / len(log) * _residual_size(asked, member, own)
        bound, covers = left / len(log), NOISE
        if left > 5e-4 * total:
            covers += f", a plausible error on the {left / total:.1%} that no click answers for"
    half = intervals.bias_aware(own.stderr, bias, asked.level, degrees)
    return Estimate(
        policy=asked.ranker,
        estimator=str(member),
        value=own.value,
        stderr=own.stderr,
        interval=asked.cut(own.value - half, own.value + half, own.value),
        level=asked.level,
        imputed_mass=left / total if total > 0.0 else 0.0,
        ess=effective_clicks(counted) if weight.any() else None,
        largest_weight=float((weight * log.click).max()),
        covers=covers,
        plausible_bias=bias,
        bias_bound=bound,
        from_headline=None if known is None else float(apart(known, member).ratio[0]),
        reason=None if choice is None else choice.reason,
    )


def _value(asked: Question, member: Estimator) -> Value:
    log = asked.log
    found = value_of(log, asked.metric, asked.lam, blended(log, member, log.prediction))
    if not math.isfinite(found.value):
        raise SupportError(
            f"{member}: not one document counts as relevant, so {asked.metric} has no value. "
            f"The log has {int(log.click.sum()):,} clicks.",
            column="click",
        )
    return found


def _residual_size(asked: Question, member: Estimator, own: Value) -> float:
    """Root mean square of relevance less what an estimator imputes, of documents examined."""
    log, p = asked.log, asked.log.p
    imputed = log.prediction if member.uses_model else None
    d = np.zeros_like(p) if imputed is None else imputed
    omega = np.abs(own.weight)
    square = float((omega * (log.click * (1.0 - 2.0 * d) + p * d * d)).sum())
    examined = float((omega * p).sum())
    return math.sqrt(min(max(square / examined, 0.0), 1.0)) if examined > 0.0 else 1.0


def apart(known: Known, member: Estimator) -> Apart:
    """How far an estimator's value is from the headline: noise is that of the difference, by
    queries and, if more, of clicks by the model."""
    path, k = known.path, known.path.curve.at_value
    (asked, d, g, bins, moments, _), log = path, path.asked.log
    own, p = _value(asked, member), log.p
    assert moments.group_total is not None
    assert moments.group_weight is not None
    counts, groups = own.weight * blended(log, member, log.prediction), moments.group_weight
    query = (log.cluster % len(groups))[log.impression]
    totals = np.bincount(query, counts, len(groups)) - groups * counts.sum() / len(log)
    variance = float(by_clusters((totals - moments.group_total[:, k])[:, None], moments)[0])
    if asked.independent:
        weight = own.weight * weights_at(member, p).observed - g * asked.observed(known.M)
        chance = p * d
        noise = weight * weight * (chance * (1.0 - chance) - (log.click - chance) ** 2)
        variance += max(float(noise.sum()), 0.0) / len(log) ** 2
    beyond = float(bins.excess_rows[k]) or math.inf
    degrees = max(min(len(groups), beyond) - 1.0, 1.0)
    return Apart(*np.array([[own.value - known.value], [math.sqrt(variance)], [degrees]]))


def guarded(known: Known) -> tuple[Known, list[Finding]]:
    """What is known, its interval widened to hold IPS where the two disagree by more than chance
    explains; and the finding that says so. Where documents were not shown IPS knows no better."""
    found, (low, high) = apart(known, IPS()), known.interval
    if not found.disagrees(0) or known.path.bins.unsupported[0] > 0.0:
        return known, []
    ips = known.value + float(found.value[0])
    wider = Interval(min(low, ips), max(high, ips))
    return known._replace(interval=wider), disagreement(
        known.value, "IPS", ips, float(found.ratio[0])
    )
