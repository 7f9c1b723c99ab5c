"""``offpolicy sweep``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option
from offpolicy.cli.printing import say

_SETTINGS = Options(
    "offpolicy.evaluation.sweep",
    prediction=opt.PREDICTION,
    estimator=opt.ESTIMATOR,
    level=opt.LEVEL,
    resume=opt.RESUME,
)


@click.command("sweep", cls=Strict)
@opt.log_options
@Options(
    policy=opt.POLICY,
    allow_code=opt.ALLOW_CODE,
    plot=option("also write a picture (PNG, SVG)", kind=opt.OUTPUT),
    grid=option("64 fixed values of the parameter; needed for clustered errors", default=False),
)  # fmt: skip
@_SETTINGS
@opt.format_option("tsv", "json")
def command(
    log: tuple[str, ...], policy: str, plot: str | None, grid: bool, style: str, **options: Any
) -> None:
    """The curve of an estimator over its parameter: M, tau, lam or alpha.

    LOG is one or several files (Parquet, CSV, JSON lines, Feather), globs or folders, with one
    row per decision. Prints the curve at its breakpoints, at most 1001 of them.
    """
    import numpy as np

    from offpolicy.estimators import as_estimator
    from offpolicy.evaluation import sweep
    from offpolicy.evidence import first_look

    opt.warn_of_contexts(options)
    named = opt.policies_of((policy,), options["allow_code"])
    settings = _SETTINGS.said(options)
    if grid:
        settings["grid"] = np.sort(getattr(as_estimator(options["estimator"]), "grid", []))
    source = opt.read(log, options)
    curve = sweep(source, named, **settings)
    opt.tell_dropped(curve)
    opt.tell(first_look(source))
    if plot:
        from offpolicy.report.matplotlib import save_curve

        save_curve(curve, plot)
        say(f"Wrote {plot}.", err=True)
    opt.show_frame(curve.to_arrow(), style)
