"""Figures 1 and 2 for rankings: bias, variance and error of every estimator over M and τ.

All errors are relative to the truth, so that splits of the data can be averaged. Besides the
curves there are two ways to have the parameter chosen: on other logs of the same split, where the
truth is known (*held out*), and from each log by itself (*from the log*).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.errors import SupportError
from offpolicy.estimators import parse
from offpolicy.experiments.accuracy import Accuracy
from offpolicy.experiments.ranking.rank_sums import GRID, rank_sums, weight_table
from offpolicy.experiments.ranking.setup import Prepared, prepare_set, rows_of_log
from offpolicy.experiments.tables import grouped
from offpolicy.ranking.data import RankingLog, as_metric, ranks
from offpolicy.ranking.evaluation import Question, evaluate, tuned, what_is_known

METRICS = ("average rank", "sum of ranks")
"""What the paper's words say (Section 4.1), and what its formula says."""
ESTIMATORS = ("DM", "IPS", "CIPS", "SB", "SWITCH", "CAB")
TUNED = ("CIPS", "SB", "SWITCH", "CAB")
BLENDS = ("SB", "SWITCH", "CAB")
LINEAR = ", linear"
"""Of an estimator around a logistic regression instead of boosted trees."""
AGAIN = ", recalibrated"
"""Of an estimator around the model that is recalibrated on the log's clicks."""
HEADLINE = f"CAB{AGAIN}"
"""The answer, with its correction."""
COVERED = "average rank"


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


def run_one(case: Case, repeats: int, chosen: int) -> Measured:
    """A case of the ranking experiment, from the files of its data set."""
    prepared = prepare_set(case.data, case.relevant, case.logger, case.split)
    seed = [case.split, round(1000 * case.sweeps), round(1000 * case.logger), case.relevant,
            *map(ord, case.data)]  # fmt: skip
    return measured(prepared, case, repeats, chosen, seed)


def measured(
    prepared: Prepared, case: Case, repeats: int, chosen: int, seed: Sequence[int]
) -> Measured:
    """A case of the experiment: draw logs, look estimates up; from the first ``chosen``, choose."""
    top = int(np.diff(prepared.test.offsets).max())
    tables = {name: weight_table(name, top) for name in ESTIMATORS}
    truth = {metric: prepared.truth(metric) for metric in METRICS}
    errors: dict[str, dict[str, list[Floats]]] = {m: defaultdict(list) for m in METRICS}
    chosen_errors: dict[str, dict[str, list[float]]] = {m: defaultdict(list) for m in METRICS}
    parameters: dict[str, dict[str, list[float]]] = {m: defaultdict(list) for m in METRICS}
    covered: dict[str, list[bool]] = defaultdict(list)
    for k in range(repeats):
        log, scores = prepared.draw(case.sweeps, np.random.default_rng([*seed, k]))
        if not log.click.any():
            raise SupportError(f"{case}: a log without a single click. Ask for more sweeps.")
        target = ranks(scores, log.offsets)
        assert log.prediction is not None
        linear = prepared.linear[rows_of_log(prepared.test, log)]
        models = ((log.prediction, ESTIMATORS, ""), (linear, ("DM", *BLENDS), LINEAR))
        for model, names, tag in models:
            sums = rank_sums(log, target, model, top)
            for name in names:
                for metric, value in sums.values(tables[name]).items():
                    errors[metric][name + tag].append(value / truth[metric] - 1.0)
        if k >= chosen:
            continue
        for metric in METRICS:
            for name in ("DM", "IPS"):
                chosen_errors[metric][name].append(float(errors[metric][name][-1][0]))
        for model, _, tag in models:
            with_model = log.replace(prediction=model)
            for metric in METRICS:
                for name, choice in _choices(with_model, target, metric).items():
                    parameters[metric][name + tag].append(choice[0])
                    chosen_errors[metric][name + tag].append(choice[1] / truth[metric] - 1.0)
        result = evaluate(log, scores, ["IPS"], COVERED)
        for name, row in (("IPS", result["IPS"]), (HEADLINE, result.headline)):
            covered[name].append(truth[COVERED] in row.interval)
    return Measured(
        case,
        truth,
        {metric: _accuracy(by_name) for metric, by_name in errors.items()},
        {m: {name: held_out(np.array(e)) for name, e in by.items()} for m, by in errors.items()},
        {
            m: {name: float(np.mean(np.square(e))) for name, e in by.items()}
            for m, by in chosen_errors.items()
        },
        parameters,
        {name: float(np.mean(hits)) for name, hits in covered.items()},
    )


def _choices(log: RankingLog, target: Ints, metric_name: str) -> dict[str, tuple[float, float]]:
    """In a log of the experiment: each estimator's parameter as chosen, and its value there; of
    the headline its M and its value."""
    metric = as_metric(metric_name)
    known = what_is_known(Question(log, metric, target, metric.weight(target), 0.95, True))
    around = [(name, name, log.prediction) for name in TUNED]
    around += [(name + AGAIN, name, known.path.d) for name in BLENDS if name + AGAIN != HEADLINE]
    chosen = {HEADLINE: (known.M, known.value)}
    for key, name, model in around:
        choice = tuned(known, parse(name), model)
        chosen[key] = (choice.chosen, float(choice.value[choice.grid == choice.chosen][0]))
    return chosen


def _accuracy(errors: dict[str, list[Floats]]) -> Accuracy:
    return Accuracy(
        {name: np.mean(errors[name], axis=0) for name in ESTIMATORS},
        {name: np.var(errors[name], axis=0) for name in ESTIMATORS},
        GRID.M,
    )


def held_out(errors: Floats) -> float:
    """An experiment's mean squared error over (logs, values of the parameter), the value being in
    turn the best of the logs of even number for those of odd number, and the other way round."""
    squares = errors**2
    squares = np.where(np.isnan(squares), np.inf, squares)
    total = 0.0
    for half, other in ((squares[::2], squares[1::2]), (squares[1::2], squares[::2])):
        total += float(other[:, int(half.mean(axis=0).argmin())].sum())
    return total / len(squares)


# -- over splits ---------------------------------------------------------------------------------


def by_case(cases: Sequence[Measured]) -> dict[tuple[str, float], dict[float, list[Measured]]]:
    """The experiment's cases by data set and logger, then by sweeps: the splits."""
    groups = grouped(cases, lambda measured: (measured.case.data, measured.case.logger))
    return {
        key: grouped(group, lambda measured: measured.case.sweeps) for key, group in groups.items()
    }


def averaged(splits: Sequence[Accuracy]) -> Accuracy:
    """The experiment over its splits: root of the mean squared bias, and mean variance."""
    return Accuracy(
        {name: np.sqrt(np.mean([split.bias[name] ** 2 for split in splits], axis=0))
         for name in ESTIMATORS},
        {name: np.mean([split.variance[name] for split in splits], axis=0) for name in ESTIMATORS},
        GRID.M,
    )  # fmt: skip
