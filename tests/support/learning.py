"""Logs to learn from, and slow objectives."""

from __future__ import annotations

import numpy as np

import offpolicy as op
from offpolicy.estimators._named import Estimator
from tests.support.cases import Shape, make_case
from tests.support.members import DIFFERENTIABLE


def classes(seed=0, n=400, K=3, d=4, *, noise=0.0, **more):
    """Labelled contexts in overlapping clouds, logged by a policy that explores."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal((K, d)) * 1.5
    y = rng.integers(0, K, n)
    X = centre[y] + rng.standard_normal((n, d))
    pi0 = 0.5 * np.eye(K)[((X[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)] + 0.5 / K
    pi0 = 0.7 * pi0 + 0.3 / K
    action = np.array([rng.choice(K, p=p) for p in pi0])
    reward = (action == y).astype(float) + noise * rng.standard_normal(n)
    log = op.BanditLog.from_arrays(action=action, reward=reward, logging=pi0, context=X, **more)
    return log, X, y


def ragged(seed=0, n=60, *, names=True, features=True):
    rng = np.random.default_rng(seed)
    shape = Shape(rng.integers(1, 5, n))
    pi0 = shape.dirichlet(rng)
    return op.BanditLog.from_ragged(
        offsets=shape.offsets,
        chosen=shape.draw(rng, pi0),
        reward=rng.normal(size=n),
        logging=pi0,
        candidate=shape.names(rng, [f"a{k}" for k in range(6)]) if names else None,
        context=rng.normal(size=(n, 3)) if names else None,
        candidate_features=rng.normal(size=(len(pi0), 2)) if features else None,
        row_weight=rng.uniform(0.5, 2.0, n),
    )


MEMBERS = tuple(DIFFERENTIABLE)


def ragged_case(seed, *, n=7, unsupported=0.2, weighted=True):
    """A log with 1 to 5 candidates a decision, a policy and a model on it."""
    rng = np.random.default_rng(seed)
    case = make_case(rng, n, unsupported=unsupported, weighted=weighted, drawn=True)
    return case.log, case.pi, case.delta_hat


def slow_value(member: Estimator, log, pi, delta_hat) -> float:
    """From the masses, decision by decision; π need not sum to 1."""
    omega = np.ones(len(log)) if log.row_weight is None else log.row_weight
    total, over, under = 0.0, 0.0, 0.0
    for i in range(len(log)):
        part = slice(log.offsets[i], log.offsets[i + 1])
        p, q, d = pi[part], log.logging[part], delta_hat[part]
        y = log.chosen[i]
        masses = member.masses(p, q)
        if member.self_normalised:
            total += omega[i] * float((masses.imputed * d).sum())
            own = log.reward[i] - (d[y] if member.name == "SNDR" else 0.0)
            over += omega[i] * p[y] / q[y] * own
            under += omega[i] * p[y] / q[y]
        else:
            total += omega[i] * float(
                (masses.imputed * d).sum()
                + masses.observed[y] * log.reward[i]
                + masses.control[y] * d[y]
            )
    return total / omega.sum() + (over / under if member.self_normalised else 0.0)
