"""``offpolicy demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo")
@click.option("--out", type=click.Path(file_okay=False), default="out/demo", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def command(out: str, seed: int) -> None:
    """Simulate a log and evaluate two policies against their known truth."""
    from offpolicy.experiments.demo import run_demo, save_demo

    demo = run_demo(seed=seed)
    click.echo(demo.to_text())
    written = save_demo(demo, Path(out))
    click.echo(f"Wrote {', '.join(map(str, written))}.", err=True)
    click.echo(f"To look at: {written[0]}, in any browser.", err=True)
    if len(written) == 2:
        click.echo("For the picture: pip install 'offpolicy[plot]'.", err=True)
