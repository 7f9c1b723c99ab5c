"""The field's own formats: logs as a `BanditLog` or as Arrow batches in our columns, and queries
with judged documents as arrays."""

from __future__ import annotations

from offpolicy.formats import dsjson, letor, obd, obp

__all__ = ["dsjson", "letor", "obd", "obp"]
