"""M and τ chosen for rankings: on other logs, or from each log; errors, claims, intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from offpolicy.experiments.claims import Verdict
from offpolicy.experiments.ranking import accuracy
from offpolicy.experiments.ranking.accuracy import AGAIN, BLENDS, ESTIMATORS, HEADLINE, LINEAR
from offpolicy.experiments.ranking.rank_sums import GRID
from offpolicy.experiments.tables import best_marked, markdown, paper_name

WAYS = {"held_out": "on other logs", "chosen": "from the log"}
"""How M and τ are chosen."""
AROUND = tuple(f"{name}{AGAIN}" for name in BLENDS)
WELL_BELOW = 1.25
"""As a ratio of mean squared errors."""
NO_WORSE = 1.05


class Ratio(NamedTuple):
    """A geometric mean, and the factor by which it is uncertain, one standard error."""

    mean: float
    spread: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} (×÷ {self.spread:.2f})"


def ratio(
    by_sweeps: dict[float, list[accuracy.Measured]], kind: str, metric: str, name: str, other: str
) -> Ratio:
    """Over the experiment's splits: MSE of an estimator over another's, M and τ chosen by ``kind``,
    of the geometric means over sweeps."""
    errors = [[getattr(part, kind)[metric] for part in parts] for parts in by_sweeps.values()]
    logs = np.mean([[np.log(mse[name] / mse[other]) for mse in row] for row in errors], axis=0)
    spread = float(logs.std(ddof=1)) / np.sqrt(len(logs)) if len(logs) > 1 else np.inf
    return Ratio(float(np.exp(logs.mean())), float(np.exp(spread)))


# -- claims --------------------------------------------------------------------------------------


def claims(cases: Sequence[accuracy.Measured], metric: str) -> list[Verdict]:
    """The claims that CAB's error is well below those of DM, IPS and cIPS, and at most 5% above
    those of SB and SWITCH, M and τ chosen in each way; and that the default's is the least."""
    judged = []
    for kind, how in WAYS.items():
        for (data, logger), by_sweeps in accuracy.by_case(cases).items():
            splits = [split for parts in by_sweeps.values() for split in parts]
            if not all(getattr(split, kind)[metric] for split in splits):
                continue
            for others, limit, text in (
                (("DM", "IPS", "CIPS"), WELL_BELOW, "CAB's MSE is well below that of DM, IPS and "
                 f"cIPS (theirs / its, {WELL_BELOW:g} or more)"),
                (("SB", "SWITCH"), 1.0 / NO_WORSE,
                 "CAB's MSE is at most 5% above that of SB and SWITCH (theirs / its, .95 or more)"),
            ):  # fmt: skip
                ratios = {name: ratio(by_sweeps, kind, metric, name, "CAB") for name in others}
                holds = all(ratio.mean >= limit for ratio in ratios.values())
                judged.append(_verdict(f"{text}, chosen {how}", holds, ratios, data, logger))
    for (data, logger), by_sweeps in accuracy.by_case(cases).items():
        names = [*BLENDS, *(name for name in AROUND if name != HEADLINE)]
        ratios = {name: ratio(by_sweeps, "chosen", metric, name, HEADLINE) for name in names}
        text = (
            "CAB around the recalibrated model, the default, is clearly ahead of SB, SWITCH and "
            "CAB (theirs / its, each two standard errors above 1), chosen from the log"
        )
        holds = all(ratio.mean > ratio.spread**2 for ratio in ratios.values())
        judged.append(_verdict(text, holds, ratios, data, logger))
    return judged


def _verdict(text: str, holds: bool, ratios: dict[str, Ratio], data: str, logger: float) -> Verdict:
    measured = ", ".join(f"{paper_name(name)} {ratio}" for name, ratio in ratios.items())
    return Verdict(text, holds, measured, accuracy.where(data, logger))


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
        + [str(ratio(by_sweeps, kind, metric, *pair)) for pair in pairs.values()]
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
