"""The data of Table 2 by our own recipe: the default learner, linear and with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from offpolicy.datasets import files_of
from offpolicy.experiments.cells import Cells
from offpolicy.experiments.learning.search import TOLERANCE, Learned
from offpolicy.experiments.learning.setup import Condition, Setup, set_up
from offpolicy.experiments.saving import Report
from offpolicy.experiments.table2 import SCHEMA, errors_by
from offpolicy.experiments.tables import markdown, mean_text
from offpolicy.learning import SoftmaxLearner
from offpolicy.logs import BanditLog


def run(cells: Cells, sets: Sequence[str], runs: int) -> Report:
    """Our own recipe on the data of Table 2."""
    wanted = [(Condition(data, run),) for run in range(runs) for data in sets]
    learned = cells.within("learned").all("runs", run_one, wanted, files_of(sets))
    by_set = {data: errors for (_, data), errors in errors_by({"ours": learned}).items()}
    rows = [
        [name, *(mean_text(errors[name], 4) for errors in by_set.values())]
        for name in learned[0].errors
    ]
    parts = ["## Our own recipe", markdown(["learner", *by_set], rows)]
    return Report.of(parts, {"schema": SCHEMA, "runs": learned}, "ours")


def run_one(condition: Condition) -> Learned:
    setup = set_up(condition)
    return Learned(condition, "ours", setup.error_of(setup.logger), ours(setup))


def ours(setup: Setup) -> dict[str, float]:
    """By our recipe beside the paper's: the error of the default learner, which also sees what the
    reward model was trained on; linear, with a kernel, and both with the validation log too."""
    both = _joined(setup.train, setup.validation)
    errors = {}
    for name, log in (("", setup.train), (", refitted", both)):
        for features in ("linear", "kernel"):
            learner = SoftmaxLearner(features=features, tol=TOLERANCE)
            learner.fit(log, known=setup.known)
            errors[f"{features}{name}"] = setup.error(learner)
    return errors


def _joined(*logs: BanditLog) -> BanditLog:
    names = ("chosen", "reward", "logging", "context")
    columns: Any = (np.concatenate([getattr(log, name) for log in logs]) for name in names)
    action, reward, logging, X = columns
    logging = logging.reshape(len(action), -1)
    return BanditLog.from_arrays(action=action, reward=reward, logging=logging, context=X)
