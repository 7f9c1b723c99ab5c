"""``offpolicy reproduce``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offpolicy.cli.progress import counted

if TYPE_CHECKING:
    from offpolicy.experiments.cells import Cells

_Option = Callable[[Any], Any]


def _out(name: str) -> _Option:
    kind = click.Path(file_okay=False)
    return click.option("--out", type=kind, default=f"out/{name}", show_default=True)


def _whole(name: str, default: int, about: str | None = None, *, least: int = 1) -> _Option:
    """A whole number."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, help=about)


def _text(name: str, default: str, about: str | None = None) -> _Option:
    return click.option(name, default=default, show_default=True, help=about)


_DATASETS = _text("--datasets", "letter,optdigits,satimage,pendigits")
_SEED = _whole("--seed", 0, least=0)
_JOBS = _whole("--jobs", 1)


@click.group("reproduce")
def command() -> None:
    """The paper's theorems and experiments."""


@command.command("theory")
@_out("theory")
@_whole("--n", 400_000, "decisions to simulate", least=100)
@_SEED
def theory(out: str, n: int, seed: int) -> None:
    """Theorems 1 to 6 against simulation, for every member of the family."""
    from offpolicy.experiments.evaluation import theorems

    rows = theorems.compare_with_simulation(n=n, seed=seed)
    click.echo(theorems.to_text(rows))
    _tell([theorems.save_rows(rows, Path(out))])


@command.command("evaluation")
@_out("evaluation")
@_DATASETS
@_text("--sizes", "200,500,2000")
@_whole("--repeats", 500, least=2)
@_text("--reading", "raw, one-vs-rest, stochastic, same 10%", "what the paper's text leaves open")
@_whole("--splits", 2, "splits on which every reading is surveyed; 0: none", least=0)
@_whole("--chosen-repeats", 100, "logs on which the parameter is chosen by every rule; 0: none",
        least=0)  # fmt: skip
@_SEED
@_JOBS
def evaluation(out: str, datasets: str, sizes: str, jobs: int, **others: Any) -> None:
    """Section 5 on evaluation: Figures 1 and 2, and the paper's claims, measured.

    Bias, variance and mean squared error of eight estimators over M and tau on labelled data. If
    it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments.evaluation.experiment import Settings, run

    settings = Settings(_words(datasets), _numbers(sizes), **others)
    found = run(settings, _cells(out, jobs))
    click.echo(found.to_markdown())
    _tell(found.save(Path(out)), pictures=True)


@command.command("learning")
@_out("learning")
@_DATASETS
@_whole("--runs", 10)
@click.option("--quick", is_flag=True, help="three runs")
@click.option("--ours", is_flag=True, help="our own recipe instead of the paper's set-up")
@click.option("--figure", is_flag=True, help="Figure 4 instead of Table 2")
@_JOBS
def learning(
    out: str, datasets: str, runs: int, quick: bool, ours: bool, figure: bool, jobs: int
) -> None:
    """Section 5 on learning: Table 2, Figure 4, and the same data with our own recipe.

    If it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments import claims
    from offpolicy.experiments.learning import figure4, table2

    if figure and ours:
        raise click.UsageError("Figure 4 is of the paper's set-up: leave out --ours.")
    folder, wanted = Path(out), 3 if quick else runs
    recipe = "ours" if ours else "paper"
    if figure:
        conditions = figure4.conditions(wanted)
    else:
        conditions = table2.conditions(_words(datasets), wanted)
    found = table2.run(conditions, recipe, _cells(out, jobs))
    if figure:
        text = claims.to_markdown(figure4.claims(found))
    else:
        text = table2.to_markdown(found)
        if not ours:
            text += "\n" + claims.to_markdown(table2.claims(found))
    click.echo(text)
    if figure:
        written = table2.save(
            found, text, folder / "figure4", figure4=lambda path: figure4.draw(found, path)
        )
    else:
        written = table2.save(found, text, folder / f"table2-{recipe}")
    _tell(written, pictures=figure)


@command.command("ranking")
@_out("ranking")
@_text("--datasets", "MQ2007,MQ2008", "also yahoo, MSLR-WEB10K, Istella-S …, if you have the files")
@_text("--sweeps", "0.5,1,5", "how often queries are shown; Table 2 is of 1")
@_text("--loggers", "0.01,0.1", "shares of the training queries that train the logger")
@_whole("--splits", 8, "of the data, in the evaluation experiment; 0: leave it out", least=0)
@_whole("--repeats", 100, "logs of each split", least=2)
@_whole("--chosen-repeats", 5, "logs of each split from which M and tau are chosen too")
@_whole("--runs", 5, "of the learning experiment; 0: leave it out", least=0)
@click.option("--quick", is_flag=True, help="three splits, ten logs, two runs, one logger")
@_SEED
@_JOBS
def ranking(
    out: str, datasets: str, sweeps: str, loggers: str, chosen_repeats: int, quick: bool, jobs: int,
    **others: int,
) -> None:  # fmt: skip
    """Section 5 on rankings: Figures 1, 2 and 4, and Table 2, with clicks on judged queries.

    The data sets are looked for in the folder named by OFFPOLICY_DATA. If it is stopped, the same
    command goes on where it was.
    """
    from offpolicy.experiments.ranking.experiment import Settings, run

    settings = Settings(
        _words(datasets), _shares(sweeps), _shares(loggers), chosen=chosen_repeats, **others
    )
    if quick:
        settings = settings.quick()
    if not settings.splits and not settings.runs:
        raise click.UsageError("With --splits 0 and --runs 0 there is nothing to do.")
    found = run(settings, _cells(out, jobs))
    click.echo(found.to_markdown())
    _tell(found.save(Path(out)), pictures=True)


@command.command("tuning")
@_out("tuning")
@_whole("--repeats", 100, least=2)
@_whole("--splits", 2)
@_JOBS
@_DATASETS
def tuning(out: str, repeats: int, splits: int, jobs: int, datasets: str) -> None:
    """The parameter chosen from the log against the best one in hindsight, on labelled data.

    Reads the data sets from the folder named by OFFPOLICY_DATA, or from where "offpolicy datasets
    fetch" put them. If it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments.evaluation import tuning

    wanted = tuning.settings(datasets.split(","), splits=splits)
    outcomes = []
    for outcome in tuning.run(wanted, _cells(out, jobs), repeats=repeats):
        outcomes.append(outcome)
        click.echo(f"{len(outcomes)} of {len(wanted)}: {outcome.setting}", err=True)
    click.echo(tuning.to_markdown(outcomes, repeats))
    _tell([tuning.save_outcomes(outcomes, repeats, Path(out))])


@command.command("coverage")
@_out("coverage")
@_whole("--repeats", 2000, least=2)
@_text("--sizes", "200,2000,20000")
@_JOBS
def coverage(out: str, repeats: int, sizes: str, jobs: int) -> None:
    """How often every kind of interval covers the policy's value, in worlds where it is known.

    If it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments.intervals import coverage

    rows = []
    wanted = [int(n) for n in sizes.split(",")]
    for part in coverage.run(_cells(out, jobs), wanted, repeats):
        rows += part
        click.echo(f"{part[0].world}, n = {part[0].n:,}", err=True)
    click.echo(coverage.to_markdown(rows))
    _tell([coverage.save_rows(rows, Path(out))])


@command.command("real")
@_out("real")
@_text("--datasets", "optdigits,synthetic")
@_whole("--repeats", 50, "pairs of runs on each problem", least=2)
@_whole("--steps", 5000, "length of a run: the longer, the fewer actions keep a probability",
        least=2)  # fmt: skip
@_SEED
@_whole("--jobs", 2)
@click.option("--obd", type=click.Path(file_okay=False), metavar="FOLDER",
              help="of the full Open Bandit Dataset, instead of its small sample")  # fmt: skip
def real(
    out: str, datasets: str, repeats: int, steps: int, seed: int, jobs: int, obd: str | None
) -> None:
    """The paper's Figure 3: Thompson samplers that lose support, and the Open Bandit logs.

    "synthetic" needs no data; for the others see offpolicy datasets. If it is stopped, the same
    command goes on where it was.
    """
    from offpolicy.errors import DatasetError
    from offpolicy.experiments.real import figure3, open_bandit

    problems = figure3.check_problems(datasets.split(","))
    kept = _cells(out, jobs)
    logs: list[dict[str, Any]] = []
    try:
        for pair in open_bandit.run(None if obd is None else Path(obd), kept):
            logs += pair
            click.echo(f"Open Bandit logs: {pair[0]['campaign']}", err=True)
    except DatasetError as missing:
        if obd is not None:
            raise
        click.echo(f"No Open Bandit logs: {missing}", err=True)
    cells: dict[str, list[dict[str, Any]]] = {problem: [] for problem in problems}
    for setup, cell in figure3.run(problems, kept, repeats=repeats, seed=seed, steps=steps):
        cells[setup.problem].append(cell)
        click.echo(f"{setup.problem}: {len(cells[setup.problem])} of {repeats}", err=True)
    found = figure3.Figure3(steps, cells, logs)
    click.echo(found.to_markdown())
    click.echo(found.claims_markdown())
    _tell(found.save(Path(out)), pictures=True)


def _cells(out: str, jobs: int) -> Cells:
    """What a command keeps on the way, to go on from if it is stopped."""
    from offpolicy.experiments.cells import Cells

    return Cells(Path(out) / "cells", jobs, counted)


def _tell(written: Sequence[Path], *, pictures: bool = False) -> None:
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)
    if pictures and not any(path.suffix == ".png" for path in written):
        click.echo("For the pictures: pip install 'offpolicy[plot]'.", err=True)


def _words(text: str) -> list[str]:
    """At least one, each once."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found or len(set(found)) < len(found):
        raise click.BadParameter(f'"{text}" must name at least one, and each once.')
    return found


def _numbers(text: str) -> list[int]:
    """Sizes of logs, increasing."""
    try:
        found = sorted({int(word) for word in _words(text)})
    except ValueError:
        raise click.BadParameter(f'"{text}" must be whole numbers with commas between.') from None
    if not found or found[0] < 1:
        raise click.BadParameter(f'"{text}" must hold sizes of 1 or more.')
    return found


def _shares(text: str) -> list[float]:
    """Numbers above 0, increasing."""
    try:
        found = sorted({float(word) for word in _words(text)})
    except ValueError:
        raise click.BadParameter(f'"{text}" must be numbers with commas between.') from None
    if not found[0] > 0.0 or found[-1] == float("inf"):
        raise click.BadParameter(f'"{text}" must hold numbers above 0.')
    return found
