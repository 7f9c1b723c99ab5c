"""Worlds with contexts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

K = 4


def world(n: int, seed: int = 0, *, cities: bool = False) -> tuple[pa.Table, float]:
    """Decisions whose rewards depend on context and action, and the policy's value."""
    rng = np.random.default_rng(seed)
    context = rng.standard_normal((n, 3))
    mean = 1.0 / (1.0 + np.exp(-context @ rng.standard_normal((3, K)) * 1.5))
    pi0 = np.exp(rng.standard_normal((n, K)))
    pi0 /= pi0.sum(axis=1, keepdims=True)
    pi = np.exp(2.0 * context @ rng.standard_normal((3, K)))
    pi /= pi.sum(axis=1, keepdims=True)
    action = (rng.random((n, 1)) > pi0.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    reward = (rng.random(n) < mean[np.arange(n), action]).astype(float)
    columns = {
        "action": action, "reward": reward, "logging": list(pi0), "new": list(pi),
        "x0": context[:, 0], "x1": context[:, 1], "x2": context[:, 2],
    }  # fmt: skip
    if cities:
        columns["city"] = np.where(context[:, 0] > 0, "Basel", "Bern")
    return pa.table(columns), float((pi * mean).sum(axis=1).mean())
