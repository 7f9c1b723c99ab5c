"""``offpolicy rank evaluate``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy._core.late import pa
from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option
from offpolicy.cli.printing import say, say_json
from offpolicy.cli.rank import rankings

_SETTINGS = Options(
    "offpolicy.ranking.evaluation.evaluate",
    estimators=opt.ESTIMATORS,
    independent_clicks=option(
        "clicks of one impression depend on each other: variances are those seen over queries",
        flags="--dependent-clicks", default=True,
    ),
    level=opt.LEVEL,
)  # fmt: skip


@click.command("evaluate", cls=Strict)
@rankings.log_options
@rankings.propensity_options
@Options(
    rankers=option(
        "column: the score of every document, higher is better; or the file of a learned ranker, "
        "ranker.json; repeat for several",
        "COLUMN", default=(), flags="--ranker", required=True,
    ),
    metrics=option(
        'such as "dcg@10", "recall@5"; repeat for several', "NAME", default=("average rank",),
        flags="--metric",
    ),
)  # fmt: skip
@_SETTINGS
@opt.report_option()
@opt.format_option("table", "json", "tsv")
def command(
    log: str, rankers: tuple[str, ...], metrics: tuple[str, ...], style: str, **options: Any
) -> None:
    """How good would these rankers have been?

    LOG is a table (Parquet, CSV, JSON lines) with a row for every document of every impression;
    or LETOR text, with --clicks.
    """
    from offpolicy.cli.pages import Run
    from offpolicy.ranking.data import as_metric
    from offpolicy.ranking.evaluation import evaluate
    from offpolicy.report.document import Results

    run = Run.begun(options["report"])
    parsed = [as_metric(metric) for metric in metrics]
    file = rankings.read(log, options, rankings.columns_among(rankers))
    if file.log.prediction is None or any(name.upper() != "DM" for name in options["estimators"]):
        rankings.need_propensities(file.log)
    results = tuple(
        evaluate(file.log, ranker, metric=metric, **_SETTINGS.said(options)).named(name)
        for name, ranker in rankings.rankers_of(rankers, file).items()
        for metric in parsed
    )
    opt.tell(results[0].findings, "no-examination")
    if style == "json":
        say_json(Results(results).to_json())
    elif style == "tsv":
        rows = [
            {"ranker": row.pop("policy"), "metric": result.metric} | row
            for result in results
            for row in result.to_arrow().to_pylist()
        ]
        say(opt.as_tsv(pa.Table.from_pylist(rows)))
    else:
        say("\n\n".join(f"{result.ranker}: {result}" for result in results))
    run.write_of_rankings(file.log.documents, *results)
