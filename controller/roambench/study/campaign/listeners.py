"""Listeners of a campaign besides its log: `--notify` of `roambench.extras`, by an entry point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from rich.console import Console

from roambench.contract.table import Table
from roambench.study.campaign.campaign_log import CampaignRow, Listener

#: Functions of the campaign's folder, the values of --notify and --summary-at, and the console.
LISTENERS: Final[
    Table[Callable[[Path, str | None, str | None, Console], AbstractContextManager[Listener]]]
] = Table(
    what="listener of campaigns",
    group="roambench.campaign_listeners",
    own={},
)


def notifying(
    folder: Path, notify: str | None, summary_at: str | None, console: Console
) -> AbstractContextManager[Listener]:
    """The listener that these options ask for, while the body lasts; without them one that does nothing."""
    if notify is None and summary_at is None:
        return nullcontext(_nothing)
    return LISTENERS.load("notify")(folder, notify, summary_at, console)


def _nothing(row: CampaignRow) -> None:
    del row
