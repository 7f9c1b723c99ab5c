"""Do intervals cover?"""

__all__ = ["coverage"]
