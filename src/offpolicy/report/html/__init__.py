"""Markup, style and numbers of pages."""

__all__ = ["frame", "markup", "numbers", "provenance", "script", "style"]
