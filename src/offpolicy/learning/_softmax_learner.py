r"""`SoftmaxLearner`: policies :math:`\pi_w(y|x) \propto \exp(w\cdot\phi(x, y))` from a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core.lbfgs import Minimum, minimise
from offpolicy._core.parallel import one_thread_each
from offpolicy._core.parameters import Parameters, need_fitted
from offpolicy._core.types import Floats
from offpolicy._core.validation import need
from offpolicy.errors import ParameterError
from offpolicy.estimators import Estimator
from offpolicy.evaluation import evaluate
from offpolicy.evidence import with_arms
from offpolicy.learning._objective import need_differentiable
from offpolicy.learning._task import Task
from offpolicy.logs import BanditLog, LogScan, identity, need_log, with_names
from offpolicy.policies.learned import LinearSoftmax, save_policy

STARTS = {
    "model": "from the reward model's scores",
    "logger": "from a policy like the logger's",
    "zero": "from the uniform policy",
    "random": "from random weights",
}
"""Where a search may begin, and how that is told."""
Progress = Callable[[int, float], None]


@final
@dataclass(frozen=True, slots=True)
class FitReport:
    """How the search for the weights ended."""

    value: float
    """What the objective says of the learned policy, on the data it was learned from, less all
    penalties."""
    steps: int
    converged: bool
    """Whether the search ended because nothing more was to be gained: that on the sample, if the
    log is larger than memory."""
    message: str
    start: str


class Learned:
    """What was learned, ``policy_``, asked as a classifier or as a policy is."""

    policy_: LinearSoftmax

    @property
    def classes_(self) -> NDArray[Any] | None:
        """The actions, in the order of `predict_proba`; None if it looks at candidates only."""
        return None if self.policy_.actions is None else np.array(self.policy_.actions)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of the actions (``classes_``) for each context: (n, K)."""
        need_fitted(self, "policy_")
        return self.policy_.of_contexts(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest action for each context."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(np.array(self.policy_.actions)[best])

    def probabilities(self, log: BanditLog) -> Floats:
        """π of every candidate of ``log``, flat: the learner is a policy."""
        need_fitted(self, "policy_")
        return self.policy_.probabilities(log)


@final
@dataclass(eq=False)
class SoftmaxLearner(Learned, Parameters):
    """Learns a softmax policy that maximises an estimator of its value.

    Parameters
    ----------
    estimator : str or Estimator
        The objective: any sub-differentiable member, with its parameter.
    features : "linear", "kernel" or "raw"
        Standardised contexts, a Nyström map of an RBF kernel on ``centres`` of them with the
        width ``gamma``, or contexts as they are.
    l2 : float, optional
        The penalty on how far the weights are from those of the start at the model, squared, or
        from 0 with any other start; in units of the features' mean square. Without it, a
        fiftieth of the model's; 5e-8 with another start.
    model_l2 : float, optional
        The penalty on squared weights of the reward model, in the same units. Without it, the one
        with which it best explains the rewards of folds that it has not seen.
    penalty : float
        POEM's: so many standard errors of the estimate are taken off it.
    baseline : float
        Taken off every reward in the objective (BanditNet's Lagrange multiplier). Doubly robust
        objectives do not change with it.
    start : "model", "logger", "zero" or "random"
        Where the search begins: at the reward model's scores, three times as sharp, at a policy
        like the logger's, at the uniform policy, or at random weights.
    starts : int
        How many random weights to try; the best end counts.
    folds : int
        The reward model of a decision is fitted without its fold. Decisions of one cluster, or
        with the same context, share theirs.
    passes : int
        How often a log larger than memory is gone through, after what a sample of it taught; 0
        leaves it at the sample.
    """

    estimator: str | Estimator = "CAB-DR(M=30)"
    _: KW_ONLY
    features: str = "linear"
    centres: int = 1500
    gamma: float = 2.0
    l2: float | None = None
    model_l2: float | None = None
    penalty: float = 0.0
    baseline: float = 0.0
    start: str = "model"
    starts: int = 1
    folds: int = 3
    max_iter: int = 300
    tol: float = 5e-7
    seed: int = 0
    passes: int = 3

    def fit(
        self,
        log: BanditLog | LogScan,
        *,
        prediction: Any = None,
        known: tuple[ArrayLike, ArrayLike] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from a log.

        Parameters
        ----------
        log : BanditLog or LogScan
            With context, or with candidate_features. Where candidates have no names but are as
            many in every decision, their positions are their names.
        prediction : optional
            A reward model, as in `evaluate`; without one, one is fitted, cross-fitted.
        known : (X, rewards), optional
            Contexts for which the rewards of all actions are known, (m, d) and (m, K). They count
            in the reward model, and in the objective as much as logged decisions do.
        progress : callable, optional
            Told each step and the value reached.
        """
        member = self.check()
        log = with_arms(log)
        self._fit_log(member, log, prediction, known, progress)
        self.policy_ = replace(self.policy_, learned_from=(identity(log),))
        return self

    def _fit_log(
        self,
        member: Estimator,
        log: BanditLog | LogScan,
        prediction: Any,
        known: tuple[ArrayLike, ArrayLike] | None,
        progress: Progress | None,
    ) -> Self:
        if isinstance(log, LogScan):
            if known is not None:
                raise ParameterError(
                    "known rewards need a log in memory, and this one is too large.", column="known"
                )
            with one_thread_each():
                return self._fit_scan(member, log, prediction, progress)
        if log.candidate_features is None:
            log = with_names(log)
        log.need_candidates("A learner")
        with one_thread_each():
            return self.fit_task(Task.of(self, member, log, prediction, known), progress)

    def fit_task(self, task: Task, progress: Progress | None = None) -> Self:
        """Learn from what was prepared, which several learners may share."""
        ends = [(name, self._search(task, w, progress)) for name, w in self.starting(task)]
        return self.ended(task, ends)

    def ended(self, task: Task, ends: Sequence[tuple[str, Minimum]]) -> Self:
        """Keep the best of the ends of all searches."""
        name, end = min(ends, key=lambda ended: ended[1].loss)
        self.policy_ = task.policy(end.w)
        self.report_ = FitReport(
            -end.loss * task.scale.span, end.steps, end.converged, end.message, name
        )
        return self

    def score(self, log: BanditLog) -> float:
        """What `evaluate` puts first of the policy on a log, best one that was not learned from."""
        need_log(log)
        need_fitted(self, "policy_")
        return evaluate(log, self, estimators=["SNIPS"]).headline.value

    def save(self, path: str | Path) -> None:
        """Write the learned policy, parameters and report; `load_policy` reads the policy back."""
        need_fitted(self, "policy_")
        learned = {
            "learner": type(self).__name__,
            "parameters": self.get_params() | {"estimator": str(self.estimator)},
            "report": self.report_,
        }
        save_policy(self.policy_, path, learned=learned)

    # -- parts -----------------------------------------------------------------------------------

    def _fit_scan(
        self, member: Estimator, scan: LogScan, prediction: Any, progress: Progress | None
    ) -> Self:
        from offpolicy.learning._large_logs import Stream

        stream = Stream.of(self, member, scan, prediction)
        if stream.is_whole:
            return self.fit(stream.sample, prediction=prediction, progress=progress)
        task = stream.task()
        self.fit_task(task, progress)
        report = self.report_
        ended = f": {report.message}" if report.message else ""
        sampled = f"on a sample of {len(stream.sample):,} decisions{ended}"
        self.report_ = replace(report, message=sampled)
        if self.passes:
            end = stream.improve(task, task.weights_of(self.policy_), progress)
            self.policy_ = task.policy(end.w)
            self.report_ = replace(
                report,
                value=-end.loss * task.scale.span,
                steps=report.steps + end.steps,
                message=end.message,
            )
        return self

    def check(self) -> Estimator:
        """Raise unless the parameters make sense; the objective."""
        need(self.start in STARTS, "start", f'"{self.start}"', f"one of {', '.join(STARTS)}")
        least = {"l2": 0, "model_l2": 0, "penalty": 0, "starts": 1, "folds": 2, "max_iter": 1,
                 "passes": 0}  # fmt: skip
        for name, bound in least.items():
            value = getattr(self, name)
            need(value is None or value >= bound, name, value, f"{bound} or more")
        member = need_differentiable(self.estimator)
        if member.name == "SNDR" and self.penalty > 0.0:
            raise ParameterError(
                "SNDR has no standard error to take off: leave penalty at 0.", column="penalty"
            )
        return member

    def starting(self, task: Task) -> list[tuple[str, Floats]]:
        """The weights at which searches begin, and what each is called."""
        if self.start == "random":
            rng = np.random.default_rng([self.seed, 2])
            return [(f"random {k}", task.random_start(rng)) for k in range(self.starts)]
        if self.start == "logger":
            return [("logger", task.like_the_logger())]
        if task.model_start is not None:
            return [("model", task.model_start)]
        return [("zero", np.zeros(task.scores.size))]

    def _search(self, task: Task, w: Floats, progress: Progress | None) -> Minimum:
        def told(step: int, loss: float) -> None:
            if progress is not None:
                progress(step, -loss * task.scale.span)

        return minimise(task.loss, w, most_steps=self.max_iter, tolerance=self.tol, each_step=told)
