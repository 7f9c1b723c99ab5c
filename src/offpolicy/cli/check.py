"""``offpolicy check``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options

_SETTINGS = Options(
    "offpolicy.evaluation.check", prediction=opt.PREDICTION, reward_range=opt.REWARD_RANGE
)


@click.command("check", cls=Strict)
@opt.log_options
@Options(policies=opt.POLICIES, allow_code=opt.ALLOW_CODE)
@_SETTINGS
@opt.format_option("table", "json", "tsv")
def command(log: tuple[str, ...], policies: tuple[str, ...], **options: Any) -> None:
    """Is this log fit to answer, and about these policies?

    LOG is one or several files (Parquet, CSV, JSON lines, Feather), globs or folders, with one
    row per decision. The exit code is 1 if there is a problem, else 0.
    """
    from offpolicy.evaluation import check

    named = opt.policies_of(policies, options["allow_code"])
    source = opt.read(log, options)
    report = check(source, named or None, **_SETTINGS.said(options))
    opt.tell(report, "dropped")
    opt.show(report, options["style"])
    if report.worst == "problem":
        raise SystemExit(1)
