"""All figures and tables of the paper on one page, each beside what the paper says of it."""

from __future__ import annotations

import base64
import itertools
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offpolicy._core.documents import dumps
from offpolicy._core.files import write_whole
from offpolicy.errors import DatasetError
from offpolicy.experiments import figure1, figure2, figure3, figure4, table2, theorems
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.learning import ours
from offpolicy.experiments.saving import Report
from offpolicy.report.html.frame import framed
from offpolicy.report.html.markup import Child, Markup, element, joined, section

_Run = Callable[..., Report]


@dataclass(frozen=True)
class Artefact:
    """A figure or table of the paper: what makes it, in full and quickly."""

    name: str
    title: str
    about: str
    run: _Run
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]
    sets: tuple[str, ...] = ()

    def settings_for(self, quick: bool, missing: Container[str] = ()) -> dict[str, Any]:
        """The settings, without the data sets that are not there."""
        settings = {**self.settings, **(self.quick if quick else {})}
        there = [name for name in self.sets if name not in missing]
        return settings | {"sets": there} if self.sets else settings


LABELLED = tuple(table2.PAPER)
RANKINGS = ("MQ2007", "MQ2008")
_CURVES = {"repeats": 500, "splits": 10}
_FEW_CURVES = {"repeats": 100, "splits": 2}
ARTEFACTS = (
    Artefact("theorems", "Theorems 1 to 6", "Bias and variance by the formulas, over those of "
             "simulated logs.", theorems.run, {"n": 400_000, "seed": 0}, {"n": 50_000}),
    Artefact("figure1", "Figure 1", "Bias, variance and mean squared error of CAB over M.",
             figure1.run, _CURVES, _FEW_CURVES, LABELLED + RANKINGS),
    Artefact("figure2", "Figure 2", "The mean squared error of every estimator over M.",
             figure2.run, _CURVES, _FEW_CURVES, LABELLED + RANKINGS),
    Artefact("figure3", "Figure 3", "Errors over M where the logger lost support. The paper's "
             "data are not public: simulated Thompson samplers stand in for them.", figure3.run,
             {"repeats": 50, "steps": 5000, "seed": 0, "obd": None}, {"repeats": 6, "steps": 2000},
             ("optdigits", "synthetic")),
    Artefact("table2", "Table 2", "Policies and rankers learned with each estimator, beside the "
             "paper's figures. Yahoo! LTR is not public: MQ2007 and MQ2008 stand in for it.",
             table2.run, {"runs": 10, "readings": True}, {"readings": False, "quick": True},
             LABELLED + RANKINGS),
    Artefact("figure4", "Figure 4", "What is learned over the amount of data, and the quality of "
             "the reward model and of the logger.", figure4.run, {"runs": 10}, {"quick": True},
             (figure4.DATA, *RANKINGS)),
    Artefact("ours", "Our own recipe", "The data of Table 2 with the default learner: not in the "
             "paper.", ours.run, {"runs": 10}, {"runs": 1}, LABELLED),
)  # fmt: skip


def make_all(out: Path, cells: Cells, quick: bool, say: Callable[[str], None]) -> Path:
    """Run them one after the other, each from where it was, and write the page."""
    names = dict.fromkeys(name for one in ARTEFACTS for name in one.sets)
    missing = {name: why for name in names if (why := _why_missing(name))}
    made: list[tuple[Artefact, Report, list[Path], float]] = []
    for one in ARTEFACTS:
        settings = one.settings_for(quick, missing)
        if settings.get("sets") == []:
            say(f"{one.title}: none of its data sets is at hand.")
            continue
        say(f"{one.title} …")
        start = time.monotonic()
        report = one.run(cells, **settings)
        made.append((one, report, report.save(out), time.monotonic() - start))
    path = out / "index.html"
    write_whole(path, _page(made, missing, quick))
    return path


def _why_missing(name: str) -> str:
    """What the loader says, if a data set is not at hand."""
    from offpolicy.datasets import load
    from offpolicy.experiments.ranking.setup import is_ranking, known_as

    try:
        if is_ranking(name):
            known_as(name)
        elif name != "synthetic":
            load(name)
    except DatasetError as problem:
        return str(problem)
    return ""


# -- the page --------------------------------------------------------------------------------------


def _page(
    made: list[tuple[Artefact, Report, list[Path], float]], missing: Mapping[str, str], quick: bool
) -> str:
    intro = element(
        "section",
        element("h1", "CAB: the paper's theorems, figures and tables, run again"),
        element("p", "Yi Su, Lequn Wang, Michele Santacatterina, Thorsten Joachims: CAB: "
                "Continuous Adaptive Blending for Policy Evaluation and Learning, ICML 2019."),
        element("p", "Quick: few logs and runs, so that most claims cannot be told.") if quick
        else None,
        *(element("p", f"Left out, as not at hand: {name}: {why}", class_="warning")
          for name, why in missing.items()),
    )  # fmt: skip
    sections = [
        section(one.name, one.title, element("p", one.about), *_pictures(one, written),
                element("details", element("summary", "Numbers and claims"),
                        *html_of(str(report.files["table.md"]))),
                element("p", f"Made in {seconds:.0f} s.", class_="soft"))
        for one, report, written, seconds in made
    ]  # fmt: skip
    twin = dumps({one.name: report.files["results.json"] for one, report, _, _ in made})
    return framed("The paper, run again", [intro, *sections], twin)


def _pictures(one: Artefact, written: list[Path]) -> Iterator[Markup]:
    for path in written:
        if path.suffix == ".png":
            coded = base64.b64encode(path.read_bytes()).decode()
            source = Markup(f"data:image/png;base64,{coded}")
            yield element("figure", element("img", src=source, alt=f"{one.title}: {one.about}",
                                            class_="picture"))  # fmt: skip


def html_of(text: str) -> Iterator[Child]:
    """What the experiments write as markdown: headings, paragraphs, lists, and tables."""
    for block in re.split(r"\n\s*\n", text.strip()):
        for kind, same in itertools.groupby(block.split("\n"), _mark):
            lines = [*same]
            if kind == "#":
                yield from (element("h3", line.lstrip("# ")) for line in lines)
            else:
                yield _table(lines) if kind else element("p", _inline(" ".join(lines)))


def _mark(line: str) -> str:
    """By which a line is a heading, or of a table; none of a paragraph's."""
    return line[: line.startswith(("#", "|"))]


def _table(lines: list[str]) -> Markup:
    head, _, *rows = ([cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines)

    def row(cells: list[str], tag: str) -> Markup:
        return element("tr", *(element(tag, _inline(cell)) for cell in cells))

    body = element("tbody", *(row(cells, "td") for cells in rows))
    return element("div", element("table", element("thead", row(head, "th")), body),
                   class_="scroll left")  # fmt: skip


def _inline(text: str) -> Markup:
    """Bold and code."""
    parts: list[Child] = [*re.split(r"\*\*(.+?)\*\*|`(.+?)`", text)]
    for first, tag in ((1, "strong"), (2, "code")):
        parts[first::3] = [part and element(tag, part) for part in parts[first::3]]
    return joined(*parts)
