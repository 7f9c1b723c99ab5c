"""Problems with a known answer, and laws that every estimator must keep.

For your own tests: sample a log from a `theory.Problem` and compare an estimate with its exact
value, or run `check_estimator` on a member that you wrote.
"""

from __future__ import annotations

import numpy as np

from offpolicy._core.types import Floats, Ints
from offpolicy.datasets import sample_actions, without_support
from offpolicy.errors import OffpolicyError
from offpolicy.estimators import Estimator, theory
from offpolicy.estimators.theory import Problem
from offpolicy.evaluation import evaluate
from offpolicy.logs import BanditLog


def random_problem(
    rng: np.random.Generator,
    *,
    contexts: int = 4,
    actions: int = 5,
    concentration: float = 0.7,
    model_error: float = 0.3,
    propensity_error: float = 0.0,
    unsupported: float = 0.0,
) -> Problem:
    """A random finite problem to test on, its answer known, with rewards about [0, 1].

    ``concentration`` is that of the Dirichlet draws of both policies (small: far apart);
    ``model_error`` the size of Δ; ``propensity_error`` that of log(π̂₀/π₀); ``unsupported`` the
    chance that the logger never takes an action.
    """
    shape = (contexts, actions)
    pi0 = rng.dirichlet(np.full(actions, concentration), contexts)
    if unsupported > 0.0:
        pi0 = without_support(pi0, rng.random(shape) < unsupported)
    delta = rng.random(shape)
    noise = np.exp(propensity_error * rng.standard_normal(shape))
    return Problem(
        p=rng.dirichlet(np.ones(contexts)),
        pi=rng.dirichlet(np.full(actions, concentration), contexts),
        pi0=pi0,
        delta=delta,
        delta_hat=delta + model_error * rng.standard_normal(shape),
        sigma2=rng.random(shape) * 0.25,
        pi0_hat=pi0 * noise if propensity_error else None,
    )


def sample_log(
    problem: Problem, n: int, rng: np.random.Generator
) -> tuple[BanditLog, Floats, Floats]:
    """For tests: n decisions of a problem under π₀, as (log, policy π, prediction δ̂).

    The log holds the *believed* propensities π̂₀ (normalised per context, if they were estimated);
    ``log.context`` is the context's number. Rewards are δ ± σ with probability ½ each.
    """
    x = rng.choice(len(problem.p), size=n, p=problem.p)
    action = sample_actions(problem.pi0[x], rng)
    sign = rng.choice([-1.0, 1.0], size=n)
    reward = problem.delta[x, action] + sign * np.sqrt(problem.sigma2[x, action])
    believed = problem.pi0_hat / problem.pi0_hat.sum(axis=1, keepdims=True)
    log = BanditLog.from_arrays(
        action=action, reward=reward, logging=believed[x], context=x[:, None]
    )
    return log, problem.pi[x], problem.delta_hat[x]


class LawBroken(OffpolicyError, AssertionError):
    """An estimator broke a law that every member keeps."""


def check_estimator(estimator: Estimator, *, seed: int = 0) -> None:
    """Raise `LawBroken` unless the estimator keeps the laws of the family.

    The mean over all possible decisions equals Theorem 1's; permuting and duplicating the log
    changes nothing; scaling rewards and predictions scales the value; and, if the weights are
    said to sum to one, they do.
    """
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    log, pi, delta_hat = sample_log(problem, 400, rng)

    def value(log: BanditLog, pi: Floats, delta_hat: Floats) -> float:
        return evaluate(log, pi, prediction=delta_hat, estimators=[estimator]).estimates[0].value

    def rebuilt(rows: Ints, scale: float = 1.0) -> tuple[BanditLog, Floats, Floats]:
        assert log.logging is not None
        logging = log.logging.reshape(len(log), -1)
        again = BanditLog.from_arrays(
            action=log.chosen[rows], reward=scale * log.reward[rows], logging=logging[rows]
        )
        return again, pi[rows], scale * delta_hat[rows]

    base = value(log, pi, delta_hat)
    everything = np.arange(len(log))
    _law(estimator, "permutation", value(*rebuilt(rng.permutation(everything))), base)
    _law(estimator, "duplication", value(*rebuilt(np.repeat(everything, 2))), base)
    _law(estimator, "scale", value(*rebuilt(everything, 4.0)), 4.0 * base)
    if not estimator.self_normalised:
        _law(
            estimator, "Theorem 1", _enumerated(estimator, problem), _by_theorem(estimator, problem)
        )
    if estimator.weights_sum_to_one and not estimator.self_normalised:
        imputed, observed, control = estimator.masses(problem.pi, problem.pi0)
        total = imputed + problem.pi0 * (observed + control)
        _law(estimator, "weights sum to one", float(np.abs(total - problem.pi).max()), 0.0)


def _by_theorem(estimator: Estimator, problem: Problem) -> float:
    return problem.value + theory.bias(estimator, problem)


def _enumerated(estimator: Estimator, problem: Problem) -> float:
    """For the law of Theorem 1: on a log of every (x, y), weighted by its probability."""
    x, y = np.nonzero(problem.pi0 * problem.p[:, None] > 0.0)
    log = BanditLog.from_arrays(
        action=y,
        reward=problem.delta[x, y],
        logging=problem.pi0[x],
        row_weight=problem.p[x] * problem.pi0[x, y],
    )
    result = evaluate(log, problem.pi[x], prediction=problem.delta_hat[x], estimators=[estimator])
    return result.estimates[0].value


def _law(estimator: Estimator, law: str, found: float, expected: float) -> None:
    if abs(found - expected) > 1e-9 * max(1.0, abs(expected)):
        raise LawBroken(f"{estimator} breaks the law of {law}: {found!r}, not {expected!r}.")
