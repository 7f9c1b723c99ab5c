"""The field's own formats: logs as a `BanditLog` or as Arrow batches in our columns, and queries
with judged documents as arrays."""

from __future__ import annotations

from offpolicy.logs.formats import dsjson, letor, obd, obp
from offpolicy.logs.formats._lines import numbered

__all__ = ["dsjson", "letor", "numbered", "obd", "obp"]
