r"""`ice_loss`: minus an estimator of the policy's value, as a function of its logits.

With :math:`\pi` the softmax of the logits, and the slopes of the masses as in
`learning._risk` (at a kink the one from below), the gradient is

.. math:: \frac{\partial}{\partial s_k} = \omega\,\pi_k (a_k - \textstyle\sum\pi a)
          + \omega\,g\,(1\{k = y\} - \pi_k), \qquad g = c\,\frac{\partial u}{\partial c} ,

:math:`a` being the slope of the imputed mass times :math:`\hat\delta`. Nothing in it is divided
by :math:`\pi_0`: where c is clipped, g is 0, and elsewhere at most M times the reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from offpolicy._core import validation as check
from offpolicy.errors import EstimatorError, ParameterError
from offpolicy.estimators import ICE, Estimator, choose_estimators
from offpolicy.learning import need_differentiable
from offpolicy.torch._batches import Batch, in_full


def ice_loss(
    logits: Tensor,
    batch: Batch,
    estimator: str | Estimator = "CAB(M=5)",
    *,
    baseline: float = 0.0,
    penalty: float = 0.0,
) -> Tensor:
    """−(estimate − penalty · standard error) of the softmax policy with these logits: a scalar.

    Parameters
    ----------
    logits : (n, K), or (N,) if the batch has ``offsets``
        Of every candidate. Those the batch's mask excludes are ignored; −∞ excludes one as well.
    batch : Batch
        The whole log, or some of its decisions.
    estimator : str or Estimator
        Any sub-differentiable member, with its parameter: all but SWITCH and SWITCH-DR.
    baseline : float
        Taken off every reward and prediction. For IPS this is BanditNet's Lagrangian: which
        baseline is right follows from where the mean weight should be (1). Doubly robust members
        have the same gradient with any.
    penalty : float
        POEM's: so many standard errors of the estimate are taken off it.

    Notes
    -----
    Except for SNIPS and SNDR, the mean over mini-batches (weighted by their row weights) is the
    loss of the whole. Those two divide by the sum of a mini-batch's weights, which makes them
    biased the more the smaller it is: with mini-batches use IPS with a baseline instead. The
    penalty is one of each mini-batch, not of the whole.

    Gradients are exact, with the library's choice at kinks. They can be taken once, not twice.
    Numbers too large for the type of the logits become the largest it has.

    Examples
    --------
    >>> from offpolicy import BanditLog
    >>> log = BanditLog.from_arrays(action=[0, 1], reward=[1, 2], logging=[[0.5, 0.5]] * 2)
    >>> logits = torch.zeros(2, 2, requires_grad=True)
    >>> loss = ice_loss(logits, Batch.of(log), "IPS")
    >>> loss.backward()
    >>> loss.item(), logits.grad.tolist()
    (-1.5, [[-0.25, 0.25], [0.5, -0.5]])
    """
    member = need_differentiable(estimator)
    if isinstance(member, ICE):
        raise EstimatorError(
            f"{member} is made of functions of arrays, and PyTorch's losses need functions of "
            f"tensors. Write a class of its own, with weight and slope (docs: Adding an "
            f"estimator), or learn with SoftmaxLearner.",
            column="estimator",
        )
    _check_inputs(logits, batch)
    choose_estimators([member], batch.columns)
    check.need(math.isfinite(baseline), "baseline", baseline, "a number")
    check.need(0.0 <= penalty < math.inf, "penalty", penalty, "0 or more, and finite")
    if penalty > 0.0 and member.self_normalised:
        raise ParameterError(
            f"{member.name} is a ratio, and the penalty is for means of decisions. Use IPS or DR "
            f"with a penalty, or {member.name} without.",
            column="penalty",
        )
    return _Loss.apply(logits, batch, member, float(baseline), float(penalty))


class _Loss(torch.autograd.Function):
    """Value and gradient in one go; the gradient is kept for the way back."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, batch: Batch, member: Estimator, baseline: float, penalty: float
    ) -> Tensor:
        scores = logits.detach().contiguous()
        if scores.dtype in (torch.float16, torch.bfloat16):
            scores = scores.float()
        sets = _Candidates(batch, scores)
        value, gradient = _objective(
            sets.softmax(scores), sets, batch, member, baseline, penalty, ctx.needs_input_grad[0]
        )
        if gradient is not None:
            ctx.save_for_backward(_within(gradient.neg_(), logits.dtype))
        return _within(-value, logits.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise ParameterError(
                "ice_loss can be differentiated once, and create_graph=True asks for more.",
                column="create_graph",
            )
        (gradient,) = ctx.saved_tensors
        return grads[0] * gradient, None, None, None, None


def _within(values: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor in that type; what is too large for it becomes the largest it has."""
    if values.dtype == dtype != torch.float64:
        return values
    most = torch.finfo(dtype).max
    return values.clamp(-most, most).to(dtype)


class _Candidates:
    """The two layouts: sums over a decision's candidates, and values spread back over them.

    ``chosen`` is where the chosen ones are in the flattened arrays.
    """

    def __init__(self, batch: Batch, scores: Tensor) -> None:
        self.n, self.mask = len(batch), batch.mask
        self.decision: Tensor | None = None
        decisions = torch.arange(self.n, device=scores.device)
        if batch.offsets is None:
            self.chosen = decisions * scores.shape[1] + batch.chosen
        else:
            self.decision = torch.repeat_interleave(decisions, batch.offsets.diff())
            self.chosen = batch.offsets[:-1] + batch.chosen

    def softmax(self, scores: Tensor) -> Tensor:
        scores = self.there(scores, -math.inf)
        if self.decision is None:
            return scores.softmax(dim=1)
        top = scores.new_full((self.n,), -math.inf)
        top = top.scatter_reduce(0, self.decision, scores, "amax")
        mass = (scores - top[self.decision]).exp_()
        return mass.div_(self.spread(self.sums(mass)))

    def there(self, values: Tensor, absent: float) -> Tensor:
        """The values, with another in place of those the mask excludes."""
        return values if self.mask is None else values.masked_fill(~self.mask, absent)

    def sums(self, values: Tensor) -> Tensor:
        if self.decision is None:
            # Twice as fast as a sum over short rows.
            return values @ values.new_ones(values.shape[1])
        return values.new_zeros(self.n).index_add_(0, self.decision, values)

    def spread(self, values: Tensor) -> Tensor:
        return values[:, None] if self.decision is None else values[self.decision]


class _Imputed(NamedTuple):
    """Σ imputed·δ̂ of each decision, and how it changes with the logarithms of π."""

    sums: Tensor
    moved: Tensor
    """π·slope·δ̂ of every candidate."""
    moved_sums: Tensor


def _objective(
    pi: Tensor,
    sets: _Candidates,
    batch: Batch,
    member: Estimator,
    baseline: float,
    penalty: float,
    differentiate: bool,
) -> tuple[Tensor, Tensor | None]:
    """The penalised estimate as a tensor and, if asked for, its gradient in the logits."""
    full = in_full(pi.device)
    p = pi.view(-1)[sets.chosen].to(full)
    p0 = torch.ones_like(p) if batch.propensity is None else batch.propensity.to(full)
    reward = batch.reward.to(full) - baseline
    omega = torch.ones_like(reward) if batch.row_weight is None else batch.row_weight.to(full)
    share = omega / omega.sum()
    imputed, residual = None, reward
    if member.uses_model:
        assert batch.prediction is not None
        delta_hat = sets.there(batch.prediction.to(pi.dtype), baseline)
        if baseline != 0.0:
            delta_hat = delta_hat - baseline
        imputed = _imputed(member, pi, batch.logging, delta_hat, sets)
        if member.imputes == "all":
            residual = reward - delta_hat.reshape(-1)[sets.chosen]
    if member.self_normalised:
        value, per_log_c = _ratio(member, share, p / p0, residual)
        per_u = share
        if imputed is not None:
            value = value + share @ imputed.sums.to(full)
    else:
        mass, slope = _observed(member, p, p0)
        u = mass * residual
        if imputed is not None:
            u = u + imputed.sums.to(full)
        value, per_u = _penalised(u, share, penalty)
        per_log_c = per_u * residual * (slope * (p / p0))
    if not differentiate:
        return value, None
    return value, _in_logits(pi, sets, imputed, per_u, per_log_c)


def _in_logits(
    pi: Tensor, sets: _Candidates, imputed: _Imputed | None, per_u: Tensor, per_log_c: Tensor
) -> Tensor:
    """A tensor through the softmax: slopes a in π are π(a − Σπa) in logits, in log c 1{y} − π.

    Overwrites what it is given.
    """
    chosen = _within(per_log_c, pi.dtype)
    if imputed is None:
        gradient = pi.mul_(sets.spread(-chosen))
    else:
        weight = per_u.to(pi.dtype)
        gradient = imputed.moved.mul_(sets.spread(weight))
        gradient.addcmul_(pi, sets.spread(-(weight * imputed.moved_sums + chosen)))
    gradient.view(-1).index_add_(0, sets.chosen, chosen)
    return gradient


def _imputed(
    member: Estimator, pi: Tensor, logging: Tensor | None, delta_hat: Tensor, sets: _Candidates
) -> _Imputed:
    moved = pi * delta_hat
    if member.imputes == "rest":
        assert logging is not None
        pi0 = sets.there(logging.to(pi.dtype), 0.0)
        weight, slope = _observed(member, pi, pi0)
        left = pi - pi0 * weight
        # Less than nothing is left where a reward counts for more than c; rounding is not less.
        moved.mul_((1.0 - slope).where(left >= -4.0 * torch.finfo(pi.dtype).eps * pi, 0.0))
        sums = sets.sums(left.relu_() * delta_hat)
        return _Imputed(sums, moved, sets.sums(moved))
    moved.mul_(member.fixed_share)
    sums = sets.sums(moved)
    return _Imputed(sums, moved, sums)


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """One of the members' functions (`estimators.weights`) for tensors."""
    names = function.__globals__ | {"where": torch.where, "np": torch}
    return FunctionType(function.__code__, names, closure=function.__closure__)


def _observed(member: Estimator, pi: Tensor, pi0: Tensor) -> tuple[Tensor, Tensor]:
    """Tensors: what observed rewards count for, and its slope; 0 where π or π₀ are 0."""
    parameter = pi.new_tensor(member.parameter or 0.0)
    none = pi.new_tensor(0.0)
    weight, slope = (
        torch.where(pi0 > 0.0, _on_tensors(function)(pi, pi0, parameter).to(pi.dtype), none)
        for function in (member.weight, member.slope)
    )
    return torch.where(pi > 0.0, weight, none), slope


def _ratio(member: Estimator, share: Tensor, c: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """Tensors: Σωc·residual/Σωc, and its slope in every log c."""
    weight = share * c
    total = weight.sum()
    if float(total) == 0.0:
        raise EstimatorError(
            f"{member.name} divides by the sum of the weights, and the policy never chooses what "
            f"was logged.",
            column="logits",
        )
    weight = weight / total
    value = weight @ residual
    return value, weight * (residual - value)


def _penalised(u: Tensor, share: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Tensors: Σ share·u less ``penalty`` standard errors, and its slope in every u."""
    value = share @ u
    if penalty == 0.0:
        return value, share
    off = share * (u - value)
    # Divided by the largest, no square is too large. Without any spread there is no slope.
    size = off.abs().max().clamp(min=torch.finfo(off.dtype).tiny)
    unit = off / size
    length = unit.square().sum().sqrt().clamp(min=torch.finfo(off.dtype).tiny)
    squares = share * unit / length
    return value - penalty * size * length, share - penalty * (squares - share * squares.sum())


def _check_inputs(logits: Tensor, batch: Batch) -> None:
    kind: object = type(batch).__name__
    check.need(isinstance(batch, Batch), "batch", kind, "a Batch: make one with Batch.of(log)")
    kind = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
    fine = isinstance(logits, Tensor) and logits.is_floating_point()
    check.need(fine, "logits", kind, "a tensor of floating-point numbers")
    device = batch.chosen.device
    rule = f"on {device}, as the batch is: move that with batch.to(logits.device)"
    check.need(logits.device == device, "logits", f"on {logits.device}", rule)
    known = next((x for x in (batch.prediction, batch.logging, batch.mask) if x is not None), None)
    shape = tuple(logits.shape)
    if known is not None:
        expected = tuple(known.shape)
    elif batch.offsets is not None:
        expected = (int(batch.offsets[-1]),)
    else:
        expected = (len(batch), max(int(batch.chosen.max()) + 1, *shape[1:2], 1))
    rule = f"{expected}: one for every candidate of the batch's {len(batch)} decisions"
    check.need_shape(shape == expected, "logits", logits, rule, ParameterError)
