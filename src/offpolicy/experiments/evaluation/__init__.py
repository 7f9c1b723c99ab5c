"""The paper's Figures 1 and 2 and its theorems; parameters chosen from logs."""

__all__ = []
