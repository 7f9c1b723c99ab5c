"""The way from a log to an answer stays nearly straight: `scripts/switches.py` counts its turns."""

from __future__ import annotations

from switches import of_one_evaluate

MOST = 375
"""A fifth of what it was in version 0.1."""


def test_one_evaluate_seldom_goes_from_module_to_module():
    found, upward = of_one_evaluate()
    assert sum(found.values()) <= MOST
    assert {caller for caller, _ in upward} == {"_core.parallel"}  # which calls back
