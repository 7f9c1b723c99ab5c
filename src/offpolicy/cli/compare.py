"""``offpolicy compare``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import (
    LEVEL,
    POLICIES,
    RESUME,
    REWARD_RANGE,
    Options,
    format_option,
    log_options,
    option,
    policies_of,
    read,
    report_option,
    show,
    tell_dropped,
)

_SETTINGS = Options(
    "offpolicy.evaluation.compare",
    baseline=option(
        'compare with this policy only, or with "logged", the one that wrote the log', "NAME"
    ),
    multiplicity=option("whether to allow for the number of pairs", kind=("holm", "none")),
    reward_range=REWARD_RANGE,
    level=LEVEL,
    resume=RESUME,
)


@click.command("compare")
@log_options
@Options(policies=POLICIES | {"required": True})
@_SETTINGS
@report_option("; looks at the log as check does")
@format_option("table", "json", "tsv")
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
    decision. The policy that wrote it takes part as
    "logged". The exit code is 1 if the log cannot tell about any pair, else 0.
    """
    from offpolicy.cli.pages import Run, write_page
    from offpolicy.evaluation import compare

    run = Run.begun(report)
    source, asked = read(log, given), policies_of(policies)
    comparison = compare(source, asked, prediction=prediction, **_SETTINGS.said(given))
    tell_dropped(comparison.dropped)
    show(comparison, style)
    if report is not None:
        write_page(run, source, asked, prediction, given["reward_range"], None, comparison)
    if not comparison.can_tell:
        raise SystemExit(1)
