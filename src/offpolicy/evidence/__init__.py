"""From a question to its evidence, and from that to answers: how the headline is made.

One rule gives the value, the interval and the difference from what ran, for logs in memory, in
files and on Spark.

## In a paragraph

Clip the weights at M and let a model answer for the rest: CAB-DR. Its *noise* is the variance seen,
scaled up to the weights that could have been drawn. Its *bias* is the mass left to the model times
the model's mean error there; a mean error is a fraction κ ≤ 1 of the root-mean-square error, and
how large κ is, the log says: in eight bins of the weight, the squared mean residual over the mean
squared residual, less what noise alone gives; two imaginary bins say 0.2. The *value* is taken at
the M where noise and this bias are together least; then the model's mean error on the mass left to
it is taken off as far as the rows seen there show it (as if 2/κ² further rows had shown none). The
*interval* does not trust this: it allows for five times κ (at most 1), by the quantile that such a
bias asks for, with Student's t, and with one unseen row of the worst reward at each end; where the
logger never goes it takes the worst case. The *model* is a regression of the rewards on the given
model's predictions and the policy's own probabilities (on these alone if none was given); or a
constant, for which CAB-DR at M = ∞ is nearly SNIPS, if its estimated error is below 0.7 of the
other's.

## In formulas

c = π/π₀ of the chosen action and r its reward; d is the model, e = r − d. For every M of a fixed
grid (0, then 62 values from 0.1 to 10⁶ at equal ratios, then ∞): w = min(c, M), t = c − w. Means
are over rows, weighted by the row weight ω where there is one; mean_w(f) is Σwf/Σw, mean_t(f) is
Σtf/Σt.

    CAB-DR              θ(M) = mean of x_M,  x_M = Σ_y π d + w e
    noise (Theorem 6)   V(M) = Var(x̄_M) + (A / mean w² − 1)₊ · mean(w²e²)/n,
                        A = mean of Σ_y π₀ min(π/π₀, M)² over all candidates
    mass left to the    mass(M) = mean of Σ_y (π − Mπ₀)₊, where π₀ > 0
      model (Theorem 5)
    residuals there     s(M)² = [N mean_t(e²) + 10 mean_w(e²)]/(N + 10),  N = (Σt)²/Σt²
                        ē(M) = mean_t(e)
    mean error          κ² = [2·0.2² + Σ_b q_b (ē_b²/s_b² − 1/N_b)]/(2 + Σ_b q_b),
      over its size     q_b = N_b/(N_b + 25),  0.1 ≤ κ ≤ 1
    value               M₁ = argmin V + (κ s mass)²
                        θ(M₁) + mass · ē · N/(N + 2/κ²), cut to the interval
    interval            M₂ = argmin V + b²,  b = k s mass,  k = min(5κ, 1)
                        θ(M₂) ∓ z(b/h) · (t_df/z(0)) · h at each end
    one unseen row      h² = V(M₂) + (w̄ · distance of θ(M₂) from the end of the range / n)²,
                        w̄ = max(A, mean w²) / mean of Σ_y π₀ min(π/π₀, M)
    degrees of freedom  df = 2n/(kurtosis of x_M − 1), from 3 to n − 1

z(t) is the quantile of |N(t, 1)| (Armstrong and Kolesár 2018), t_df that of Student's |t|. For κ
the rows are cut by their weight c into eight bins b with about as much of Σc each. In a bin, N_b is
the number of rows, ē_b their plain mean residual, and s_b² their mean squared residual, averaged
with that of all rows as if ten more had it; bins of two rows or fewer say nothing. With row weights
n and N are effective numbers, (Σω)²/Σω², but for df. For a policy known by draws only, h² has the
jackknife variance over the draws, too. Where the range of rewards is known (declared, or 0 and 1),
the interval is cut to it; if nothing is left of it, propensities or range are wrong, and the answer
is a refusal.

- **Where the logger never goes** (π₀ = 0) no row says anything, not about the model either: d is
  what was given, δ̂ (cut to the range of rewards), whichever model won. The mass L = mean of Σ_y π
  there is not part of mass(M); what the model adds for it is taken out of the interval, and L times
  the lowest reward is added at the low end, L times the highest at the high end.
- **Of the chosen action only.** If π₀ is known for that alone, undrawn weights are invisible: A and
  w̄ are the observed ones, and mass is mean t; the interval takes the larger of that and 1 − mean w.
  If π is, there is no regression: d is the constant.
- **Clusters**, by hash in at most 256 groups. Var(x̄_M) is that of the groups' totals, and so is df.
  What is scaled up is scaled by their design effect, too; κ, N and the unseen row count rows.
- **A large log** is walked once, for differences of two policies once more. Before that, a sample
  of it (at most 200,000 decisions with 4 million candidates, from 32 to 128 places) fixes the model
  and the kurtosis.

## The model, and the constant

Both are cross-fitted: the rows are cut into five folds (clusters stay together), and d of a row
comes from the other four.

1. *The regression*, if π is known of every candidate: a logistic one of the reward, as a share of
   the rewards' range, on six things (the last three if there is no reward model δ̂, given or
   trained): the prediction as a share of the range, p; log((p + 0.01)/(1.01 − p)); whether it is
   the decision's largest; π; log(π + 0.01/K), with K the mean number of candidates; whether π is
   the largest. Columns are standardised, the ridge penalty is 1 for each. Rows count 1 + min(c, 5),
   scaled so that their number is the effective one. Its prediction and δ̂ itself are then averaged
   with the weight that fits best in the four folds, rows counting min(c, 5) scaled likewise, drawn
   towards one half as by a uniform prior. (Each of the four is predicted from the other three: a
   regression looks better on rows that it has seen than it is. From 20,000 rows on that is nothing,
   and is left out.)
2. *A constant*: the mean reward of the other folds, rows counting min(c, 5). CAB-DR around the mean
   weighted by c itself would be SNIPS at M = ∞; around this it nearly is. It is used if its V + b²
   at its own M₂ is below 0.7 of that of the regression.

## Differences, guard, rows

**Differences.** Two policies have most of the luck of the draw in common, so the difference has the
rule applied to it directly. With m = (π − Mπ₀)₊ at each policy's own M₂, a row contributes

    y = x_a − x_b − ½ Σ_y (m_a + m_b)(d_a − d_b):

the mean of both models answers for what is left to either. So only the mass on which the two
differ, mean of Σ_y |m_a − m_b|, can be biased: b is that times the larger k and the larger s. Noise
is Var(ȳ), scaled up as above with w_a − w_b in the place of w and w_a e_a − w_b e_b in that of w e.
Both ends allow for one unseen row with the reward that would move the difference most. What the
models say of where the logger never goes is taken out; the mass there on which the two differ has
the worst case. Against what ran, the reward itself takes the place of the second policy (w = 1,
nothing left to a model), with the degrees of freedom of x_M. That difference, not whether an
interval holds the logged mean, says which is better.

**The guard.** SNIPS and DR are part of every walk. If one of them and the headline differ by more
than their paired noise explains (Student's t with one degree of freedom less than effective rows
beyond M₁, level 1 in 1,000; what undrawn weights would add is added), a finding (`disagreement`)
says so and the interval is widened to hold both.

**Where the policy is the logger** (c = 1 on every candidate) the answer is the logged mean itself.

**Rankers** are judged by the same rule: CAB around a model d of relevance, with documents in the
place of decisions (`ranking/evaluation/_click_path`).

**Rows of the table** have intervals by the same rule from what each estimator does: value ± z(b/se)
· (t/z(0)) · se with n − 1 degrees of freedom, and b its imputed mass × the root mean square of the
rewards less what it imputes. For IPS, SNIPS and DR b = 0; † marks those that rest on too few
effective rows for their weights.

## Where it is

In `offpolicy/evidence/`, from a question to an answer: `_gather` (all that is read and fitted),
`_sources` (the sample and the walk's blocks), `_default_model` (the built-in reward model), `_plan`
(what the sample fixes), `_recalibration` (the model and the constant), `_blocks` (contributions of
the estimators), `_weight_bins` and `_clip_path` (the sums of CAB-DR, for every M), `_walk` (the one
pass), `_noise`, `_plausible_bias`, `_risk_curve` (the only place where M is chosen), `_headline`,
`_estimates` (the rows), `_agreement` (the guard), `_differences`, `_tuning` (open parameters of the
rows), `_summarise` and `findings` (pictures and warnings). In the sums by bin, every name stands
for a product times the row weight: "1" is Σω, "ω" is Σω², "ωcc" is Σω²c². Another reward would be
another `Modelled` of the same block, with a `Scanned` of its own, as another policy has. A segment
of the log would be an index in the place of the `Stretches`: sums over rows have that axis first,
and what follows from them keeps it (`WeightBins.each`).
"""

from __future__ import annotations

from offpolicy.evidence._agreement import Apart, disagreement, guarded
from offpolicy.evidence._blocks import Block, blocks, contributions, refuse_no_overlap, whole_block
from offpolicy.evidence._differences import Gap, gap_of, gap_to_logged, pair
from offpolicy.evidence._estimates import estimates
from offpolicy.evidence._gather import (
    Evidence,
    Prepared,
    Question,
    first_look,
    gather,
    make_plans,
    prepare,
)
from offpolicy.evidence._headline import (
    Known,
    around,
    error_covered,
    make_headline,
    of_curve,
    what_is_known,
)
from offpolicy.evidence._limits import TOO_FEW_EFFECTIVE
from offpolicy.evidence._noise import degrees_of, satterthwaite
from offpolicy.evidence._plan import Plan, RewardRange, declared_range, sample_size
from offpolicy.evidence._risk_curve import RiskCurve
from offpolicy.evidence._sources import (
    InMemory,
    Source,
    find_prediction,
    with_arms,
    without_bad_rows,
)
from offpolicy.evidence._summarise import make_summary, notice, without_repeats
from offpolicy.evidence._tuning import RULES, Table, choice, chosen_by
from offpolicy.evidence._walk import by_clusters
from offpolicy.evidence._weight_bins import BINS, EDGES, WeightBins, bin_of, clipped, table_of_rows

__all__ = [
    "BINS", "EDGES", "RULES", "TOO_FEW_EFFECTIVE", "Apart", "Block", "Evidence", "Gap", "InMemory",
    "Known", "Plan", "Prepared", "Question", "RewardRange", "RiskCurve", "Source", "Table",
    "WeightBins", "around", "bin_of", "blocks", "by_clusters", "choice", "chosen_by", "clipped",
    "contributions", "declared_range", "degrees_of", "disagreement", "error_covered", "estimates",
    "find_prediction", "first_look", "gap_of", "gap_to_logged", "gather", "guarded",
    "make_headline", "make_plans", "make_summary", "notice", "of_curve", "pair", "prepare",
    "refuse_no_overlap", "sample_size", "satterthwaite", "table_of_rows", "what_is_known",
    "whole_block", "with_arms", "without_bad_rows", "without_repeats",
]  # fmt: skip
