"""``offpolicy rank sweep``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option
from offpolicy.cli.rank import rankings

_SETTINGS = Options(
    "offpolicy.ranking.evaluation.sweep",
    estimator=opt.ESTIMATOR,
    metric=rankings.METRIC,
    level=opt.LEVEL,
)


@click.command("sweep", cls=Strict)
@rankings.log_options
@rankings.propensity_options
@Options(
    ranker=option(
        "column: the score of every document; or a learned ranker.json", "COLUMN", required=True
    )
)
@_SETTINGS
@opt.format_option("tsv", "json")
def command(log: str, ranker: str, style: str, **options: Any) -> None:
    """The curve of an estimator over its parameter: M, or tau for SB.

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks. Prints the curve at its breakpoints, at most 1001 of them.
    """
    from offpolicy.ranking.evaluation import sweep

    file = rankings.read(log, options, rankings.columns_among([ranker]))
    rankings.need_propensities(file.log)
    (named,) = rankings.rankers_of((ranker,), file).values()
    curve = sweep(file.log, named, **_SETTINGS.said(options))
    opt.show_frame(curve.to_arrow(1001), style)
