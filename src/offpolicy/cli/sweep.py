"""``offpolicy sweep``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli.options import (
    as_tsv,
    format_option,
    level_option,
    log_options,
    policies_of,
    read,
    resume_option,
    tell_dropped,
)


@click.command("sweep")
@log_options
@click.option(
    "--policy",
    metavar="COLUMN",
    required=True,
    help="column: the policy's probabilities; :uniform; or a learned policy.json",
)
@click.option("-e", "--estimator", default="CAB", show_default=True, metavar="NAME")
@click.option("--plot", type=click.Path(dir_okay=False), help="also write a picture (PNG, SVG)")
@click.option("--grid", is_flag=True, help="64 fixed values of M; needed for clustered errors")
@level_option
@resume_option
@format_option("tsv", "json")
def command(
    log: tuple[str, ...],
    policy: str,
    prediction: str | None,
    estimator: str,
    plot: str | None,
    grid: bool,
    level: float,
    resume: str | None,
    style: str,
    **given: Any,
) -> None:
    """The curve of an estimator over its parameter: M, or tau for SB.

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision. Prints the curve at its breakpoints,
    at most 1001 of them.
    """
    from offpolicy._core.documents import dumps
    from offpolicy.evaluation import sweep
    from offpolicy.evidence import GRID

    ((_, asked),) = policies_of((policy,)).items()
    curve = sweep(
        read(log, given),
        asked,
        prediction=prediction,
        estimator=estimator,
        grid=GRID if grid else None,
        level=level,
        resume=resume,
    )
    tell_dropped(curve.dropped)
    frame = curve.to_frame()
    if plot:
        from offpolicy.report.matplotlib import save_curve

        save_curve(curve, plot)
        click.echo(f"Wrote {plot}.", err=True)
    cells = {name: frame.column(name).to_numpy() for name in frame.column_names}
    click.echo(dumps(cells, indent=None) if style == "json" else as_tsv(frame))
