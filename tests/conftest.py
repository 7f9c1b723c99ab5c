"""Reproducible by default; `HYPOTHESIS_PROFILE=explore make test` looks for new examples.

Tests that need Java, a browser, PyTorch or LightGBM carry a mark, and are skipped where the part is
missing; `OFFPOLICY_REQUIRE=spark,browser,torch,boost` makes such a skip a failure.
"""

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

settings.register_profile("reproducible", derandomize=True, database=None)
settings.register_profile("explore", max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))

PACKAGE = {"spark": "pyspark", "browser": "playwright", "torch": "torch", "boost": "lightgbm"}
REQUIRED = set(os.environ.get("OFFPOLICY_REQUIRE", "").split(",")) - {""}


def pytest_configure():
    missing = [part for part in sorted(REQUIRED) if find_spec(PACKAGE[part]) is None]
    if missing:
        raise pytest.UsageError(f"OFFPOLICY_REQUIRE: not installed for {', '.join(missing)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and REQUIRED & {mark.name for mark in item.iter_markers()}:
        report.outcome, report.longrepr = "failed", f"skipped, but required: {report.longrepr}"
    return report
