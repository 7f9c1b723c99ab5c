"""Off-policy learning: members of the family as objectives, and learners that maximise them."""

from offpolicy.learning.learners import Report, SoftmaxLearner
from offpolicy.learning.objectives import Objective, objective
from offpolicy.learning.policy import LinearSoftmax
from offpolicy.learning.selection import Candidate, LearnerCV

__all__ = [
    "Candidate", "LearnerCV", "LinearSoftmax", "Objective", "Report", "SoftmaxLearner", "objective",
]  # fmt: skip
