"""The paper's experiments on rankings."""

__all__ = []
