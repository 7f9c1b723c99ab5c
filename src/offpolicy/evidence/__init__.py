"""From a log and policies to sums: the sample, the recalibrated model, one walk."""

from __future__ import annotations

from offpolicy.estimators import GRID
from offpolicy.evidence._agreement import from_headline, guarded
from offpolicy.evidence._blocks import (
    Block,
    blocks,
    contributions,
    effective_size,
    refuse_no_overlap,
    whole_block,
)
from offpolicy.evidence._default_model import train_model
from offpolicy.evidence._differences import Gap, gap_of, gap_to_logged, pair
from offpolicy.evidence._estimates import own_interval, own_mean, value_of
from offpolicy.evidence._gather import Evidence, Question, gather
from offpolicy.evidence._headline import Arm, make_headline, what_is_known
from offpolicy.evidence._limits import TOO_FEW_EFFECTIVE
from offpolicy.evidence._noise import degrees_of
from offpolicy.evidence._plan import (
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
from offpolicy.evidence._tuning import RULES, chosen_by, least_error

__all__ = [
    "GRID", "RULES", "TOO_FEW_EFFECTIVE", "Arm", "Block", "Evidence", "Gap", "InMemory", "Plan",
    "Question", "RewardRange", "Source", "blocks", "chosen_by", "contributions",
    "declared_range", "degrees_of", "effective_size", "from_headline", "gap_of", "gap_to_logged",
    "gather", "guarded", "least_error", "make_headline", "make_plan", "make_summary", "notice",
    "own_interval", "own_mean", "pair", "range_of_rewards", "refuse_no_overlap", "sample_of",
    "sample_size", "source_of", "train_model", "value_of", "what_is_known", "whole_block",
    "without_bad_rows", "without_repeats",
]  # fmt: skip
