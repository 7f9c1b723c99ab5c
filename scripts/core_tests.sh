#!/usr/bin/env bash
# The core tests in an environment of their own:
#   scripts/core_tests.sh oldest    with the oldest versions that pyproject.toml allows
#   scripts/core_tests.sh 3.13      with another Python, if it is at hand, and the newest versions
set -euo pipefail
cd "$(dirname "$0")/.."
WHICH="$1"
VENV="${2:-.venv-$WHICH}"

python_of() { # the interpreter of a version such as 3.13: on the PATH, or of pyenv
    local python
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        # A shim of pyenv is there for versions that are not.
        if "$python" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null
        then
            echo "$python"
            return
        fi
    done
}

if [ "$WHICH" = oldest ]; then
    PYTHON="${PYTHON:-python3}"
else
    PYTHON="$(python_of "$WHICH")"
    if [ -z "$PYTHON" ]; then
        echo "Python $WHICH is not at hand, neither on the PATH nor by pyenv: NOT TESTED with it."
        exit 0
    fi
fi
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
# With the oldest, numpy>=2 is numpy==2.0.*, and polars>=1.10 is polars==1.10.*; tools of the tests
# may be newer.
"$VENV/bin/python" - "$WHICH" <<'PYTHON' >"$VENV/versions.txt"
import re
import sys
import tomllib

with open("pyproject.toml", "rb") as stream:
    project = tomllib.load(stream)["project"]
extras = project["optional-dependencies"]
for line in [*project["dependencies"], *extras["pandas"], *extras["polars"]]:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()
    oldest = f"{name}=={version if '.' in version else version + '.0'}.*"
    print(oldest if sys.argv[1] == "oldest" else line)
if sys.argv[1] == "oldest":
    print("scipy<1.15")
PYTHON
"$VENV/bin/python" -m pip install --quiet --requirement "$VENV/versions.txt" \
    pytest pytest-xdist hypothesis
"$VENV/bin/python" --version
# The oldest click cannot tell what a command says on stderr, and the oldest scikit-learn's models
# hash differently once they were copied.
MORE="tests/laws/test_copies.py tests/cli/test_damaged_files.py"
if [ "$WHICH" = oldest ]; then MORE=; fi
PYTHONPATH="$PWD/src" "$VENV/bin/python" -m pytest -q -p no:cacheprovider -n "${JOBS:-auto}" \
    tests/_core tests/estimators tests/policies tests/logs/test_columns.py \
    tests/logs/test_log.py tests/logs/test_arrow_types.py tests/logs/test_parquet_files.py \
    tests/logs/test_parquet.py tests/logs/test_text.py tests/evaluation/test_one_walk.py \
    $MORE
