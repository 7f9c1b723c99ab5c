"""Do intervals cover, and how tight are limits that hold at every n?"""

__all__ = ["bounds", "coverage"]
