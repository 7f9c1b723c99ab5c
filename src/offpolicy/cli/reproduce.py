"""``offpolicy reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from offpolicy.cli.progress import counted


@click.group("reproduce")
def command() -> None:
    """The paper's theorems and experiments."""


@command.command("theory")
@click.option("--out", type=click.Path(file_okay=False), default="out/theory", show_default=True)
@click.option(
    "--n",
    type=click.IntRange(min=100),
    default=400_000,
    show_default=True,
    help="decisions to simulate",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def theory(out: str, n: int, seed: int) -> None:
    """Theorems 1 to 6 against simulation, for every member of the family."""
    from offpolicy.experiments.evaluation.theorems import compare_with_simulation, save, to_text

    rows = compare_with_simulation(n=n, seed=seed)
    click.echo(to_text(rows))
    click.echo(f"Wrote {save(rows, Path(out))}.", err=True)


@command.command("evaluation")
@click.option(
    "--out", type=click.Path(file_okay=False), default="out/evaluation", show_default=True
)
@click.option("--datasets", default="letter,optdigits,satimage,pendigits", show_default=True)
@click.option("--sizes", default="200,500,2000", show_default=True)
@click.option("--repeats", type=click.IntRange(min=2), default=500, show_default=True)
@click.option(
    "--reading",
    default="raw, one-vs-rest, stochastic, same 10%",
    show_default=True,
    help="what the paper's text leaves open",
)
@click.option(
    "--splits",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="splits on which every reading is surveyed; 0: none",
)
@click.option(
    "--chosen-repeats",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="logs on which the parameter is chosen by every rule; 0: none",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
def evaluation(
    out: str,
    datasets: str,
    sizes: str,
    repeats: int,
    reading: str,
    splits: int,
    chosen_repeats: int,
    seed: int,
    jobs: int,
) -> None:
    """Section 5 on evaluation: Figures 1 and 2, and the paper's claims, measured.

    Bias, variance and mean squared error of eight estimators over M and tau on labelled data. If
    it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments.evaluation.evaluated import Settings, run

    settings = Settings(
        _words(datasets), _numbers(sizes), repeats, reading, splits, chosen_repeats, seed
    )
    found = run(settings, Path(out) / "cells", shown=counted, jobs=jobs)
    click.echo(found.to_markdown())
    written = found.save(Path(out))
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)
    if not any(path.suffix == ".png" for path in written):
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


@command.command("learning")
@click.option("--out", type=click.Path(file_okay=False), default="out/learning", show_default=True)
@click.option("--datasets", default="letter,optdigits,satimage,pendigits", show_default=True)
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--quick", is_flag=True, help="three runs")
@click.option("--ours", is_flag=True, help="our own recipe instead of the paper's set-up")
@click.option("--figure", is_flag=True, help="Figure 4 instead of Table 2")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
def learning(
    out: str, datasets: str, runs: int, quick: bool, ours: bool, figure: bool, jobs: int
) -> None:
    """Section 5 on learning: Table 2, Figure 4, and the same data with our own recipe.

    If it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments import verdicts
    from offpolicy.experiments.learning import table2

    if figure and ours:
        raise click.UsageError("Figure 4 is of the paper's set-up: leave out --ours.")
    folder, wanted = Path(out), 3 if quick else runs
    conditions = table2.figure(wanted) if figure else table2.table(_words(datasets), wanted)
    recipe = "ours" if ours else "paper"
    done = table2.run(conditions, recipe, folder / "cells", jobs=jobs)
    found = list(counted(done, len(conditions), "runs"))
    if figure:
        text = verdicts.to_markdown(table2.figure_claims(found))
        name = "figure4"
    else:
        text = table2.to_markdown(found)
        name = f"table2-{recipe}"
        if not ours:
            text += "\n" + verdicts.to_markdown(table2.table_claims(found))
    click.echo(text)
    written = table2.save(found, text, folder / name)
    if figure:
        table2.draw(found, folder / name / "figure4.png")
        written.append(folder / name / "figure4.png")
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)


@command.command("ranking")
@click.option("--out", type=click.Path(file_okay=False), default="out/ranking", show_default=True)
@click.option(
    "--datasets", default="MQ2007,MQ2008", show_default=True,
    help="also yahoo, MSLR-WEB10K, Istella-S …, if you have the files",
)  # fmt: skip
@click.option(
    "--sweeps", default="0.5,1,5", show_default=True,
    help="how often queries are shown; Table 2 is of 1",
)  # fmt: skip
@click.option(
    "--loggers", default="0.01,0.1", show_default=True,
    help="shares of the training queries that train the logger",
)  # fmt: skip
@click.option("--splits", type=click.IntRange(min=0), default=8, show_default=True,
              help="of the data, in the evaluation experiment; 0: leave it out")  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=2), default=100, show_default=True,
              help="logs of each split")  # fmt: skip
@click.option(
    "--chosen-repeats", type=click.IntRange(min=1), default=5, show_default=True,
    help="logs of each split from which M and tau are chosen too",
)  # fmt: skip
@click.option("--runs", type=click.IntRange(min=0), default=5, show_default=True,
              help="of the learning experiment; 0: leave it out")  # fmt: skip
@click.option("--quick", is_flag=True, help="three splits, ten logs, two runs, one logger")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
def ranking(
    out: str,
    datasets: str,
    sweeps: str,
    loggers: str,
    splits: int,
    repeats: int,
    chosen_repeats: int,
    runs: int,
    quick: bool,
    seed: int,
    jobs: int,
) -> None:
    """Section 5 on rankings: Figures 1, 2 and 4, and Table 2, with clicks on judged queries.

    The data sets are looked for in the folder named by OFFPOLICY_DATA. If it is stopped, the same
    command goes on where it was.
    """
    from offpolicy.experiments.ranking.ranked import Settings, run

    settings = Settings(
        _words(datasets), _shares(sweeps), _shares(loggers), splits, repeats, chosen_repeats, runs,
        seed=seed,
    )  # fmt: skip
    if quick:
        settings = settings.quick()
    if not settings.splits and not settings.runs:
        raise click.UsageError("With --splits 0 and --runs 0 there is nothing to do.")
    found = run(settings, Path(out) / "cells", shown=counted, jobs=jobs)
    click.echo(found.to_markdown())
    written = found.save(Path(out))
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)
    if not any(path.suffix == ".png" for path in written):
        click.echo("For the pictures: pip install 'offpolicy[plot]'.", err=True)


def _shares(text: str) -> list[float]:
    """Numbers above 0, increasing."""
    try:
        found = sorted({float(word) for word in _words(text)})
    except ValueError:
        raise click.BadParameter(f'"{text}" must be numbers with commas between.') from None
    if not found[0] > 0.0 or found[-1] == float("inf"):
        raise click.BadParameter(f'"{text}" must hold numbers above 0.')
    return found


@command.command("tuning")
@click.option("--out", type=click.Path(file_okay=False), default="out/tuning", show_default=True)
@click.option("--repeats", type=click.IntRange(min=2), default=100, show_default=True)
@click.option("--splits", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--datasets", default="letter,optdigits,satimage,pendigits", show_default=True)
def tuning(out: str, repeats: int, splits: int, jobs: int, datasets: str) -> None:
    """The parameter chosen from the log against the best one in hindsight, on labelled data.

    Reads the data sets from the folder named by OFFPOLICY_DATA, or from where "offpolicy datasets
    fetch" put them. If it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments.evaluation.choosing import run, save, settings, to_markdown

    wanted = settings(datasets.split(","), splits=splits)
    outcomes = []
    for outcome in run(wanted, Path(out) / "cells", repeats=repeats, jobs=jobs):
        outcomes.append(outcome)
        click.echo(f"{len(outcomes)} of {len(wanted)}: {outcome.setting}", err=True)
    click.echo(to_markdown(outcomes, repeats))
    click.echo(f"Wrote {save(outcomes, repeats, Path(out))}.", err=True)


@command.command("coverage")
@click.option("--out", type=click.Path(file_okay=False), default="out/coverage", show_default=True)
@click.option("--repeats", type=click.IntRange(min=2), default=2000, show_default=True)
@click.option("--sizes", default="200,2000,20000", show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
def coverage(out: str, repeats: int, sizes: str, jobs: int) -> None:
    """How often every kind of interval covers the policy's value, in worlds where it is known.

    If it is stopped, the same command goes on where it was.
    """
    from offpolicy.experiments.intervals.coverage import run, save, to_markdown

    rows = []
    wanted = [int(n) for n in sizes.split(",")]
    for part in run(Path(out) / "cells", sizes=wanted, repeats=repeats, jobs=jobs):
        rows += part
        click.echo(f"{part[0].world}, n = {part[0].n:,}", err=True)
    click.echo(to_markdown(rows))
    click.echo(f"Wrote {save(rows, Path(out))}.", err=True)


@command.command("real")
@click.option("--out", type=click.Path(file_okay=False), default="out/real", show_default=True)
@click.option("--datasets", default="optdigits,synthetic", show_default=True)
@click.option(
    "--repeats", type=click.IntRange(min=2), default=50, show_default=True,
    help="pairs of runs on each problem",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(min=2), default=5000, show_default=True,
    help="length of a run: the longer, the fewer actions keep a probability",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True)
@click.option(
    "--obd", type=click.Path(file_okay=False), metavar="FOLDER",
    help="of the full Open Bandit Dataset, instead of its small sample",
)  # fmt: skip
def real(
    out: str, datasets: str, repeats: int, steps: int, seed: int, jobs: int, obd: str | None
) -> None:
    """The paper's Figure 3: Thompson samplers that lose support, and the Open Bandit logs.

    "synthetic" needs no data; for the others see offpolicy datasets. If it is stopped, the same
    command goes on where it was.
    """
    from offpolicy.errors import DatasetError
    from offpolicy.experiments.real import figure3, open_bandit
    from offpolicy.experiments.real.real import check_problems, run

    problems = check_problems(datasets.split(","))
    kept = Path(out) / "cells"
    found: list[dict[str, Any]] = []
    try:
        for pair in open_bandit.run(None if obd is None else Path(obd), kept, jobs=jobs):
            found += pair
            click.echo(f"Open Bandit logs: {pair[0]['campaign']}", err=True)
    except DatasetError as missing:
        if obd is not None:
            raise
        click.echo(f"No Open Bandit logs: {missing}", err=True)
    cells: dict[str, list[dict[str, Any]]] = {problem: [] for problem in problems}
    for setup, cell in run(problems, kept, repeats=repeats, seed=seed, steps=steps, jobs=jobs):
        cells[setup.problem].append(cell)
        click.echo(f"{setup.problem}: {len(cells[setup.problem])} of {repeats}", err=True)
    figure = figure3.Figure3(steps, cells, found)
    click.echo(figure3.to_markdown(figure))
    click.echo(figure3.claims_markdown(figure.claims()))
    written = figure3.save(figure, Path(out))
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)
