"""Parts of pages."""

__all__ = []
