"""``offpolicy rank learn``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option
from offpolicy.cli.printing import say
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
_HOW = Options(
    "offpolicy.ranking.learning.learn_ranker",
    rule=option(
        "by which parameters left out are chosen, on queries that a ranker was fitted without",
        kind=("cab90", "cips90", "headline"),
    ),
    metric=rankings.METRIC,
    **opt.held_out("queries"),
    seed=option(kind=opt.SEED, default=0),
    level=opt.LEVEL,
)


@click.command("learn", cls=Strict)
@rankings.log_options
@rankings.propensity_options
@_LEARNER
@opt.learned_option("ranker")
@_HOW
@opt.report_option()
@opt.format_option("text", "json")
def command(log: str, out: str, **options: Any) -> None:
    """Learn a ranker from clicks.

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks. M, if -e leaves it out, and then C, are chosen by
    cross-validation. If the estimator needs a model of relevance and the log has none
    (--prediction), one is learned from clicks, of each query from the others'. What the ranker is
    worth is found on queries that it was not learned from.
    """
    from offpolicy.cli.pages import Run
    from offpolicy.cli.progress import told_in_a_line
    from offpolicy.ranking.data import as_metric, for_rankings
    from offpolicy.ranking.learning import PropensitySVMRank, learn_ranker, needs_model

    opt.check_learned("ranker", out, options)
    run = Run.begun(options["report"])
    settings = _LEARNER.said(options)
    if "C" in settings and "loss" in settings:
        raise click.UsageError("-C and --loss are two ways to say the same.")
    member = for_rankings(settings["estimator"])
    as_metric(options["metric"])
    opt.refuse_idle(["rule"], member.resolved, "parameters that -e leaves out")
    learner = PropensitySVMRank(**settings | {"estimator": str(member)})
    learner.check()
    whole = rankings.read(log, options).log
    if member.name != "DM" or whole.prediction is None:
        rankings.need_propensities(whole)
    if needs_model(learner, whole):
        say(
            "Learning a model of relevance from clicks, which takes a while; a --prediction would "
            "spare it.",
            err=True,
        )
    with told_in_a_line("{} of {} rankers") as told:
        ranker, learned = learn_ranker(
            learner, whole, ranker=out, search_loss="loss" not in settings, progress=told,
            **_HOW.said(options),
        )  # fmt: skip
    ranker.save(out)
    how = f"queries:\n  offpolicy rank evaluate OTHER{rankings.columns_again(options)} --ranker"
    opt.show_learned(learned, out, how, options["style"])
    run.write_of_rankings(whole.documents, learned, seed=options["seed"])
