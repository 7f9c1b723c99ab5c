"""``offpolicy rank learn``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import (
    bare_report_option,
    check_writable,
    format_option,
    learned_options,
    level_option,
    show_learned,
)
from offpolicy.cli.rank.options import (
    log_options,
    metric_option,
    need_propensities,
    propensity_options,
    read,
)

_ABOVE = click.FloatRange(min=0.0, min_open=True)


@click.command("learn")
@log_options
@propensity_options
@click.option(
    "-e", "--estimator", default="CAB", show_default=True, metavar="NAME",
    help="what is minimised; a parameter left out is chosen",
)  # fmt: skip
@click.option("-C", "C", type=_ABOVE, metavar="X", help="how much errors count against weights")
@click.option(
    "--loss", type=_ABOVE, metavar="X", help="sets C: what the errors cost at the start [100]"
)
@click.option(
    "--rule", type=click.Choice(["cab90", "cips90", "headline"]), default="cab90",
    show_default=True,
    help="by which parameters left out are chosen, on queries that a ranker was fitted without",
)  # fmt: skip
@metric_option
@click.option("--tol", type=float, metavar="X", help="relative gap to the optimum [0.001]")
@click.option("--max-iter", type=click.IntRange(min=1), metavar="N", help="steps, at most [500]")
@click.option("--unscaled", is_flag=True, help="the penalty is on features as they are")
@learned_options("ranker", "queries")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@level_option
@bare_report_option
@format_option("text", "json")
def command(
    log: str,
    estimator: str,
    C: float | None,
    loss: float | None,
    rule: str,
    metric: str,
    tol: float | None,
    max_iter: int | None,
    unscaled: bool,
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

    check_writable(out, ".json")
    run = Run.begun(report)
    if refit and not holdout:
        raise click.UsageError("--refit is for a ranker that was learned without the --holdout.")
    if C is not None and loss is not None:
        raise click.UsageError("-C and --loss are two ways to say the same.")
    member = for_rankings(estimator)
    as_metric(metric)
    params = {"C": C, "loss": loss, "tol": tol, "max_iter": max_iter}
    learner = PropensitySVMRank(estimator=str(member), scale=not unscaled).set_params(
        **{name: value for name, value in params.items() if value is not None}
    )
    learner.check()
    whole = read(log, given).log
    if member.name != "DM" or whole.prediction is None:
        need_propensities(whole)
    if needs_model(learner, whole):
        click.echo(
            "Learning a model of relevance from clicks, which takes a while; a --prediction would "
            "spare it.",
            err=True,
        )
    with told_in_a_line("{} of {} rankers") as told:
        ranker, learned = learn_ranker(
            learner, whole, ranker=out, rule=rule, metric=metric, search_loss=loss is None,
            holdout=holdout, refit=refit, seed=seed, level=level, progress=told,
        )  # fmt: skip
    ranker.save(out)
    show_learned(learned, out, "queries:\n  offpolicy rank evaluate OTHER --ranker", style)
    if run.page is not None:
        run.write(learned, provenance=provenance_of_rankings(run, whole.documents, seed))
