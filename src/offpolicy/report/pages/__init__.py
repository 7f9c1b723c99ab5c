"""Whole pages, one a kind of result."""

__all__ = []
