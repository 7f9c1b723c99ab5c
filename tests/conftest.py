"""Reproducible by default; `HYPOTHESIS_PROFILE=explore make test` looks for new examples."""

import os

from hypothesis import settings

settings.register_profile("reproducible", derandomize=True, database=None)
settings.register_profile("explore", max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))
