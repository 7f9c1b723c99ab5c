"""Section 5 on rankings: Figures 1, 2 and 4, and the ranking column of Table 2."""

__all__ = []
