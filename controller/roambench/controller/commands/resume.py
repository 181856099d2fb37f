"""`roambench resume`: go on with a run whose controller died or was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.controller.commands.bench_choice import WaitOption


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that died or was stopped.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = None,
    wait: WaitOption = 0.0,
) -> None:
    """Go on with RUN where its controller died or was stopped, to the end that it would have had."""
    from roambench.controller.commands.report import show
    from roambench.controller.lasting_console import lasting_console
    from roambench.controller.resuming import resume_run

    console = lasting_console()
    resume_run(run, console, wait)
    show([run], html=html or run.parent / f"{run.name}.html", as_json=False, console=console)
