"""``offpolicy sweep``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option

_SETTINGS = Options(
    "offpolicy.evaluation.sweep", estimator=opt.ESTIMATOR, level=opt.LEVEL, resume=opt.RESUME
)


@click.command("sweep")
@opt.log_options
@Options(
    policy=option(
        "column: the policy's probabilities; :uniform; or a learned policy.json", "COLUMN",
        required=True,
    ),
    plot=option("also write a picture (PNG, SVG)", kind=opt.FILE),
    grid=option("64 fixed values of M; needed for clustered errors", default=False),
)  # fmt: skip
@_SETTINGS
@opt.format_option("tsv", "json")
def command(
    log: tuple[str, ...],
    policy: str,
    prediction: str | None,
    plot: str | None,
    grid: bool,
    style: str,
    **given: Any,
) -> None:
    """The curve of an estimator over its parameter: M, or tau for SB.

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision. Prints the curve at its breakpoints, at most 1001 of them.
    """
    from offpolicy._core.documents import dumps
    from offpolicy.evaluation import sweep
    from offpolicy.evidence import GRID

    ((_, asked),) = opt.policies_of((policy,)).items()
    curve = sweep(
        opt.read(log, given),
        asked,
        prediction=prediction,
        grid=GRID if grid else None,
        **_SETTINGS.said(given),
    )
    opt.tell_dropped(curve.dropped)
    frame = curve.to_frame()
    if plot:
        from offpolicy.report.matplotlib import save_curve

        save_curve(curve, plot)
        click.echo(f"Wrote {plot}.", err=True)
    cells = {name: frame.column(name).to_numpy() for name in frame.column_names}
    click.echo(dumps(cells, indent=None) if style == "json" else opt.as_tsv(frame))
