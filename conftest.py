"""Examples in docstrings run wherever the package they need is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/offpolicy/torch"]
