"""``offpolicy check``."""

from __future__ import annotations

import click

from offpolicy.cli.options import as_tsv, columns_of, format_option, log_options


@click.command("check")
@log_options
@click.option(
    "--policy", "policies", metavar="COLUMN", multiple=True,
    help="probability of the chosen action, or list: of every candidate; repeat for several",
)  # fmt: skip
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH",
    help="the least and the greatest reward there can be",
)  # fmt: skip
@format_option("table", "json", "tsv")
def command(
    log: str,
    policies: tuple[str, ...],
    prediction: str | None,
    reward_range: tuple[float, float] | None,
    style: str,
    **roles: str | None,
) -> None:
    """Is this log fit to answer, and about these policies?

    LOG is a CSV or Parquet file with one row per decision. The exit code is 1 if there is a
    problem, else 0.
    """
    from offpolicy.checks import check
    from offpolicy.engines.memory import read_log

    if len(set(policies)) < len(policies):
        raise click.UsageError("One --policy is given twice.")

    report = check(
        read_log(log, columns_of(roles)),
        {name: name for name in policies} or None,
        prediction=prediction,
        reward_range=reward_range,
    )
    if style == "json":
        click.echo(report.to_json(), nl=False)
    elif style == "tsv":
        click.echo(as_tsv(report.to_frame()))
    else:
        click.echo(str(report))
    if report.worst == "problem":
        raise SystemExit(1)
