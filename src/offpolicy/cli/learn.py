"""``offpolicy learn``."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from offpolicy.cli.options import (
    bare_report_option,
    check_writable,
    format_option,
    learned_options,
    level_option,
    log_options,
    read,
    tell_dropped,
)

if TYPE_CHECKING:
    from offpolicy.learning import Report, SoftmaxLearner
    from offpolicy.logs import BanditLog, LogScan
    from offpolicy.results import Result

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
    from pathlib import Path

    from offpolicy.cli.pages import Run, provenance_of_log
    from offpolicy.evidence import without_bad_rows
    from offpolicy.learning import SoftmaxLearner, split

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
    rest, held = whole, cast("BanditLog | LogScan | None", None)
    if holdout:
        rest, held = split(whole, holdout, seed=learner.seed)
    course = _fit(learner, rest, prediction)
    result = None
    if held is not None:
        from offpolicy.evaluation import evaluate

        policies = {Path(out).stem: learner.policy_}
        result = evaluate(held, policies, prediction=prediction, level=level)
    if refit:
        course = _fit(learner, whole, prediction)
    learned = _Learned(learner, out, len(rest), result, refit and len(whole), course)
    learner.save(out)
    click.echo(f"Wrote {out}.", err=True)
    click.echo(learned.as_json() if style == "json" else learned.as_text(given["context"]))
    if run.page is not None:
        from offpolicy.report.learned_document import LearnedDocument

        provenance = provenance_of_log(run, whole, len(whole), learner.seed)
        LearnedDocument(json.loads(learned.as_json()), provenance).to_html(run.page)
        click.echo(f"Wrote {run.page}.", err=True)
    if result is not None and not result.can_tell:
        raise SystemExit(1)


_MOST_STEPS = 1000
"""Of a search that are kept: more could not be told apart in a picture."""

Course = list[list[tuple[int, float]]]
"""Step and value of every search, one after the other."""


def _fit(learner: SoftmaxLearner, log: BanditLog | LogScan, prediction: str | None) -> Course:
    """Learn, and say how the objective rose."""
    terminal = sys.stderr.isatty()
    course: Course = [[]]

    def told(step: int, value: float) -> None:
        if course[-1] and step <= course[-1][-1][0]:  # another start, or all decisions by now
            course.append([])
        course[-1].append((step, value))
        if terminal:
            sys.stderr.write(f"\r\x1b[Kstep {step:,}: {value:.5g}")
            sys.stderr.flush()

    try:
        learner.fit(log, prediction=prediction, progress=told)
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")
    return [_thinned(search) for search in course if search]


def _thinned(search: list[tuple[int, float]]) -> list[tuple[int, float]]:
    every = max(1, -(-len(search) // _MOST_STEPS))
    return [one for k, one in enumerate(search) if k % every == 0 or k == len(search) - 1]


def _ended(report: Report) -> str:
    if not report.converged:
        return f"not converged ({report.message}): more steps may help, --max-iter."
    return f"converged; {report.message}." if report.message else "converged."


@dataclass(frozen=True)
class _Learned:
    """What came of it."""

    learner: SoftmaxLearner
    out: str
    decisions: int
    """That the evaluated policy was learned from."""
    result: Result | None
    refitted: int
    """Decisions that the written policy was learned from, if it was learned again."""
    course: Course

    def as_text(self, context: tuple[str, ...]) -> str:
        from offpolicy.report.pages.learned import STARTS

        policy, report = self.learner.policy_, self.learner.report_
        actions = "features of the candidates"
        if policy.actions is not None:
            actions = f"{len(policy.actions):,} actions"
        numbers = "" if policy.map is None else f", {policy.map.inputs:,} numbers of context each"
        used = self.refitted or self.decisions
        lines = [
            f"A policy over {actions}, learned from {used:,} decisions{numbers}.",
            f"  {self.learner.estimator} was maximised; it says {report.value:.5g} there, less "
            f"penalties. That flatters: what",
            "  was learned from is no place to find out what the policy is worth.",
            f"  {report.steps:,} steps, {STARTS[report.start.split()[0]]}; " + _ended(report),
        ]
        if self.result is None:
            lines.append("Nothing was held out: evaluate the policy on other decisions.")
        else:
            lines += [
                "",
                f"On {self.result.logged.n:,} decisions that it was not learned from:",
                self.result.sentence(),
            ]
            if self.refitted:
                lines.append(
                    f"This is about the policy learned from {self.decisions:,} decisions. The one "
                    f"written was learned from all {self.refitted:,}."
                )
        roles = "".join(f" --context {shlex.quote(name)}" for name in context)
        lines += [
            "",
            "To evaluate it on other decisions:",
            f"  offpolicy evaluate OTHER{roles} --policy {shlex.quote(self.out)}",
        ]
        return "\n".join(lines)

    def as_json(self) -> str:
        policy = self.learner.policy_
        body = {
            "schema": "offpolicy.learned/1",
            "policy": self.out,
            "actions": None if policy.actions is None else len(policy.actions),
            "context": None if policy.map is None else policy.map.inputs,
            "decisions": self.refitted or self.decisions,
            "evaluated": self.decisions if self.result is not None else None,
            "parameters": self.learner.get_params() | {"estimator": str(self.learner.estimator)},
            "report": self.learner.report_._asdict(),
            "course": self.course,
            "result": None if self.result is None else json.loads(self.result.to_json()),
        }
        from offpolicy.results import json_safe

        return json.dumps(json_safe(body), indent=1, ensure_ascii=False)
