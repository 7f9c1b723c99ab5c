"""The paper's Table 2 and Figure 4, in readings of its set-up, and the same data our way."""

__all__ = ["figure4", "ours", "readings", "search", "setup", "table2"]
