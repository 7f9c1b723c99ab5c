"""The paper's Figure 3, and the Open Bandit logs."""

__all__ = ["campaigns", "converged", "figure3", "open_bandit", "thompson"]
