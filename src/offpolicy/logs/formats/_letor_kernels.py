"""The loop over the bytes of LETOR text. Python's part is in `offpolicy.formats.letor`.

Numbers are exact to the last bit: up to 19 digits w and a power of ten 10ᵏ, |k| ≤ 22, which are
all but a few in practice, are put together here; what could be rounded either way, and the rest,
is left for Python's own ``float``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from offpolicy._core.kernels import COMMON

POSITION, ROW, LINE, LATE, PROBLEM, FROM, TO, LAST = range(8)
"""What `scan` keeps in its state: where it is, and what stopped it."""
FINE, FULL, RELEVANCE, NO_QID, QID, PAIR, NUMBER, OUTSIDE, ORDER, TWICE = range(10)
"""Values of PROBLEM: the end, no more room for late numbers, and what may be wrong in a line."""

_POWERS = 10.0 ** np.arange(23)
_SPACE, _TAB, _RETURN, _NEWLINE, _HASH, _COLON = 32, 9, 13, 10, 35, 58
_SURE = 2.0**-45
_SPLIT = 134217729.0


@njit(**COMMON)
def quotient(w, k):
    """w/10ᵏ to the last bit for any 64-bit w and k ≤ 22, and whether that is certain.

    The quotient of the upper 53 bits, and that of the exact remainder: together they are off by
    far less than 2⁻⁴⁵ of the second, so if moving it by that much changes nothing, nothing else
    could.
    """
    p = _POWERS[k]
    low = w & np.uint64(2047)
    upper = np.float64(w - low)
    q = upper / p
    t = _SPLIT * q
    q_high = t - (t - q)
    q_low = q - q_high
    t = _SPLIT * p
    p_high = t - (t - p)
    p_low = p - p_high
    product = q * p
    error = ((q_high * p_high - product) + q_high * p_low + q_low * p_high) + q_low * p_low
    rest = (((upper - product) - error) + np.float64(low)) / p
    slack = abs(rest) * _SURE
    value = q + (rest + slack)
    return value, value == q + (rest - slack)


@njit(**COMMON)
def decimal(text, i, stop):
    """The number that begins at ``i``: value, where it ends, and 0 if exact, 1 if left to
    ``float``, 2 if there is none."""
    negative = False
    if i < stop and (text[i] == 45 or text[i] == 43):
        negative = text[i] == 45
        i += 1
    w = np.uint64(0)
    digits = 0
    scale = 0
    seen = False
    point = False
    many = False
    while i < stop:
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
                many = True
        elif d == -2 and not point:
            point = True
        else:
            break
        i += 1
    if not seen:
        return 0.0, i, 2
    if i < stop and (text[i] == 101 or text[i] == 69):
        i += 1
        below = False
        if i < stop and (text[i] == 45 or text[i] == 43):
            below = text[i] == 45
            i += 1
        exponent = 0
        begun = i
        while i < stop and 48 <= text[i] <= 57:
            exponent = min(exponent * 10 + np.int64(text[i]) - 48, 100000)
            i += 1
        if i == begun:
            return 0.0, i, 2
        scale += -exponent if below else exponent
    value = 0.0
    certain = not many
    if certain and w > np.uint64(0):
        if w <= np.uint64(2**53) and -22 <= scale <= 22:
            value = np.float64(w)
            value = value / _POWERS[-scale] if scale < 0 else value * _POWERS[scale]
        elif -22 <= scale < 0:
            value, certain = quotient(w, -scale)
        else:
            certain = False
    return (-value if negative else value), i, 0 if certain else 1


@njit(**COMMON)
def largest_feature(text):
    """The largest number before a colon, outside comments; at most 2³¹."""
    largest = 0
    number = 0
    plain = True
    i = 0
    while i < len(text):
        c = text[i]
        if c == _HASH:
            while i < len(text) and text[i] != _NEWLINE:
                i += 1
            number, plain = 0, True
        elif 48 <= c <= 57:
            number = min(number * 10 + np.int64(c) - 48, 2**31)
        elif c == _COLON:
            if plain and number > largest:
                largest = number
            plain = False
        elif c in (_SPACE, _TAB, _NEWLINE, _RETURN):
            number, plain = 0, True
        else:
            plain = False
        i += 1
    return largest


@njit(**COMMON)
def _blank(c):
    return c in (_SPACE, _TAB, _RETURN)


@njit(**COMMON)
def _ends(text, i, stop):
    """Whether a word ends here."""
    return i >= stop or _blank(text[i]) or text[i] == _NEWLINE or text[i] == _HASH


@njit(**COMMON)
def _word_end(text, i, stop):
    while not _ends(text, i, stop):
        i += 1
    return i


@njit(**COMMON)
def scan(text, X, relevance, qid, late, state):
    """Fill rows from ``state[POSITION]`` on, up to the end, a problem, or ``late`` being full.

    ``late`` (m, 5) takes the numbers left to ``float``: row, feature (−1: the relevance), the
    bytes from and to which the number goes, and the line.
    """
    stop = len(text)
    d = X.shape[1]
    i = state[POSITION]
    row = state[ROW]
    line = state[LINE]
    count = 0
    problem = FINE
    start = i
    last = 0
    while i < stop:
        if count + d + 1 > len(late):
            problem = FULL
            break
        while i < stop and _blank(text[i]):
            i += 1
        if i < stop and text[i] != _NEWLINE and text[i] != _HASH:
            start = i
            value, i, kind = decimal(text, i, stop)
            if kind == 2 or not _ends(text, i, stop):
                problem = RELEVANCE
                break
            relevance[row] = value
            if kind == 1:
                late[count, 0], late[count, 1] = row, -1
                late[count, 2], late[count, 3] = start, i
                late[count, 4] = line
                count += 1
            while i < stop and _blank(text[i]):
                i += 1
            start = i
            if not (
                i + 3 < stop
                and text[i] == 113 and text[i + 1] == 105 and text[i + 2] == 100
                and text[i + 3] == _COLON
            ):  # fmt: skip
                problem = NO_QID
                break
            i += 4
            below = i < stop and text[i] == 45
            if below:
                i += 1
            begun = i
            label = 0
            while i < stop and 48 <= text[i] <= 57:
                label = label * 10 + np.int64(text[i]) - 48
                i += 1
            if i == begun or i - begun > 18 or not _ends(text, i, stop):
                problem = QID
                break
            qid[row] = -label if below else label
            last = 0
            while True:
                while i < stop and _blank(text[i]):
                    i += 1
                if i >= stop or text[i] == _NEWLINE or text[i] == _HASH:
                    break
                start = i
                feature = 0
                while i < stop and 48 <= text[i] <= 57:
                    feature = min(feature * 10 + np.int64(text[i]) - 48, 2**31)
                    i += 1
                if i == start or i >= stop or text[i] != _COLON:
                    problem = PAIR
                    break
                if feature < 1 or feature > d:
                    problem = OUTSIDE
                    break
                if feature <= last:
                    problem = TWICE if feature == last else ORDER
                    break
                i += 1
                begun = i
                value, i, kind = decimal(text, i, stop)
                if kind == 2 or not _ends(text, i, stop):
                    problem = NUMBER
                    break
                X[row, feature - 1] = value
                if kind == 1:
                    late[count, 0], late[count, 1] = row, feature - 1
                    late[count, 2], late[count, 3] = begun, i
                    late[count, 4] = line
                    count += 1
                last = feature
            if problem != FINE:
                break
            row += 1
        while i < stop and text[i] != _NEWLINE:
            i += 1
        i += 1
        line += 1
    state[POSITION] = min(i, stop)
    state[ROW] = row
    state[LINE] = line
    state[LATE] = count
    state[PROBLEM] = problem
    state[FROM] = start
    state[TO] = _word_end(text, start, stop)
    state[LAST] = last
