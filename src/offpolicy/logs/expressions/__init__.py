"""Expressions over a log's columns: parsed, checked, and written out anew for whoever reads it.

Text becomes a tree (`_parsing`), the tree gets the kinds of the columns (`_checking`), and what has
passed is written in the SQL of an engine (`_writing`). No text of the user's reaches an engine.
"""

from __future__ import annotations

from offpolicy.logs.expressions._expression import Expression

__all__ = ["Expression"]
