"""The paper's Table 2 and Figure 4."""

__all__ = ["figure4", "setup", "table2"]
