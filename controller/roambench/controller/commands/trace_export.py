"""`roambench trace export`: a trace in another program's format; see docs/traces.md."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ExportFormat(StrEnum):
    """The formats that traces are exported to."""

    ONE = "one"
    BONNMOTION = "bonnmotion"
    CSV = "csv"
    PARQUET = "parquet"


class AbsentDevices(StrEnum):
    """Treatment of devices while they are absent, by an export."""

    STAND = "stand"
    OMIT = "omit"


def export(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write.")],
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="one: The ONE's ExternalMovement. bonnmotion: .movements and .params. csv: a table, and one "
            "of the access points. parquet: our own.",
        ),
    ],
    absent: Annotated[
        AbsentDevices | None,
        typer.Option(
            help="Devices that are away: stand where they were, or left out. Default: stand for one and "
            "bonnmotion, whose programs know no absence."
        ),
    ] = None,
) -> None:
    """Write a trace for another program."""
    from roambench.mobility.exporting import export_trace
    from roambench.mobility.files import read_trace
    from roambench.mobility.trace import MADE_UP

    trace = read_trace(file)
    done = export_trace(trace, output, form.value, None if absent is None else absent.value)
    for note in (*([MADE_UP] if trace.made_up else []), *done.notes):
        typer.echo(note, err=True)
    typer.echo(
        f"{', '.join(str(path) for path in done.paths)}: {trace.steps} steps, {len(trace.device_names)} "
        f"devices, {len(trace.step)} fixes"
    )
