"""Do intervals cover, what does the headline's error come to, and how tight are limits that hold at
every n?"""

__all__ = ["bounds", "coverage", "outcomes", "protocol", "variations", "verdicts"]
