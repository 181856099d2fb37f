"""Common options of the commands that write a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OutOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Trace file to write (Parquet).")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Keys every random draw.")]


def written(output: Path, found_hash: str, steps: int, devices: int, fixes: int) -> None:
    """Print the file that was written, its size and its hash."""
    typer.echo(f"{output}: {steps} steps, {devices} devices, {fixes} fixes, content hash {found_hash[:12]}")
