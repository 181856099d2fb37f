"""`roambench list`: what there is to choose from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption


class Kind(StrEnum):
    """The tables that `roambench list` prints."""

    ALGORITHMS = "algorithms"
    DECENTRALISED = "decentralised"
    CODECS = "codecs"
    DATASETS = "datasets"
    LOCAL = "local"
    MODELS = "models"
    PARTITIONS = "partitions"
    METERS = "meters"
    PROFILES = "profiles"
    READERS = "readers"
    GENERATORS = "generators"
    SWITCHES = "switches"


def list_rows(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=", ".join(Kind))], as_json: JsonOption = False
) -> None:
    """List the names an experiment or a bench can use, ours and those that installed packages add.

    Examples:
        roambench list models
        roambench list generators --json
    """
    from rich.table import Table

    from roambench.experiment import catalogue
    from roambench.runner.screen import print_json, screen

    if as_json:
        print_json([{"name": row.name, "description": row.description} for row in catalogue.rows(kind.value)])
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in catalogue.rows(kind.value):
        table.add_row(row.name, row.description)
    screen().print(table)
