"""``offpolicy check``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import format_option, log_options, policies_of, read, show, tell


@click.command("check")
@log_options
@click.option(
    "--policy", "policies", metavar="COLUMN", multiple=True,
    help="column: probability of the chosen action, or list: of every candidate; :uniform; or the "
    "file of a learned policy, policy.json; "
    "repeat for several",
)  # fmt: skip
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH",
    help="the least and the greatest reward there can be",
)  # fmt: skip
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
    tell(report, "dropped")
    show(report, style)
    if report.worst == "problem":
        raise SystemExit(1)
