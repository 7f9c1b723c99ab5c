"""Do intervals cover?"""

__all__ = []
