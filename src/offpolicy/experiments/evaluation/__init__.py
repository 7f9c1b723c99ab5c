"""Section 4 on evaluation: Figures 1 and 2, the theorems, and M chosen from the log."""

__all__ = ["accuracy", "experiment", "figure1", "figure2", "theorems", "tuning"]
