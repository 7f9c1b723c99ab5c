"""``offpolicy reproduce``."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("reproduce")
def command() -> None:
    """The paper's theorems and experiments."""


@command.command("theory")
@click.option("--out", type=click.Path(file_okay=False), default="out/theory", show_default=True)
@click.option(
    "--n",
    type=click.IntRange(min=100),
    default=400_000,
    show_default=True,
    help="decisions to simulate",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def theory(out: str, n: int, seed: int) -> None:
    """Theorems 1 to 6 against simulation, for every member of the family."""
    from offpolicy.experiments.theorems import compare_with_simulation, save, to_text

    rows = compare_with_simulation(n=n, seed=seed)
    click.echo(to_text(rows))
    click.echo(f"Wrote {save(rows, Path(out))}.", err=True)
