"""M and τ chosen for rankings: on other logs, or from each log; errors, claims, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.claims import Judged, judge
from offpolicy.experiments.ranking import accuracy
from offpolicy.experiments.ranking.accuracy import (
    AGAIN,
    BLENDS,
    ESTIMATORS,
    HEADLINE,
    LINEAR,
    METRICS,
)
from offpolicy.experiments.ranking.rank_sums import GRID
from offpolicy.experiments.tables import best_marked, markdown, paper_name

WAYS = {"held_out": "on other logs", "chosen": "from the log"}
"""How M and τ are chosen."""
AROUND = tuple(f"{name}{AGAIN}" for name in BLENDS)
WELL_BELOW = 0.8
"""As a ratio of mean squared errors."""
NO_WORSE = 1.05
_Splits = Mapping[float, Sequence[accuracy.Measured]]
"""By sweeps."""


def log_ratios(by_sweeps: _Splits, kind: str, metric: str, name: str, other: str) -> Floats:
    """Of the experiment's splits: the logarithm of an estimator's MSE over another's, M and τ
    chosen by ``kind``, the mean over sweeps."""
    errors = [[getattr(part, kind)[metric] for part in parts] for parts in by_sweeps.values()]
    logs = [[np.log(mse[name] / mse[other]) for mse in row] for row in errors]
    return np.asarray(np.mean(logs, axis=0))


def ratio(by_sweeps: _Splits, kind: str, metric: str, name: str, other: str) -> str:
    """The geometric mean over splits, and the factor by which it is uncertain, one standard
    error."""
    logs = log_ratios(by_sweeps, kind, metric, name, other)
    spread = float(logs.std(ddof=1)) / np.sqrt(len(logs)) if len(logs) > 1 else np.inf
    return f"{np.exp(logs.mean()):.2f} (×÷ {np.exp(spread):.2f})"


# -- claims --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A claim on choosing M and τ in one way, on a data set with a logger."""

    claim: str
    chosen: str
    where: str
    judged: Judged
    """Over splits."""


def judged(cases: Sequence[accuracy.Measured], metric: str = METRICS[0]) -> list[Row]:
    """Ours, not the paper's: CAB's error is well below those of DM, IPS and cIPS and at most 5%
    above those of SB and SWITCH, M and τ chosen in each way; and that of the default is the
    least."""
    rows = []
    for (data, logger), by_sweeps in accuracy.by_case(cases).items():
        where = f"{data}, logger of {logger:.0%}"
        for kind, how in WAYS.items():
            if not all(getattr(one, kind)[metric] for part in by_sweeps.values() for one in part):
                continue
            for text, name, others, limit in _CLAIMS[kind]:
                parts = {
                    f"{paper_name(name)}/{paper_name(other)}":
                        log_ratios(by_sweeps, kind, metric, name, other)
                    for other in others
                }  # fmt: skip
                found = judge(parts, math.log(limit), strict=limit == 1.0)
                rows.append(Row(text, how, where, found))
    return rows


_OF_CAB = (
    ("CAB's MSE is well below that of DM, IPS and cIPS (at most 0.8 of it)", "CAB",
     ("DM", "IPS", "CIPS"), WELL_BELOW),
    ("CAB's MSE is at most 5% above that of SB and SWITCH", "CAB", ("SB", "SWITCH"), NO_WORSE),
)  # fmt: skip
_CLAIMS = {
    "held_out": _OF_CAB,
    "chosen": (
        *_OF_CAB,
        ("CAB around the recalibrated model, the default, is ahead of SB, SWITCH and CAB",
         HEADLINE, (*BLENDS, *(name for name in AROUND if name != HEADLINE)), 1.0),
    ),
}  # fmt: skip
"""By the way of choosing: a claim, the estimator, those it is compared with, and what the ratio of
the errors may be."""


def claims_table(rows: Iterable[Row]) -> str:
    """The claims on choosing, a row each."""
    lines = [
        [row.claim, row.chosen, row.where, str(row.judged), str(row.judged.runs)] for row in rows
    ]
    head = ["claim", "M and τ chosen", "where", "verdict, its worst part", "splits"]
    return markdown(head, lines)


# -- tables --------------------------------------------------------------------------------------


def _by_size(cases: Sequence[accuracy.Measured]) -> Iterator[tuple[str, list[accuracy.Measured]]]:
    for (data, logger), by_sweeps in accuracy.by_case(cases).items():
        for sweeps, parts in by_sweeps.items():
            yield f"{data}, {logger:.0%}, {sweeps:g}", parts


def hindsight(cases: Sequence[accuracy.Measured], metric: str) -> str:
    """The experiment's table with the one value best over all logs and splits, and that of CAB."""
    rows = []
    for place, parts in _by_size(cases):
        mean = accuracy.averaged([split.curves[metric] for split in parts])
        errors = [100.0 * float(np.sqrt(np.nanmin(mean.mse(name)))) for name in ESTIMATORS]
        M = GRID.M[int(np.nanargmin(mean.mse("CAB")))]
        rows.append([place, *best_marked(errors), f"{M:.3g}"])
    return markdown(["set, logger, sweeps", *map(paper_name, ESTIMATORS), "best M of CAB"], rows)


def errors(cases: Sequence[accuracy.Measured], metric: str, kind: str) -> str:
    """The experiment's table of root mean squared errors in per cent, by one of the `WAYS`."""
    names = ESTIMATORS if kind == "held_out" else (*ESTIMATORS, *AROUND)
    rows = []
    for place, parts in _by_size(cases):
        mse = [np.mean([getattr(split, kind)[metric][name] for split in parts]) for name in names]
        rows.append([place, *best_marked([100.0 * float(np.sqrt(mean)) for mean in mse])])
    return markdown(["set, logger, sweeps", *map(paper_name, names)], rows)


def ratios(cases: Sequence[accuracy.Measured], metric: str, kind: str) -> str:
    """The experiment's table of MSE relative to CAB's: geometric means over splits and sweeps."""
    names = [name for name in ESTIMATORS if name != "CAB"]
    if kind == "chosen":
        names += AROUND
    return _ratio_table(cases, metric, kind, {paper_name(name): (name, "CAB") for name in names})


def models(cases: Sequence[accuracy.Measured], metric: str, kind: str) -> str:
    """The experiment's ratios around a logistic regression: to CAB around it; CAB around both."""
    around = f"CAB{LINEAR}"
    if kind == "held_out":
        pairs = {"CAB, around trees": ("CAB", around), "DM, around it": (f"DM{LINEAR}", around)}
        same = LINEAR
    else:
        plain, same = around, f"{AGAIN}{LINEAR}"
        around = f"CAB{same}"
        pairs = {"CAB, around trees, recalibrated": (HEADLINE, around), "CAB": (plain, around)}
    pairs |= {name: (f"{name}{same}", around) for name in ("SB", "SWITCH")}
    return _ratio_table(cases, metric, kind, pairs | {"cIPS": ("CIPS", around)})


def _ratio_table(
    cases: Sequence[accuracy.Measured], metric: str, kind: str, pairs: dict[str, tuple[str, str]]
) -> str:
    rows = [
        [f"{data}, {logger:.0%}"]
        + [ratio(by_sweeps, kind, metric, *pair) for pair in pairs.values()]
        for (data, logger), by_sweeps in accuracy.by_case(cases).items()
    ]
    return markdown(["set, logger", *pairs], rows)


def coverage(cases: Sequence[accuracy.Measured]) -> str:
    """The experiment's table of how often 95% intervals of the average rank held the truth."""
    names = ("IPS", HEADLINE)
    rows = [
        [place, *(f"{np.mean([split.covered[name] for split in parts]):.0%}" for name in names)]
        for place, parts in _by_size(cases)
    ]
    return markdown(["set, logger, sweeps", *names], rows)


def to_markdown(cases: Sequence[accuracy.Measured], logs: int, chosen: int) -> str:
    """Every table on rankings, and the claims; of each split there are so many logs, and from so
    many of them M and τ were chosen."""
    splits = len({case.case.split for case in cases})
    ways = {"held_out": "on the other half of the logs",
            "chosen": f"from the log ({chosen} logs of each split)"}  # fmt: skip
    parts = ["# Rankings", f"Root mean squared error in per cent of the truth; {splits} splits "
             f"with {logs} logs each."]  # fmt: skip
    for metric in METRICS:
        parts += [f"## {metric.capitalize()}, the best value in hindsight, for all logs",
                  hindsight(cases, metric)]  # fmt: skip
        for kind, how in ways.items():
            parts += [
                f"## {metric.capitalize()}, M and τ chosen {how}", errors(cases, metric, kind),
                "MSE relative to CAB's, geometric means over splits and sweeps (×÷ one standard "
                "error):", ratios(cases, metric, kind),
                "Around a logistic regression on the same judged documents (recalibrated, if "
                "chosen from the log), relative to CAB around it:", models(cases, metric, kind),
            ]  # fmt: skip
    parts += [
        "## How often 95% intervals of the average rank held the truth", coverage(cases),
        "## Claims", claims_table(judged(cases)),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"
