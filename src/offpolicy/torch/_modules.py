"""`TorchPolicy`: the softmax of a module's outputs, as a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from offpolicy._core.contexts import all_finite_numbers
from offpolicy._core.ragged import decision_of_candidate, softmax
from offpolicy._core.types import Floats
from offpolicy._core.validation import need, refuse
from offpolicy.errors import PolicyError
from offpolicy.logs import BanditLog

Features = Callable[[BanditLog], Any]


@final
@dataclass(frozen=True, eq=False)
class TorchPolicy:
    """A module as a policy: ``op.evaluate(log, TorchPolicy(net))``.

    Parameters
    ----------
    module : torch.nn.Module
        Gives a logit to every action of the log, (rows, K), or one to every row of features,
        (rows,) or (rows, 1). It is asked in eval mode, without gradients, and left as it was.
    features : function of the log, optional
        What the module sees: one row per decision, or, for modules that score one candidate at a
        time, one per candidate. Without it, the log's context, or, if there is none, its
        candidate_features.
    batch_size : int
        How many rows the module is given at once.
    """

    module: torch.nn.Module
    features: Features | None = None
    batch_size: int = 8192

    def __post_init__(self) -> None:
        kind = type(self.module).__name__
        need(isinstance(self.module, torch.nn.Module), "module", kind, "a torch.nn.Module")
        fine = self.features is None or callable(self.features)
        need(fine, "features", type(self.features).__name__, "a function of the log")
        need(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")

    def probabilities(self, log: BanditLog) -> Floats:
        """π of every candidate, flat."""
        log.need_candidates("TorchPolicy", PolicyError)
        inputs = self._inputs(log)
        with _at_rest(self.module), torch.no_grad():
            parts = [
                self.module(part).to(device="cpu", dtype=torch.float64)
                for part in inputs.split(self.batch_size)
            ]
        scores = _of_candidates(torch.cat(parts).numpy(), len(inputs), log)
        top = np.maximum.reduceat(scores, log.offsets[:-1])
        # −∞ says that a candidate is never chosen; something has to be.
        sentence = "the module's largest logit is {value}. It must be a finite number."
        refuse(~np.isfinite(top), sentence, "TorchPolicy", error=PolicyError, value=top)
        return softmax(scores, log.offsets)

    def _inputs(self, log: BanditLog) -> Tensor:
        features: Any
        if self.features is not None:
            features = self.features(log)
        elif log.context is not None:
            features = log.context
        elif log.candidate_features is not None:
            features = log.candidate_features.reshape(int(log.offsets[-1]), -1)
        else:
            raise PolicyError(
                "TorchPolicy: the log has neither context nor candidate_features. Give features=, "
                "a function of the log.",
                column="context",
            )
        like = next((x for x in self.module.parameters() if x.is_floating_point()), None)
        like = torch.empty(0) if like is None else like
        try:
            is_tensor = isinstance(features, Tensor)
            values = features if is_tensor else torch.as_tensor(np.asarray(features))
        except TypeError:
            raise PolicyError(
                "TorchPolicy: the features are not numbers. Give features=, a function of the log "
                "that makes them so.",
                column="features",
            ) from None
        whole = self.features is not None and not values.is_floating_point()
        values = values.to(device=like.device, dtype=None if whole else like.dtype)
        if features is log.context and not all_finite_numbers(log.context):
            raise PolicyError(
                "TorchPolicy: values of the context are missing or infinite. Give features=, a "
                "function of the log that fills them in.",
                column="context",
            )
        if len(values) not in (len(log), int(log.offsets[-1])):
            raise PolicyError(
                f"TorchPolicy: there are {len(values):,} rows of features, and the log has "
                f"{len(log):,} decisions with {int(log.offsets[-1]):,} candidates.",
                column="features",
            )
        return values


def _of_candidates(logits: Floats, rows: int, log: BanditLog) -> Floats:
    """One logit of a torch module per candidate, flat."""
    n, total = len(log), int(log.offsets[-1])
    if rows == total and logits.shape in ((total,), (total, 1)):
        return logits.reshape(-1)
    if rows == n and logits.ndim == 2:
        if log.actions is not None and logits.shape[1] == len(log.actions):
            code = log.candidate_codes()
            return np.asarray(logits[decision_of_candidate(log.offsets), code])
        if log.candidate is None and logits.size == total and log.has_equal_lengths:
            return logits.reshape(-1)
    actions = "" if log.actions is None else f" ({n:,}, {len(log.actions)}), one for every action;"
    raise PolicyError(
        f"TorchPolicy: from {rows:,} rows of features the module made logits of shape "
        f"{logits.shape}. It must be{actions} or ({total:,},), one for every candidate.",
        column="module",
    )


@contextmanager
def _at_rest(module: torch.nn.Module) -> Iterator[None]:
    """A torch module in eval mode; afterwards every part is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
