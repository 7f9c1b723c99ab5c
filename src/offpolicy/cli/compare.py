"""``offpolicy compare``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option

_SETTINGS = Options(
    "offpolicy.evaluation.compare",
    prediction=opt.PREDICTION,
    baseline=option(
        'compare with this policy only, or with "logged", the one that wrote the log', "NAME"
    ),
    multiplicity=option("whether to allow for the number of pairs", kind=("holm", "none")),
    reward_range=opt.REWARD_RANGE,
    level=opt.LEVEL,
    resume=opt.RESUME,
)


@click.command("compare", cls=Strict)
@opt.log_options
@Options(policies=opt.POLICIES | {"required": True}, allow_code=opt.ALLOW_CODE)
@_SETTINGS
@opt.report_option("; looks at the log as check does")
@opt.format_option("table", "json", "tsv")
def command(log: tuple[str, ...], policies: tuple[str, ...], **options: Any) -> None:
    """Which of these policies is better, and by how much?

    LOG is one or several files (Parquet, CSV, JSON lines, Feather), globs or folders, with one
    row per decision. The policy that wrote it takes part as "logged". The exit code is 1 if the
    log can tell about none of the pairs or probabilities cannot be true, else 0.
    """
    from offpolicy.cli.pages import Run
    from offpolicy.evaluation import compare, compare_and_check

    run = Run.begun(options["report"])
    opt.warn_of_contexts(options)
    named = opt.policies_of(policies, options["allow_code"])
    source = opt.read(log, options)
    settings = _SETTINGS.said(options)
    together = None if run.page is None else compare_and_check(source, named, **settings)
    answer = compare(source, named, **settings) if together is None else together.answers[0]
    opt.show(answer, options["style"])
    if together is not None:
        run.write_checked(source, together)
    if answer.problems or not answer.can_tell:
        raise SystemExit(1)
