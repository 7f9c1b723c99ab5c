"""Numbers for people."""

from __future__ import annotations

import math


def decimals(width: float) -> int:
    """How many decimals a page shows of a number known to ± ``width``."""
    if not 0.0 < width < math.inf:
        return 4
    return min(max(math.ceil(0.5 - math.log10(width)), 0), 8)


def rounded(value: float, places: int) -> str:
    """A number on a page, with so many decimals; no minus before a zero."""
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    if abs(value) >= 1e7:
        return f"{value:.4g}".replace("-", "−")
    text = f"{value:,.{places}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0.0 else text.replace("-", "−")


def signed(value: float, places: int) -> str:
    """A difference on a page: +0.12, −0.3, 0.0."""
    text = rounded(value, places)
    return f"+{text}" if value > 0.0 and text.strip("0.,") else text


def places_for(low: float, high: float) -> int:
    """Decimals on a page for an interval and what lies in it."""
    return decimals((high - low) / 2.0)


def in_brackets(low: float, high: float, places: int) -> str:
    """An interval on a page: [0.492, 0.510]."""
    return f"[{rounded(low, places)}, {rounded(high, places)}]"


def with_interval(value: float, interval: tuple[float, float]) -> str:
    """A value and its interval on a page: 0.501 [0.492, 0.510]."""
    places = places_for(*interval)
    return f"{rounded(value, places)} {in_brackets(*interval, places)}"


def percent(share: float) -> str:
    """A share on a page, with two digits or so: 0.03%, 1.2%, 31%."""
    if share == 0.0:
        return "0%"
    size = 100.0 * abs(share)
    if size < 0.001:
        return "under 0.001%"
    places = 0 if size >= 9.95 else 1 if size >= 0.095 else 2 if size >= 0.0095 else 3
    return f"{100.0 * share:,.{places}f}%".replace("-", "−")


def short(value: float) -> str:
    """A number on a page or an axis, in three digits: 0.1, 3.1, 1,200, 1e6."""
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    size = abs(value)
    if size >= 1e5 or 0.0 < size < 1e-3:
        mantissa, _, power = f"{value:.3g}".partition("e")
        plain = f"{value:,.0f}" if size >= 1e5 else mantissa
        return (f"{mantissa}e{int(power)}" if power else plain).replace("-", "−")
    text = f"{value:,.0f}" if size >= 100.0 else f"{value:.3g}"
    return text.replace("-", "−")


def count(value: float) -> str:
    """A number of rows on a page: 1,000,000."""
    return "∞" if math.isinf(value) else f"{value:,.0f}"


def counted(number: int, what: str, many: str | None = None) -> str:
    """So many of something, in a page's sentence: 1 click, 2 clicks."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"
