"""``offpolicy reproduce``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.options import Options, option
from offpolicy.cli.progress import counted


class Listed(click.ParamType):  # type: ignore[type-arg]
    """Words or numbers with commas between: at least one, each once, numbers increasing."""

    name = "text"

    def __init__(self, kind: type = str) -> None:
        self.kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> list[Any]:
        words = [word.strip() for word in value.split(",") if word.strip()]
        if not words or len(set(words)) < len(words):
            self.fail(f'"{value}" must name at least one, and each once.', param, ctx)
        if self.kind is str:
            return words
        try:
            numbers = sorted({self.kind(word) for word in words})
        except ValueError:
            whole = "whole " if self.kind is int else ""
            self.fail(f'"{value}" must be {whole}numbers with commas between.', param, ctx)
        if not 0 < numbers[0] <= numbers[-1] < float("inf"):
            self.fail(f'"{value}" must hold numbers above 0.', param, ctx)
        return numbers


def _listed(default: str, kind: type = str, text: str | None = None) -> dict[str, Any]:
    return option(text, kind=Listed(kind), default=default)


def _sets(default: str, text: str | None = None) -> dict[str, Any]:
    return _listed(default, str, text) | {"flags": "--datasets"}


def _whole(default: int, text: str | None = None, *, least: int = 1) -> dict[str, Any]:
    return option(text, kind=click.IntRange(min=least), default=default)


_CLASSIC = _sets("letter,optdigits,satimage,pendigits")
_SEED = _whole(0, least=0)


def _options(name: str, jobs: int = 1, **settings: dict[str, Any]) -> Options:
    """Options of a `reproduce` command: its experiment's, --out, and --jobs."""
    out = option(kind=opt.FOLDER, default=f"out/{name}")
    return Options(out=out, **settings, **({"jobs": _whole(jobs)} if jobs else {}))


def _run(module: str, out: str, jobs: int = 1, **settings: Any) -> None:
    """What a `reproduce` command does: run its experiment from where it was, print, and write."""
    from offpolicy.experiments.cells import Cells

    experiment = import_module(f"offpolicy.experiments.{module}")
    report = experiment.run(Cells(Path(out) / "cells", jobs, counted), **settings)
    click.echo(report.text)
    written = report.save(Path(out))
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)
    if report.pictures and not any(path.suffix == ".png" for path in written):
        click.echo("For the pictures: pip install 'offpolicy[plot]'.", err=True)


@click.group("reproduce")
def command() -> None:
    """The paper's theorems and experiments."""


@command.command("theory")
@_options("theory", jobs=0, n=_whole(400_000, "decisions to simulate", least=100), seed=_SEED)
def theory(**settings: Any) -> None:
    """Theorems 1 to 6 against simulation, for every member of the family."""
    _run("evaluation.theorems", **settings)


@command.command("evaluation")
@_options(
    "evaluation",
    sets=_CLASSIC,
    sizes=_listed("200,500,2000", int),
    repeats=_whole(500, least=2),
    reading=option(
        "what the paper's text leaves open", default="raw, one-vs-rest, stochastic, same 10%"
    ),
    splits=_whole(
        10, "splits on which every reading is surveyed and claims are judged; 0: none", least=0
    ),
    chosen_repeats=_whole(
        100, "logs on which the parameter is chosen by every rule; 0: none", least=0
    ),
    seed=_SEED,
)
def evaluation(**settings: Any) -> None:
    """Section 4 on evaluation: Figures 1 and 2, and the paper's claims, measured.

    Bias, variance and mean squared error of eight estimators over M and tau on labelled data. If
    it is stopped, the same command goes on where it was.
    """
    _run("evaluation.experiment", **settings)


@command.command("learning")
@_options(
    "learning",
    sets=_CLASSIC,
    runs=_whole(10, "of the closest readings; three of the others"),
    readings=option("all nine readings of the set-up, not the three closest", default=False),
    quick=option("two runs of the closest", default=False),
    ours=option("our own recipe instead of the paper's set-up", default=False),
    figure=option("Figure 4 instead of Table 2", default=False),
    kept=option("tables of what is in --out already; nothing is computed", default=False),
)
def learning(runs: int, quick: bool, ours: bool, figure: bool, **settings: Any) -> None:
    """Section 4 on learning: Table 2, Figure 4, and the same data with our own recipe.

    On one core Table 2 takes about an hour (--quick: ten minutes), with all --readings an hour and
    a half; Figure 4 an hour and a half, --ours a quarter of an hour. If it is stopped, the same
    command goes on where it was.
    """
    if figure and ours:
        raise click.UsageError("Figure 4 is of the paper's set-up: leave out --ours.")
    if settings["readings"] and (figure or ours):
        raise click.UsageError("--readings are of Table 2: leave out --figure and --ours.")
    settings["runs"] = 2 if quick else runs
    if figure or ours:
        settings.pop("readings")
    if figure:
        settings.pop("sets")
    _run(f"learning.{'figure4' if figure else 'ours' if ours else 'table2'}", **settings)


@command.command("ranking")
@_options(
    "ranking",
    sets=_sets("MQ2007,MQ2008", "also yahoo, MSLR-WEB10K, Istella-S …, if you have the files"),
    sweeps=_listed("0.5,1,5", float, "how often queries are shown; Table 2 is of 1"),
    loggers=_listed("0.01,0.1", float, "shares of the training queries that train the logger"),
    splits=_whole(8, "of the data, in the evaluation experiment; 0: leave it out", least=0),
    repeats=_whole(100, "logs of each split", least=2),
    chosen_repeats=_whole(5, "logs of each split from which M and tau are chosen too"),
    runs=_whole(5, "of the learning experiment; 0: leave it out", least=0),
    quick=option("three splits, ten logs, two runs, one logger", default=False),
    seed=_SEED,
)
def ranking(quick: bool, **settings: Any) -> None:
    """Section 4 on rankings: Figures 1, 2 and 4, and Table 2, with clicks on judged queries.

    The data sets are looked for in the folder named by OFFPOLICY_DATA. If it is stopped, the same
    command goes on where it was.
    """
    if quick:
        most = {"splits": 3, "repeats": 10, "chosen_repeats": 2, "runs": 2}
        settings |= {name: min(settings[name], count) for name, count in most.items()}
        settings["loggers"] = settings["loggers"][:1]
    if not settings["splits"] and not settings["runs"]:
        raise click.UsageError("With --splits 0 and --runs 0 there is nothing to do.")
    _run("ranking.experiment", **settings)


@command.command("tuning")
@_options("tuning", repeats=_whole(100, least=2), splits=_whole(2), sets=_CLASSIC)
def tuning(**settings: Any) -> None:
    """The parameter chosen from the log against the best one in hindsight, on labelled data.

    Reads the data sets from the folder named by OFFPOLICY_DATA, or from where "offpolicy datasets
    fetch" put them. If it is stopped, the same command goes on where it was.
    """
    _run("evaluation.tuning", **settings)


@command.command("coverage")
@_options(
    "coverage",
    sets=_sets("optdigits,ecoli,yeast,glass,wine"),
    splits=_whole(200, "of each data set; a quarter of them with a reward model", least=2),
    draws=_whole(10, "logs of each split"),
    repeats=_whole(2000, "logs of each simulated world; fewer of long ones", least=2),
    sizes=_listed("50,200,2000,20000", int),
    contexts=option("as many logs with contexts as with a ridge regression", default=False),
    quick=option("twenty splits, five draws, a hundred repeats", default=False),
)
def coverage(quick: bool, **settings: Any) -> None:
    """How often every kind of interval covers the policy's value, and how large the error is.

    On labelled data sets, in worlds where the value is known, for differences, clusters, row
    weights, policies known by draws and estimated propensities; and whether that is good enough.
    About an hour on two cores, with --quick ten minutes. If it is stopped, the same command goes
    on where it was.
    """
    if quick:
        most = {"splits": 20, "draws": 5, "repeats": 100}
        settings |= {name: min(settings[name], count) for name, count in most.items()}
    _run("intervals.coverage", **settings)


@command.command("bounds")
@_options(
    "bounds",
    sets=_sets(
        "ecoli,arrhythmia,balance-scale,vehicle,yeast,page-blocks,optdigits,satimage,kropt",
        "none need be at hand: their counts of labels are all that matters",
    ),
    repeats=_whole(200, "logs of each of a set's 45 settings"),
    quick=option("five logs", default=False),
)
def bounds(quick: bool, **settings: Any) -> None:
    """How near to the policy's value lower limits come that hold at every n.

    On the benchmark of logarithmic smoothing (NeurIPS 2024): betting against the bounds compared
    there. If it is stopped, the same command goes on where it was.
    """
    if quick:
        settings["repeats"] = min(settings["repeats"], 5)
    _run("intervals.bounds", **settings)


@command.command("real")
@_options(
    "real",
    jobs=2,
    sets=_sets("optdigits,synthetic"),
    repeats=_whole(50, "pairs of runs on each problem", least=2),
    steps=_whole(
        5000, "length of a run: the longer, the fewer actions keep a probability", least=2
    ),
    seed=_SEED,
    obd=option(
        "of the full Open Bandit Dataset, instead of its small sample", "FOLDER", opt.FOLDER
    ),
)
def real(**settings: Any) -> None:
    """The paper's Figure 3: Thompson samplers that lose support, and the Open Bandit logs.

    "synthetic" needs no data; for the others see offpolicy datasets. If it is stopped, the same
    command goes on where it was.
    """
    _run("real.figure3", **settings)
