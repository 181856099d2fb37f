"""`roambench export`: runs in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

export_app = typer.Typer(name="export", help="Runs in the formats of other tools.", no_args_is_help=True)


@export_app.callback()
def _formats() -> None:
    """Keeps the format a word of its own while there is one."""


@export_app.command()
def tensorboard(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="DIR", help="Log directory: a folder per run is made in it."),
    ],
) -> None:
    """Write accuracy, loss, devices and joules of every step as TensorBoard files.

    It needs the extra `tensorboard`.
    """
    from roambench.controller.tensorboard import export_tensorboard

    for place in export_tensorboard(runs, out):
        typer.echo(place)
