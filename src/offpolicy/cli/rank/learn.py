"""``offpolicy rank learn``."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option
from offpolicy.cli.rank import rankings

if TYPE_CHECKING:
    from offpolicy.learning import Candidate
    from offpolicy.ranking.data import RankingLog
    from offpolicy.ranking.evaluation import RankingResult
    from offpolicy.ranking.learning import PropensitySVMRank

_RULES = {
    "cab90": "CAB with M the 90% quantile of 1/p over clicks",
    "cips90": "CIPS with M the 90% quantile of 1/p over clicks",
    "headline": "what rank evaluate puts first",
}
_LEARNER = Options(
    "offpolicy.ranking.learning.PropensitySVMRank",
    estimator=option(
        "what is minimised; a parameter left out is chosen", "NAME", default="CAB",
        flags="-e --estimator",
    ),
    C=option("how much errors count against weights", "X", opt.POSITIVE, flags="-C"),
    loss=option("sets C: what the errors cost at the start [100]", "X", opt.POSITIVE),
    tol=option("relative gap to the optimum [0.001]", "X", float),
    max_iter=option("steps, at most [500]", "N", opt.COUNT),
    scale=option("the penalty is on features as they are", default=True, flags="--unscaled"),
)  # fmt: skip
_SEARCH = Options(
    "offpolicy.ranking.learning.RankerCV",
    rule=option(
        "by which parameters left out are chosen, on queries that a ranker was fitted without",
        kind=tuple(_RULES),
    ),
    metric=rankings.METRIC,
)


@click.command("learn")
@rankings.log_options
@rankings.propensity_options
@_LEARNER
@_SEARCH
@opt.learned_options("ranker", "queries")
@Options(seed=option(kind=opt.SEED, default=0))
@Options("offpolicy.ranking.evaluation.evaluate", level=opt.LEVEL)
@opt.report_option()
@opt.format_option("text", "json")
def command(
    log: str,
    rule: str,
    metric: str,
    out: str,
    holdout: float,
    refit: bool,
    seed: int,
    level: float,
    report: str | None,
    style: str,
    **given: Any,
) -> None:
    """Learn a ranker from clicks.

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks. M, if -e leaves it out, and then C, are chosen by
    cross-validation. If the estimator needs a model of relevance and the log has none
    (--prediction), one is learned from clicks, of each query from the others'. What the ranker is
    worth is found on queries that it was not learned from.
    """
    from pathlib import Path

    from offpolicy.cli.pages import Run, provenance_of_rankings
    from offpolicy.ranking.data import as_metric, for_rankings
    from offpolicy.ranking.evaluation import evaluate
    from offpolicy.ranking.learning import PropensitySVMRank

    opt.check_writable(out, ".json")
    run = Run.begun(report)
    if refit and not holdout:
        raise click.UsageError("--refit is for a ranker that was learned without the --holdout.")
    settings = _LEARNER.said(given)
    if "C" in settings and "loss" in settings:
        raise click.UsageError("-C and --loss are two ways to say the same.")
    member, asked = for_rankings(settings["estimator"]), as_metric(metric)
    learner = PropensitySVMRank(**settings | {"estimator": str(member)})
    learner.check()
    whole = rankings.read(log, given).log
    if member.name != "DM" or whole.prediction is None:
        rankings.need_propensities(whole)
    rest, held = _split(whole, holdout, seed) if holdout else (whole, None)
    needs_model = member.imputed_share is not None and whole.prediction is None
    learn = _Learner(learner, rule, metric, needs_model, searched="loss" not in settings)
    ranker, candidates = learn(rest)
    result = None
    if held is not None:
        judged = learn.modelled(rest, held) if needs_model else held
        plain = "DM" if held.propensity is None else "IPS"
        result = evaluate(judged, ranker, [plain], asked, level=level)
    learned_from = rest
    if refit:
        ranker, candidates = learn(whole)
        learned_from = whole
    ranker.save(out)
    click.echo(f"Wrote {out}.", err=True)
    learned = _Learned(
        ranker, out, rule, learned_from, len(rest) if refit else None, candidates, needs_model,
        metric, Path(out).stem, result,
    )  # fmt: skip
    click.echo(learned.as_json() if style == "json" else learned.as_text())
    if run.page is not None:
        from offpolicy.report.ranking_document import LearnedRankerDocument

        provenance = provenance_of_rankings(run, whole.documents, seed)
        LearnedRankerDocument(json.loads(learned.as_json()), provenance).to_html(run.page)
        click.echo(f"Wrote {run.page}.", err=True)


@dataclass(frozen=True)
class _Learner:
    """How rankers are learned, of a part and of the whole."""

    base: PropensitySVMRank
    rule: str
    metric: str
    needs_model: bool
    searched: bool
    """Whether C is among what may be chosen."""

    def __call__(self, log: RankingLog) -> tuple[PropensitySVMRank, list[Candidate]]:
        from sklearn.exceptions import ConvergenceWarning

        from offpolicy.ranking.data import RelevanceModel, for_rankings
        from offpolicy.ranking.learning import RankerCV, default_grid

        if self.needs_model:
            click.echo(
                "Learning a model of relevance from clicks, which takes a while; a --prediction "
                "would spare it.",
                err=True,
            )
            log = RelevanceModel().cross_fit(log)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
            if for_rankings(self.base.estimator).resolved:
                return self.base.copy().fit(log), []
            grid = default_grid(self.base, log)
            if not self.searched:
                grid.pop("loss", None)
            search = RankerCV(self.base, grid, rule=self.rule, metric=self.metric)
            search.fit(log, progress=_told())
            return search.best_, search.candidates_

    def modelled(self, log: RankingLog, other: RankingLog) -> RankingLog:
        """The other log with predictions by a model of this one's clicks."""
        from offpolicy.ranking.data import RelevanceModel

        assert other.X is not None
        return other.replace(prediction=RelevanceModel().fit_clicks(log).predict(other.X))


def _told() -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def told(done: int, total: int) -> None:
        sys.stderr.write(f"\r\x1b[K{done} of {total} rankers" if done < total else "\r\x1b[K")
        sys.stderr.flush()

    return told


def _split(log: RankingLog, share: float, seed: int) -> tuple[RankingLog, RankingLog]:
    """Without some of the queries, and these."""
    import numpy as np

    from offpolicy.errors import ParameterError, SupportError

    queries = int(log.cluster.max()) + 1
    if queries < 2:
        raise ParameterError("There is one query only: nothing can be held out. Say --holdout 0.")
    order = np.random.default_rng([seed, 4]).permutation(queries)
    held = (order < min(max(round(share * queries), 1), queries - 1))[log.cluster]
    rest, other = log.take(~held), log.take(held)
    if log.propensity is not None and not other.click.any():
        raise SupportError(
            f"There is not one click on the {len(other):,} impressions held out to evaluate the "
            f"ranker on. Hold out more (--holdout), or nothing (--holdout 0)."
        )
    return rest, other


@dataclass(frozen=True)
class _Learned:
    """What came of it."""

    ranker: PropensitySVMRank
    out: str
    rule: str
    log: RankingLog
    """That the written ranker was learned from."""
    evaluated: int | None
    """Impressions that the evaluated ranker was learned from, if it is another."""
    candidates: list[Candidate]
    modelled: bool
    metric: str
    name: str
    result: RankingResult | None

    def as_text(self) -> str:
        one, log = self.ranker, self.log
        lines = [
            f"A ranker by {one.n_features_in_:,} features, learned from {len(log):,} impressions "
            f"of {int(log.cluster.max()) + 1:,} queries with {int(log.click.sum()):,} clicks.",
        ]
        if self.modelled:
            lines.append("  The model of relevance was learned from the same clicks, cross-fitted.")
        lines.append(
            f"  {one.estimator} was minimised with C = {one.C_:.4g}: {one.n_iter_:,} steps, "
            + self._ended()
        )
        if self.candidates:
            lines.append(
                f"  Of {len(self.candidates)} this was the best on queries that a ranker was "
                f"fitted without, by {_RULES[self.rule]}."
            )
        if self.result is None:
            lines.append("Nothing was held out: evaluate the ranker on other queries.")
        else:
            lines += [
                "",
                f"On {self.result.queries:,} queries that it was not learned from:",
                f"{self.name}: {self.result.sentence()}",
            ]
            if self.evaluated is not None:
                lines.append(
                    f"This is about the ranker learned from {self.evaluated:,} impressions. The "
                    f"one written was learned from all {len(log):,}."
                )
        lines += [
            "",
            "To evaluate it on other queries:",
            f"  offpolicy rank evaluate OTHER --ranker {shlex.quote(self.out)}",
        ]
        return "\n".join(lines)

    @property
    def converged(self) -> bool:
        return self.ranker.gap_ <= self.ranker.tol

    def _ended(self) -> str:
        gap = f"the objective is at most {self.ranker.gap_:.2g} of itself above its least value"
        if self.converged:
            return f"converged; {gap}."
        return f"not converged ({gap}): more steps may help, --max-iter."

    def as_json(self) -> str:
        from offpolicy.results import json_safe

        one = self.ranker
        body = {
            "schema": "offpolicy.learned-ranker/1",
            "ranker": self.out,
            "features": one.n_features_in_,
            "impressions": len(self.log),
            "evaluated": self.evaluated or (None if self.result is None else len(self.log)),
            "modelled": self.modelled,
            "parameters": one.get_params() | {"estimator": str(one.estimator)},
            "report": {
                "C": one.C_, "objective": one.objective_, "gap": one.gap_, "steps": one.n_iter_,
                "converged": self.converged,
            },
            "metric": self.metric,
            "rule": self.rule if self.candidates else None,
            "candidates": [candidate._asdict() for candidate in self.candidates],
            "result": None if self.result is None else json.loads(self.result.to_json()),
        }  # fmt: skip
        return json.dumps(json_safe(body), indent=1, ensure_ascii=False)
