"""``offpolicy evaluate``."""

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


@click.command("evaluate")
@log_options
@click.option(
    "--policy", "policies", metavar="COLUMN", multiple=True, required=True,
    help="column: probability of the chosen action, or list: of every candidate; :uniform; or the "
    "file of a learned policy, policy.json; "
    "repeat to compare",
)  # fmt: skip
@click.option(
    "-e", "--estimator", "estimators", multiple=True, metavar="NAME",
    help='such as IPS or "CAB(M=10)"; repeat for several',
)  # fmt: skip
@click.option(
    "--interval", default="default", show_default=True, metavar="KIND",
    help="default, normal, t, bootstrap, bca, hoeffding, empirical-bernstein, betting, …",
)  # fmt: skip
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH", help="between which rewards lie"
)
@click.option(
    "--tuning", type=click.Choice(["theory", "slope", "slope++", "switch"]), default="theory",
    show_default=True, help="how a parameter left out is chosen",
)  # fmt: skip
@level_option
@resume_option
@report_option
@format_option("table", "json", "tsv")
def command(
    log: tuple[str, ...],
    policies: tuple[str, ...],
    prediction: str | None,
    estimators: tuple[str, ...],
    interval: str,
    reward_range: tuple[float, float] | None,
    tuning: str,
    level: float,
    resume: str | None,
    report: str | None,
    style: str,
    **given: Any,
) -> None:
    """What would these policies have earned?

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision. The exit code is 1 if the log cannot
    tell, 0 otherwise.
    """
    from offpolicy.cli.pages import Run, write_page
    from offpolicy.evaluation import evaluate

    run = Run.begun(report)
    found, asked = read(log, given), policies_of(policies)
    result = evaluate(
        found,
        asked,
        prediction=prediction,
        estimators=list(estimators) or None,
        level=level,
        resume=resume,
        interval=interval,
        reward_range=reward_range,
        tuning=tuning,
    )
    tell_dropped(result.dropped)
    show(result, style)
    if report is not None:
        comparison = None
        if len(asked) > 1 and result.headlines:
            from offpolicy.evaluation import compare

            comparison = compare(
                found,
                asked,
                prediction=prediction,
                level=level,
                resume=resume,
                reward_range=reward_range,
            )
        write_page(run, found, asked, prediction, reward_range, result, comparison)
    if not result.can_tell:
        raise SystemExit(1)
