"""`roambench watch`: a live page of a run, by a process that only reads its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def watch(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FOLDER",
            help="Folder of a run; or a folder or crate of runs: the newest of them, or the next to begin.",
        ),
    ] = Path("runs"),
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on; one that other machines reach asks for a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="TCP port; default: 8765, or a free one where that is taken; 0: a free one.",
        ),
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Show a run while it goes on, or replay one: power, accuracy, outcomes, boards, map, events.

    It reads the run folder and nothing else: no agent is asked anything, so no joule is changed.
    Ctrl-C ends it.

    Examples:
        roambench watch
        roambench watch runs/demo/latest/mohawk --open
    """
    from roambench.live.serving import serve
    from roambench.runs.crates import unpacked

    serve(
        unpacked(path),
        host=host,
        port=port,
        say=lambda text: typer.echo(text),
        open_page=open_page,
        parent=parent,
    )
