"""``offpolicy demo``."""

from __future__ import annotations

from pathlib import Path

import click

from offpolicy.cli import options as opt
from offpolicy.cli.commands import Strict
from offpolicy.cli.printing import say


@click.command("demo", cls=Strict)
@click.option("--out", type=opt.FOLDER, default="out/demo", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def command(out: str, seed: int) -> None:
    """Simulate an e-mail test and evaluate two policies against their known truth."""
    from offpolicy.experiments.demo import run_demo

    report = run_demo(seed=seed).report()
    say(report.text)
    say(
        f"\nTry it on the log: offpolicy evaluate {Path(out) / 'emails.csv'} --action email "
        f"--reward visit --propensity 1/3 --policy targeted"
    )
    say(f"Wrote {', '.join(map(str, report.save(Path(out))))}.", err=True)
