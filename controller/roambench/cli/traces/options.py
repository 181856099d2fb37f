"""Common options of the commands that write a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.contract.counts import count

if TYPE_CHECKING:
    from roambench.mobility.trace import Trace

OutOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Trace file to write (Parquet).")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Keys every random draw.")]


def written(output: Path, trace: Trace, found_hash: str, *, as_json: bool) -> None:
    """Print the file that was written, its size and its hash."""
    steps, devices, fixes = trace.steps, len(trace.device_names), len(trace.step)
    if as_json:
        from roambench.runner.screen import print_json

        counts = {"steps": steps, "step_s": trace.step_s, "devices": devices, "fixes": fixes}
        print_json({"file": output, **counts, "content_hash": found_hash})
        return
    typer.echo(
        f"{output}: {count(steps, 'step')}, {count(devices, 'device')}, {fixes} fixes, "
        f"content hash {found_hash[:12]}"
    )
