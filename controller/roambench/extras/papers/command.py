"""`roambench results`: a sweep's runs beside a paper's tables, as a page that can be kept."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption, keep_inputs


class Paper(StrEnum):
    """The papers whose tables a sweep can be set beside."""

    MOHAWK = "mohawk"
    DAM = "dam"
    WORKSHOP = "workshop"
    DE_HEREDIA = "de-heredia"


#: How a heading names them.
_NAMES = {
    Paper.MOHAWK: "MOHAWK",
    Paper.DAM: "distribution-aware mobility",
    Paper.WORKSHOP: "the workshop paper",
    Paper.DE_HEREDIA: "de Heredia",
}


def register(app: typer.Typer) -> None:
    """Add the command of this file to `app`."""
    app.command(rich_help_panel="Look")(results)


def results(
    sweeps: Annotated[
        list[Path], typer.Argument(metavar="SWEEP_DIR...", help="Folders of sweeps, taken together.")
    ],
    paper: Annotated[Paper, typer.Option(help="Whose tables stand beside ours.")] = Paper.MOHAWK,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.md", help="Markdown page; its curves go beside it (.svg)."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page; default: named after the sweep.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Set the finished runs of sweeps beside the paper's tables: print them, or write a page.

    The page says what was run, with which command, on what, and every run's figures.

    Examples:
        roambench results runs/grid
        roambench results runs/grid --paper mohawk -o grid.md
    """
    import sys

    from roambench.extras.papers.alike import taken_together
    from roambench.extras.papers.finished_runs import doubtful, unfinished
    from roambench.extras.papers.mohawk_page import mohawk_page
    from roambench.extras.papers.peer_page import peer_page
    from roambench.report.console import print_table
    from roambench.report.report import write_text
    from roambench.runner.screen import print_json, say, screen

    console = screen(stderr=as_json)
    names = ", ".join(folder.resolve().name for folder in sweeps)
    curves = Path(f"{names}.svg") if out is None else out.with_suffix(".svg")
    heading = title or f"{names}: beside {_NAMES[paper]}'s tables"
    for path in () if out is None else (out, curves):
        keep_inputs(path, *sweeps, ending=path.suffix)
    taken_together(sweeps)  # names every folder that has no runs
    for doubt in (doubt for folder in sweeps for doubt in doubtful(folder)):
        print(f"left out: {doubt}", file=sys.stderr)
    for sentence in filter(None, map(unfinished, sweeps)):
        print(sentence, file=sys.stderr)
    if paper is Paper.MOHAWK:
        page = mohawk_page(sweeps, title=heading, curves_name=curves.name)
    else:
        page = peer_page(sweeps, paper.value, title=heading, curves_name=curves.name)
    if as_json:
        print_json(page.document())
    elif out is None:
        for table in page.tables:
            print_table(table, console)
    if out is None:
        return
    drawing = page.curves
    write_text(out, page.text)
    say(console, str(out))
    if drawing:
        write_text(curves, drawing)
        say(console, str(curves))
