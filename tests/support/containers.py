"""The library in another process, in places like those of a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import offpolicy as op

READ_ONLY = """
import os, sys
def refuse(event, arguments):
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    opens = event == "open" and arguments[2] & writes and not str(arguments[0]).startswith("/dev/")
    if opens or event in ("os.mkdir", "os.rename", "os.remove"):
        raise OSError(30, "Read-only file system", str(arguments[0]))
sys.addaudithook(refuse)
"""
"""Nothing can be written from here on: for root too, who may write whatever the modes say."""
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
"""Files can be made, but nothing can be written into them."""


def bare_package(folder: Path) -> Path:
    """A copy of the library without anything compiled; the folder to be on the path."""
    home = Path(op.__file__).parent
    shutil.copytree(home, folder / "offpolicy", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run_in(path: Path, code: str, **variables: str) -> str:
    """What the code prints in a process without a home, with the library from ``path``."""
    done = run_process([sys.executable, "-c", code], path, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_process(
    command: list[str], path: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    gone = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "TMPDIR")
    environment = {name: value for name, value in os.environ.items() if name not in gone}
    environment |= {"PYTHONPATH": str(path), "HOME": "/nonexistent"} | variables
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
