"""How numba loops are compiled here."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache

COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
SUMS = COMMON | {"fastmath": {"reassoc", "nsz", "contract"}}


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A loop compiled when it is first called, and kept on disk where that can be.

    ``njit(cache=True)`` raises where no folder can be written to, as in a container with a
    read-only file system, and does not look into one that was filled before it became read-only.
    """

    def compile_lazily(function: Callable[..., Any]) -> Any:
        loop = njit(**options)(function)
        with contextlib.suppress(RuntimeError):  # there is no folder for it
            loop._cache = _Cache(function)
        return loop

    return compile_lazily


def _also_read_only(locator: type[Any]) -> type[Any]:
    """One of numba's places for compiled loops, also if it can be read only and holds some."""

    def ensure_cache_path(self: Any) -> None:
        try:
            locator.ensure_cache_path(self)
        except OSError:
            kept = f"{Path(self._py_file).stem}.*.nbi"
            if not any(Path(self.get_cache_path()).glob(kept)):
                raise

    return type(locator.__name__, (locator,), {"ensure_cache_path": ensure_cache_path})


class _Places(CompileResultCacheImpl):
    _locator_classes = [  # noqa: RUF012
        _also_read_only(locator) for locator in CompileResultCacheImpl._locator_classes
    ]


class _Cache(FunctionCache):
    """Compiled loops on disk; what cannot be read or written there is compiled once more."""

    _impl_class = _Places

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            super().save_overload(sig, data)


def is_kept(loop: Any) -> bool:
    """Whether a loop has been compiled: in this process, or on disk for this kind of processor."""
    if loop.signatures:
        return True
    with contextlib.suppress(AttributeError, OSError, EOFError, pickle.UnpicklingError):
        processor = loop.targetctx.codegen().magic_tuple()
        index = loop._cache._cache_file._load_index()  # empty if the code has changed since
        return any(key[1] == processor for key in index)
    return False


def folder_of(loop: Any) -> Path | None:
    """Where a loop is kept on disk; None if there is no place for it."""
    return Path(loop._cache.cache_path) if isinstance(loop._cache, _Cache) else None


@contextlib.contextmanager
def compiled_within() -> Iterator[list[str]]:
    """The names of the loops that are compiled within, as they come."""
    names: list[str] = []

    class Heard(event.Listener):
        def on_start(self, event: Any) -> None:
            loop = event.data["dispatcher"]
            if isinstance(getattr(loop, "_cache", None), _Cache):
                names.append(loop.py_func.__name__)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Heard()):
        yield names


def read_only(*arrays: np.ndarray | None) -> list[np.ndarray]:
    """Views of a kernel's inputs, empty for None: numba compiles twice for what is now read-only
    (from a file), now not."""
    views = [np.empty(0) if array is None else array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return views
