"""Off-policy learning: members of the family as objectives, and learners that maximise them."""

from offpolicy.learning.objectives import Objective, objective

__all__ = ["Objective", "objective"]
