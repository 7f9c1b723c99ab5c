"""``offpolicy check``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import (
    POLICIES,
    REWARD_RANGE,
    Options,
    format_option,
    log_options,
    policies_of,
    read,
    show,
)


@click.command("check")
@log_options
@Options(policies=POLICIES)
@Options("offpolicy.evaluation.check", reward_range=REWARD_RANGE)
@format_option("table", "json", "tsv")
def command(
    log: tuple[str, ...],
    policies: tuple[str, ...],
    prediction: str | None,
    reward_range: tuple[float, float] | None,
    style: str,
    **given: Any,
) -> None:
    """Is this log fit to answer, and about these policies?

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision. The exit code is 1 if there is a
    problem, else 0.
    """
    from offpolicy.evaluation import check

    report = check(
        read(log, given),
        policies_of(policies) or None,
        prediction=prediction,
        reward_range=reward_range,
    )
    if "dropped" in report:
        click.echo(report["dropped"].message, err=True)
    show(report, style)
    if report.worst == "problem":
        raise SystemExit(1)
