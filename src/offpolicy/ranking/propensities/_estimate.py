"""`estimate_propensities`: examination by rank from a log that does not say it."""

from __future__ import annotations

import math
from typing import Any, Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core.door import Door
from offpolicy._core.types import Floats
from offpolicy._core.validation import need
from offpolicy.errors import MissingColumnError, ParameterError, SupportError, did_you_mean
from offpolicy.ranking.data._log import RankingLog
from offpolicy.ranking.data._read import RankingNames, as_rankings
from offpolicy.ranking.propensities import _by_context as contextual
from offpolicy.ranking.propensities import _em as regression_em
from offpolicy.ranking.propensities import _pair_likelihood as pair_likelihood
from offpolicy.ranking.propensities import _pairs as harvesting
from offpolicy.ranking.propensities._curve import Propensities, as_context, rank_finding, sentences
from offpolicy.ranking.propensities._newton import effective_degrees
from offpolicy.ranking.propensities._pair_likelihood import PairCounts
from offpolicy.results import Finding, finding

Method = Literal["pairs", "em", "swaps", "contextual"]
PairsUsed = Literal["all", "pivot", "adjacent"]
Weighting = Literal["overlap", "paper"]

_TOP = 10
_OWN = {
    "pairs": ("pairs", "ranks", "traffic", "weighting"),
    "em": ("ridge",),
    "swaps": ("swapped",),
    "contextual": ("context", "weighting", "ridge"),
}
"""Which arguments each method has."""


def estimate_propensities(
    log: Any,
    method: Method = "pairs",
    *,
    top: int | None = None,
    pairs: PairsUsed | None = None,
    weighting: Weighting | None = None,
    ranks: ArrayLike | None = None,
    traffic: ArrayLike | None = None,
    swapped: ArrayLike | None = None,
    context: ArrayLike | None = None,
    ridge: float | None = None,
    **columns: Unpack[RankingNames],
) -> Propensities:
    """Examination of every rank relative to the first, with intervals.

    All methods assume that a click is an examination, which depends on the rank (and the
    context), times a relevance, which depends on query and document.

    Parameters
    ----------
    log : RankingLog, dataframe, mapping of names to columns, or path
    method : "pairs", "em", "swaps" or "contextual"
        ``"pairs"`` compares clicks on the same document of the same query at different ranks
        (Agarwal et al. 2019); ``"em"`` fits a logistic regression of relevance on the features
        (Wang et al. 2018); ``"swaps"`` is for ranks that were shuffled or swapped at random
        (Joachims et al. 2017); ``"contextual"`` lets examination depend on a context (Fang et
        al. 2019).
    top : int, optional
        How many ranks; without it the first 10, or as many as were shown.
    pairs : "all", "pivot" or "adjacent", optional
        Of ``"pairs"``: compare all pairs of ranks (as without it), each rank with the first, or
        each with the next.
    weighting : "overlap" or "paper", optional
        Of ``"pairs"`` and ``"contextual"``: whether documents count by how often they were seen at
        both ranks, or as in the paper of Agarwal et al.
    ranks : (N, rankers), optional
        Of ``"pairs"``: the rank that each ranker gives every document, 0 if it does not show it,
        when impressions were given to rankers at random. Then no query need occur twice.
    traffic : (rankers,), optional
        How many impressions each ranker gets; equal shares without it.
    swapped : (n,) or (n, 2), optional
        Of ``"swaps"``: the rank that was, by the toss of a fair coin, swapped with rank 1; or
        the two ranks; 0 where nothing was randomised. Without it, the first ``top`` ranks of
        every impression were shuffled.
    context : (n, d)
        Of ``"contextual"``: features of every impression.
    ridge : float, optional
        Penalty on the slopes of standardised features; 1 without it.
    columns : names of columns, optional
        As in `ranking.evaluate`.

    Examples
    --------
    >>> from offpolicy.ranking import RankingLog
    >>> log = RankingLog.from_arrays(  # two documents of one query, shown in either order
    ...     offsets=range(0, 801, 2), rank=[1, 2, 2, 1] * 200, click=[1, 0, 1, 0, 1, 0, 0, 0] * 100,
    ...     query=["q"] * 400, document=["a", "b"] * 400,
    ... )
    >>> estimate_propensities(log).propensity
    array([1. , 0.5])
    """
    log, _ = as_rankings(log, columns, estimate_propensities)
    _one_of(method, "method", get_args(Method))
    _refuse_foreign(
        method, pairs=pairs, weighting=weighting, ranks=ranks, traffic=traffic, swapped=swapped,
        context=context, ridge=ridge,
    )  # fmt: skip
    count = _checked_top(log, top)
    shown, clicks = _per_rank(log, count)
    if method == "em":
        return _by_em(log, shown, clicks, _checked_ridge(ridge))
    overlap = _one_of(weighting, "weighting", get_args(Weighting)) == "overlap"
    if method == "contextual":
        return _by_context(log, context, shown, clicks, overlap, _checked_ridge(ridge))
    kept = harvesting.of_interest(_one_of(pairs, "pairs", get_args(PairsUsed)), count)
    if method == "swaps":
        source = harvesting.swaps(log, swapped, count)
    elif ranks is not None:
        source = harvesting.known_rankers(log, ranks, traffic, count, overlap)
    elif traffic is not None:
        sentence = "traffic is given without ranks: there are no rankers to share it."
        raise ParameterError(sentence, column="traffic")
    else:
        source = harvesting.observed(log, count, overlap)
    counts = source.counts()
    if method == "pairs":
        harvesting.refuse_no_variation(counts)
    counts = counts.only(kept)
    findings = _unknown_ranks(counts, shown)
    fitted = pair_likelihood.maximised(counts)
    squares, fourths, clusters = source.scored(fitted)
    squares[np.isnan(fitted.inverse)] = np.nan
    degrees = effective_degrees(np.diagonal(squares), fourths)
    covariance = squares * (clusters / max(clusters - 1, 1))
    findings += _one_query(covariance, clusters)
    return Propensities(method, fitted.p, covariance, degrees, shown, clicks, findings)


def _by_em(log: RankingLog, shown: Floats, clicks: Floats, ridge: float) -> Propensities:
    from threadpoolctl import threadpool_limits

    rows = regression_em.rows_of(log, len(shown))
    known = clicks > 0.0
    findings = [*_never_shown(shown), *_never_clicked(known, shown)]
    if not np.isfinite(rows.spread).any():
        findings += finding(
            "same-features",
            "warning",
            "Every feature is the same for all documents: relevance is taken to be the same at "
            "every rank, and propensity is but the ratio of click-through rates.",
        )
    # One thread adds in one order; and blocks are too small for more.
    with threadpool_limits(1):
        fit = regression_em.maximised(rows, known, ridge)
    findings += _one_query(fit.covariance, fit.clusters)
    if not fit.convergence.converged:
        sentence = "The fit has not converged: the numbers are not to be relied on."
        findings += finding("not-converged", "warning", sentence)
    return Propensities(
        "em", np.exp(fit.log_p), fit.covariance, fit.degrees, shown, clicks,
        tuple(findings), fit.convergence,
    )  # fmt: skip


def _by_context(
    log: RankingLog, context: Any, shown: Floats, clicks: Floats, overlap: bool, ridge: float
) -> Propensities:
    if context is None:
        raise MissingColumnError(
            f"The method contextual needs {Door.spelled('context')}, a row of numbers for each "
            f"impression. Without one use {Door.given('method', 'pairs')}.",
            column="context",
        )
    features = as_context(context, len(log))
    data = contextual.context_pairs(log, features, len(shown), overlap)
    harvesting.refuse_no_variation(data.total, within_context=True)
    findings = _unknown_ranks(data.total, shown)
    model, degrees, clusters = contextual.maximised(data, ridge)
    middle = np.eye(1 + features.shape[1])[0]
    findings += _one_query(model.covariance, clusters, len(middle))
    p, spread = np.exp(model.coefficients[:, 0]), model.log_covariance(middle)
    return Propensities("contextual", p, spread, degrees, shown, clicks, findings, context=model)


# -- what the log can tell -----------------------------------------------------------------


def _unknown_ranks(counts: PairCounts, shown: Floats) -> tuple[Finding, ...]:
    """Ranks whose examination cannot be estimated and why; an error if only the first can."""
    compared = (counts.shown > 0.0) & (counts.shown.T > 0.0)
    linked = pair_likelihood.linked(compared)
    known = pair_likelihood.estimable(counts)
    apart = np.flatnonzero(~linked & (shown > 0.0)) + 1
    chain = (
        "not linked to rank 1, since no chain of documents that were shown at two ranks leads "
        "there."
    )
    findings = _never_shown(shown) + rank_finding("rank-not-linked", apart, chain)
    findings += _never_clicked(known | ~linked, shown)
    if known.sum() < 2:
        raise SupportError(
            "No rank can be compared with rank 1. "
            + (sentences(findings) or "Impressions that show several ranks would tell."),
            column="rank",
        )
    return findings


def _never_shown(shown: Floats) -> tuple[Finding, ...]:
    missing = np.flatnonzero(shown == 0.0) + 1
    return rank_finding("rank-not-shown", missing, "no document was shown there.")


def _never_clicked(known: NDArray[np.bool_], shown: Floats) -> tuple[Finding, ...]:
    missing = np.flatnonzero(~known & (shown > 0.0)) + 1
    return rank_finding("rank-few-clicks", missing, "too few clicks to compare with rank 1.")


def _per_rank(log: RankingLog, top: int) -> tuple[Floats, Floats]:
    """Documents shown and clicks at every rank."""
    place = np.where((log.rank > 0) & (log.rank <= top), log.rank, 0)
    shown = np.bincount(place, minlength=top + 1)[1:].astype(np.float64)
    clicks = np.asarray(np.bincount(place, log.click, minlength=top + 1)[1:], np.float64)
    if not clicks.any():
        raise SupportError(
            f"There is no click on the first {top} ranks of {len(log):,} impressions: nothing can "
            f"be said about examination.",
            column="click",
        )
    if not clicks[0]:
        raise SupportError(
            f"There is no click on rank 1 ({shown[0]:,.0f} documents were shown there), to which "
            f"all ranks are compared. Check that ranks count from 1.",
            column="click",
        )
    return shown, clicks


def _checked_top(log: RankingLog, top: Any) -> int:
    lowest = int(log.rank.max(initial=0))
    if lowest < 2:
        which = "at rank 1 only" if lowest else "nowhere: all ranks are 0"
        sentence = f"Documents were shown {which}. There is nothing to compare."
        raise SupportError(sentence, column="rank")
    if top is None:
        return min(_TOP, lowest)
    whole = isinstance(top, (int, np.integer)) and not isinstance(top, bool)
    need(whole and top >= 2, "top", repr(top), "a whole number, 2 or more")
    if top > lowest:
        raise ParameterError(
            f"top is {top}, but no document was shown below rank {lowest}. Give {lowest} or less.",
            column="top",
        )
    return int(top)


# -- arguments -----------------------------------------------------------------------------


def _refuse_foreign(method: str, **arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None and name not in _OWN[method]:
            owners = " and ".join(owner for owner, names in _OWN.items() if name in names)
            sentence = f"{Door.named(name)} is for the method {owners}, not for {method}."
            raise ParameterError(sentence, column=name)


def _one_of(value: str | None, name: str, options: tuple[str, ...]) -> str:
    if value is None:
        return options[0]
    if value not in options:
        raise ParameterError(
            f"{name} is {value!r}; it must be one of {', '.join(options)}."
            f"{did_you_mean(str(value), options)}",
            column=name,
        )
    return value


def _checked_ridge(ridge: float | None) -> float:
    value = 1.0 if ridge is None else float(ridge)
    need(0.0 <= value < math.inf, "ridge", ridge, "0 or more")
    return value


def _one_query(covariance: Floats, clusters: int, first: int = 1) -> tuple[Finding, ...]:
    """A single query says nothing about the spread: its covariance is infinite, and said to be."""
    if clusters > 1:
        return ()
    spread = covariance[first:, first:]
    spread[np.isfinite(spread)] = np.inf
    sentence = "All comparisons are of one query: the intervals are infinite."
    return tuple(finding("one-query", "warning", sentence))
