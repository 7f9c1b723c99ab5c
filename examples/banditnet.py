"""A network learned from a bandit log alone: IPS with a baseline search (BanditNet), and CAB.

A logger guesses handwritten digits; the log holds what it guessed, how likely that guess was, and
whether it was wrong (reward −1) or right (0). No label is ever shown to the networks. Rewards that
are never above 0 are hard on plain IPS: on the log it trains on, it can only gain by choosing less
of what was logged, right or wrong. Run it with ``pip install 'offpolicy[torch]'`` and
``python examples/banditnet.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import offpolicy as op
from offpolicy.torch._batches import Batch
from offpolicy.torch._losses import ice_loss
from offpolicy.torch._modules import TorchPolicy

BASELINES = (0.0, -0.2, -0.4, -0.6, -0.8, -1.0)


class Data(NamedTuple):
    """Digits, and the logs that a weak classifier makes of those it is given to decide on."""

    log: op.BanditLog
    held_out: op.BanditLog
    """For choosing the baseline."""
    X: np.ndarray
    y: np.ndarray
    """The test digits, which nobody has seen."""
    logger: np.ndarray
    """π₀ on them."""


def make(decisions: int, seed: int) -> Data:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order] / 16.0, y[order]
    weak = LogisticRegression(max_iter=1000).fit(X[:60], y[:60])

    def logger(contexts):
        return 0.8 * weak.predict_proba(contexts) + 0.2 / 10

    def logged(rows, n, seed):
        log, _ = op.simulate_bandit(
            X[rows], y[rows], logger(X[rows]), n=n, right=0.0, wrong=-1.0, rng=seed
        )
        return log

    test = slice(1200, None)
    return Data(
        logged(slice(60, 1000), decisions, seed + 1),
        logged(slice(1000, 1200), decisions // 4, seed + 2),
        X[test], y[test], logger(X[test]),
    )  # fmt: skip


def train(
    log: op.BanditLog,
    estimator: str,
    *,
    prediction=None,
    baseline: float = 0.0,
    epochs: int = 20,
    seed: int = 0,
) -> torch.nn.Module:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-4)
    X, whole = torch.tensor(log.context, dtype=torch.float32), Batch.of(log, prediction)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows, batch in whole.batches(256, generator):
            optimiser.zero_grad()
            ice_loss(net(X[rows]), batch, estimator, baseline=baseline).backward()
            optimiser.step()
    return net


def test_error(pi: np.ndarray, y: np.ndarray) -> float:
    """How often a policy is wrong: it draws its answer."""
    return 1.0 - float(pi[np.arange(len(y)), y].mean())


def main(decisions: int = 5000, epochs: int = 20, seed: int = 0) -> dict[str, float]:
    torch.set_num_threads(1)
    data = make(decisions, seed)
    errors = {"logger": test_error(data.logger, data.y)}

    def error(net: torch.nn.Module) -> float:
        with torch.no_grad():
            pi = net(torch.tensor(data.X, dtype=torch.float32)).softmax(dim=1)
        return test_error(pi.numpy(), data.y)

    print("baseline   SNIPS, held out   mean weight   test error")
    found = {}
    for baseline in BASELINES:
        net = train(data.log, "IPS", baseline=baseline, epochs=epochs, seed=seed)
        pi = TorchPolicy(net).probabilities(data.held_out)
        weight = (pi[data.held_out.chosen_index] / data.held_out.propensity).mean()
        value = op.evaluate(data.held_out, pi, estimators=["SNIPS"])["SNIPS"].value
        found[baseline] = value, net
        print(f"{baseline:8.1f} {value:17.4f} {weight:13.2f} {error(net):12.4f}")
    errors["IPS, no baseline"] = error(found[0.0][1])
    best = max(found, key=lambda baseline: found[baseline][0])
    errors[f"IPS, baseline {best:g}"] = error(found[best][1])

    model = op.RewardModel(LogisticRegression(max_iter=200)).fit(data.log)
    for estimator, baseline in (("CAB(M=5)", 0.0), ("CAB(M=5)", best), ("CAB-DR(M=5)", 0.0)):
        net = train(
            data.log, estimator, prediction=model, baseline=baseline, epochs=epochs, seed=seed
        )
        errors[f"{estimator}, baseline {best:g}" if baseline else estimator] = error(net)

    print(f"\n{'':24} test error")
    for name, value in errors.items():
        print(f"{name:24} {value:10.4f}")
    return errors


if __name__ == "__main__":
    main()
