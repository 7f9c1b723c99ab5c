"""``offpolicy learn``."""

from __future__ import annotations

from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.options import Options, option

_LEARNER = Options(
    "offpolicy.learning.SoftmaxLearner",
    estimator=option(
        "what is maximised, with its parameter: CAB-DR(M=30), if nothing is said", "NAME",
        flags="-e --estimator",
    ),
    features=option("what the policy sees of a context: linear (the default), kernel, raw", "KIND"),
    start=option("where the search begins: model (the default), logger, zero, random", "WHERE"),
    centres=option("kernel: how many contexts it is centred on", "X", opt.COUNT),
    gamma=option("kernel: how narrow it is", "X", opt.POSITIVE),
    l2=option("penalty on leaving the start at the model, or 0", "X", opt.NOT_NEGATIVE),
    model_l2=option("on the reward model's weights; chosen if not given", "X", opt.NOT_NEGATIVE),
    penalty=option("standard errors taken off the objective (POEM)", "X", opt.NOT_NEGATIVE),
    baseline=option("taken off every reward in the objective (BanditNet)", "X", float),
    max_iter=option("steps of the search, at most", "X", opt.COUNT),
    passes=option("how often files larger than memory are gone through", "X", opt.SEED),
    seed=option("of all that is drawn", "X", opt.SEED),
)  # fmt: skip
_HOW = Options(
    "offpolicy.learning.learn",
    **opt.held_out("decisions"),
    prediction=opt.PREDICTION,
    level=opt.LEVEL,
)


@click.command("learn", cls=Strict)
@opt.log_options
@_LEARNER
@opt.learned_option("policy")
@_HOW
@opt.report_option()
@opt.format_option("text", "json")
def command(log: tuple[str, ...], out: str, **options: Any) -> None:
    """Learn a policy that would have earned more.

    LOG is one or several files (Parquet, CSV, JSON lines, Feather), globs or folders, with one
    row per decision; --context names the columns that the policy decides by. What it is worth
    is then found on decisions that it was not learned from. The exit code is 1 if these cannot
    tell or probabilities cannot be true, else 0.
    """
    from offpolicy.cli.pages import Run
    from offpolicy.cli.progress import told_in_a_line
    from offpolicy.evidence import without_bad_rows
    from offpolicy.learning import SoftmaxLearner, learn

    opt.check_learned("policy", out, options)
    kernel = options["features"] == "kernel"
    opt.refuse_idle(["centres", "gamma"], not kernel, "--features kernel")
    run = Run.begun(options["report"])
    learner = SoftmaxLearner(**_LEARNER.said(options))
    member = learner.check()
    modelled = learner.start == "model" or (member.uses_model and options["prediction"] is None)
    opt.refuse_idle(["model_l2"], not modelled, "a learner that fits a reward model")
    shifts = member.imputes != "all"
    opt.refuse_idle(["baseline"], not shifts, "objectives that are not doubly robust")
    whole = without_bad_rows(opt.read(log, options), {}, options["prediction"])
    opt.tell_dropped(whole)
    with told_in_a_line("step {:,}: {:.5g}") as told:
        learned = learn(learner, whole, policy=out, progress=told, **_HOW.said(options))
    learner.save(out)
    how = f"decisions:\n  offpolicy evaluate OTHER{opt.columns_again(options)} --policy"
    opt.show_learned(learned, out, how, options["style"])
    if run.page is not None:
        run.write_of_log(whole, len(whole), learned, seed=learner.seed)
    found = learned.result
    if found is not None and (found.problems or not found.can_tell):
        raise SystemExit(1)
