"""Findings: what a user should know about an answer, how bad it is, and what to do about it.

`evidence.findings` and the rankings have the rules; every code that a finding can have is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, final

Severity = Literal["note", "warning", "problem"]
ORDER: tuple[Severity, ...] = ("problem", "warning", "note")


class Kind(NamedTuple):
    """What all findings of one code have in common."""

    severities: str
    """Those that it can have, the least first."""
    meaning: str
    advice: str


# fmt: off
CODES = {
    "arms-found": Kind("note", "Nobody named the arms: they are what was ever chosen in the log.",
        "If there are more, name all (actions)."),
    "clusters": Kind("warning, problem", "There are too few clusters for normal intervals.",
        "Log for longer, or name finer clusters (users rather than days) if these are independent "
        "of each other."),
    "constant-prediction": Kind("note", "The model does not tell actions apart.",
        "Such a model can steady an estimate, but not tell one action from another. Check that it "
        "is given the candidates."),
    "constant-propensity": Kind("warning, problem",
        "The propensity is a stand-in, or the candidates are not those drawn from.",
        "Check that it is not a stand-in. If the logger chose among some of the candidates only, "
        "list only those."),
    "constant-reward": Kind("warning", "There is nothing to tell policies apart by.",
        "Every policy then looks the same. Check that this is the right column."),
    "contexts-infinite": Kind("note", "There are contexts that are infinite.",
        "Where that stands for something else than missing, write it as a number."),
    "contexts-later": Kind("warning",
        "A context depends on the action that was drawn, so it may be an outcome.",
        "What was known before the draw cannot depend on it. If it came after, it is an outcome: "
        "leave it out, or models learn what no policy can know. If it was known before, the "
        "probabilities are untrue."),
    "contexts-taken": Kind("note",
        "A pattern named the contexts, * or one that took what may be outcomes.",
        "Contexts must have been known before the action was chosen."),
    "contexts-unused": Kind("note", "No reward model could be trained on the contexts.",
        "Name the candidates of every decision (candidates, or logging as a list), or give "
        "predictions. Without a model answers are right as well, but less exact."),
    "curve-gap": Kind("warning", "A given curve of propensities leaves out some ranks.",
        "Give a number for every rank, or leave out documents at these."),
    "deterministic": Kind("note, warning, problem", "The logger had no choice.",
        "These rows say nothing about any other action. Check that 1 is the truth and not a "
        "stand-in; to learn more, let the logger explore."),
    "disagreement": Kind("warning",
        "The headline and an estimate that trusts no model differ by more than chance explains.",
        "Do not rest on the headline alone: look at the reward model where the policy differs most "
        "from the logger, at the propensities (check), and at the rows with the largest weights."),
    "drift": Kind("note, warning", "The log is not of one piece.",
        "An answer is about the whole time of the log, on average. Look at what changed, and use "
        "the part that is like the time to come. (If rows are sorted by something else, give "
        "time.)"),
    "dropped": Kind("note, warning", "Malformed rows were left out, as was asked.",
        "An answer is about the rows that are left, and off if it is no accident which rows are "
        "malformed. Correct the export."),
    "duplicates": Kind("note, warning", "Rows were written twice.",
        "Look for a double write, or a join that multiplies rows, and keep each decision once. "
        "Standard errors are too small otherwise, unless all copies of a row are in one cluster."),
    "effective-size": Kind("note, warning, problem", "Few rows stand behind the answer.",
        "Log more decisions, explore more, or ask about a policy that is closer to the logger."),
    "estimated-propensities": Kind("warning", "The propensities were estimated, not logged.",
        "The context must hold all that the logger looked at and that matters for the reward; no "
        "check can tell whether it does. Log the true propensities if you can."),
    "few-clicks": Kind("warning", "Few clicks stand behind the answer about a ranker.",
        "Log more impressions, or ask about a ranker that is closer to what was shown."),
    "few-queries": Kind("warning", "There are too few queries for normal errors.",
        "Log more queries: impressions of one query may depend on each other, and count little "
        "more than once."),
    "frequencies": Kind("note, warning, problem",
        "The logged probabilities are untrue: an action, or candidates of like probability, were "
        "chosen more or less often than logged.",
        "The logged probabilities are not those of the system that chose. Look for a rule or a "
        "filter behind the draw, for rounding, or for probabilities of another version or another "
        "action. Until it is found, estimate them from the log."),
    "heavy-weights": Kind("note, warning, problem", "Few rows decide the answer.",
        "Use an estimator that bounds the weights (CAB-DR; CIPS without a model). The standard "
        "errors of IPS, SNIPS and DR are not to be trusted here."),
    "metric-by-model": Kind("warning",
        "The metric needs to know which other documents are relevant, and takes the model's word.",
        "Compare rankers by an additive metric (dcg, reciprocal rank) as well: it needs no such "
        "word."),
    "no-examination": Kind("warning",
        "Nothing says how likely each document was examined, so clicks cannot be weighted.",
        "Estimate the propensities (rank propensities), or give a curve that is known "
        "(propensities or eta)."),
    "no-propensity": Kind("problem", "Nothing says how likely each choice was.",
        "Log the probability with which each action was drawn. Without it, only DM works."),
    "not-converged": Kind("warning", "A fit ended before it was done.",
        "Allow more steps, or a larger tolerance; or make the problem easier: a smaller C, scaled "
        "features, a larger ridge."),
    "not-shown": Kind("warning", "Some candidate documents were not shown.",
        "Show more of the candidates, now and then, or compare rankers on those that were shown."),
    "one-query": Kind("warning", "All that is known of examination comes from one query.",
        "More queries would tell: impressions of one may depend on each other."),
    "prediction-calibration": Kind("warning", "The model gets the log's own mean wrong.",
        "DM is off by as much, and the other estimators then lean on their weights. Fit the model "
        "anew, or recalibrate it on a part of the log."),
    "prediction-found": Kind("note", 'The column "prediction" was used, though nobody named it.',
        'To do without, name "" as the prediction, or another column.'),
    "prediction-range": Kind("note, warning", "There are predictions that no reward can have.",
        "Clip them, or use a model that keeps to the range (a classifier, for rewards of 0 and "
        "1)."),
    "propensity-rounded": Kind("warning", "A propensity is a rounding of what logging says.",
        'The exact probabilities of logging count. If that is what you want, name "" as the '
        "propensity."),
    "rank-few-clicks": Kind("warning", "A rank has too few clicks for its examination to be told.",
        "More impressions would tell, or a smaller top."),
    "rank-not-linked": Kind("warning", "A rank cannot be compared with rank 1.",
        "Impressions with these ranks swapped with others would tell."),
    "rank-not-shown": Kind("warning", "No document was shown at a rank.",
        "Impressions that show more documents would tell, or a smaller top."),
    "rare-rewards": Kind("warning, problem", "There are too few rewards to tell anything.",
        "Log more decisions, or use a reward that comes more often (clicks rather than orders)."),
    "reward-filter": Kind("warning", "Rows were picked by what came of them.",
        "Rows that did well or badly were left out, so no mean reward here is that of a policy. "
        "Pick rows by what was known before the action was chosen."),
    "reward-outlier": Kind("note", "One row may decide the answer.",
        "Check that it is real: a single such row can decide the answer."),
    "reward-range": Kind("problem", "Rewards are outside the declared range.",
        "Declare the range as it is, or correct the rewards. Bounds that use the range are "
        "untrue."),
    "reward-values": Kind("note", "The rewards may be codes.",
        "Make sure that each is an amount and not a code (−1 for missing, say); then declare "
        "reward_range."),
    "rounded-propensities": Kind("warning", "Small propensities are off.",
        "Log propensities with all their digits."),
    "same-features": Kind("warning", "No feature tells documents apart.",
        "Give features, or use the method pairs."),
    "sample": Kind("note", "The log is large, and only a part of it was looked at.",
        "What is rare in the log may be missing here. To look at every row, check the log in "
        "parts."),
    "support": Kind("note, warning, problem",
        "The policy does what the logger never does, and no reward speaks for that.",
        "No reward in the log speaks for it: estimators fill it in from the model (DM, DR, CAB) or "
        "with 0 (IPS). Let the logger try these actions, or keep the policy off them."),
    "thin-support": Kind("note, warning, problem",
        "The policy does what the logger does too rarely.",
        "Use an estimator that clips, with a reward model (CAB-DR), or let the logger try these "
        "actions more often."),
    "training-rows": Kind("warning", "The policy was learned from the rows that are asked about.",
        "This is optimistic: it was measured on the training data. Ask about decisions that the "
        "policy was not learned from; learn holds some out, and says what it is worth there."),
    "unknown-categories": Kind("note", "A learned policy meets categories that it does not know.",
        "If they are many, learn the policy again, from a log that has them."),
    "weight-drift": Kind("note", "Weights average more at one time than at another.",
        "With true propensities weights average 1 at all times, but for what is clipped or has no "
        "support. Look at what changed: the logger, the candidates, or the policy."),
    "weight-mean": Kind("note, warning, problem",
        "The logged probabilities are untrue, in a way that matters for this policy.",
        "The logged probabilities, or the policy's, are not those of what was chosen, in a way "
        "that matters for this policy. See also frequencies."),
}
# fmt: on
"""Every code; docs/findings.md is written from this (scripts/findings_page.py)."""


UNTRUE = ("constant-propensity", "frequencies", "weight-mean")
"""Those by which probabilities cannot be true, which no interval allows for. What few rows or
little support do to an answer its interval, or its refusal, knows."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the user of an answer should know.

    Attributes
    ----------
    code : a key of `CODES`
    severity : "note", "warning" or "problem"
        A problem: the answer may be plainly wrong, or there is none. A warning: it may be off by
        more than its standard error says. A note: good to know.
    place : the policy, row or ranks concerned, or None if it is the log as a whole
    sentence, advice : what was found, and what to do
    numbers : the numbers of the sentence, for programs
    """

    code: str
    severity: Severity
    place: str | None
    sentence: str
    advice: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.severity.capitalize()} ({self.code}): {self.sentence} {self.advice}"


def finding(
    code: str,
    severity: Severity | None,
    sentence: str,
    place: str | None = None,
    **numbers: float | int | str,
) -> list[Finding]:
    """A `Finding` as results return it, with its code's advice; nothing if it is not severe."""
    if severity is None:
        return []
    return [Finding(code, severity, place, sentence, CODES[code].advice, numbers)]
