"""The loop over the bytes of LETOR text, which ends with a line. Python's part is in
`offpolicy.formats.letor`, which also says what is wrong in a line.

Numbers are exact to the last bit: up to 19 digits w and a power of ten 10ᵏ, |k| ≤ 22, which are
all but a few in practice, are put together here; what could be rounded either way, and the rest,
is left for Python's own ``float``.
"""

from __future__ import annotations

import numpy as np

from offpolicy._core.double_double_kernels import fma
from offpolicy._core.kernels import COMMON, compiled

EXACT, LATE, NONE = range(3)
"""Of a number: it is known to the last bit, it is left for ``float``, or it is none."""

_POWERS = 10.0 ** np.arange(23)
_SPACE, _TAB, _RETURN, _NEWLINE, _HASH, _COLON = 32, 9, 13, 10, 35, 58
_SURE = 2.0**-45


@compiled(**COMMON)
def quotient(w, k):
    """For LETOR text, w/10ᵏ to the last bit (64-bit w, k ≤ 22), and whether that is certain.

    The quotient of the upper 53 bits, and that of the exact remainder: together they are off by
    far less than 2⁻⁴⁵ of the second, so if moving it by that much changes nothing, nothing else
    could.
    """
    p = _POWERS[k]
    low = w & np.uint64(2047)
    upper = np.float64(w - low)
    q = upper / p
    product = q * p
    rest = (((upper - product) - fma(q, p, -product)) + np.float64(low)) / p
    slack = abs(rest) * _SURE
    value = q + (rest + slack)
    return value, value == q + (rest - slack)


@compiled(**COMMON)
def _whole(text, i, most):
    """The whole number at ``i`` in LETOR text, or ``most`` if it is larger, and where it ends."""
    number = 0
    while 48 <= text[i] <= 57:
        number = min(number * 10 + np.int64(text[i]) - 48, most)
        i += 1
    return number, i


@compiled(**COMMON)
def decimal(text, i):
    """The number at ``i`` in LETOR text: value, where it ends, and EXACT, LATE or NONE."""
    negative = text[i] == 45
    if negative or text[i] == 43:
        i += 1
    w = np.uint64(0)
    digits = 0
    scale = 0
    seen = False
    point = False
    certain = True
    while True:
        d = np.int64(text[i]) - 48
        if 0 <= d <= 9:
            seen = True
            if digits < 19:
                w = w * np.uint64(10) + np.uint64(d)
                if w > np.uint64(0):
                    digits += 1
                if point:
                    scale -= 1
            else:
                certain = False
        elif d == -2 and not point:
            point = True
        else:
            break
        i += 1
    if not seen:
        return 0.0, i, NONE
    if text[i] == 101 or text[i] == 69:
        i += 1
        below = text[i] == 45
        if below or text[i] == 43:
            i += 1
        exponent, end = _whole(text, i, 100000)
        if end == i:
            return 0.0, i, NONE
        scale += -exponent if below else exponent
        i = end
    value = 0.0
    if certain and w > np.uint64(0):
        if w <= np.uint64(2**53) and -22 <= scale <= 22:
            value = np.float64(w)
            value = value / _POWERS[-scale] if scale < 0 else value * _POWERS[scale]
        elif -22 <= scale < 0:
            value, certain = quotient(w, -scale)
        else:
            certain = False
    return (-value if negative else value), i, EXACT if certain else LATE


@compiled(**COMMON)
def _after_blanks(text, i):
    while text[i] in (_SPACE, _TAB, _RETURN):
        i += 1
    return i


@compiled(**COMMON)
def _ends(text, i):
    """Whether a word of LETOR text ends here."""
    return text[i] in (_SPACE, _TAB, _RETURN, _NEWLINE, _HASH)


@compiled(**COMMON)
def _leave(late, count, row, feature, start, end):
    late[count, 0], late[count, 1], late[count, 2], late[count, 3] = row, feature, start, end
    return count + 1


@compiled(**COMMON)
def _line(text, i, row, X, relevance, qid, late, count):
    """One row of LETOR text: where its words end, or −1 if one is wrong; the late numbers."""
    relevance[row], end, kind = decimal(text, i)
    if kind == NONE or not _ends(text, end):
        return -1, count
    if kind == LATE:
        count = _leave(late, count, row, -1, i, end)
    i = _after_blanks(text, end)
    if not (text[i] == 113 and text[i + 1] == 105 and text[i + 2] == 100 and text[i + 3] == _COLON):
        return -1, count
    below = text[i + 4] == 45
    i += 5 if below else 4
    label, end = _whole(text, i, 10**18)
    if not 1 <= end - i <= 18 or not _ends(text, end):
        return -1, count
    qid[row] = -label if below else label
    last = 0
    i = _after_blanks(text, end)
    while not _ends(text, i):
        feature, end = _whole(text, i, 2**31)
        if end == i or text[end] != _COLON or not last < feature <= X.shape[1]:
            return -1, count
        i = end + 1
        X[row, feature - 1], end, kind = decimal(text, i)
        if kind == NONE or not _ends(text, end):
            return -1, count
        if kind == LATE:
            count = _leave(late, count, row, feature - 1, i, end)
        last, i = feature, _after_blanks(text, end)
    return i, count


@compiled(**COMMON)
def scan(text, start, row, X, relevance, qid, late):
    """Read LETOR text into rows from the line at ``start`` on, up to the end, a line that is wrong,
    or ``late`` being full: where the next line starts, how many rows and late numbers there are,
    and whether that line is wrong.

    ``late`` (m, 4) takes the numbers left to ``float``: row, feature (−1: the relevance), and the
    bytes from and to which the number goes.
    """
    count = 0
    while start < len(text) and count + X.shape[1] < len(late):
        i = _after_blanks(text, start)
        if not _ends(text, i):
            i, count = _line(text, i, row, X, relevance, qid, late, count)
            if i < 0:
                return start, row, count, True
            row += 1
        while text[i] != _NEWLINE:
            i += 1
        start = i + 1
    return start, row, count, False
