"""`roambench trace plot`: a trace as maps, curves and distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.contract.errors import TraceError
from roambench.controller.commands.trace_options import SeedOption


def plot(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where trace.html goes; made if missing.")
    ],
    png: Annotated[
        bool, typer.Option("--png", help="Also each figure as a PNG file (needs a Chromium-based browser).")
    ] = False,
    seed: SeedOption = 42,
) -> None:
    """Draw the trace on one HTML page, with Fig. 2, Fig. 3 and Table 5 of MOHAWK made of it."""
    from roambench.contract.whole_file import write_whole
    from roambench.mobility.files import content_hash, read_trace
    from roambench.mobility.statistics import trace_statistics
    from roambench.report.trace_figures import trace_figures
    from roambench.report.trace_page import trace_page
    from roambench.report.trace_pictures import browser, write_pictures

    if png:
        browser()
    trace = read_trace(file)
    found = trace_statistics(trace, seed=seed)
    figures = trace_figures(trace, seed)
    page = trace_page(file.stem, trace, found, figures, content_hash(trace))
    target = output / "trace.html"
    try:
        output.mkdir(parents=True, exist_ok=True)
        write_whole(target, page, synced=False)
        typer.echo(f"page: {target}")
        for picture in write_pictures(figures, output) if png else []:
            typer.echo(f"picture: {picture}")
    except OSError as error:
        raise TraceError(f"{output}: cannot be written ({error.strerror or error})") from None
