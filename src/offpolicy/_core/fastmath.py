"""Logarithm and exponential as plain arithmetic, so that loops around them vectorise.

The C library's are called one number at a time from compiled code. These are within a few units
in the last place of them on the ranges stated, and cost a tenth. Many processors convert between
doubles and 64-bit integers one at a time too, so that is not asked of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_INLINE: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "inline": "always",
}

_FROM_ZERO = 1024 << 52
_FROM_ROOT_HALF = _FROM_ZERO - 0x3FE6A09E667F3BCD
"""The bits of √½ less, and 1024 to the exponent."""
_LN2 = 0.6931471805599453
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


def _reinterpreted(source, target):
    """The bits of a number of one type as a number of another."""

    @intrinsic
    def cast(typing_context, x):
        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return cast


float_bits = _reinterpreted(types.float64, types.int64)
"""Positive doubles sort like their bits."""
bits_float = _reinterpreted(types.int64, types.float64)
bits_single = _reinterpreted(types.int32, types.float32)


@njit(**_INLINE)
def log(x):
    """Fast logarithm of positive normal numbers: x = 2^e·m, log m = 2 artanh((m − 1)/(m + 1))."""
    bits = float_bits(x)
    # Counted from 1024 less, so that it is never negative: shifts that keep a sign are slow too.
    place = np.int64(np.uint64(bits + _FROM_ROOT_HALF) >> np.uint64(52))
    m = bits_float(bits - (place << 52) + _FROM_ZERO)
    exponent = np.int32(place) - np.int32(1024)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = 1 / 11 + t * (1 / 13 + t * (1 / 15 + t * (1 / 17 + t * (1 / 19 + t * (1 / 21)))))
    p = 1 / 3 + t * (1 / 5 + t * (1 / 7 + t * (1 / 9 + t * p)))
    return exponent * _LN2 + (2.0 * s + 2.0 * s * t * p)


@njit(**_INLINE)
def exp(x):
    """Fast exp between −700 and 700: x = k·log 2 + r, and the series of exp r to power 12."""
    k = np.floor(x * (1.0 / _LN2) + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600))))
    p = 1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * p))))
    p = 1.0 + r * (1.0 + r * (0.5 + r * p))
    # The last bits of k + 1.5·2^52 are the integer k; what is before them is shifted out.
    return p * bits_float((float_bits(k + 1.5 * 2.0**52) + 1023) << 52)


_SINGLE_PER_LN2 = np.float32(1.0 / _LN2)
_SINGLE_HIGH, _SINGLE_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_SINGLE_TERMS = tuple(np.float32(1.0 / factorial) for factorial in (5040, 720, 120, 24, 6, 2))
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@njit(**_INLINE)
def exp_single(x):
    """Fast exp of a single between −80 and 80: as `exp`, to the seventh power."""
    k = np.floor(x * _SINGLE_PER_LN2 + _HALF)
    r = (x - k * _SINGLE_HIGH) - k * _SINGLE_LOW
    a, b, c, d, e, f = _SINGLE_TERMS
    p = _ONE + r * (_ONE + r * (f + r * (e + r * (d + r * (c + r * (b + r * a))))))
    return p * bits_single((np.int32(k) + np.int32(127)) << np.int32(23))
