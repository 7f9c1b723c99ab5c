"""The ranking experiments as markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from offpolicy._core.types import Floats
from offpolicy.experiments.ranking.accuracy import (
    AGAIN,
    BLENDS,
    ESTIMATORS,
    HEADLINE,
    LINEAR,
    TUNED,
    Measured,
    averaged,
    geometric_mean,
)
from offpolicy.experiments.ranking.claims import all_ratios, grouped, regret
from offpolicy.experiments.ranking.learning import ESTIMATORS as LEARNED
from offpolicy.experiments.ranking.learning import OURS, TABLE, Ranked
from offpolicy.experiments.ranking.rank_sums import M_GRID

PAPER = {"DM": 11.25, "IPS": 11.17, "CIPS": 11.39, "SB": 10.98, "SWITCH": 10.95, "CAB": 10.83}
"""Its Table 2, on Yahoo! LTR."""
_SHOWN = {"CIPS": "cIPS"}
AROUND = tuple(f"{name}{AGAIN}" for name in BLENDS)


def shown(name: str) -> str:
    return _SHOWN.get(name, name)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _best_marked(values: Sequence[float], form: str = ".1f") -> list[str]:
    texts = [format(value, form) for value in values]
    least = min((text for text in texts), key=float)
    return [f"**{text}**" if text == least else text for text in texts]


# -- evaluation ----------------------------------------------------------------------------------


def hindsight(found: Sequence[Measured], metric: str) -> str:
    """With the one value that is best over all logs of all splits, and what it is for CAB."""
    rows = []
    for (data, logger), by_sweeps in grouped(found).items():
        for sweeps, parts in by_sweeps.items():
            mean = averaged(parts, metric)
            errors = [100.0 * np.sqrt(_least(mean.mse(name))) for name in ESTIMATORS]
            M = M_GRID[int(np.nanargmin(mean.mse("CAB")))]
            rows.append([f"{data}, {logger:.0%}, {sweeps:g}", *_best_marked(errors), f"{M:.3g}"])
    return _table(["set, logger, sweeps", *map(shown, ESTIMATORS), "best M of CAB"], rows)


def _least(mse: Floats) -> float:
    return float(np.nanmin(mse))


def held_out(found: Sequence[Measured], metric: str) -> str:
    """Root mean squared errors in per cent, parameters chosen on other logs of the split."""
    rows = []
    for (data, logger), by_sweeps in grouped(found).items():
        for sweeps, parts in by_sweeps.items():
            errors = [_rmse([one.held_out[metric][name] for one in parts]) for name in ESTIMATORS]
            rows.append([f"{data}, {logger:.0%}, {sweeps:g}", *_best_marked(errors)])
    return _table(["set, logger, sweeps", *map(shown, ESTIMATORS)], rows)


def from_the_log(found: Sequence[Measured], metric: str) -> str:
    """The same with parameters chosen from each log."""
    names = ["DM", "IPS", *TUNED, *AROUND]
    rows = []
    for (data, logger), by_sweeps in grouped(found).items():
        for sweeps, parts in by_sweeps.items():
            errors = [_rmse([one.chosen[metric][name] for one in parts]) for name in names]
            rows.append([f"{data}, {logger:.0%}, {sweeps:g}", *_best_marked(errors)])
    return _table(["set, logger, sweeps", *map(shown, names)], rows)


def _rmse(mse: Sequence[float]) -> float:
    return 100.0 * float(np.sqrt(np.mean(mse)))


def ratios(found: Sequence[Measured], metric: str, kind: str) -> str:
    """Mean squared errors relative to CAB's: geometric means over splits and sweeps."""
    names = [name for name in ESTIMATORS if name != "CAB"]
    if kind == "chosen":
        names += AROUND
    rows = []
    for (data, logger), by_sweeps in grouped(found).items():
        means = [geometric_mean(all_ratios(by_sweeps, kind, metric, one, "CAB")) for one in names]
        cells = [f"{mean:.2f} (×÷ {spread:.2f})" for mean, spread in means]
        rows.append([f"{data}, {logger:.0%}", *cells])
    return _table(["set, logger", *map(shown, names)], rows)


def models(found: Sequence[Measured], metric: str, kind: str) -> str:
    """The same around a logistic regression: relative to CAB around it, and CAB around both."""
    head = ["set, logger", "CAB, around trees", "DM, around it", "SB", "SWITCH", "cIPS"]
    pairs = [("CAB", f"CAB{LINEAR}"), *((f"{one}{LINEAR}", f"CAB{LINEAR}") for one in
             ("DM", "SB", "SWITCH")), ("CIPS", f"CAB{LINEAR}")]  # fmt: skip
    if kind == "chosen":
        around = f"CAB{AGAIN}{LINEAR}"
        head = ["set, logger", "CAB, around trees, recalibrated", "CAB", "SB", "SWITCH", "cIPS"]
        pairs = [(f"CAB{AGAIN}", around), (f"CAB{LINEAR}", around),
                 *((f"{one}{AGAIN}{LINEAR}", around) for one in ("SB", "SWITCH")),
                 ("CIPS", around)]  # fmt: skip
    rows = []
    for (data, logger), by_sweeps in grouped(found).items():
        means = [geometric_mean(all_ratios(by_sweeps, kind, metric, *pair)) for pair in pairs]
        cells = [f"{mean:.2f} (×÷ {spread:.2f})" for mean, spread in means]
        rows.append([f"{data}, {logger:.0%}", *cells])
    return _table(head, rows)


def coverage(found: Sequence[Measured]) -> str:
    """How often 95% intervals of the average rank held the truth."""
    names = ("IPS", HEADLINE)
    rows = []
    for (data, logger), by_sweeps in grouped(found).items():
        for sweeps, parts in by_sweeps.items():
            cells = [f"{np.mean([one.covered[name] for one in parts]):.0%}" for name in names]
            rows.append([f"{data}, {logger:.0%}, {sweeps:g}", *cells])
    return _table(["set, logger, sweeps", *names], rows)


# -- learning ------------------------------------------------------------------------------------


def learned(found: Sequence[Ranked]) -> str:
    """The ranking column of Table 2 on every set, with the paper's beside it."""
    own = [one for one in found if one.condition.sweeps == TABLE]
    sets = list(dict.fromkeys((one.condition.data, one.condition.relevant) for one in own))
    by_set = {
        key: [one for one in own if (one.condition.data, one.condition.relevant) == key]
        for key in sets
    }
    rows = []
    for name in LEARNED:
        cells = [_mean(np.array([one.rank(name) for one in by_set[key]])) for key in sets]
        rows.append([shown(name), *cells, f"{PAPER[name]:.2f}"])
    for name in OURS:
        if all(name in one.ours for one in own):
            cells = [_mean(np.array([one.ours[name] for one in by_set[key]])) for key in sets]
            rows.append([f"*ours: {name}*", *cells, ""])
    for text, name in (("the logger", "logger"), ("all judgements", "full")):
        cells = [_mean(np.array([one.rank(name) for one in by_set[key]])) for key in sets]
        rows.append([text, *cells, ""])
    head = [f"{data}, y ≥ {relevant}" for data, relevant in sets]
    return _table(["learned with", *head, "the paper, Yahoo! LTR"], rows)


def _mean(values: Floats) -> str:
    spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():.2f} ± {spread:.2f}"


def growth(found: Sequence[Ranked]) -> str:
    """Average ranks over sweeps: Figure 4 (2) as numbers."""
    keys = dict.fromkeys(
        (one.condition.data, one.condition.relevant, one.condition.sweeps) for one in found
    )
    rows = []
    for key in keys:
        own = [
            one
            for one in found
            if (one.condition.data, one.condition.relevant, one.condition.sweeps) == key
        ]
        means = [float(np.mean([one.rank(name) for one in own])) for name in LEARNED]
        data, relevant, sweeps = key
        rows.append([f"{data}, y ≥ {relevant}, {sweeps:g}", *_best_marked(means, ".2f")])
    return _table(["set, sweeps", *map(shown, LEARNED)], rows)


def selection(found: Sequence[Ranked]) -> str:
    """Ranks lost by choosing on validation clicks against the best in hindsight, over all runs."""
    sets = list(dict.fromkeys((one.condition.data, one.condition.relevant) for one in found))
    rows = []
    for data, relevant in sets:
        own = [
            one for one in found if (one.condition.data, one.condition.relevant) == (data, relevant)
        ]
        lost = [regret(own, name) for name in LEARNED]
        cells = [f"{values.mean():.2f} ({values.std():.2f})" for values in lost]
        rows.append([f"{data}, y ≥ {relevant}", *cells])
    return _table(["set", *map(shown, LEARNED)], rows)
