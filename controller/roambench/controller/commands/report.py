"""`roambench report`: compare finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders to compare.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write one self-contained HTML page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare runs: accuracy, devices aggregated, wasted and consumed energy, measured and modelled."""
    from rich.console import Console

    show(runs, html=html, as_json=as_json, console=Console())


def show(runs: Sequence[Path], *, html: Path | None, as_json: bool, console: Console) -> None:
    """Print the comparison (or JSON, and nothing else, on standard output) and write the page."""
    from roambench.report import console as terminal
    from roambench.report.report import report as made_of

    made = made_of(runs, html=html)
    if as_json:
        typer.echo(made.json(), nl=False)
        return
    terminal.print_report(made.summaries, console)
    if html is not None:
        console.print(f"report: {html}", soft_wrap=True, highlight=False, markup=False)
