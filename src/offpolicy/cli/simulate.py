"""``offpolicy simulate``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli.options import format_option

if TYPE_CHECKING:
    from offpolicy.datasets import Examples, Population


class _Sources(click.Group):
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


def _output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How many decisions, and where to."""
    function = format_option("text", "json")(function)
    function = click.option(
        "--expected", is_flag=True,
        help="also write the true mean reward of every candidate, as the column expected",
    )(function)  # fmt: skip
    function = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)(
        function
    )
    function = click.option(
        "-o", "--out", required=True, type=click.Path(dir_okay=False), metavar="FILE",
        help="the Parquet file to write",
    )(function)  # fmt: skip
    return click.option(
        "-n", "n", type=click.IntRange(min=1), default=10_000, show_default=True,
        help="decisions",
    )(function)  # fmt: skip


def _share(most: float) -> click.FloatRange:
    return click.FloatRange(0.0, most)


@command.command("synthetic")
@_output_options
@click.option("--actions", type=click.IntRange(min=1), default=10, show_default=True)
@click.option(
    "--fewest", type=click.IntRange(min=1),
    help="candidates differ between decisions: from this many to all actions",
)  # fmt: skip
@click.option(
    "--contexts", type=click.IntRange(min=1), default=1000, show_default=True,
    help="how many there are; the truth is exact over all of them",
)  # fmt: skip
@click.option(
    "--features", type=click.IntRange(min=1), default=5, show_default=True,
    help="numbers in a context",
)  # fmt: skip
@click.option(
    "--overlap", type=_share(1.0), default=0.5, show_default=True,
    help="1: the logger is the policy; 0: it avoids what the policy likes",
)  # fmt: skip
@click.option(
    "--unsupported", type=_share(1.0), default=0.0, show_default=True,
    help="the chance that the logger never takes a candidate",
)  # fmt: skip
@click.option(
    "--model-error", type=click.FloatRange(min=0.0), default=0.5, show_default=True,
    help="of the predictions; 0: exact",
)  # fmt: skip
@click.option(
    "--propensity-error", type=click.FloatRange(min=0.0), default=0.0, show_default=True,
    help="of the logged probabilities; 0: exact",
)  # fmt: skip
@click.option(
    "--reward", type=click.Choice(["binary", "continuous"]), default="binary", show_default=True
)
@click.option(
    "--noise", type=click.FloatRange(min=0.0), default=0.0, show_default=True,
    help="binary: the probability that a reward is flipped; continuous: the noise's deviation",
)  # fmt: skip
def synthetic(n: int, out: str, seed: int, style: str, expected: bool, **settings: Any) -> None:
    """A random problem, as hard as you like.

    The policy and its value stay the same, with the same seed, when overlap, support and errors
    change.
    """
    from offpolicy.datasets import check_name, make_population

    check_name(Path(out))
    population = make_population(seed, **settings)
    _write(population, {"source": "synthetic", **settings}, n, out, seed, style, expected)


@click.command("labelled")
@_output_options
@click.option(
    "--scale", type=click.Choice(["standardised", "raw"]), default="standardised",
    show_default=True, help="of the features; raw: one-vs-rest, a logger that hardly explores",
)  # fmt: skip
@click.option(
    "--tenth", type=click.Choice(["same", "different"]), default="same", show_default=True,
    help="whether the reward model learns from the logger's examples or from others",
)  # fmt: skip
@click.option(
    "--model", type=click.Choice(["probability", "indicator"]), default="probability",
    show_default=True, help="predictions: how likely an action is right, or 1 for the likeliest",
)  # fmt: skip
@click.option(
    "--noise", type=_share(0.5), default=0.0, show_default=True,
    help="the probability that a reward is that of the opposite",
)  # fmt: skip
@click.option(
    "--right", type=float, default=1.0, show_default=True, help="what a right action earns"
)
@click.option("--wrong", type=float, default=0.0, show_default=True, help="what a wrong one earns")
def _labelled(
    name: str, n: int, out: str, seed: int, style: str, expected: bool, **settings: Any
) -> None:
    """A labelled data set, split as in the paper.

    The action is a guess at the label. Half of the examples train: a tenth of them the logger and
    the reward model, all of them the policy. The other half is what is decided upon, drawn with
    replacement; the truth is exact over it.
    """
    from offpolicy.datasets import check_name

    check_name(Path(out))
    population = _labelled_population(name, seed, **settings)
    _write(population, {"source": name, **settings}, n, out, seed, style, expected)


def _labelled_command(name: str, others: list[str]) -> click.Command:
    """The command for one data set."""
    from offpolicy.errors import did_you_mean

    if name not in _data_sets():
        there = sorted([*others, *_data_sets()])
        raise click.UsageError(
            f'There is no source "{name}".{did_you_mean(name, there)} '
            f"There are {', '.join(there)}; OFFPOLICY_DATA names the folder with uci/<name>.csv.gz "
            f"for others."
        )
    assert _labelled.callback is not None
    return click.Command(
        name,
        callback=partial(_labelled.callback, name),
        params=_labelled.params,
        help=_labelled.help,
    )


def _labelled_population(
    name: str,
    seed: int,
    *,
    scale: str,
    tenth: str,
    model: str,
    noise: float,
    right: float,
    wrong: float,
) -> Population:
    """The paper's set-up as a population: every example of the second half is a context."""
    from offpolicy.datasets import Population, TwoValued, check_rewards, expected_rewards
    from offpolicy.experiments.worlds import halves, world_of_examples

    check_rewards(noise, right, wrong)
    examples = _examples(name)
    world = world_of_examples(examples, f"{scale}, {tenth} 10%", model, seed)
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
    """The names that `_examples` knows, at hand or not."""
    from offpolicy.datasets import catalogue, roots

    own = [path for root in roots() for path in root.glob("uci/*.csv.gz")]
    return list(
        dict.fromkeys(
            ["digits", *catalogue.LABELLED, *(path.name.removesuffix(".csv.gz") for path in own)]
        )
    )


def _examples(name: str) -> Examples:
    from offpolicy.datasets import Examples, load

    if name != "digits":
        return load(name)
    from sklearn.datasets import load_digits

    return Examples(*load_digits(return_X_y=True))


def _write(
    population: Population,
    settings: dict[str, Any],
    n: int,
    out: str,
    seed: int,
    style: str,
    expected: bool,
) -> None:
    import json
    import shlex

    from offpolicy.cli.progress import Progress
    from offpolicy.datasets import Truth, write_log

    truth = Truth.of(population, **settings, n=n, seed=seed)
    mean = write_log(
        Path(out),
        population,
        truth,
        n=n,
        seed=seed,
        with_expected=expected,
        progress=Progress("wrote") if sys.stderr.isatty() else None,
    )
    if style == "json":
        click.echo(json.dumps({**json.loads(truth.to_json()), "mean_reward": mean}))
    else:
        click.echo(f"{n:,} decisions: the logger earned {mean:.5g}.")
        click.echo(
            f"truth: the policy earns {truth.value:.5g}, the logger {truth.logger_value:.5g}."
        )
        click.echo(
            f"They share {truth.shared:.1%} of their probability; {truth.unsupported:.1%} of the "
            f"policy's is where the logger never goes."
        )
    click.echo(
        f"Wrote {out}. To go on: offpolicy evaluate {shlex.quote(out)} --policy policy "
        f"--prediction prediction",
        err=True,
    )
