"""Do intervals cover, and what does the headline's error come to?"""

__all__ = ["coverage", "outcomes", "protocol", "variations", "verdicts"]
