"""``offpolicy demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo")
@click.option("--out", type=click.Path(file_okay=False), default="out/demo", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def command(out: str, seed: int) -> None:
    """Simulate a log and evaluate two policies against their known truth."""
    from offpolicy.experiments.demo import run_demo

    report = run_demo(seed=seed).report()
    click.echo(report.text)
    click.echo(f"Wrote {', '.join(map(str, report.save(Path(out))))}.", err=True)
