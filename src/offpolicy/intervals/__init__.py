"""Confidence intervals from numbers or rows, whatever they are of."""

from __future__ import annotations

from offpolicy.intervals._closed_form import (
    Interval,
    bernstein,
    bias_aware,
    empirical_bernstein,
    hoeffding,
    normal,
    normal_quantile,
    student_t,
    t_quantile,
)

__all__ = [
    "Interval", "bernstein", "betting", "bias_aware", "bootstrap", 
    "empirical_bernstein", "hoeffding", "normal", "normal_quantile", "student_t", "t_quantile",
]  # fmt: skip
