"""``offpolicy compare``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option

_SETTINGS = Options(
    "offpolicy.evaluation.compare",
    baseline=option(
        'compare with this policy only, or with "logged", the one that wrote the log', "NAME"
    ),
    multiplicity=option("whether to allow for the number of pairs", kind=("holm", "none")),
    reward_range=opt.REWARD_RANGE,
    level=opt.LEVEL,
    resume=opt.RESUME,
)


@click.command("compare")
@opt.log_options
@Options(policies=opt.POLICIES | {"required": True})
@_SETTINGS
@opt.report_option("; looks at the log as check does")
@opt.format_option("table", "json", "tsv")
def command(
    log: tuple[str, ...],
    policies: tuple[str, ...],
    prediction: str | None,
    report: str | None,
    style: str,
    **given: Any,
) -> None:
    """Which of these policies is better, and by how much?

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision. The policy that wrote it takes part as "logged". The exit code is 1 if the log cannot
    tell about any pair, else 0.
    """
    from offpolicy.cli.pages import Run, write_page
    from offpolicy.evaluation import compare

    run = Run.begun(report)
    source, asked = opt.read(log, given), opt.policies_of(policies)
    comparison = compare(source, asked, prediction=prediction, **_SETTINGS.said(given))
    opt.tell_dropped(comparison.dropped)
    opt.show(comparison, style)
    if report is not None:
        write_page(run, source, asked, prediction, given["reward_range"], None, comparison)
    if not comparison.can_tell:
        raise SystemExit(1)
