"""Commands that are to fail."""

from __future__ import annotations

import sys

import pytest

from offpolicy.cli import main


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and message of a command that fails, through the whole of `main`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["offpolicy", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return int(stop.value.code), err
