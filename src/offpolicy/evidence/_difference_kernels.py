"""The numba loop over the candidates of pairs of policies; NumPy twin: `_differences._by_pair`."""

from __future__ import annotations

from offpolicy._core.kernels import SUMS, compiled
from offpolicy._core.types import Floats, Ints


@compiled(**SUMS)
def add_pairs(
    pairs: Ints,
    offsets: Ints,
    c: Floats,
    M: Floats,
    d: Floats,
    pi0: Floats,
    omega: Floats,
    shared: Floats,
    sums: Floats,
) -> None:
    """What two policies have in common, and what tells them apart, for every pair of them.

    ``c`` and ``d`` are of every policy and candidate. Fills ``shared`` (pairs, rows) with
    Σ π₀·½(left_a + left_b)(d_a − d_b), left being c − min(c, M), and adds to ``sums`` (pairs, 4)
    the row-weighted Σ π₀ of |c_a − c_b|, |left_a − left_b|, (w_a − w_b)² and |w_a − w_b|.
    """
    for i in range(len(offsets) - 1):
        for p in range(len(pairs)):
            a, b = pairs[p, 0], pairs[p, 1]
            both = differ = mass = drawable = kept = 0.0
            for k in range(offsets[i], offsets[i + 1]):
                q = pi0[k]
                of_a, of_b = min(c[a, k], M[a]), min(c[b, k], M[b])
                left_a, left_b = c[a, k] - of_a, c[b, k] - of_b
                w = of_a - of_b
                both += q * (0.5 * (left_a + left_b) * (d[a, k] - d[b, k]))
                differ += q * abs(c[a, k] - c[b, k])
                mass += q * abs(left_a - left_b)
                drawable += q * w * w
                kept += q * abs(w)
            shared[p, i] = both
            sums[p, 0] += omega[i] * differ
            sums[p, 1] += omega[i] * mass
            sums[p, 2] += omega[i] * drawable
            sums[p, 3] += omega[i] * kept
