"""Section 5 on evaluation: Figures 1 and 2, the theorems, and M chosen from the log."""

__all__ = []
