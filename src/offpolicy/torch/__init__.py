"""PyTorch: any sub-differentiable member as a loss, and a module as a policy.

``import torch`` means PyTorch here too: imports are absolute. Needs ``offpolicy[torch]``, and is
never imported by the rest of the library.
"""

from __future__ import annotations

from offpolicy.errors import MissingPackageError

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise MissingPackageError(
        "offpolicy.torch needs PyTorch: pip install 'offpolicy[torch]'."
    ) from None

from offpolicy.torch._batches import Batch
from offpolicy.torch._losses import ice_loss
from offpolicy.torch._modules import TorchPolicy

__all__ = ["Batch", "TorchPolicy", "ice_loss"]
