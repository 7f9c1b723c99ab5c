"""From a log and policies to sums: the sample, the recalibrated model, one walk."""

from __future__ import annotations

from offpolicy.evidence._blocks import (
    Block,
    blocks,
    contributions,
    effective_size,
    refuse_no_overlap,
    whole_block,
)
from offpolicy.evidence._default_model import train_model
from offpolicy.evidence._fit_noise import Pull, influence
from offpolicy.evidence._headline import (
    chosen_place,
    degrees_of,
    make_headline,
    own_mean,
    stderr_of,
    trusted,
    what_is_known,
)
from offpolicy.evidence._limits import TOO_FEW_EFFECTIVE
from offpolicy.evidence._model_error import GRID
from offpolicy.evidence._plan import (
    Centre,
    Plan,
    RewardRange,
    declared_range,
    make_plan,
    range_of_rewards,
    sample_of,
    sample_size,
)
from offpolicy.evidence._sources import InMemory, Source, source_of, without_bad_rows
from offpolicy.evidence._summarise import make_summary, notice, without_repeats
from offpolicy.evidence._tuning import RULES, check_rule, chosen_by, least_error
from offpolicy.evidence._walk import Rows, Scanned, scan

__all__ = [
    "GRID", "RULES", "TOO_FEW_EFFECTIVE", "Block", "Centre", "InMemory", "Plan", "Pull",
    "RewardRange", "Rows", "Scanned", "Source", "blocks", "check_rule", "chosen_by", "chosen_place",
    "contributions", "declared_range", "degrees_of", "effective_size", "influence", "least_error",
    "make_headline", "make_plan", "make_summary", "notice", "own_mean", "range_of_rewards",
    "refuse_no_overlap", "sample_of", "sample_size", "scan", "source_of", "stderr_of",
    "train_model", "trusted", "what_is_known", "whole_block", "without_bad_rows", "without_repeats",
]  # fmt: skip
