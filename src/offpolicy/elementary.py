"""Logarithm and exponential as plain arithmetic, so that loops around them vectorise.

The C library's are called one number at a time from compiled code. These are within a few units
in the last place of them on the ranges stated, and cost a quarter.
"""

from __future__ import annotations

import math
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

_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_LN2 = 0.6931471805599453
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


@intrinsic
def float_bits(typing_context, x):
    """The 64 bits of a double as an integer (positive doubles sort like their bits)."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic
def bits_float(typing_context, x):
    """The double of which these are the 64 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@njit(**_INLINE)
def log(x):
    """Of positive normal numbers: x = 2^e·m, and log m = 2 artanh((m − 1)/(m + 1))."""
    bits = float_bits(x)
    exponent = (bits - _ROOT_HALF_BITS) >> 52
    m = bits_float(bits - (exponent << 52))
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = 1.0 / 21.0
    p = p * t + 1.0 / 19.0
    p = p * t + 1.0 / 17.0
    p = p * t + 1.0 / 15.0
    p = p * t + 1.0 / 13.0
    p = p * t + 1.0 / 11.0
    p = p * t + 1.0 / 9.0
    p = p * t + 1.0 / 7.0
    p = p * t + 1.0 / 5.0
    p = p * t + 1.0 / 3.0
    return exponent * _LN2 + (2.0 * s + 2.0 * s * t * p)


@njit(**_INLINE)
def exp(x):
    """Between −700 and 700: x = k·log 2 + r, and the series of exp r to the twelfth power."""
    k = math.floor(x * (1.0 / _LN2) + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * bits_float((np.int64(k) + 1023) << 52)
