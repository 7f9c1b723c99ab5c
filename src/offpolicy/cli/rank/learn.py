"""``offpolicy rank learn``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option
from offpolicy.cli.rank import rankings

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
        kind=("cab90", "cips90", "headline"),
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
    from offpolicy.cli.pages import Run, provenance_of_rankings
    from offpolicy.cli.progress import told_in_a_line
    from offpolicy.ranking.data import as_metric, for_rankings
    from offpolicy.ranking.learning import PropensitySVMRank, learn_ranker, needs_model

    opt.check_writable(out, ".json")
    run = Run.begun(report)
    if refit and not holdout:
        raise click.UsageError("--refit is for a ranker that was learned without the --holdout.")
    settings = _LEARNER.said(given)
    if "C" in settings and "loss" in settings:
        raise click.UsageError("-C and --loss are two ways to say the same.")
    member = for_rankings(settings["estimator"])
    as_metric(metric)
    learner = PropensitySVMRank(**settings | {"estimator": str(member)})
    learner.check()
    whole = rankings.read(log, given).log
    if member.name != "DM" or whole.prediction is None:
        rankings.need_propensities(whole)
    if needs_model(learner, whole):
        click.echo(
            "Learning a model of relevance from clicks, which takes a while; a --prediction would "
            "spare it.",
            err=True,
        )
    with told_in_a_line("{} of {} rankers") as told:
        ranker, learned = learn_ranker(
            learner, whole, ranker=out, rule=rule, metric=metric, holdout=holdout, refit=refit,
            search_loss="loss" not in settings, seed=seed, level=level, progress=told,
        )  # fmt: skip
    ranker.save(out)
    opt.show_learned(learned, out, "queries:\n  offpolicy rank evaluate OTHER --ranker", style)
    if run.page is not None:
        run.write(learned, provenance=provenance_of_rankings(run, whole.documents, seed))
