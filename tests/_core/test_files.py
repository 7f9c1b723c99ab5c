"""Files are whole or absent; what is no plain file is written to; what the killed leave goes."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from offpolicy._core import files
from offpolicy._core.files import make_temporary_folder, remove_temporary_folder, write_whole


def run(code: str, *arguments: object, **how: object) -> subprocess.CompletedProcess[bytes]:
    """Python of its own, which cannot disturb the tests' files and streams."""
    program = "from offpolicy._core.files import *\nfrom pathlib import Path\nimport os, sys\n"
    return subprocess.run(
        [sys.executable, "-c", program + textwrap.dedent(code), *map(str, arguments)],
        capture_output=not how, timeout=60, **how,
    )  # fmt: skip


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what there was ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_keeps_its_mode(tmp_path, mode):
    file = tmp_path / "out.json"
    file.write_text("before")
    file.chmod(mode)
    write_whole(file, "after")
    assert file.read_text() == "after"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "out", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_nobody_else_reads_a_private_file_while_it_is_written(tmp_path):
    file = tmp_path / "out"
    file.touch(0o600)
    file.chmod(0o600)
    with files.replacing(file) as part:
        part.write_bytes(b"secret")
        assert stat.S_IMODE(part.stat().st_mode) == 0o600


@pytest.mark.parametrize("there", [True, False])
def test_a_symlink_stays_and_its_target_is_replaced(tmp_path, there):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there/target", tmp_path / "link"
    link.symlink_to("there/target")
    if there:
        target.write_text("before")
    write_whole(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert names(tmp_path / "there") == ["target"]


def test_a_failure_leaves_what_there_was(tmp_path):
    file = tmp_path / "out"
    file.write_text("before")

    def fail() -> None:
        with files.replacing(file) as part:
            part.write_text("half")
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert file.read_text() == "before"
    assert names(tmp_path) == ["out"]


# -- devices ---------------------------------------------------------------------------------


def test_a_device_is_written_to_and_stays():
    before = os.stat("/dev/null")
    write_whole(Path("/dev/null"), "anything")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.stat("/dev/null").st_ino == before.st_ino


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"x" * 300_000)
    reader.join(10)
    assert read == [b"x" * 300_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_standard_output_is_added_to(tmp_path, name):
    """A file that output is redirected to holds what was printed before, and after."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = "print('before'); write_whole(Path(sys.argv[1]), 'whole\\n'); print('after')"
    with (tmp_path / "out").open("wb") as out:
        run(code, name, stdout=out, cwd=tmp_path, check=True)
    assert (tmp_path / "out").read_text() == "before\nwhole\nafter\n"


def test_a_name_that_only_sounds_like_a_stream(tmp_path):
    assert files.descriptor_of(Path("/dev/stdout")) == 1
    assert files.descriptor_of(tmp_path / "stdout") is None
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert files.descriptor_of(tmp_path / "a") is None


# -- a full disk -------------------------------------------------------------------------------


def test_a_full_disk_names_the_file(tmp_path):
    """Files of this process may hold 1,000 bytes: as on a full disk, neither the error of Python
    nor that of Arrow names the file."""
    (tmp_path / "out").write_text("before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(OSError) as caught:
            write_whole(tmp_path / "out", "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "before"
    assert names(tmp_path) == ["out"]


def test_a_full_device_is_named():
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(OSError) as caught:
        write_whole(Path("/dev/full"), "x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_folder_that_is_not_there_is_named_with_the_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "none/out", "x")
    assert caught.value.filename == str(tmp_path / "none/out")


# -- what the killed leave ---------------------------------------------------------------------

HANG = """
with replacing(Path(sys.argv[1])) as part:
    folder = make_temporary_folder()
    part.write_text("half")
    print("begun", flush=True)
    sys.stdin.read()
"""


def begun(file: Path, monkeypatch) -> subprocess.Popen[bytes]:
    """A process in the middle of writing."""
    monkeypatch.setenv("TMPDIR", str(file.parent))
    monkeypatch.setattr("tempfile.tempdir", str(file.parent))
    program = "from offpolicy._core.files import *\nfrom pathlib import Path\nimport sys\n" + HANG
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    return process


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch):
    process = begun(tmp_path / "out[1]", monkeypatch)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(names(tmp_path)) == 2
    write_whole(tmp_path / "out[1]", "whole")
    remove_temporary_folder(make_temporary_folder())
    assert names(tmp_path) == ["out[1]"]


def test_what_another_process_is_writing_stays(tmp_path, monkeypatch):
    process = begun(tmp_path / "out", monkeypatch)
    (tmp_path / "offpolicy-results").mkdir()
    before = names(tmp_path)
    write_whole(tmp_path / "out", "ours")
    remove_temporary_folder(make_temporary_folder())
    assert names(tmp_path) == sorted([*before, "out"])
    process.communicate(b"")
    assert process.returncode == 0
    assert names(tmp_path) == ["offpolicy-results", "out"]
    assert (tmp_path / "out").read_text() == "half"


def test_without_locks_as_on_windows(tmp_path, monkeypatch):
    """A file is closed before it is renamed, and what is open cannot be removed there."""
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    opened, fsync, replace = [], os.fsync, os.replace

    def synced(descriptor: int) -> None:
        assert os.write(descriptor, b"") == 0, "Windows syncs no file that is open for reading only"
        opened.append(descriptor)
        fsync(descriptor)

    def replaced(*names: Path) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[0])
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_whole(tmp_path / "out", "whole")
    remove_temporary_folder(make_temporary_folder())
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "whole"
