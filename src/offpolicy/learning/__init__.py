"""Off-policy learning: members of the family as objectives, and learners that maximise them."""

from offpolicy.learning.holdout import split
from offpolicy.learning.learners import Report, SoftmaxLearner
from offpolicy.learning.objectives import Objective, objective
from offpolicy.learning.policy import LinearSoftmax
from offpolicy.learning.selection import Candidate, LearnerCV
from offpolicy.learning.storage import how_learned, load_policy, save_policy

__all__ = [
    "Candidate", "LearnerCV", "LinearSoftmax", "Objective", "Report", "SoftmaxLearner",
    "how_learned", "load_policy", "objective", "save_policy", "split",
]  # fmt: skip
