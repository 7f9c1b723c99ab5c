"""``offpolicy compare``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import (
    format_option,
    level_option,
    log_options,
    policies_of,
    read,
    report_option,
    resume_option,
    show,
    tell_dropped,
)


@click.command("compare")
@log_options
@click.option(
    "--policy", "policies", metavar="COLUMN", multiple=True, required=True,
    help="column: probability of the chosen action, or list: of every candidate; :uniform; or the "
    "file of a learned policy, policy.json; "
    "repeat for several",
)  # fmt: skip
@click.option(
    "--baseline", metavar="NAME",
    help='compare with this policy only, or with "logged", the one that wrote the log',
)  # fmt: skip
@click.option(
    "--multiplicity", type=click.Choice(["holm", "none"]), default="holm", show_default=True,
    help="whether to allow for the number of pairs",
)  # fmt: skip
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH",
    help="the least and the greatest reward there can be",
)  # fmt: skip
@level_option
@resume_option
@report_option
@format_option("table", "json", "tsv")
def command(
    log: tuple[str, ...],
    policies: tuple[str, ...],
    prediction: str | None,
    baseline: str | None,
    multiplicity: str,
    reward_range: tuple[float, float] | None,
    level: float,
    resume: str | None,
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
    found, asked = read(log, given), policies_of(policies)
    comparison = compare(
        found,
        asked,
        prediction=prediction,
        level=level,
        resume=resume,
        multiplicity=multiplicity,
        reward_range=reward_range,
        baseline=baseline,
    )
    tell_dropped(comparison.dropped)
    show(comparison, style)
    if report is not None:
        write_page(run, found, asked, prediction, reward_range, None, comparison)
    if not comparison.can_tell:
        raise SystemExit(1)
