"""The rules behind `check`: what may be wrong with a log, or between it and a policy."""

from __future__ import annotations

from offpolicy.evidence.findings._actions import the_logger
from offpolicy.evidence.findings._chance import Rows
from offpolicy.evidence.findings._drift import about_drift
from offpolicy.evidence.findings._policy import about_policy
from offpolicy.evidence.findings._prediction import about_prediction
from offpolicy.evidence.findings._propensities import about_frequencies, about_propensities
from offpolicy.evidence.findings._rows import (
    about_clusters,
    about_dropped,
    about_duplicates,
    about_rewards,
    about_sample,
    about_size,
)

__all__ = [
    "Rows", "about_clusters", "about_drift", "about_dropped", "about_duplicates",
    "about_frequencies", "about_policy", "about_prediction", "about_propensities", "about_rewards",
    "about_sample", "about_size", "the_logger",
]  # fmt: skip
