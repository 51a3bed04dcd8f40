"""``schedule-sm diagrams``: renew the generated diagrams, or check that they are current."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedule_sm.diagram import generate


def diagrams(
    out: Annotated[Path, typer.Option(help="The folder to write to, or to check.")] = Path("diagrams"),
    check: Annotated[  # noqa: FBT002 - a command-line switch
        bool, typer.Option("--check", help="Write nothing; exit 1 with a diff if anything is stale.")
    ] = False,
) -> None:
    """Write tables and pictures of both charts: Markdown with Mermaid, DOT and SVG.

    Drawing an SVG needs graphviz; checking does not.

    Example: schedule-sm diagrams --out diagrams --check
    """
    if not check:
        changed = generate.write(out)
        typer.echo("".join(f"wrote {out / name}\n" for name in changed) or f"{out} is current\n", nl=False)
        return
    stale = generate.check(out)
    if stale:
        typer.echo(stale, nl=False)
        typer.echo(f"{out} is stale; run `schedule-sm diagrams --out {out}` to renew it", err=True)
        raise typer.Exit(1)
    typer.echo(f"{out} is current")
