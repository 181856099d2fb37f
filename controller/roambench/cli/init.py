"""`roambench init`: an experiment file to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from roambench.contract.errors import ConfigError
from roambench.runner.ready import EXPERIMENT
from roambench.runner.torch_build import torch_advice


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where it goes; nothing is overwritten.")
    ] = Path("experiment.toml"),
) -> None:
    """Write a commented experiment file, which runs as it is.

    Examples:
        roambench init my.toml
        roambench init experiments/commuters.toml
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(EXPERIMENT.read_text(encoding="utf-8"))
    except FileExistsError:
        raise ConfigError([f"{file}: exists already; name another file"]) from None
    except OSError as error:
        raise ConfigError([f"{file}: cannot be written: {error.strerror}"]) from None
    typer.echo(f"{file}: change what you like, then: {shlex.join(['roambench', 'run', str(file)])}")
    if advice := torch_advice():
        typer.echo(advice)
