"""``--report``: the page of a run, with all that is needed to run it again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from offpolicy._core.documents import Document
    from offpolicy.logs import BanditLog, LogScan
    from offpolicy.report.html.provenance import File, Provenance
    from offpolicy.results import Comparison, Finding, Result

_PACKAGES = ("offpolicy", "numpy", "pyarrow", "duckdb", "numba", "scikit-learn")
_CHUNK = 1 << 22


class Run(NamedTuple):
    """A run that is to end in a page."""

    page: Path | None
    started: float

    @classmethod
    def begun(cls, report: str | None) -> Run:
        """Raise at once if there would be nowhere to write."""
        if report is not None and not Path(report).absolute().parent.is_dir():
            raise click.UsageError(f"--report: there is no folder {Path(report).parent}.")
        return cls(None if report is None else Path(report), time.monotonic())

    def write(
        self,
        *results: Document,
        checked: tuple[Finding, ...] | None = None,
        provenance: Provenance,
    ) -> None:
        """Write the page of these results."""
        from offpolicy.report.document import Results

        assert self.page is not None
        Results(results, checked, provenance).to_html(self.page)
        click.echo(f"Wrote {self.page}.", err=True)


def write_page(
    run: Run,
    log: BanditLog | LogScan,
    policies: Mapping[str, Any],
    prediction: str | None,
    reward_range: tuple[float, float] | None,
    result: Result | None,
    comparison: Comparison | None,
) -> None:
    """Look at the log as `check` does, hash its files, and write the page."""
    from offpolicy.evaluation import check

    checked = check(log, policies, prediction=prediction, reward_range=reward_range).findings
    results = [one for one in (result, comparison) if one is not None]
    provenance = provenance_of_log(run, log, results[0].logged.n)
    run.write(*results, checked=checked, provenance=provenance)


def provenance_of_log(
    run: Run, log: BanditLog | LogScan, n: int, seed: int | None = None
) -> Provenance:
    """Of a verb with `log_options`."""
    given = click.get_current_context().params
    on_spark = given.get("engine") == "spark"
    files = () if on_spark else _files(given, log, n)
    return _provenance(run, files, seed, "spark" if on_spark else "embedded")


def provenance_of_rankings(run: Run, rows: int, seed: int | None = None) -> Provenance:
    """Of a verb for rankings: its log, a table of so many rows or LETOR text, clicks,
    propensities, and files of learned rankers."""
    from offpolicy.report.html.provenance import File

    given = click.get_current_context().params
    named = [given["log"], given.get("clicks"), given.get("propensities")]
    named += [str(one).removeprefix("file:") for one in given.get("rankers", ())]
    files = [Path(str(one)) for one in named if one is not None]
    text = given.get("clicks") is not None
    return _provenance(
        run,
        tuple(
            File(
                str(file), file.stat().st_size, rows if k == 0 and not text else None, _sha256(file)
            )
            for k, file in enumerate(files)
            if file.is_file()
        ),
        seed,
        "embedded",
    )


def _provenance(run: Run, files: tuple[File, ...], seed: int | None, engine: str) -> Provenance:
    import platform
    from datetime import UTC, datetime

    from offpolicy.report.html.provenance import Provenance

    return Provenance(
        tuple(click.get_current_context().meta["offpolicy.command"]),
        {"Python": platform.python_version()} | _versions(),
        files,
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        time.monotonic() - run.started,
        seed,
        engine,
    )


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    from offpolicy import __version__

    found = {"offpolicy": __version__}
    for name in _PACKAGES[1:]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _files(given: Mapping[str, Any], log: BanditLog | LogScan, n: int) -> tuple[File, ...]:
    """The log's files, and those of learned policies."""
    from concurrent.futures import ThreadPoolExecutor

    from offpolicy.logs import LogScan
    from offpolicy.logs.files import files_of
    from offpolicy.report.html.provenance import File

    files = files_of(list(given["log"]))
    rows = log.rows_by_file() if isinstance(log, LogScan) else {}
    if len(files) == 1:
        rows = {str(files[0]): n}
    learned = [Path(str(name).removeprefix("file:")) for name in given.get("policies", ())]
    files += [path for path in learned if path.suffix.lower() == ".json" and path.is_file()]
    with ThreadPoolExecutor() as pool:
        return tuple(
            File(str(file), file.stat().st_size, rows.get(str(file)), digest)
            for file, digest in zip(files, pool.map(_sha256, files), strict=True)
        )


def _sha256(path: Path) -> str:
    import hashlib

    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
