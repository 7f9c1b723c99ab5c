"""How numba loops are compiled here."""

from __future__ import annotations

from typing import Any

COMMON: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
SUMS = COMMON | {"fastmath": {"reassoc", "nsz", "contract"}}
