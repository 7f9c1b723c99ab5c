"""Charts: functions from numbers to SVG."""

__all__ = []
