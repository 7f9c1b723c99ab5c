"""Reproducible by default; `HYPOTHESIS_PROFILE=explore make test` looks for new examples.

Tests that need Java, a browser, PyTorch or LightGBM carry a mark, and are skipped where the part is
missing; `OFFPOLICY_REQUIRE=spark,browser,torch,boost` makes such a skip a failure.
"""

import os
import re
from importlib.util import find_spec

import pytest
from hypothesis import settings

from offpolicy._core.door import Door
from offpolicy.errors import OffpolicyError

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


OF_COMMANDS = re.compile(r"(?<![\w-])--[a-z]")
OF_PYTHON = re.compile(
    r"(?<![\w/])[a-z_]+=(?=[\"\s.,;:)…]|$)"
    r"|\b(?:from_(?:arrays|frame|ragged)|read_log|BanditLog|Columns|RankingLog)\b"
)


@pytest.fixture(autouse=True, scope="session")
def every_error_speaks_as_its_user_does():
    """No error of any test names an option to those who came by Python, nor an argument to those
    who came by the command line."""
    made = OffpolicyError.__init__

    def checked(self, sentence, *rest, **more):
        made(self, sentence, *rest, **more)
        foreign = (OF_PYTHON if Door.options else OF_COMMANDS).search(sentence)
        assert foreign is None, f"{foreign[0]!r} in: {sentence}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OffpolicyError, "__init__", checked)
        yield
