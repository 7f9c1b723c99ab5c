"""Whole pages, one a kind of result."""

__all__ = ["evaluation", "learned", "propensities", "rankers"]
