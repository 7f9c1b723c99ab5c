"""Double-doubles: sums and products with their rounding errors, in compiled code.

Nothing here may be re-associated by the compiler: the errors of additions and products are
computed by operations that would then be simplified to 0.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from offpolicy._core.kernels import COMMON, compiled

EXACT = COMMON | {"fastmath": False}


@intrinsic
def fma(typing_context, a, b, c):
    """a·b + c with one rounding."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@compiled(**EXACT)
def two_sum(a, b):
    """a + b as a rounded sum and its exact error (Knuth)."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


@compiled(**EXACT)
def plus(x, y):
    """x + y of two double-doubles (high, low)."""
    s, e = two_sum(x[0], y[0])
    e += x[1] + y[1]
    high = s + e
    return high, e - (high - s)


@compiled(**EXACT)
def product(x, y):
    """x·y of two double-doubles."""
    p = x[0] * y[0]
    e = fma(x[0], y[0], -p) + (x[0] * y[1] + x[1] * y[0])
    high = p + e
    return high, e - (high - p)


@compiled(**EXACT)
def quotient(x, y):
    """x/y of two double-doubles."""
    high = x[0] / y[0]
    rest = plus(x, product(y, (-high, 0.0)))
    return high, rest[0] / y[0]


@compiled(**EXACT)
def add_product(sums, j, a, b):
    """sums[j] += a·b, a double-double, the product taken exactly; the rounding error goes to the
    second place."""
    p = a * b
    s, e = two_sum(sums[j, 0], p)
    sums[j, 0] = s
    sums[j, 1] += e + fma(a, b, -p)


@compiled(**EXACT)
def get(sums, j):
    """sums[j] as a double-double."""
    return two_sum(sums[j, 0], sums[j, 1])
