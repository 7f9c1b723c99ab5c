"""Markup, style and numbers of pages."""

__all__ = []
