"""Options of commands that run on a bench as well as on this machine, so that they are spelled alike."""

from __future__ import annotations

from typing import Annotated

import typer

FleetOption = Annotated[
    str,
    typer.Option(
        metavar="local|bench:FILE",
        help="local: agent processes on this machine with emulated meters. bench:FILE: the hosts of a bench.",
    ),
]
OnlyOption = Annotated[
    list[str] | None, typer.Option(metavar="TAG|HOST", help="On a bench: these hosts only; repeatable.")
]
PreflightOption = Annotated[
    bool, typer.Option("--preflight/--no-preflight", help="On a bench: check its hosts first.")
]
UnprovenOption = Annotated[
    bool,
    typer.Option("--unproven", help="On a bench: run although no proof says which meter powers which board."),
]
WaitOption = Annotated[float, typer.Option(metavar="S", help="On a bench that is in use: queue for so long.")]
