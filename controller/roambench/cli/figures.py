"""`roambench figures`: the report's main figures as vector files for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import RunsArgument
from roambench.contract.errors import ConfigError


def figures(
    runs: RunsArgument,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder of the files; theirs are replaced.")
    ] = Path("figures"),
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="Any of pdf, svg and png, with commas.")
    ] = "pdf,svg",
    style: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="ieee: a column of 3.5 inches; ieee-wide: 7.16 inches; slides: 10 inches."
        ),
    ] = "ieee",
) -> None:
    """Draw accuracy over steps and joules, energy by kind of time, outcomes, and joules for a megabyte.

    Vector files with fonts in them, legible without colours. Of a sweep, or of runs repeated with other
    seeds, they are means over the seeds with 95 % intervals, beside a table as CSV and LaTeX. It needs the
    extra `figures`.

    Examples:
        roambench figures runs/demo/latest -o figures
        roambench figures runs/grid -o figures --format pdf,png --style ieee-wide
    """
    from roambench.report.paper_figures import FORMATS, STYLES, export_figures

    wanted = list(dict.fromkeys(part.strip() for part in formats.split(",") if part.strip()))
    problems = [f"--format: expected pdf, svg or png, got {part!r}" for part in wanted if part not in FORMATS]
    if not wanted:
        problems.append("--format: expected pdf, svg or png, got nothing")
    if style not in STYLES:
        problems.append(f"--style: expected one of {', '.join(STYLES)}, got {style!r}")
    if problems:
        raise ConfigError(problems)
    made = export_figures(runs, out, formats=wanted, style=style)
    for note in made.notes:
        typer.echo(note, err=True)
    for file in made.files:
        typer.echo(file)
