"""`roambench campaign`: how a campaign stands, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.controller.commands.common_options import JsonOption


def campaign(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a sweep or a comparison (their --out).")
    ],
    as_json: JsonOption = False,
) -> None:
    """Sum up a campaign: points done and open, boards in trouble, joules, when it will end, the disk."""
    from roambench.controller.campaign.summary import summary_of, summary_text
    from roambench.controller.screen import print_json

    found = summary_of(folder)
    if as_json:
        print_json(found.as_json())
    else:
        print(summary_text(found))
