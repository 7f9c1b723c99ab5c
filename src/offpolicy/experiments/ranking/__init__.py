"""Section 4 on rankings: Figures 1, 2 and 4, and the ranking column of Table 2."""

__all__ = [
    "accuracy", "experiment", "figure1", "figure2", "figure4", "learning", "rank_sums", "setup",
    "table2", "tuning",
]  # fmt: skip
