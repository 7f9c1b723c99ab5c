"""``offpolicy rank evaluate``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import as_tsv, bare_report_option, format_option, level_option, tell
from offpolicy.cli.rank.options import (
    columns_among,
    log_options,
    need_propensities,
    propensity_options,
    rankers_of,
    read,
)


@click.command("evaluate")
@log_options
@propensity_options
@click.option(
    "--ranker", "rankers", metavar="COLUMN", multiple=True, required=True,
    help="column: the score of every document, higher is better; or the file of a learned ranker, "
    "ranker.json; repeat for several",
)  # fmt: skip
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", default=("average rank",),
    show_default="average rank", help='such as "dcg@10", "recall@5"; repeat for several',
)  # fmt: skip
@click.option(
    "-e", "--estimator", "estimators", multiple=True, metavar="NAME",
    help='such as IPS or "CAB(M=10)"; repeat for several',
)  # fmt: skip
@click.option(
    "--dependent-clicks", is_flag=True,
    help="clicks of one impression depend on each other: variances are those seen over queries",
)  # fmt: skip
@level_option
@bare_report_option
@format_option("table", "json", "tsv")
def command(
    log: str,
    rankers: tuple[str, ...],
    metrics: tuple[str, ...],
    estimators: tuple[str, ...],
    dependent_clicks: bool,
    level: float,
    report: str | None,
    style: str,
    **given: Any,
) -> None:
    """How good would these rankers have been?

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks.
    """
    import pyarrow as pa

    from offpolicy.cli.pages import Run, provenance_of_rankings
    from offpolicy.ranking.data import as_metric
    from offpolicy.ranking.evaluation import evaluate
    from offpolicy.report.ranking_document import RankingDocument

    run = Run.begun(report)
    asked = [as_metric(metric) for metric in metrics]
    found = read(log, given, columns_among(rankers))
    if found.log.prediction is None or any(one.upper() != "DM" for one in estimators):
        need_propensities(found.log)
    results = [
        (name, evaluate(found.log, ranker, list(estimators) or None, metric, level=level,
                        independent_clicks=not dependent_clicks))
        for name, ranker in rankers_of(rankers, found).items()
        for metric in asked
    ]  # fmt: skip
    tell(results[0][1].findings, "no-examination")
    if style == "json":
        click.echo(RankingDocument(tuple(results)).to_json(), nl=False)
    elif style == "tsv":
        rows = [
            {"ranker": name, "metric": one.metric} | row
            for name, one in results
            for row in one.to_frame().to_pylist()
        ]
        click.echo(as_tsv(pa.Table.from_pylist(rows)))
    else:
        click.echo("\n\n".join(f"{name}: {one}" for name, one in results))
    if run.page is not None:
        RankingDocument(tuple(results), provenance_of_rankings(run, found.log.documents)).to_html(
            run.page
        )
        click.echo(f"Wrote {run.page}.", err=True)
