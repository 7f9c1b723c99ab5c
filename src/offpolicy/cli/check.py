"""``offpolicy check``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options


@click.command("check")
@opt.log_options
@Options(policies=opt.POLICIES)
@Options("offpolicy.evaluation.check", reward_range=opt.REWARD_RANGE)
@opt.format_option("table", "json", "tsv")
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
    decision. The exit code is 1 if there is a problem, else 0.
    """
    from offpolicy.evaluation import check

    report = check(
        opt.read(log, given),
        opt.policies_of(policies) or None,
        prediction=prediction,
        reward_range=reward_range,
    )
    opt.tell(report, "dropped")
    opt.show(report, style)
    if report.worst == "problem":
        raise SystemExit(1)
