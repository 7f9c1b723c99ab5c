"""``offpolicy evaluate``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option

_ESTIMATION = Options(
    "offpolicy.evaluation.evaluate",
    estimators=opt.ESTIMATORS,
    interval=option(
        "default, normal, t, bootstrap, bca, hoeffding, empirical-bernstein, betting, …", "KIND",
        default="default",
    ),
    tuning=option(
        "how a parameter left out is chosen", kind=("theory", "slope", "slope++", "switch")
    ),
)  # fmt: skip
_SETTINGS = Options(
    "offpolicy.evaluation.compare",
    reward_range=opt.REWARD_RANGE,
    level=opt.LEVEL,
    resume=opt.RESUME,
)


@click.command("evaluate")
@opt.log_options
@Options(policies=opt.POLICIES | {"required": True})
@_ESTIMATION
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
    """What would these policies have earned?

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision. The exit code is 1 if the log cannot tell, 0 otherwise.
    """
    from offpolicy.cli.pages import Run, write_page
    from offpolicy.evaluation import compare, evaluate

    run = Run.begun(report)
    source, asked = opt.read(log, given), opt.policies_of(policies)
    settings = _SETTINGS.said(given) | {"prediction": prediction}
    result = evaluate(source, asked, **settings, **_ESTIMATION.said(given))
    opt.tell_dropped(result.dropped)
    opt.show(result, style)
    if report is not None:
        several = len(asked) > 1 and result.headlines
        comparison = compare(source, asked, **settings) if several else None
        write_page(run, source, asked, prediction, given["reward_range"], result, comparison)
    if not result.can_tell:
        raise SystemExit(1)
