"""Logs in the field's own formats, as a `BanditLog` or as Arrow batches in our columns."""

from __future__ import annotations

from offpolicy.formats import dsjson, obd, obp

__all__ = ["dsjson", "obd", "obp"]
