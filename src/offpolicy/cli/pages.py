"""``--report``: the page of a run, with all that is needed to run it again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from offpolicy.cli.printing import say

if TYPE_CHECKING:
    from offpolicy._core.documents import Document
    from offpolicy.evaluation import Together
    from offpolicy.logs import BanditLog, LogScan
    from offpolicy.report.html.provenance import File
    from offpolicy.results import Finding

_PACKAGES = ("numpy", "pyarrow", "duckdb", "numba", "scikit-learn")


class Run(NamedTuple):
    """A run that may end in a page."""

    page: Path | None
    started: float

    @classmethod
    def begun(cls, report: str | None) -> Run:
        return cls(None if report is None else Path(report), time.monotonic())

    def write_checked(self, log: BanditLog | LogScan, together: Together) -> None:
        """The page of `evaluate` or `compare`, and of what `check` says of the same log."""
        answers, report = together
        self.write_of_log(log, answers[0].logged.n, *answers, checked=report.findings)

    def write_of_log(
        self,
        log: BanditLog | LogScan,
        n: int,
        *results: Document,
        checked: tuple[Finding, ...] | None = None,
        seed: int | None = None,
    ) -> None:
        """The page of a verb with `log_options`: the log's files, and those of learned policies."""
        from offpolicy._core.saved import saved_file
        from offpolicy.logs import LogScan
        from offpolicy.logs.files import files_of
        from offpolicy.policies import named

        options = click.get_current_context().params
        if options.get("engine") == "spark":
            self._write(results, checked, (), seed, "spark")
            return
        files = files_of(list(options["log"]))
        rows = log.rows_by_file() if isinstance(log, LogScan) else {}
        if len(files) == 1:
            rows = {str(files[0]): n}
        learned = [saved_file(named(text).spec) for text in options.get("policies", ())]
        files += [file for file in learned if file is not None]
        self._write(results, checked, _files(files, rows), seed)

    def write_of_rankings(self, rows: int, *results: Document, seed: int | None = None) -> None:
        """The page of a verb for rankings, if one was asked for: its log, a table of so many rows
        or LETOR text, clicks, propensities, and files of learned rankers."""
        if self.page is None:
            return
        options = click.get_current_context().params
        named = [options["log"], options.get("clicks"), options.get("propensities")]
        named += [str(name).removeprefix("file:") for name in options.get("rankers", ())]
        of_log = {} if options.get("clicks") is not None else {str(options["log"]): rows}
        files = _files([Path(name) for name in named if name is not None], of_log)
        self._write(results, None, files, seed)

    def _write(
        self,
        results: tuple[Document, ...],
        checked: tuple[Finding, ...] | None,
        files: tuple[File, ...],
        seed: int | None,
        engine: str = "embedded",
    ) -> None:
        from datetime import UTC, datetime

        from offpolicy.report.document import Results
        from offpolicy.report.html.provenance import Provenance

        assert self.page is not None
        provenance = Provenance(
            tuple(click.get_current_context().meta["offpolicy.command"]),
            _versions(),
            files,
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            time.monotonic() - self.started,
            seed,
            engine,
        )
        Results(results, checked, provenance).to_html(self.page)
        say(f"Wrote {self.page}.", err=True)


def _versions() -> dict[str, str]:
    import platform
    from contextlib import suppress
    from importlib.metadata import PackageNotFoundError, version

    from offpolicy import __version__

    versions = {"Python": platform.python_version(), "offpolicy": __version__}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _files(paths: Iterable[Path], rows: Mapping[str, int]) -> tuple[File, ...]:
    """For --report: those files of the command that are there, with their hashes."""
    from concurrent.futures import ThreadPoolExecutor

    from offpolicy.report.html.provenance import File

    there = [path for path in paths if path.is_file()]
    with ThreadPoolExecutor() as pool:
        return tuple(
            File(str(path), path.stat().st_size, rows.get(str(path)), digest)
            for path, digest in zip(there, pool.map(_sha256, there), strict=True)
        )


def _sha256(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
