"""What the paper's Figure 3 is made from, and the Open Bandit logs."""

__all__ = ["campaigns", "converged", "open_bandit", "thompson"]
