"""The paper's Figure 3, and the Open Bandit logs."""

__all__ = []
