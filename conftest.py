"""Examples in docstrings run wherever the package they need is installed.

A test runs on one core: workers run side by side, and threads that wait for each other cost time.
"""

import os
from importlib.util import find_spec

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
collect_ignore = [] if find_spec("torch") else ["src/offpolicy/torch"]
