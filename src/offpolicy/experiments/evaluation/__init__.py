"""What Figures 1 and 2 are made from for labelled sets, and M chosen from the log."""

__all__ = ["accuracy", "tuning"]
