"""The paper's experiments, figure by figure, and a demonstration.

Figure 1: `evaluation/figure1.py`, `ranking/figure1.py`. Figure 2: the same with a 2. Figure 3:
`real/figure3.py`. Figure 4: `learning/figure4.py`, `ranking/figure4.py`. Table 2:
`learning/table2.py`, `ranking/table2.py`. Theorems: `evaluation/theorems.py`. What a command runs
and writes is in `experiment.py` of its room. Not in the paper: how often intervals cover
(`intervals/coverage.py`), how tight lower limits are (`intervals/bounds.py`), and M chosen from the
log (`tuning.py`).
"""

__all__ = [
    "accuracy", "cells", "claims", "demo", "evaluation", "intervals", "learning", "pictures",
    "ranking", "real", "saving", "tables", "worlds",
]  # fmt: skip
