"""What the paper's text on Table 2 and Figure 4 leaves open, and the ways in which it is read.

A *way* of learning fixes every objective that is maximised, and from where; a *reading* is a way
and a rule that chooses the regulariser. All of them share the data, the logger, and the grids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Way:
    """What determines the policies that are learned, before any is chosen."""

    features: str = "raw"
    """"raw" or "standardised": what the policy sees."""
    model: str = "indicator"
    """δ̂ is 1 for the label that the reward model predicts ("indicator"), or its "probability"."""
    parts: str = "same"
    """Whether the examples that train δ̂ are among the "same" that train the logger (the smaller
    part being the first of the larger one), or the two parts are "disjoint"."""
    start: str = "random"
    """"random" (the best end of three), "zero" (the uniform policy) or "logger" (a policy like the
    logger's): where every search begins, those of the selection, too."""
    loss: str = "-1, 0"
    """What a right and a wrong action cost: "-1, 0" or "0, 1"."""


@dataclass(frozen=True)
class Reading:
    """One way to read the set-up of the paper's learning experiments."""

    name: str
    about: str
    way: Way
    rule: str = "cIPS"
    """By what λ is chosen on the validation log. M and τ are chosen by clipped IPS always."""


TEXT = Way()
READINGS = (
    Reading("text", "raw features, δ̂ the indicator of a label, logger and δ̂ from the same part, "
            "three random starts, λ by clipped IPS as M and τ, loss −1 or 0", TEXT),
    Reading("λ by IPS", "λ by plain IPS, as the appendix says", TEXT, "IPS"),
    Reading("standardised", "the policy's features are standardised",
            replace(TEXT, features="standardised")),
    Reading("probability", "δ̂ is a probability", replace(TEXT, model="probability")),
    Reading("disjoint", "logger and δ̂ learn from different parts",
            replace(TEXT, parts="disjoint")),
    Reading("zero start", "every search begins at the uniform policy", replace(TEXT, start="zero")),
    Reading("warm start", "every search begins at a policy like the logger's",
            replace(TEXT, start="logger")),
    Reading("loss 0, 1", "a right action costs 0, a wrong one 1", replace(TEXT, loss="0, 1")),
    Reading("standardised, warm", "standardised features, and a policy like the logger's to begin "
            "with", replace(TEXT, features="standardised", start="logger")),
)  # fmt: skip
"""The first is the nearest to the text, the others differ from it in what they say."""
CLOSEST = READINGS[:3]
"""The three closest to the text."""
