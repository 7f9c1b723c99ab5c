"""``offpolicy simulate``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict, StrictGroup
from offpolicy.cli.options import Options, option
from offpolicy.cli.printing import say, say_json

if TYPE_CHECKING:
    from offpolicy.datasets import Population

_SHARE = click.FloatRange(0.0, 1.0)


class _Sources(StrictGroup):
    """``synthetic``, and any other word is the name of a labelled data set."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _labelled_command(cmd_name, [*self.commands])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Sources"):
            formatter.write_dl(
                [
                    ("synthetic", "A random problem, as hard as you like."),
                    ("digits", "Handwritten digits, which come with scikit-learn."),
                    ("NAME", "A labelled data set: letter, satimage, … (offpolicy datasets list)"),
                ]
            )


@click.group("simulate", cls=_Sources, subcommand_metavar="SOURCE [OPTIONS]")
def command() -> None:
    """Write a log whose truth is known.

    The file also holds a policy and a reward model's predictions, under the names policy and
    prediction. What the policy really earns goes to stdout, and into the file's metadata.

    \b
    offpolicy simulate synthetic -n 20000 --overlap 0.5 -o log.parquet
    offpolicy evaluate log.parquet --policy policy --prediction prediction
    """


_OUTPUT = Options(
    n=option("decisions", kind=opt.COUNT, default=10_000, flags="-n"),
    out=option("the Parquet file to write", "FILE", opt.OUTPUT, flags="-o --out", required=True),
    seed=option(kind=opt.SEED, default=0),
    expected=option(
        "also write the true mean reward of every candidate, as the column expected", default=False
    ),
    style=option(kind=("text", "json"), flags="--format"),
)
_POPULATION = Options(
    "offpolicy.datasets.simulate_synthetic",
    actions=option(kind=opt.COUNT, default=10),
    fewest=option(
        "candidates differ between decisions: from this many to all actions", kind=opt.COUNT
    ),
    contexts=option(
        "how many there are; the truth is exact over all of them", kind=opt.COUNT, default=1000
    ),
    features=option("numbers in a context", kind=opt.COUNT, default=5),
    overlap=option(
        "1: the logger is the policy; 0: it avoids what the policy likes", kind=_SHARE, default=0.5
    ),
    unsupported=option(
        "the chance that the logger never takes a candidate", kind=_SHARE, default=0.0
    ),
    model_error=option("of the predictions; 0: exact", kind=opt.NOT_NEGATIVE, default=0.5),
    propensity_error=option(
        "of the logged probabilities; 0: exact", kind=opt.NOT_NEGATIVE, default=0.0
    ),
    reward=option(kind=("binary", "continuous")),
    noise=option(
        "binary: the probability that a reward is flipped; continuous: the noise's deviation",
        kind=opt.NOT_NEGATIVE, default=0.0,
    ),
)  # fmt: skip
_LABELLED = Options(
    scale=option(
        "of the features; raw: one-vs-rest, a logger that hardly explores",
        kind=("standardised", "raw"),
    ),
    tenth=option(
        "whether the reward model learns from the logger's examples or from others",
        kind=("same", "different"),
    ),
    model=option(
        "predictions: how likely an action is right, or 1 for the likeliest",
        kind=("probability", "indicator"),
    ),
    noise=option(
        "the probability that a reward is that of the opposite",
        kind=click.FloatRange(0.0, 0.5), default=0.0,
    ),
    right=option("what a right action earns", default=1.0),
    wrong=option("what a wrong one earns", default=0.0),
)  # fmt: skip


@command.command("synthetic")
@_OUTPUT
@_POPULATION
def synthetic(**options: Any) -> None:
    """A random problem, as hard as you like.

    The policy and its value stay the same, with the same seed, when overlap, support and errors
    change.
    """
    from offpolicy.datasets import make_population

    _write("synthetic", make_population, **options)


@click.command("labelled", cls=Strict)
@_OUTPUT
@_LABELLED
def _labelled(name: str, **options: Any) -> None:
    """A labelled data set, split as in the paper.

    The action is a guess at the label. Half of the examples train: a tenth of them the logger and
    the reward model, all of them the policy. The other half is what is decided upon, drawn with
    replacement; the truth is exact over it.
    """
    _write(name, partial(_labelled_population, name), **options)


def _labelled_command(name: str, others: list[str]) -> click.Command:
    """The command `simulate NAME` for one data set."""
    from offpolicy.errors import did_you_mean

    if name not in _data_sets():
        there = sorted([*others, *_data_sets()])
        raise click.UsageError(
            f'There is no source "{name}".{did_you_mean(name, there)} '
            f"There are {', '.join(there)}; OFFPOLICY_DATA names the folder with uci/<name>.csv.gz "
            f"for others."
        )
    assert _labelled.callback is not None
    return Strict(
        name,
        callback=partial(_labelled.callback, name),
        params=_labelled.params,
        help=_labelled.help,
    )


def _labelled_population(
    name: str, seed: int, *, scale: str, tenth: str, model: str, noise: float, right: float,
    wrong: float,
) -> Population:  # fmt: skip
    """What `simulate NAME` draws from: every example of the second half is a context."""
    from offpolicy.datasets import Population, TwoValued, check_rewards, expected_rewards, load
    from offpolicy.experiments.worlds import halves, labelled_world

    check_rewards(noise, right, wrong)
    examples = load(name)
    world = labelled_world(examples, f"{scale}, {tenth} 10%", seed, model)
    assert world.prediction is not None
    _, decided = halves(len(examples.y), seed)
    label = world.reward.argmax(axis=1)
    return Population(
        context=examples.X[decided],
        policy=world.policy,
        logging=world.logging,
        expected=expected_rewards(label, world.reward.shape[1], noise, right, wrong),
        prediction=wrong + (right - wrong) * world.prediction,
        rewards=TwoValued(wrong, right),
    )


def _data_sets() -> list[str]:
    """What the command `simulate` takes as NAME: sets that `load` knows, at hand or not."""
    from offpolicy.datasets import catalogue, roots

    files = [path.name for root in roots() for path in root.glob("uci/*.csv.gz")]
    names = ["digits", *catalogue.LABELLED, *(name.removesuffix(".csv.gz") for name in files)]
    return list(dict.fromkeys(names))


def _write(
    source: str, make: Callable[..., Population], *, n: int, out: str, seed: int, style: str,
    expected: bool, **settings: Any,
) -> None:  # fmt: skip
    import shlex

    from offpolicy._core.documents import dumps, json_safe
    from offpolicy.cli.progress import Progress
    from offpolicy.datasets import Truth, check_name, write_log

    check_name(Path(out))
    population = make(seed, **settings)
    truth = Truth.of(population, source=source, **settings, n=n, seed=seed)
    progress = Progress("wrote") if sys.stderr.isatty() else None
    mean = write_log(
        Path(out), population, truth, n=n, seed=seed, with_expected=expected, progress=progress
    )
    if style == "json":
        say_json(dumps(json_safe(truth) | {"mean_reward": mean}, indent=None))
    else:
        say(
            f"{n:,} decisions: the logger earned {mean:.5g}.\n"
            f"truth: the policy earns {truth.value:.5g}, the logger {truth.logger_value:.5g}.\n"
            f"They share {truth.shared:.1%} of their probability; {truth.unsupported:.1%} of the "
            f"policy's is where the logger never goes."
        )
    say(
        f"Wrote {out}. To go on: offpolicy evaluate {shlex.quote(out)} --policy policy "
        f"--prediction prediction",
        err=True,
    )
