"""``offpolicy evaluate``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
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
    prediction=opt.PREDICTION,
    reward_range=opt.REWARD_RANGE,
    level=opt.LEVEL,
    resume=opt.RESUME,
)


@click.command("evaluate", cls=Strict)
@opt.log_options
@Options(policies=opt.POLICIES | {"required": True}, allow_code=opt.ALLOW_CODE)
@_ESTIMATION
@_SETTINGS
@opt.report_option("; looks at the log as check does")
@opt.format_option("table", "json", "tsv")
def command(log: tuple[str, ...], policies: tuple[str, ...], **options: Any) -> None:
    """What would these policies have earned?

    LOG is one or several files (Parquet, CSV, JSON lines, Feather), globs or folders, with one
    row per decision. The exit code is 1 if the log cannot tell or probabilities
    cannot be true, 0 otherwise.
    """
    from offpolicy.cli.pages import Run
    from offpolicy.evaluation import evaluate, evaluate_and_check

    run = Run.begun(options["report"])
    opt.warn_of_contexts(options)
    named = opt.policies_of(policies, options["allow_code"])
    source = opt.read(log, options)
    settings = _SETTINGS.said(options) | _ESTIMATION.said(options)
    together = None if run.page is None else evaluate_and_check(source, named, **settings)
    answer = evaluate(source, named, **settings) if together is None else together.answers[0]
    opt.show(answer, options["style"])
    if together is not None:
        run.write_checked(source, together)
    if answer.problems or not answer.can_tell:
        raise SystemExit(1)
