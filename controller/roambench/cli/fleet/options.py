"""Arguments and options that the `fleet` commands share, so that they are spelled alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import ONLY_HELP

BenchArgument = Annotated[
    Path, typer.Argument(metavar="BENCH", help="Bench description, for example inventory/bench36.toml.")
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="TAG|HOST",
        help=ONLY_HELP,
    ),
]
LimitOption = Annotated[int | None, typer.Option(min=1, metavar="N", help="At most the first N of them.")]
TakeOption = Annotated[
    bool, typer.Option("--take", help="Also boards that another bench has claimed: they become this one's.")
]
DuringOption = Annotated[bool, typer.Option("--during-run", help="Even while a run uses the bench.")]
