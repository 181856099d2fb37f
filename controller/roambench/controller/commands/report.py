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
    raise NotImplementedError
