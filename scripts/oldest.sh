#!/usr/bin/env bash
# The core tests with the oldest versions that pyproject.toml allows, in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV="${1:-.venv-oldest}"
[ -x "$VENV/bin/python" ] || "${PYTHON:-python3}" -m venv "$VENV"
# numpy>=2 is numpy==2.0.*, and polars>=1.10 is polars==1.10.*; tools of the tests may be newer.
"$VENV/bin/python" - <<'PYTHON' >"$VENV/oldest.txt"
import re
import tomllib

with open("pyproject.toml", "rb") as stream:
    project = tomllib.load(stream)["project"]
extras = project["optional-dependencies"]
for line in [*project["dependencies"], *extras["pandas"], *extras["polars"]]:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()
    print(f"{name}=={version if '.' in version else version + '.0'}.*")
PYTHON
"$VENV/bin/python" -m pip install --quiet --requirement "$VENV/oldest.txt" \
    "scipy<1.15" pytest pytest-xdist hypothesis
PYTHONPATH="$PWD/src" "$VENV/bin/python" -m pytest -q -p no:cacheprovider -n "${JOBS:-auto}" \
    tests/_core tests/estimators tests/policies tests/logs/test_columns.py \
    tests/logs/test_log.py tests/logs/test_arrow_types.py tests/logs/test_parquet_files.py \
    tests/logs/test_parquet.py tests/evaluation/test_one_walk.py
