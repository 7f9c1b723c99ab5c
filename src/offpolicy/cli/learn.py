"""``offpolicy learn``."""

from __future__ import annotations

import shlex
from typing import Any

import click

from offpolicy.cli.options import (
    bare_report_option,
    check_writable,
    format_option,
    learned_options,
    level_option,
    log_options,
    read,
    show_learned,
    tell_dropped,
)

_NUMBERS = (
    ("--centres", click.IntRange(min=1), "kernel: how many contexts it is centred on"),
    ("--gamma", click.FloatRange(min=0.0, min_open=True), "kernel: how narrow it is"),
    ("--l2", click.FloatRange(min=0.0), "penalty on leaving the start at the model, or 0"),
    ("--model-l2", click.FloatRange(min=0.0), "on the reward model's weights; chosen if not given"),
    ("--penalty", click.FloatRange(min=0.0), "standard errors taken off the objective (POEM)"),
    ("--baseline", float, "taken off every reward in the objective (BanditNet)"),
    ("--max-iter", click.IntRange(min=1), "steps of the search, at most"),
    ("--passes", click.IntRange(min=0), "how often files larger than memory are gone through"),
    ("--seed", click.IntRange(min=0), "of all that is drawn"),
)


def _learner_options(function: Any) -> Any:
    """Those left out are the learner's own."""
    for name, kind, meaning in reversed(_NUMBERS):
        function = click.option(name, type=kind, metavar="X", help=meaning)(function)
    function = click.option(
        "--start", metavar="WHERE",
        help="where the search begins: model (the default), logger, zero, random",
    )(function)  # fmt: skip
    function = click.option(
        "--features", metavar="KIND",
        help="what the policy sees of a context: linear (the default), kernel, raw",
    )(function)  # fmt: skip
    return click.option(
        "-e", "--estimator", metavar="NAME",
        help="what is maximised, with its parameter: CAB-DR(M=30), if nothing is said",
    )(function)  # fmt: skip


@click.command("learn")
@log_options
@_learner_options
@learned_options("policy", "decisions")
@level_option
@bare_report_option
@format_option("text", "json")
def command(
    log: tuple[str, ...],
    prediction: str | None,
    out: str,
    holdout: float,
    refit: bool,
    level: float,
    report: str | None,
    style: str,
    **given: Any,
) -> None:
    """Learn a policy that would have earned more.

    LOG is one or several files (Parquet, CSV, JSON lines), globs or folders, with one row per
    decision; --context names the columns of numbers that the policy decides by. What it is worth
    is then found on decisions that it was not learned from. The exit code is 1 if these cannot
    tell, else 0.
    """
    from offpolicy.cli.pages import Run, provenance_of_log
    from offpolicy.cli.progress import told_in_a_line
    from offpolicy.evidence import without_bad_rows
    from offpolicy.learning import SoftmaxLearner, learn

    check_writable(out, ".json")
    run = Run.begun(report)
    if refit and not holdout:
        raise click.UsageError("--refit is for a policy that was learned without the --holdout.")
    asked = {name: given.pop(name) for name in SoftmaxLearner().get_params() if name in given}
    learner = SoftmaxLearner().set_params(
        **{name: value for name, value in asked.items() if value is not None}
    )
    learner.check()
    whole = without_bad_rows(read(log, given), {}, prediction)
    tell_dropped(whole.dropped)
    with told_in_a_line("step {:,}: {:.5g}") as told:
        learned = learn(
            learner, whole, policy=out, holdout=holdout, refit=refit, prediction=prediction,
            level=level, progress=told,
        )  # fmt: skip
    learner.save(out)
    roles = "".join(f" --context {shlex.quote(name)}" for name in given["context"])
    show_learned(learned, out, f"decisions:\n  offpolicy evaluate OTHER{roles} --policy", style)
    if run.page is not None:
        run.write(learned, provenance=provenance_of_log(run, whole, len(whole), learner.seed))
    if learned.result is not None and not learned.result.can_tell:
        raise SystemExit(1)
