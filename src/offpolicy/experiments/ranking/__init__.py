"""What Figures 1, 2 and 4, and the ranking column of Table 2, are made from for rankings."""

__all__ = ["accuracy", "learning", "rank_sums", "setup", "tuning"]
