"""The policy that was learned: features and weights, and nothing of the data."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy._core.contexts import ContextEncoder, as_context
from offpolicy._core.door import Door
from offpolicy._core.types import Floats, Ints
from offpolicy.errors import PolicyError
from offpolicy.logs import BanditLog, with_names
from offpolicy.policies.learned._features import FeatureMap, numeric
from offpolicy.policies.learned._scores import Dense, Ragged


@dataclass(frozen=True, eq=False)
class LinearSoftmax:
    """π(y|x) ∝ exp(W[y]·φ(x) + v·f(x, y)); either part may be absent."""

    actions: tuple[Hashable, ...] | None
    map: FeatureMap | None
    weights: Floats | None
    """(K, d)."""
    candidate_map: FeatureMap | None = None
    candidate_weights: Floats | None = None
    encoder: ContextEncoder | None = None
    """Makes contexts numbers; it knows what their columns are called, if that is known."""
    learned_from: tuple[str, ...] = ()
    """What the log, or a log that it is a part of, is known by: `offpolicy.logs.identity`."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """What the context was made of, if that is known: in another order it would be another."""
        return None if self.encoder is None else self.encoder.names

    def of_contexts(self, X: ArrayLike) -> Floats:
        """Where every action is a candidate: (n, K)."""
        if self.map is None or self.weights is None or self.candidate_weights is not None:
            raise PolicyError(
                "This policy looks at features of the candidates; ask for probabilities(log).",
                column="candidate_features",
            )
        context = self._contexts(X)
        dense = Dense(self.map(context), len(self.weights))
        pi = dense.probabilities(self.weights.reshape(-1)).T.astype(np.float64)
        return np.asarray(pi / pi.sum(axis=1, keepdims=True))

    def probabilities(self, log: BanditLog) -> Floats:
        """π of every candidate, flat."""
        phi = code = features = None
        parts = []
        if self.map is not None:
            assert self.weights is not None
            phi, code = self.map(self._contexts(self._context_of(log))), self._codes(log)
            parts.append(self.weights.reshape(-1))
        if self.candidate_map is not None:
            assert self.candidate_weights is not None
            if log.candidate_features is None:
                raise PolicyError(
                    "The learned policy needs a log with candidate_features.",
                    column="candidate_features",
                )
            flat = log.candidate_features.reshape(int(log.offsets[-1]), -1)
            numbers = numeric(flat, "candidate_features")
            _need_width(numbers.shape[1], self.candidate_map.inputs, "candidate_features")
            features = self.candidate_map(numbers)[:, :-1]
            parts.append(self.candidate_weights)
        scores = Ragged(
            log.offsets, phi=phi, code=code, actions=len(self.actions or ()), features=features
        )
        return scores.probabilities(np.concatenate(parts))

    def _context_of(self, log: BanditLog) -> NDArray[Any]:
        wanted = f" ({_listed(self.columns)})" if self.columns else ""
        if log.context is None:
            raise PolicyError(
                f"The learned policy needs a log with context{wanted}: name its columns "
                f"with {Door.spelled('context')}.",
                column="context",
            )
        columns = log.context_names
        if self.columns is not None and columns is not None and columns != self.columns:
            raise PolicyError(
                f"The context is {_listed(columns)}, but the policy was learned with "
                f"{_listed(self.columns)}. Name the same columns, in the same order.",
                column="context",
            )
        return log.context

    def unknown(self, log: BanditLog) -> dict[str, int]:
        """By column of the context, in how many decisions its category has no weights of its own:
        it was rare, or never seen, in the log that the policy was learned from."""
        if self.encoder is None or log.context is None:
            return {}
        return self.encoder.unknown(log.context)

    def _contexts(self, X: ArrayLike) -> Floats:
        assert self.encoder is not None
        context = as_context(X)
        _need_width(context.shape[1], self.encoder.inputs, "context")
        return np.asarray(self.encoder(context), dtype=np.float64)

    def _codes(self, log: BanditLog) -> Ints:
        """For each candidate, the row of the weights."""
        log = with_names(log)
        assert self.actions is not None
        known = set(self.actions)
        names = log.need_names("The learned policy", PolicyError)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise PolicyError(
                f"The learned policy does not know action {unknown[0]!r}: it was not in the log "
                f"that it was learned from. Its actions are {list(self.actions)[:10]}.",
                column="actions",
            )
        return log.codes_among(self.actions)


def _need_width(width: int, expected: int, column: str) -> None:
    if width != expected:
        raise PolicyError(
            f"{column} has {width} columns, but the policy was learned with {expected}.",
            column=column,
        )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) <= 6 else [*names[:3], "…", names[-1]])
