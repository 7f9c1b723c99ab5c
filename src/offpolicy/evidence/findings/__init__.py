"""The rules of findings: what may be wrong with a log, or between it and a policy.

Each takes what it needs, the walk's sums over every row or the sample's rows, and is there once:
`evaluate` and `compare` tell what the sums and a quick look at the sample show, `check` all of it.
"""

from __future__ import annotations

from offpolicy.evidence.findings._chance import Rows, kish
from offpolicy.evidence.findings._contexts import about_contexts
from offpolicy.evidence.findings._drift import about_drift
from offpolicy.evidence.findings._policy import about_thin_support, about_weight_drift
from offpolicy.evidence.findings._prediction import (
    about_calibration,
    about_found_prediction,
    about_prediction,
)
from offpolicy.evidence.findings._propensities import (
    about_frequencies,
    about_propensities,
    about_rounding,
)
from offpolicy.evidence.findings._rows import (
    about_arms,
    about_clusters,
    about_dropped,
    about_duplicates,
    about_filter,
    about_rare_rewards,
    about_rewards,
    about_sample,
    about_size,
)

__all__ = [
    "Rows", "about_arms", "about_calibration", "about_clusters", "about_contexts", "about_drift",
    "about_dropped", "about_duplicates", "about_filter", "about_found_prediction",
    "about_frequencies", "about_prediction", "about_propensities", "about_rare_rewards",
    "about_rewards", "about_rounding", "about_sample", "about_size", "about_thin_support",
    "about_weight_drift", "kish",
]  # fmt: skip
