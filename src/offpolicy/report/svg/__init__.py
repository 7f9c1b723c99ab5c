"""Charts: functions from numbers to SVG."""

__all__ = ["charts", "drawing", "lines", "scales"]
