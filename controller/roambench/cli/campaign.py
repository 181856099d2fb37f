"""`roambench campaign`: how a campaign stands, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption


def campaign(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a sweep or a comparison (their --output).")
    ],
    as_json: JsonOption = False,
) -> None:
    """Sum up a campaign: points done and open, boards in trouble, joules, when it will end, the disk.

    Examples:
        roambench campaign runs/grid
        roambench campaign runs/ab-a-b --json
    """
    from roambench.runner.screen import print_json
    from roambench.study.campaign.summary import summary_of, summary_text

    found = summary_of(folder)
    if as_json:
        print_json(found.as_json())
    else:
        print(summary_text(found))
