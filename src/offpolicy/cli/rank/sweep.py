"""``offpolicy rank sweep``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import as_tsv, format_option, level_option
from offpolicy.cli.rank.options import (
    columns_among,
    log_options,
    metric_option,
    need_propensities,
    propensity_options,
    rankers_of,
    read,
)


@click.command("sweep")
@log_options
@propensity_options
@click.option(
    "--ranker", metavar="COLUMN", required=True,
    help="column: the score of every document; or a learned ranker.json",
)  # fmt: skip
@click.option("-e", "--estimator", default="CAB", show_default=True, metavar="NAME")
@metric_option
@level_option
@format_option("tsv", "json")
def command(
    log: str, ranker: str, estimator: str, metric: str, level: float, style: str, **given: Any
) -> None:
    """The curve of an estimator over its parameter: M, or tau for SB.

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks. Prints the curve at its breakpoints, at most 1001 of them.
    """
    from offpolicy._core.documents import dumps
    from offpolicy.ranking.evaluation import sweep

    found = read(log, given, columns_among([ranker]))
    need_propensities(found.log)
    ((_, asked),) = rankers_of((ranker,), found).items()
    frame = sweep(found.log, asked, estimator, metric, level=level).to_frame(1001)
    if style == "tsv":
        click.echo(as_tsv(frame))
        return
    # A ratio by nothing, as at M = 0 without a model, is no number, and None in JSON.
    cells = {name: frame.column(name).to_numpy() for name in frame.column_names}
    click.echo(dumps(cells, indent=None))
