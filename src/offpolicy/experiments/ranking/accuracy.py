"""Figures 1 and 2 for rankings: bias, variance and error of every estimator over M and τ.

All errors are relative to the truth, so that splits of the data can be averaged. Besides the
curves there are two ways to have the parameter chosen: on other logs of the same split, where the
truth is known (*held out*), and from each log by itself (*from the log*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import SupportError
from offpolicy.estimators import parse
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.ranking.rank_sums import GRID, rank_sums, weight_table
from offpolicy.experiments.ranking.setup import Prepared, prepare_set
from offpolicy.ranking.data import RankingLog, as_metric, ranks
from offpolicy.ranking.evaluation import ModelError, choose, evaluate, recalibrated, value_of

METRICS = ("sum of ranks", "average rank")
"""What the paper's formula says, and what its words say."""
ESTIMATORS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "CAB")
TUNED = ("CIPS", "SB", "SWITCH", "CAB")
BLENDS = ("SB", "SWITCH", "CAB")
LINEAR = ", linear"
"""Of an estimator around a logistic regression instead of boosted trees."""
AGAIN = ", recalibrated"
"""Of an estimator around the model that is recalibrated on the log's clicks."""
HEADLINE = f"CAB{AGAIN}"
COVERED = "average rank"
_LEVEL = 0.95


@dataclass(frozen=True)
class Case:
    """Logs of one size, of one logger, on one split of one data set."""

    data: str
    relevant: int
    logger: float
    sweeps: float
    split: int


@dataclass(frozen=True)
class Measured:
    """What the logs of a case gave, by metric; all errors are relative to the truth."""

    case: Case
    truth: dict[str, float]
    curves: dict[str, Accuracy]
    held_out: dict[str, dict[str, float]]
    """Mean squared errors by estimator, the parameter being the best on the other half of logs."""
    chosen: dict[str, dict[str, float]]
    """The same with the parameter chosen from each log, over some of the logs."""
    parameters: dict[str, dict[str, list[float]]]
    """What was chosen."""
    covered: dict[str, float]
    """How often intervals of the average rank, at 95%, held the truth."""

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"curves": {name: one.to_json() for name, one in self.curves.items()}}


def run_one(case: Case, repeats: int, chosen: int) -> Measured:
    """From the files of the data set."""
    prepared = _prepared(case.data, case.relevant, case.logger, case.split)
    seed = [case.split, round(1000 * case.sweeps), round(1000 * case.logger), case.relevant,
            *map(ord, case.data)]  # fmt: skip
    return measured(prepared, case, repeats, chosen, seed)


@lru_cache(maxsize=2)
def _prepared(data: str, relevant: int, logger: float, split: int) -> Prepared:
    return prepare_set(data, relevant, logger, split)


def measured(
    prepared: Prepared, case: Case, repeats: int, chosen: int, seed: Sequence[int]
) -> Measured:
    """Draw the logs, and look every estimate up; from the first ``chosen`` logs, choose too."""
    top = int(np.diff(prepared.test.offsets).max())
    tables = {name: weight_table(name, top) for name in ESTIMATORS}
    truth = {metric: prepared.truth(metric) for metric in METRICS}
    errors: dict[str, dict[str, list[Floats]]] = {m: {} for m in METRICS}
    picked: dict[str, dict[str, list[tuple[float, float]]]] = {m: {} for m in METRICS}
    covered: dict[str, list[bool]] = {}
    for k in range(repeats):
        log, rows = prepared.draw_rows(case.sweeps, np.random.default_rng([*seed, k]))
        if not log.click.any():
            raise SupportError(f"{case}: a log without a single click. Ask for more sweeps.")
        scores, linear = prepared.ranker[rows], prepared.linear[rows]
        target = ranks(scores, log.offsets)
        assert log.prediction is not None
        for model, names, tag in (
            (log.prediction, ESTIMATORS, ""),
            (linear, ("DM", *BLENDS), LINEAR),
        ):
            sums = rank_sums(log, target, model, top)
            for name in names:
                for metric, value in sums.values(tables[name]).items():
                    errors[metric].setdefault(name + tag, []).append(value / truth[metric] - 1.0)
        if k >= chosen:
            continue
        for model, tag in ((log.prediction, ""), (linear, LINEAR)):
            own = log.replace(prediction=model)
            delta = recalibrated(own, target)
            for metric in METRICS:
                for name, (parameter, estimate) in _choices(own, target, delta, metric).items():
                    error = estimate / truth[metric] - 1.0
                    picked[metric].setdefault(name + tag, []).append((parameter, error))
        result = evaluate(log, scores, ["IPS"], COVERED, level=_LEVEL)
        for name, row in (("IPS", result["IPS"]), (HEADLINE, result.headline)):
            covered.setdefault(name, []).append(truth[COVERED] in row.interval)
    return Measured(
        case,
        truth,
        {metric: _accuracy(errors[metric]) for metric in METRICS},
        {
            metric: {name: held_out(np.array(rows)) for name, rows in by.items()}
            for metric, by in errors.items()
        },
        {
            metric: {name: float(np.mean(np.square(by[name][:chosen]))) for name in ("DM", "IPS")}
            | {
                name: float(np.mean([e**2 for _, e in rows]))
                for name, rows in picked[metric].items()
            }
            for metric, by in errors.items()
        },
        {
            metric: {name: [x for x, _ in rows] for name, rows in by.items()}
            for metric, by in picked.items()
        },
        {name: float(np.mean(hits)) for name, hits in covered.items()},
    )


def _choices(
    log: RankingLog, target: Ints, delta: Floats, name_of_metric: str
) -> dict[str, tuple[float, float]]:
    """The parameter that each estimator's is chosen to be, and its value there."""
    metric = as_metric(name_of_metric)
    lam = metric.weight(target)
    base = value_of(log, metric, lam, delta)
    model_error = ModelError.of(log, base, delta)
    asked = [(name, name, log.prediction) for name in TUNED]
    asked += [(name + AGAIN, name, delta) for name in BLENDS]
    found = {}
    for key, name, model in asked:
        choice = choose(log, parse(name), metric, lam, model, delta, model_error)
        found[key] = (choice.chosen, float(choice.value[choice.grid == choice.chosen][0]))
    return found


def _accuracy(errors: dict[str, list[Floats]]) -> Accuracy:
    return Accuracy(
        {name: np.mean(errors[name], axis=0) for name in ESTIMATORS},
        {name: np.var(errors[name], axis=0) for name in ESTIMATORS},
        GRID.M,
    )


def held_out(errors: Floats) -> float:
    """The mean squared error over (logs, values of the parameter), the value being in turn the
    best of the logs of even number for those of odd number, and the other way round."""
    squares = errors**2
    squares = np.where(np.isnan(squares), np.inf, squares)
    total = 0.0
    for one, other in ((squares[::2], squares[1::2]), (squares[1::2], squares[::2])):
        total += float(other[:, int(one.mean(axis=0).argmin())].sum())
    return total / len(squares)


# -- over splits ---------------------------------------------------------------------------------


def where(data: str, logger: float) -> str:
    return f"{data}, logger of {logger:.0%}"


def grouped(found: Sequence[Measured]) -> dict[tuple[str, float], dict[float, list[Measured]]]:
    """By data set and logger, then by sweeps: the splits."""
    groups: dict[tuple[str, float], dict[float, list[Measured]]] = {}
    for one in found:
        key = (one.case.data, one.case.logger)
        groups.setdefault(key, {}).setdefault(one.case.sweeps, []).append(one)
    return groups


def averaged(parts: Sequence[Measured], metric: str) -> Accuracy:
    """Over splits: the root of the mean squared bias, and the mean variance."""
    curves = [part.curves[metric] for part in parts]
    return Accuracy(
        {name: np.sqrt(np.mean([one.bias[name] ** 2 for one in curves], axis=0))
         for name in ESTIMATORS},
        {name: np.mean([one.variance[name] for one in curves], axis=0) for name in ESTIMATORS},
        GRID.M,
    )  # fmt: skip
