"""Off-policy learning: members of the family as objectives, and learners that maximise them."""

from offpolicy.learning.learners import Report, SoftmaxLearner
from offpolicy.learning.objectives import Objective, objective
from offpolicy.learning.policy import LinearSoftmax

__all__ = ["LinearSoftmax", "Objective", "Report", "SoftmaxLearner", "objective"]
