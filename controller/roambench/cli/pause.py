"""`roambench pause` and `roambench resume-replay`: hold a run at the next step's border, and go on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from roambench.contract.errors import RunError

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that is running.")]


def pause(run: RunArgument) -> None:
    """Pause RUN after its current step; `roambench resume-replay RUN` continues it.

    Examples:
        roambench pause runs/demo/latest/mohawk
        roambench pause runs/my/latest/hierfavg
    """
    file = _pause_file(run)
    try:
        file.touch()
    except OSError as error:
        raise RunError(f"{file}: cannot be written: {error.strerror or error}") from None
    command = f"roambench resume-replay {shlex.quote(str(run))}"
    typer.echo(f"{run} pauses after its present step; go on with `{command}`")


def resume_replay(run: RunArgument) -> None:
    """Let a paused RUN go on.

    Examples:
        roambench resume-replay runs/demo/latest/mohawk
        roambench resume-replay runs/my/latest/hierfavg
    """
    file = _pause_file(run)
    try:
        file.unlink()
    except FileNotFoundError:
        raise RunError(f"{run}: is not paused") from None
    except OSError as error:
        raise RunError(f"{file}: cannot be removed: {error.strerror or error}") from None
    typer.echo(f"{run} goes on")


def _pause_file(run: Path) -> Path:
    """Raises RunError for what is no run, or one that is not running."""
    from roambench.runner.pacing import PAUSE_FILE
    from roambench.runs.folder import RunFolder
    from roambench.runs.info import RunState

    folder = RunFolder.open(run)
    state = folder.info.state
    folder.close()
    if state is not RunState.RUNNING:
        raise RunError(f"{run}: the run is {state.value}: nothing to pause or to resume")
    return run / PAUSE_FILE
