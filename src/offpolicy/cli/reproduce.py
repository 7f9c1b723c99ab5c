"""``offpolicy reproduce``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import StrictGroup
from offpolicy.cli.options import Options, option
from offpolicy.cli.printing import say
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


_CLASSIC = "letter,optdigits,satimage,pendigits"
_RANKINGS = "MQ2007,MQ2008"
_BOTH = _sets(f"{_CLASSIC},{_RANKINGS}", "labelled ones and rankings (also yahoo, MSLR-WEB10K, …)")
_SEED = _whole(0, least=0)
_KEPT = option("tables of what is in --out already; nothing is computed", default=False)
PAPER = "paper"
"""The folder that all of the paper's figures and tables share: what one has found serves others."""
_GOES_ON = "If it is stopped, the same command goes on where it was."


@click.group("reproduce", cls=StrictGroup)
def command() -> None:
    """The paper's theorems and experiments."""


def _experiment(
    name: str,
    text: str,
    module: str = "",
    *,
    out: str = PAPER,
    jobs: int = 1,
    most: dict[str, int] | None = None,
    **settings: dict[str, Any],
) -> None:
    """Adds a command: options of its experiment, --out, and --jobs if it is kept in cells.

    With --quick, if that is not the experiment's own, no counts are above ``most``.
    """
    folder = option(kind=opt.FOLDER, default=f"out/{out}")
    kept = {"jobs": _whole(jobs)} if jobs else {}

    @command.command(name, help=f"{text} {_GOES_ON}" if jobs else text)
    @Options(out=folder, **settings, **kept)
    def run(out: str, jobs: int = 1, **settings: Any) -> None:
        from offpolicy.experiments.cells import Cells

        _refuse_idle(settings, most or {})
        if most and settings.pop("quick"):
            settings |= {key: min(settings[key], count) for key, count in most.items()}
        experiment = import_module(f"offpolicy.experiments.{module or name}")
        cells = Cells(Path(out) / "cells", jobs, counted, settings.pop("kept", False))
        report = experiment.run(cells, **settings)
        say(report.text)
        written = report.save(Path(out))
        say(f"Wrote {', '.join(map(str, written))}.", err=True)
        if report.pictures and not any(path.suffix == ".png" for path in written):
            say("For the pictures: pip install 'offpolicy[plot]'.", err=True)


def _refuse_idle(settings: dict[str, Any], most: dict[str, int]) -> None:
    """Refuse options of a command that others make idle."""
    from offpolicy.experiments.ranking.setup import is_ranking

    quick, kept = settings.get("quick", False), settings.get("kept", False)
    opt.refuse_idle(["jobs"], kept, "what is computed, so not for --kept")
    caps = {"runs": 1} | most if quick else {}
    over = [name for name, count in caps.items() if settings.get(name, 0) > count]
    opt.refuse_idle(over, True, "a command without --quick, beyond what that takes at most")
    labelled = not all(map(is_ranking, settings.get("sets", [""])))
    opt.refuse_idle(["sizes", "reading", "readings"], not labelled, "labelled --datasets")


_experiment(
    "theorems",
    """Theorems 1 to 6 against simulation, for every member of the family.

    Takes a quarter of a minute.
    """,
    jobs=0,
    most={"n": 50_000},
    n=_whole(400_000, "decisions to simulate", least=100),
    quick=option("at most 50,000 decisions", default=False),
    seed=_SEED,
)
for _figure, _title, _more in (
    ("figure1", "Figure 1: bias, variance and error of CAB over M.", ""),
    ("figure2", "Figure 2: the errors of all estimators over M.",
     ", and the parameter chosen from the log"),
):  # fmt: skip
    _other = "figure2" if _figure == "figure1" else "figure1"
    _experiment(
        _figure,
        f"""{_title}

        On labelled sets and on rankings, with what the paper says of it{_more}. Shares its numbers
        with {_other}: together they take about eight minutes on two cores, with --quick one.""",
        most={"repeats": 100, "splits": 2},
        sets=_BOTH,
        sizes=_listed("200,500,2000", int, "decisions of a log of a labelled set"),
        repeats=_whole(500, "logs of each size; of rankings a fifth, on every split", least=2),
        reading=option(
            "of labelled sets: what the text leaves open",
            default="raw, one-vs-rest, stochastic, same 10%",
        ),
        splits=_whole(10, "on which claims are judged", least=2),
        quick=option("at most 100 logs and 2 splits", default=False),
        seed=_SEED,
    )
_experiment(
    "figure3",
    """Figure 3: Thompson samplers that lose support, and the Open Bandit logs.

    "synthetic" needs no data; for the others see offpolicy datasets. Takes two
    minutes on two cores, with --quick a quarter of one.""",
    most={"repeats": 6, "steps": 2000},
    sets=_sets("optdigits,synthetic"),
    repeats=_whole(50, "pairs of runs on each problem", least=2),
    steps=_whole(
        5000, "length of a run: the longer, the fewer actions keep a probability", least=2
    ),
    quick=option("at most 6 pairs of at most 2,000 steps", default=False),
    seed=_SEED,
    obd=option(
        "of the full Open Bandit Dataset, instead of its small sample", "FOLDER", opt.FOLDER
    ),
)
_experiment(
    "table2",
    """Table 2: policies and rankers learned with each estimator.

    Takes about ten minutes on two cores, with all --readings three quarters of an hour, with
    --quick a minute.""",
    sets=_BOTH,
    runs=_whole(10),
    readings=option("all nine readings of the set-up, not the three closest", default=False),
    quick=option("one run of the reading that is nearest to the text", default=False),
    kept=_KEPT,
)
_experiment(
    "figure4",
    """Figure 4: what is learned over the amount of data, and the quality of model and logger.

    Takes about half an hour on two cores, with --quick three minutes.""",
    sets=_sets(f"pendigits,{_RANKINGS}"),
    runs=_whole(10),
    quick=option("one run, three values of each panel", default=False),
    kept=_KEPT,
)
_experiment(
    "ours",
    """The data of Table 2 with our own recipe instead of the paper's.

    Takes five minutes on two cores.""",
    "learning.ours",
    sets=_sets(_CLASSIC),
    runs=_whole(10),
    kept=_KEPT,
)


@command.command("all")
@Options(
    out=option(kind=opt.FOLDER, default=f"out/{PAPER}"),
    quick=option("each as with its own --quick", default=False),
    jobs=_whole(2),
)
def everything(out: str, jobs: int, quick: bool) -> None:
    """Every figure and table, and the theorems, on one page: index.html.

    Takes an hour and a half on two cores, with --quick less than a quarter of an hour. Data sets
    that are not at hand are left out, and named. If it is stopped, the same command goes on where
    it was.
    """
    from offpolicy.experiments.cells import Cells
    from offpolicy.experiments.page import make_all

    path = make_all(Path(out), Cells(Path(out) / "cells", jobs, counted), quick, say)
    say(f"Wrote {path}.", err=True)


_experiment(
    "tuning",
    """The parameter chosen from the log against the best one in hindsight.

    On labelled sets and on rankings, which are looked for in the folder named by OFFPOLICY_DATA, or
    where "offpolicy datasets fetch" put them.""",
    out="tuning",
    sets=_BOTH,
    repeats=_whole(100, "logs of each setting", least=2),
    splits=_whole(2, "of labelled sets; five times as many of rankings"),
)
_experiment(
    "coverage",
    """How often every kind of interval covers the policy's value, and how large the error is.

    On labelled data sets, in worlds where the value is known, for differences, clusters, row
    weights, policies known by draws and estimated propensities; and whether that is good enough.
    About an hour on two cores, with --quick ten minutes.""",
    "intervals.coverage",
    out="coverage",
    most={"splits": 20, "draws": 5, "repeats": 100},
    sets=_sets("optdigits,ecoli,yeast,glass,wine"),
    splits=_whole(200, "of each data set; a quarter of them with a reward model", least=2),
    draws=_whole(10, "logs of each split"),
    repeats=_whole(2000, "logs of each simulated world; fewer of long ones", least=2),
    sizes=_listed("50,200,2000,20000", int),
    quick=option("twenty splits, five draws, a hundred repeats", default=False),
)
_experiment(
    "bounds",
    """How near to the policy's value lower limits come that hold at every n.

    On the benchmark of logarithmic smoothing (NeurIPS 2024): betting against the bounds compared
    there.""",
    "intervals.bounds",
    out="bounds",
    most={"repeats": 5},
    sets=_sets(
        "ecoli,arrhythmia,balance-scale,vehicle,yeast,page-blocks,optdigits,satimage,kropt",
        "none need be at hand: their counts of labels are all that matters",
    ),
    repeats=_whole(200, "logs of each of a set's 45 settings"),
    quick=option("five logs", default=False),
)
