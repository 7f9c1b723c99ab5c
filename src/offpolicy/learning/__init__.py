"""Off-policy learning: members of the family as objectives, and learners that maximise them."""

from offpolicy.learning._learned import Constant, LearnedPolicy, learn
from offpolicy.learning._objective import Objective, need_differentiable, objective
from offpolicy.learning._search import LearnerCV, Trial, checked_combinations
from offpolicy.learning._softmax_learner import FitReport, SoftmaxLearner
from offpolicy.learning._split import split
from offpolicy.learning._together import fit_together
from offpolicy.policies.learned import LinearSoftmax, how_learned, load_policy, save_policy

__all__ = [
    "Constant", "FitReport", "LearnedPolicy", "LearnerCV", "LinearSoftmax", "Objective",
    "SoftmaxLearner", "Trial", "checked_combinations", "fit_together", "how_learned", "learn",
    "load_policy", "need_differentiable", "objective", "save_policy", "split",
]  # fmt: skip
