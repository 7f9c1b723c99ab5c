"""The paper's experiments, a module for each of its figures and tables, and a demonstration.

`figure1.py`, …, `figure4.py`, `table2.py` and `theorems.py` are what a command runs and writes;
`curves.py` is what Figures 1 and 2 share, `page.py` has everything on one page. Not in the paper:
the data of Table 2 with our own recipe (`learning/ours.py`), M and τ chosen from the log
(`tuning.py`), how often intervals cover (`intervals/coverage.py`), and how tight lower limits are
(`intervals/bounds.py`).
"""

__all__ = [
    "accuracy", "cells", "claims", "curves", "demo", "evaluation", "figure1", "figure2", "figure3",
    "figure4", "intervals", "learning", "page", "pictures", "ranking", "real", "saving", "table2",
    "tables", "theorems", "tuning", "worlds",
]  # fmt: skip
