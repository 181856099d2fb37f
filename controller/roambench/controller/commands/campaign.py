"""`roambench campaign`: how a campaign stands, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def campaign(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a sweep or a comparison (their --out).")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Sum up a campaign: points done and open, boards in trouble, joules, when it will end, the disk."""
    import json

    from roambench.controller.campaign.summary import summary_of, summary_text

    found = summary_of(folder)
    print(json.dumps(found.as_json(), indent=2) if as_json else summary_text(found))
